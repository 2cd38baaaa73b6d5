/* Kernels, copies, fills and waits of this process from CUPTI's activity records into the trace ring.
 *
 * libcupti is opened at run time. Its records come in buffers, on a thread of CUPTI's or on ours; each is copied
 * into that thread's ring as it is decoded, so nothing of this runs in the program's own threads but what CUPTI does
 * at a launch. What a record looks like in the ring: layout.py. Its times are CLOCK_MONOTONIC, whatever the
 * ring's own clock: CUPTI fits the device's clock to the one it is given, which must count nanoseconds.
 */
#include "capture.h"

#include <dlfcn.h>

#include "cupti_abi.h"

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

#ifndef CUZK_GPU__TOOLKIT
#define CUZK_GPU__TOOLKIT "/usr/local/cuda"
#define CUZK_GPU__SONAME "libcupti.so."
#endif

enum { KERNEL = 5, MEMCPY = 6, MEMSET = 7, OVERHEAD = 9, SYNC = 13, NO_DEVICE = 0xFFFF };

static const int kinds[] = {CUPTI__KIND_CONCURRENT_KERNEL, CUPTI__KIND_MEMCPY,   CUPTI__KIND_MEMCPY2,
                            CUPTI__KIND_MEMSET,            CUPTI__KIND_OVERHEAD, CUPTI__KIND_SYNCHRONIZATION};

static struct {
#define FUNCTION(name, arguments) int(*name) arguments;
    CUPTI__FUNCTIONS(FUNCTION)
#undef FUNCTION
} cupti;

static struct {
    int started, pid, recording, calls;
    int works;  /* CUPTI has been set up, though it may lack some kinds of records */
    int wanted; /* records are taken: the level is "all" */
    pthread_mutex_t lock; /* of start, of enabling kinds, of flushing */
    char problem[512], library[512];
    uint32_t version;
} gpu = {0, 0, 0, 0, 0, 0, PTHREAD_MUTEX_INITIALIZER, "", "", 0};

static int fail(const char *what, const char *why)
{
    snprintf(gpu.problem, sizeof gpu.problem, "%s%s%s", what, why[0] ? ": " : "", why);
    cuzk_trace_meta("gpu.problem", gpu.problem);
    return 0;
}

static const char *said(int result)
{
    const char *text = NULL;
    if (cupti.GetResultString(result, &text) != CUPTI__SUCCESS || !text)
        text = "unknown error";
    return text;
}

/* --------------------------------------------------------------------------------- records to the ring -- */

struct place {
    uint32_t device, context, stream;
};

static void put(uint32_t kind, cuzk_trace_name *name, uint64_t start, uint64_t end, struct place where,
                int64_t a0, int64_t a1, uint32_t corr, uint64_t launcher)
{
    cuzk_trace__device(kind, name, start, end, where.device, where.context, where.stream, a0, a1, corr, launcher);
}

/* Which span pushed what was launched with a correlation id: the newest few thousand. */
enum { PENDING = 8192 };
static struct {
    uint32_t corr;
    uint64_t parent;
} pending[PENDING];

static uint64_t parent_of(uint32_t corr)
{
    return corr && pending[corr % PENDING].corr == corr ? pending[corr % PENDING].parent : 0;
}

static const char *copy_name(uint32_t copy, uint32_t source, uint32_t target)
{
    uint32_t host = copy == 1 || copy == 3 ? source : target;
    switch (copy) {
    case 1:
    case 3: /* into an array */
        return host == 1 ? "memcpy.h2d.pageable" : host == 2 ? "memcpy.h2d.pinned" : "memcpy.h2d";
    case 2:
    case 4:
        return host == 1 ? "memcpy.d2h.pageable" : host == 2 ? "memcpy.d2h.pinned" : "memcpy.d2h";
    case 9:
        return "memcpy.h2h";
    case 10:
        return "memcpy.p2p";
    default:
        return "memcpy.d2d";
    }
}

static const char *overhead_name(uint32_t what)
{
    switch (what) {
    case 1:
        return "overhead.driver_compiler";
    case 1 << 16:
        return "overhead.buffer_flush";
    case 2 << 16:
        return "overhead.instrumentation";
    case 3 << 16:
        return "overhead.resource";
    case 4 << 16:
        return "overhead.module_loading";
    case 5 << 16:
        return "overhead.lazy_loading";
    case 6 << 16:
        return "overhead.command_buffer_full";
    case 7 << 16:
        return "overhead.buffer_request";
    case 8 << 16:
        return "overhead.uvm_init";
    default:
        return "overhead.unknown";
    }
}

static const char *sync_name(uint32_t type)
{
    return type == 1   ? "sync.event"
           : type == 2 ? "sync.stream_wait_event"
           : type == 3 ? "sync.stream"
           : type == 4 ? "sync.context"
                       : "sync.unknown";
}

/* The common part of CUPTI 12's and 13's records: see cupti_abi.h. */
static void decode(const void *record)
{
    union {
        const uint32_t *kind;
        const struct cupti__kernel *kernel;
        const struct cupti__memcpy *copy;
        const struct cupti__memcpy2 *peer;
        const struct cupti__memset *fill;
        const struct cupti__overhead *overhead;
        const struct cupti__synchronization *sync;
        const struct cupti__external *external;
    } at = {(const uint32_t *)record};
    switch (*at.kind) {
    case CUPTI__KIND_KERNEL:
    case CUPTI__KIND_CONCURRENT_KERNEL: {
        const struct cupti__kernel *k = at.kernel;
        if (!k->end) { /* cut short by the end of the process */
            cuzk_trace__drop();
            return;
        }
        put(KERNEL, cuzk_gpu__name(k->name, "blocks", "threads"), k->start, k->end,
            (struct place){k->device, k->context, k->stream}, (int64_t)k->grid[0] * k->grid[1] * k->grid[2],
            (int64_t)k->block[0] * k->block[1] * k->block[2], k->corr, parent_of(k->corr));
        return;
    }
    case CUPTI__KIND_MEMCPY:
        put(MEMCPY, cuzk_gpu__name(copy_name(at.copy->copy, at.copy->source, at.copy->target), "bytes", NULL),
            at.copy->start, at.copy->end, (struct place){at.copy->device, at.copy->context, at.copy->stream},
            (int64_t)at.copy->bytes, 0, at.copy->corr, parent_of(at.copy->corr));
        return;
    case CUPTI__KIND_MEMCPY2:
        put(MEMCPY, cuzk_gpu__name("memcpy.p2p", "bytes", "to"), at.peer->start, at.peer->end,
            (struct place){at.peer->device, at.peer->context, at.peer->stream}, (int64_t)at.peer->bytes,
            at.peer->target_device, at.peer->corr, parent_of(at.peer->corr));
        return;
    case CUPTI__KIND_MEMSET:
        put(MEMSET, cuzk_gpu__name("memset", "bytes", "value"), at.fill->start, at.fill->end,
            (struct place){at.fill->device, at.fill->context, at.fill->stream}, (int64_t)at.fill->bytes,
            at.fill->value, at.fill->corr, parent_of(at.fill->corr));
        return;
    case CUPTI__KIND_OVERHEAD:
        put(OVERHEAD, cuzk_gpu__name(overhead_name(at.overhead->what), NULL, NULL), at.overhead->start,
            at.overhead->end, (struct place){NO_DEVICE, 0, 0}, 0, 0, 0, 0);
        return;
    case CUPTI__KIND_SYNCHRONIZATION: {
        const struct cupti__synchronization *s = at.sync;
        int of_stream = s->type == 2 || s->type == 3; /* of the others no stream is told */
        put(SYNC, cuzk_gpu__name(sync_name(s->type), of_stream ? "stream" : NULL, NULL), s->start, s->end,
            (struct place){NO_DEVICE, s->context, s->stream}, of_stream ? s->stream : 0, 0, s->corr,
            parent_of(s->corr));
        return;
    }
    case CUPTI__KIND_EXTERNAL_CORRELATION:
        pending[at.external->corr % PENDING].corr = at.external->corr;
        pending[at.external->corr % PENDING].parent = at.external->external;
        return;
    default:
        return; /* calls are on for the external ids alone */
    }
}

/* Which versions of libcupti this knows, and how it reads their records. */
static const struct {
    uint32_t first, last; /* as cuptiGetVersion counts: from 13.0 on 10000 * major + 100 * minor */
    void (*decode)(const void *record);
} cuzk_gpu__decoders[] = {
    {18, 99, decode},         /* 12.0 and later */
    {130000, 139999, decode}, /* 13 */
};
static void (*decoder)(const void *record);

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
        while (valid && cupti.ActivityGetNextRecord(buffer, valid, &record) == CUPTI__SUCCESS)
            decoder(record);
    free(buffer);
    if (cupti.ActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI__SUCCESS && dropped &&
        cuzk_trace__lib.head)
        __atomic_fetch_add(&cuzk_trace__lib.head->dropped, dropped, __ATOMIC_RELAXED);
}

static uint64_t on_clock(void)
{
    return (uint64_t)cuzk_trace__monotonic();
}

static void on_call(void *user, int domain, uint32_t id, const void *data)
{
    (void)user, (void)domain, (void)id, (void)data; /* no calls are asked for: see subscribe() */
}

/* --------------------------------------------------------------------------------------- libcupti -- */

static int resolve(void *library)
{
    char symbol[64];
#define FUNCTION(name, arguments)                                      \
    snprintf(symbol, sizeof symbol, "cupti%s", #name);                 \
    *(void **)&cupti.name = dlsym(library, symbol);                    \
    if (!cupti.name)                                                   \
        return fail("libcupti lacks the function", symbol);
    CUPTI__FUNCTIONS(FUNCTION)
#undef FUNCTION
    return 1;
}

static int driver_version(void)
{
    int version = 0, (*get)(int *);
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&get = library ? dlsym(library, "cuDriverGetVersion") : NULL;
    return get && get(&version) == 0 ? version : 0;
}

static void *open_in(const char *folder, const char *below, int major)
{
    char path[512];
    if (!folder || !folder[0])
        return NULL;
    snprintf(path, sizeof path, "%s/%s/" CUZK_GPU__SONAME "%d", folder, below, major);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* The copy this process has already, else one named by $CUZK_CUPTI (files, separated by colons: cuzk-top lists the
 * wheels' there), else the linker's, else the toolkit's. */
static void *find_library(void)
{
    static const char *const below[] = {"lib64", "extras/CUPTI/lib64", "lib"};
    int driver = driver_version(), majors[] = {13, 12}, i, k;
    char soname[24], roots[3][256], list[4096], *path, *rest;
    const char *named = getenv("CUZK_CUPTI"), *home = getenv("CUDA_HOME");
    void *library = NULL;
    for (i = 0; i < 2 && !library; i++) {
        snprintf(soname, sizeof soname, CUZK_GPU__SONAME "%d", majors[i]);
        library = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);
    }
    snprintf(list, sizeof list, "%s", named ? named : "");
    for (path = strtok_r(list, ":", &rest); path && !library; path = strtok_r(NULL, ":", &rest))
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (i = 0; i < 2 && !library; i++) {
        if (driver && driver < majors[i] * 1000) /* a CUPTI newer than the driver does not work with it */
            continue;
        snprintf(soname, sizeof soname, CUZK_GPU__SONAME "%d", majors[i]);
        library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
        snprintf(roots[0], sizeof roots[0], "%s", home ? home : "");
        snprintf(roots[1], sizeof roots[1], CUZK_GPU__TOOLKIT);
        snprintf(roots[2], sizeof roots[2], CUZK_GPU__TOOLKIT "-%d", majors[i]);
        for (k = 0; k < 9 && !library; k++)
            library = open_in(roots[k / 3], below[k % 3], majors[i]);
    }
    return library;
}

static int load(void)
{
    void *library = find_library();
    Dl_info where;
    char text[640];
    size_t i;
    if (!library)
        return fail("no kernels and copies: libcupti.so was not found",
                    "install the CUDA toolkit's CUPTI or the Python package nvidia-cuda-cupti");
    if (!resolve(library))
        return 0;
    if (dladdr((void *)cupti.GetVersion, &where) && where.dli_fname)
        snprintf(gpu.library, sizeof gpu.library, "%s", where.dli_fname);
    if (cupti.GetVersion(&gpu.version) != CUPTI__SUCCESS)
        gpu.version = 0;
    for (i = 0; i < sizeof cuzk_gpu__decoders / sizeof *cuzk_gpu__decoders; i++)
        if (gpu.version >= cuzk_gpu__decoders[i].first && gpu.version <= cuzk_gpu__decoders[i].last)
            decoder = cuzk_gpu__decoders[i].decode;
    snprintf(text, sizeof text, "%s is version %u", gpu.library, gpu.version);
    return decoder ? 1 : fail("no kernels and copies: this program reads libcupti of CUDA 12 and 13", text);
}

/* Being the subscriber keeps other profilers from taking our buffers as theirs; they are told that one is there. */
static int subscribe(void)
{
    static void *subscriber;
    int result = cupti.Subscribe(&subscriber, on_call, NULL);
    if (result == CUPTI__MULTIPLE_SUBSCRIBERS || result == CUPTI__MAX_LIMIT_REACHED)
        return fail("no kernels and copies: another profiler is attached to this process, and CUPTI allows one", "");
    if (result != CUPTI__SUCCESS)
        return fail("no kernels and copies: CUPTI refuses", said(result));
    if ((result = cupti.ActivityRegisterTimestampCallback(on_clock)) != CUPTI__SUCCESS)
        return fail("no kernels and copies: CUPTI takes no clock", said(result));
    if ((result = cupti.ActivityRegisterCallbacks(on_request, on_complete)) != CUPTI__SUCCESS)
        return fail("no kernels and copies: CUPTI takes no buffers", said(result));
    return 1;
}

/* External ids come only with the records of the calls that launch: the driver's, and of programs with the runtime
 * library that one's. */
static void switch_calls(int on)
{
    int (*change)(int) = on ? cupti.ActivityEnable : cupti.ActivityDisable;
    change(CUPTI__KIND_EXTERNAL_CORRELATION);
    change(CUPTI__KIND_DRIVER);
    change(CUPTI__KIND_RUNTIME);
}

/* Kinds on or off; the caller holds the lock. Kernels are needed, the others are left out where they fail. */
static int switch_kinds(int on)
{
    char text[160];
    size_t i;
    int result;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        result = on ? cupti.ActivityEnable(kinds[i]) : cupti.ActivityDisable(kinds[i]);
        if (result != CUPTI__SUCCESS && on) {
            snprintf(text, sizeof text, "CUPTI activity kind %d is not recorded", kinds[i]);
            fail(text, said(result));
            if (i == 0)
                return 0;
        }
    }
    if (gpu.calls)
        switch_calls(on);
    gpu.recording = on;
    return 1;
}

static int flush(uint32_t how)
{
    return cupti.ActivityFlushAll(how) == CUPTI__SUCCESS;
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
    snprintf(text, sizeof text, "CUPTI %u, %s", gpu.version, gpu.library);
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
    return status == 0 ? 1 : fail("no kernels and copies", "no thread could be started");
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
        if (load() && subscribe() && switch_kinds(1)) { /* at any level: late, it would hold up a launch */
            cupti.ActivityFlushPeriod(CUZK_GPU__CUPTI_PERIOD_MS);
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

void cuzk_gpu_enter(void)
{
    if (gpu.pid != getpid() || !gpu.recording)
        return;
    if (!cuzk_trace__tls.slot)
        cuzk_trace__claim();
    cuzk_gpu_enter_as(cuzk_trace__here());
}

void cuzk_gpu_enter_as(uint64_t launcher)
{
    if (gpu.pid != getpid() || !gpu.recording)
        return;
    if (!gpu.calls) {
        pthread_mutex_lock(&gpu.lock);
        gpu.calls = 1;
        switch_calls(1);
        pthread_mutex_unlock(&gpu.lock);
    }
    cupti.ActivityPushExternalCorrelationId(CUPTI__EXTERNAL_CUSTOM0, launcher);
}

void cuzk_gpu_leave(void)
{
    uint64_t last;
    if (gpu.pid == getpid() && gpu.calls)
        cupti.ActivityPopExternalCorrelationId(CUPTI__EXTERNAL_CUSTOM0, &last);
}
