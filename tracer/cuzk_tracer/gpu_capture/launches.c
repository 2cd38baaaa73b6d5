/* Which span launched what: CUPTI calls back in the thread that makes a driver call, before the device can have
 * anything of it, with the correlation id that the records of what it launches will carry.
 *
 * (CUPTI's own way, external correlation ids, gives records of every call of the process and costs each launch
 * 0.5 us more on an H200, these calls 0.0 to 0.15 us.)
 */
#include "capture.h"

#include "libcupti.h"

/* The newest launches. An entry is found again unless PLACES calls were made between a launch and its record. */
enum { PLACES = 1 << 16, DEEPEST = 64, MOST_CALLS = 2000 };

/* A call takes a few us. One that takes longer than this stood still in the driver: while another thread copies
 * pageable memory, for one (36 ms of cuFuncSetBlockShape on an H200), or until there is room in the queue. */
enum { BLOCKED_NS = 200000 };

static struct {
    uint32_t corr;
    uint64_t launcher;
} places[PLACES];

static __thread struct {
    uint64_t launcher[DEEPEST];
    unsigned depth;
    int64_t called; /* when the call began that is made now */
} inside;

static int heard; /* calls are on */
static uint8_t may_block[MOST_CALLS];

static uint64_t launcher_here(void)
{
    unsigned depth = inside.depth < DEEPEST ? inside.depth : DEEPEST;
    if (depth)
        return inside.launcher[depth - 1];
    return cuzk_gpu__in_range() ? cuzk_trace__here() : 0; /* spans of others are not meant: nobody asked */
}

static void call_begins(const struct cupti__call *call, uint64_t launcher)
{
    unsigned at = call->corr % PLACES;
    __atomic_store_n(&places[at].launcher, launcher, __ATOMIC_RELAXED);
    __atomic_store_n(&places[at].corr, call->corr, __ATOMIC_RELEASE);
    inside.called = cuzk_trace__monotonic();
}

static void call_ends(const struct cupti__call *call, uint64_t launcher)
{
    int64_t now = cuzk_trace__monotonic();
    if (now - inside.called > BLOCKED_NS)
        cuzk_gpu__blocked(call->function, (uint64_t)inside.called, (uint64_t)now, call->context_uid, call->corr, launcher);
}

void cuzk_gpu__on_call(void *user, int domain, uint32_t id, const void *data)
{
    const struct cupti__call *call = (const struct cupti__call *)data;
    uint64_t launcher = launcher_here();
    (void)user, (void)domain;
    if (!launcher)
        return;
    if (call->site == CUPTI__ENTER)
        call_begins(call, launcher);
    else if (id < MOST_CALLS && may_block[id])
        call_ends(call, launcher);
}

uint64_t cuzk_gpu__launcher_of(uint32_t corr)
{
    if (!corr || __atomic_load_n(&places[corr % PLACES].corr, __ATOMIC_ACQUIRE) != corr)
        return 0;
    return __atomic_load_n(&places[corr % PLACES].launcher, __ATOMIC_RELAXED);
}

static int has_one_of(const char *name, const char *const *parts, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++)
        if (strstr(name, parts[i]))
            return 1;
    return 0;
}

/* 0: this driver call, by its name, gives nobody anything and is made in loops. 2: it has no reason of its own to take
 * long, and the wait of a copy or a synchronise is recorded already. */
static int interest(const char *name)
{
    static const char *const polls[] = {"Query", "Get"}, *const recorded[] = {"Memcpy", "Synchronize"};
    static const char *const slow[] = {"Init", "Create", "Destroy", "Module", "Library", "Link",   "Alloc",
                                       "Free", "Graph",  "Host",    "Reset",  "Import",  "Export", "Prefetch",
                                       "Map",  "Advise", "Retain",  "Release"};
    if (has_one_of(name, polls, sizeof polls / sizeof *polls))
        return 0;
    if (has_one_of(name, recorded, sizeof recorded / sizeof *recorded))
        return 1;
    return strstr(name, "Event") || !has_one_of(name, slow, sizeof slow / sizeof *slow) ? 2 : 1;
}

void cuzk_gpu__hear_calls(void *subscriber, int on)
{
    const char *name = NULL;
    uint32_t id;
    if (on == heard)
        return;
    heard = on;
    for (id = 1; id < MOST_CALLS; id++) { /* CUPTI has a number for each call, and knows its name */
        int how = cuzk_cupti.GetCallbackName(CUPTI__DRIVER_CALLS, id, &name) == CUPTI__SUCCESS && name ? interest(name) : 0;
        may_block[id] = how == 2;
        if (how)
            cuzk_cupti.EnableCallback((uint32_t)on, subscriber, CUPTI__DRIVER_CALLS, id);
    }
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
