/* Kernels, copies, fills and waits of this process from CUPTI's activity records into the trace ring.
 *
 * libcupti is opened at run time. Its records come in buffers, on a thread of CUPTI's or on ours; each is copied
 * into that thread's ring as it is decoded, so nothing of this runs in the program's own threads but what CUPTI does
 * at a launch. What a record looks like in the ring: layout.py. Its times are CLOCK_MONOTONIC, whatever the
 * ring's own clock: CUPTI fits the device's clock to the one it is given, which must count nanoseconds.
 */
#include "capture.h"

#include "libcupti.h"

/* Small buffers, because CUPTI delivers one only when all in it have ended; see cuzk_gpu__watch. */
#ifndef CUZK_GPU__BUFFER_BYTES
#define CUZK_GPU__BUFFER_BYTES (4u << 10)
#endif
#ifndef CUZK_GPU__PERIOD_MS
#define CUZK_GPU__PERIOD_MS 50
#endif
#ifndef CUZK_GPU__CUPTI_PERIOD_MS
#define CUZK_GPU__CUPTI_PERIOD_MS 50
#endif

static const int kinds[] = {CUPTI__KIND_CONCURRENT_KERNEL, CUPTI__KIND_MEMCPY,   CUPTI__KIND_MEMCPY2,
                            CUPTI__KIND_MEMSET,            CUPTI__KIND_OVERHEAD, CUPTI__KIND_SYNCHRONIZATION};

static struct {
    int started, pid, recording;
    int calls;  /* what launches is to be found out */
    int works;  /* CUPTI has been set up, though it may lack some kinds of records */
    int wanted; /* records are taken: the level is "all" */
    pthread_mutex_t lock; /* of start, of enabling kinds, of flushing */
    char problem[512];
    void *subscriber;
} gpu = {0, 0, 0, 0, 0, 0, PTHREAD_MUTEX_INITIALIZER, "", NULL};

int cuzk_gpu__fail(const char *what, const char *why)
{
    snprintf(gpu.problem, sizeof gpu.problem, "%s%s%s", what, why[0] ? ": " : "", why);
    cuzk_trace_meta("gpu.problem", gpu.problem);
    return 0;
}

/* ---------------------------------------------------------------------------------- CUPTI's callbacks -- */

static void on_request(uint8_t **buffer, size_t *size, size_t *most_records)
{
    void *got = NULL;
    *most_records = 0; /* as many as find room */
    *size = CUZK_GPU__BUFFER_BYTES;
    if (posix_memalign(&got, 64, CUZK_GPU__BUFFER_BYTES) != 0) {
        got = NULL;
        *size = 0;
    }
    *buffer = (uint8_t *)got;
}

/* Of a thread that hands records over: what it is called, and that they come in bursts. */
static void settle_thread(void)
{
    if (!cuzk_trace__tls.slot) {
        cuzk_trace__tls.thread_name = "gpu capture";
        cuzk_trace__tls.wide = 1;
    }
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    void *record = NULL;
    size_t dropped = 0;
    (void)size;
    settle_thread();
    if (getpid() == gpu.pid && __atomic_load_n(&gpu.wanted, __ATOMIC_RELAXED))
        while (valid && cuzk_cupti.ActivityGetNextRecord(buffer, valid, &record) == CUPTI__SUCCESS)
            cuzk_gpu__decode(record);
    free(buffer);
    if (cuzk_cupti.ActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI__SUCCESS && dropped &&
        cuzk_trace__lib.head)
        __atomic_fetch_add(&cuzk_trace__lib.head->dropped, dropped, __ATOMIC_RELAXED);
}

static uint64_t on_clock(void)
{
    return (uint64_t)cuzk_trace__monotonic();
}

/* --------------------------------------------------------------------------------------- libcupti -- */

/* Being the subscriber keeps other profilers from taking our buffers as theirs; they are told that one is there. */
static int subscribe(void)
{
    int result = cuzk_cupti.Subscribe(&gpu.subscriber, cuzk_gpu__on_call, NULL);
    if (result == CUPTI__MULTIPLE_SUBSCRIBERS || result == CUPTI__MAX_LIMIT_REACHED)
        return cuzk_gpu__fail("no kernels and copies: another profiler is attached to this process, and CUPTI allows one", "");
    if (result != CUPTI__SUCCESS)
        return cuzk_gpu__fail("no kernels and copies: CUPTI refuses", cuzk_gpu__said(result));
    if ((result = cuzk_cupti.ActivityRegisterTimestampCallback(on_clock)) != CUPTI__SUCCESS)
        return cuzk_gpu__fail("no kernels and copies: CUPTI takes no clock", cuzk_gpu__said(result));
    if ((result = cuzk_cupti.ActivityRegisterCallbacks(on_request, on_complete)) != CUPTI__SUCCESS)
        return cuzk_gpu__fail("no kernels and copies: CUPTI takes no buffers", cuzk_gpu__said(result));
    return 1;
}

/* Kinds on or off; the caller holds the lock. Kernels are needed, the others are left out where they fail. */
static int switch_kinds(int on)
{
    char text[160];
    size_t i;
    int result;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        result = on ? cuzk_cupti.ActivityEnable(kinds[i]) : cuzk_cupti.ActivityDisable(kinds[i]);
        if (result != CUPTI__SUCCESS && on) {
            snprintf(text, sizeof text, "CUPTI activity kind %d is not recorded", kinds[i]);
            cuzk_gpu__fail(text, cuzk_gpu__said(result));
            if (i == 0)
                return 0;
        }
    }
    if (gpu.calls)
        cuzk_gpu__hear_calls(gpu.subscriber, on);
    gpu.recording = on;
    return 1;
}

static int flush(uint32_t how)
{
    return cuzk_cupti.ActivityFlushAll(how) == CUPTI__SUCCESS;
}

/* ------------------------------------------------------------------------------- our thread, and the end -- */

/* Whether the level asks for kernels: they are not stages, so level "coarse" leaves them out. */
static int wanted(void)
{
    const char *wish = getenv("CUZK_TRACE");
    if (!cuzk_trace__lib.head && wish)
        return strcmp(wish, "off") != 0 && strcmp(wish, "coarse") != 0;
    return cuzk_trace__level() >= CUZK_TRACE_ALL;
}

/* Take or leave records from now on; the caller holds the lock. What was complete before is handed over first. */
static void follow(int on)
{
    if (gpu.recording)
        flush(0);
    __atomic_store_n(&gpu.wanted, on, __ATOMIC_RELAXED);
    if (on == gpu.recording)
        return;
    switch_kinds(on);
    cuzk_trace_meta("gpu.paused", on ? "" : "kernels and copies are recorded at detail \"all\"");
}

/* Follow the `enabled` word, and hand over what is complete: CUPTI's own periodic flush gives only full buffers. */
static void *watch(void *unused)
{
    struct timespec rest = {0, CUZK_GPU__PERIOD_MS * 1000000l};
    const char *wish = getenv("CUZK_TRACE");
    char text[640];
    (void)unused;
    settle_thread();
    pthread_setname_np(pthread_self(), "gpu capture");
    /* Dormant: a ring is needed for its `enabled` word all the same. */
    if (wish && strcmp(wish, "off") == 0)
        cuzk_trace_enable(CUZK_TRACE_ALL);
    snprintf(text, sizeof text, "CUPTI %u, %s", cuzk_cupti.version, cuzk_cupti.path);
    cuzk_trace_meta("gpu.capture", text);
    cuzk_trace_open();
    if (wish && strcmp(wish, "off") == 0)
        cuzk_trace_enable(CUZK_TRACE_OFF);
    cuzk_trace__id(cuzk_gpu__name("gpu.busy", NULL, NULL)); /* the viewer's name for what it derives */
    for (;;) {
        pthread_mutex_lock(&gpu.lock);
        follow(wanted());
        pthread_mutex_unlock(&gpu.lock);
        cuzk_trace__keep_time(0);
        nanosleep(&rest, NULL);
    }
    return NULL;
}

static void at_end(void)
{
    if (gpu.pid != getpid() || !gpu.works)
        return;
    __atomic_store_n(&gpu.calls, 1, __ATOMIC_RELAXED); /* nobody shall wait for the lock any more */
    pthread_mutex_lock(&gpu.lock); /* kept: our thread shall not call into a CUPTI that is being taken down */
    settle_thread();
    flush(CUPTI__FLUSH_FORCED);
}

static int start_thread(void)
{
    sigset_t all, before;
    pthread_t thread;
    int status;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are for its own threads */
    status = pthread_create(&thread, NULL, watch, NULL);
    if (status == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status == 0 ? 1 : cuzk_gpu__fail("no kernels and copies", "no thread could be started");
}

/* --------------------------------------------------------------------------------------------- public -- */

int cuzk_gpu_start(void)
{
    int good;
    pthread_mutex_lock(&gpu.lock);
    if (!gpu.started) {
        gpu.started = 1;
        gpu.pid = (int)getpid();
        gpu.wanted = wanted();
        if (cuzk_gpu__load() && subscribe() && switch_kinds(1)) { /* at any level: late, it would hold up a launch */
            cuzk_cupti.ActivityFlushPeriod(CUZK_GPU__CUPTI_PERIOD_MS);
            atexit(at_end);
            gpu.works = start_thread();
            if (!gpu.works)
                switch_kinds(0);
        }
    }
    good = gpu.works;
    pthread_mutex_unlock(&gpu.lock);
    return good;
}

const char *cuzk_gpu_problem(void)
{
    return gpu.problem[0] ? gpu.problem : NULL;
}

void cuzk_gpu_flush(void)
{
    if (gpu.pid != getpid() || !gpu.started)
        return;
    pthread_mutex_lock(&gpu.lock);
    if (gpu.recording)
        flush(0);
    pthread_mutex_unlock(&gpu.lock);
}

void cuzk_gpu__want_launchers(void)
{
    if (__atomic_load_n(&gpu.calls, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&gpu.lock);
    __atomic_store_n(&gpu.calls, 1, __ATOMIC_RELAXED);
    if (gpu.pid == getpid() && gpu.recording)
        cuzk_gpu__hear_calls(gpu.subscriber, 1);
    pthread_mutex_unlock(&gpu.lock);
}
