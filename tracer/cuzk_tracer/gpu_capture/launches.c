/* Which span launched what: CUPTI calls back in the thread that makes a driver call, before the device can have
 * anything of it, with the correlation id that the records of what it launches will carry.
 *
 * (CUPTI's own way, external correlation ids, gives records of every call of the process and costs each launch
 * 0.5 us more on an H200, these calls 0.0 to 0.15 us; and its records can come after the kernel's.)
 */
#include "capture.h"

#include "libcupti.h"

/* The newest launches. An entry is found again unless PLACES calls were made between a launch and its record. */
enum { PLACES = 1 << 16, DEEPEST = 64, MOST_CALLS = 2000 };
static struct {
    uint32_t corr;
    uint64_t launcher;
} places[PLACES];

static __thread struct {
    uint64_t launcher[DEEPEST];
    unsigned depth;
} inside;

static int heard; /* calls are on */

void cuzk_gpu__on_call(void *user, int domain, uint32_t id, const void *data)
{
    const struct cupti__call *call = (const struct cupti__call *)data;
    unsigned depth = inside.depth < DEEPEST ? inside.depth : DEEPEST, at;
    uint64_t launcher;
    (void)user, (void)domain, (void)id;
    if (call->site != CUPTI__ENTER)
        return;
    launcher = depth ? inside.launcher[depth - 1] : cuzk_trace__here(); /* else its innermost NVTX range */
    if (!launcher)
        return;
    at = call->corr % PLACES;
    __atomic_store_n(&places[at].launcher, launcher, __ATOMIC_RELAXED);
    __atomic_store_n(&places[at].corr, call->corr, __ATOMIC_RELEASE);
}

uint64_t cuzk_gpu__launcher_of(uint32_t corr)
{
    if (!corr || __atomic_load_n(&places[corr % PLACES].corr, __ATOMIC_ACQUIRE) != corr)
        return 0;
    return __atomic_load_n(&places[corr % PLACES].launcher, __ATOMIC_RELAXED);
}

/* Whether a driver call gives a device something, or waits for it; CUPTI has a number for each call and knows its
 * name. */
static int of_interest(const char *name)
{
    static const char *const parts[] = {"Launch", "Memcpy", "Memset", "Synchronize", "StreamWaitEvent"};
    size_t i;
    for (i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]))
            return 1;
    return 0;
}

void cuzk_gpu__hear_calls(void *subscriber, int on)
{
    const char *name = NULL;
    uint32_t id;
    if (on == heard)
        return;
    heard = on;
    for (id = 1; id < MOST_CALLS; id++)
        if (cuzk_cupti.GetCallbackName(CUPTI__DRIVER_CALLS, id, &name) == CUPTI__SUCCESS && name && of_interest(name))
            cuzk_cupti.EnableCallback((uint32_t)on, subscriber, CUPTI__DRIVER_CALLS, id);
}

void cuzk_gpu_enter_as(uint64_t launcher)
{
    cuzk_gpu__want_launchers();
    if (inside.depth < DEEPEST)
        inside.launcher[inside.depth] = launcher;
    inside.depth++;
}

void cuzk_gpu_leave(void)
{
    if (inside.depth)
        inside.depth--;
}
