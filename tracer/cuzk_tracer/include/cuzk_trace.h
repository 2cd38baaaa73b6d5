/* cuzk_trace.h - spans, counters and marks of a C, C++ or Rust program, for cuzk-top to show while it runs.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * One header, nothing to link. C:
 *
 *     static cuzk_trace_name MSM = CUZK_TRACE_NAME("msm.h", "points", "window_bits", CUZK_TRACE_STAGE);
 *
 *     cuzk_trace_span span;
 *     cuzk_trace_begin(&span, &MSM, 65536, 13);
 *     ...
 *     cuzk_trace_end(&span);
 *
 * C++:
 *
 *     static cuzk_trace::name MSM{"msm.h", "points", "window_bits", CUZK_TRACE_STAGE};
 *     { cuzk_trace::span span{MSM, 65536, 13}; ... }
 *
 * Rust and others: compile a file of the two lines `#define CUZK_TRACE_FFI` and `#include "cuzk_trace.h"`, and
 * call the functions at the end of this header. Worked examples of all three: tests/data/tracer/.
 *
 * What happens: each thread writes 64-byte records into a ring of its own in one file of the process in
 * $XDG_RUNTIME_DIR/cuzk or /dev/shm/cuzk-UID. The oldest records are overwritten; no reader can hold a writer up.
 * The file's layout is layout.py beside this folder; a test compares the two.
 *
 * Costs (2.6 GHz core): a span 20-35 ns; while tracing is off two loads and a branch. CUZK_TRACE=off|coarse|all
 * in the environment sets the level (default all), and cuzk-top can change it in the running program.
 *
 * Guarantees: nothing here fails, prints, or stops the program. Without a place to write, everything is a no-op
 * and cuzk_trace_problem() says why; threads beyond the slots, names beyond the table are counted in the header.
 * All functions may be called from any thread, and in a signal handler if its thread has recorded something before
 * (the first time takes memory and locks). What a handler records while it interrupts the recording of its own
 * thread is dropped and counted.
 *
 * Several libraries of one process may include this header (each has its own copy of its state, all hidden), and
 * Python's cuzk_tracer may be in the same process: all write one file and a thread has one slot, so that their
 * spans nest. They find each other through /proc/self/maps: see layout.py. After a fork the child begins a
 * session of its own at its first span. A library may be unloaded with dlclose; its mapping of the file stays.
 *
 * Needs Linux, GCC or Clang, C99 or C++11, and 64-bit little-endian. Include it before other headers where
 * _GNU_SOURCE is not defined (C with -std=c99 or -std=c11). glibc before 2.34 also needs -pthread.
 */
#ifndef CUZK_TRACE_H
#define CUZK_TRACE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#if !defined(__linux__) || !defined(__GNUC__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || !defined(__LP64__)
#error "cuzk_trace.h needs 64-bit little-endian Linux and GCC or Clang"
#endif
#ifndef RUSAGE_THREAD
#error "include cuzk_trace.h before other headers, or define _GNU_SOURCE"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ the file's layout (layout.py) -- */

#define CUZK_TRACE__MAJOR 1
#define CUZK_TRACE__MINOR 1

struct cuzk_trace__header {
    char magic[8];
    uint16_t major, minor;
    uint32_t header_bytes;
    uint64_t file_bytes, anchors_off;
    uint32_t anchor_capacity, name_capacity;
    uint64_t names_off, metas_off;
    uint32_t meta_capacity, slot_count;
    uint64_t strings_off, strings_bytes, slots_off;
    uint32_t pid, parent_pid;
    uint64_t start_time;
    int64_t opened_ns;
    uint32_t clock_kind, enabled;
    uint8_t uuid[16], parent_uuid[16], boot_id[16];
    uint8_t pad0[24];
    int64_t heartbeat_ns, ended_ns;
    uint64_t names_count, metas_count, strings_used, slots_used, dropped, dropped_plain;
    uint64_t anchor_seq, anchors_count;
    uint64_t threads_off;
    uint32_t writers, problems;
    uint64_t names_lost;
    uint32_t fd;
};

struct cuzk_trace__anchor {
    uint64_t ticks;
    int64_t monotonic_ns, realtime_ns;
    uint64_t segment;
};

struct cuzk_trace__named { /* of the name table */
    uint32_t text, a0, a1, flags, pad[4];
};

struct cuzk_trace__slot {
    uint64_t head;
    uint32_t mask, tid, name, state;
    uint64_t depth_id; /* depth in the low half, next_id in the high half */
    uint64_t ring_off, stack_off;
    uint32_t generation, busy;
    uint64_t base;
};

struct cuzk_trace__thread {
    uint32_t users, top;
    uint64_t handle, minflt, majflt;
    int64_t died_ns;
    uint64_t pad[3];
};

struct cuzk_trace__open {
    uint64_t t0;
    uint32_t name, id;
    int64_t a0, a1;
};

struct cuzk_trace__record {
    uint64_t t0, t1;
    uint32_t name, id, parent;
    uint8_t kind, depth;
    uint16_t track;
    int64_t a0, a1;
    uint32_t minflt, majflt, corr, index;
};

enum {
    CUZK_TRACE__SLOT_FREE = 0,
    CUZK_TRACE__SLOT_LIVE = 1,
    CUZK_TRACE__SLOT_DEAD = 2,
    CUZK_TRACE__STACK_ENTRIES = 64,
    CUZK_TRACE__SPAN = 1,
    CUZK_TRACE__ASYNC = 2,
    CUZK_TRACE__INSTANT = 3,
    CUZK_TRACE__COUNTER = 4,
    CUZK_TRACE__FLOW = 10,
    CUZK_TRACE__ERR = 0x80,
    CUZK_TRACE__F64 = 0x8000,
    CUZK_TRACE__FAULTS_VALID = 0x2000,
    CUZK_TRACE__UNBALANCED = 0x1000,
    CUZK_TRACE__F64_A1 = 0x0800,
    CUZK_TRACE__OPEN_NAME_MASK = 0x3FFFFFFF,
    CUZK_TRACE__CLOCK_MONOTONIC = 1,
    CUZK_TRACE__CLOCK_TSC = 2,
    CUZK_TRACE__NAME_OVERFLOW = 1,
    CUZK_TRACE__PROBLEM_NAMES = 1,
    CUZK_TRACE__PROBLEM_STRINGS = 2,
    CUZK_TRACE__PROBLEM_METAS = 4,
    CUZK_TRACE__PROBLEM_SLOTS = 8,
    CUZK_TRACE__PROBLEM_SPACE = 16
};
#define CUZK_TRACE__OPEN_F64 0x80000000u
#define CUZK_TRACE__OPEN_F64_A1 0x40000000u

/* Sizes of the files this header makes; of one that it joins they stand in its header. */
#define CUZK_TRACE__MAIN_RECORDS 65536u
#define CUZK_TRACE__THREAD_RECORDS 16384u
#define CUZK_TRACE__WIDE_RECORDS 131072u /* of the last slots: for what a GPU did, which comes in bursts */
#define CUZK_TRACE__WIDE_SLOTS 3u
#define CUZK_TRACE__SLOTS 128u
#define CUZK_TRACE__NAMES 1024u
#define CUZK_TRACE__METAS 128u
#define CUZK_TRACE__ANCHORS 64u
#define CUZK_TRACE__STRING_BYTES 262144u
#define CUZK_TRACE__LONGEST_STRING 4096u
#ifndef CUZK_TRACE__REST_NS
#define CUZK_TRACE__REST_NS 1000000000 /* a dead thread's slot is not reused before this: readers poll faster */
#endif

#ifndef CUZK_TRACE__SHARED /* a library of one file may say `static`, and has its functions inlined */
#define CUZK_TRACE__SHARED __attribute__((weak, visibility("hidden"))) /* one copy a linked object */
#endif
#define CUZK_TRACE__COLD CUZK_TRACE__SHARED __attribute__((noinline, cold))
#define CUZK_TRACE__LIKELY(x) __builtin_expect(!!(x), 1)

/* ------------------------------------------------------------------------------------ public API -- */

enum {
    CUZK_TRACE_STAGE = 1,  /* recorded at level coarse too */
    CUZK_TRACE_FAULTS = 2, /* with the page faults of its thread: about 640 ns more a span */
    /* for the _as functions: an argument holds a double's bits (cuzk_trace_f64) */
    CUZK_TRACE_A0_F64 = CUZK_TRACE__F64,
    CUZK_TRACE_A1_F64 = CUZK_TRACE__F64_A1
};
enum { CUZK_TRACE_OFF = 0, CUZK_TRACE_COARSE = 1, CUZK_TRACE_ALL = 2 };

/* A span's, counter's or mark's name. Must live as long as its library: make it static. Use CUZK_TRACE_NAME. */
typedef struct cuzk_trace_name {
    const char *text, *a0, *a1; /* a0, a1: names of the two arguments, or NULL */
    uint32_t flags, level, id;
    struct cuzk_trace_name *next;
} cuzk_trace_name;

#define CUZK_TRACE_NAME(text, a0, a1, flags) \
    {text, a0, a1, flags, (flags) & CUZK_TRACE_STAGE ? CUZK_TRACE_COARSE : CUZK_TRACE_ALL, 0, NULL}

/* An open span. Ended by the thread that began it, innermost first; spans left open inside are closed with it
 * and flagged. (An async span: by any thread, in any order.) */
typedef struct cuzk_trace_span {
    struct cuzk_trace__slot *slot; /* while it is recorded: see bits */
    uint64_t t0;
    int64_t a0, a1;
    uint32_t name, id, parent, depth, bits;
    uint32_t pad;
    uint64_t minflt, majflt;
} cuzk_trace_span;

static inline void cuzk_trace_begin(cuzk_trace_span *span, cuzk_trace_name *name, int64_t a0, int64_t a1);
static inline void cuzk_trace_begin_as(cuzk_trace_span *span, cuzk_trace_name *name, int64_t a0, int64_t a1,
                                       uint32_t types);
static inline void cuzk_trace_end(cuzk_trace_span *span);
static inline void cuzk_trace_end_error(cuzk_trace_span *span); /* left by an error: flagged */

/* A span that may overlap others of its thread and end on another one; parent: a span's id, or 0 for the
 * innermost open span of this thread. */
static inline void cuzk_trace_async_begin(cuzk_trace_span *span, cuzk_trace_name *name, int64_t a0, int64_t a1,
                                          uint32_t types, uint32_t parent);
static inline void cuzk_trace_async_end(cuzk_trace_span *span, int error);

static inline void cuzk_trace_counter(cuzk_trace_name *name, int64_t value);
static inline void cuzk_trace_counter_f64(cuzk_trace_name *name, double value);
static inline void cuzk_trace_mark(cuzk_trace_name *name, int64_t a0, int64_t a1);

/* An arrow from the span that is open here to one that is open elsewhere: begin gives a number that is handed
 * over with the work, and step records its arrival. 0 (tracing was off) is ignored. */
static inline uint32_t cuzk_trace_flow_begin(cuzk_trace_name *name);
static inline void cuzk_trace_flow_step(cuzk_trace_name *name, uint32_t flow);

/* Faults that other threads took on behalf of the spans open here, e.g. workers the caller waits for; each
 * worker takes the difference of two cuzk_trace_thread_faults(). */
static inline void cuzk_trace_add_faults(uint64_t minor, uint64_t major);
static inline void cuzk_trace_thread_faults(uint64_t *minor, uint64_t *major);

static inline int64_t cuzk_trace_f64(double value); /* a double as an argument */
static inline uint64_t cuzk_trace_ticks(void);      /* the clock of the records */

CUZK_TRACE__COLD void cuzk_trace_meta(const char *key, const char *value); /* of the session; before it opens too */
CUZK_TRACE__COLD void cuzk_trace_enable(uint32_t level);                   /* CUZK_TRACE_OFF, _COARSE or _ALL */
CUZK_TRACE__COLD const char *cuzk_trace_open(void); /* make the ring now, not at the first span; its path, or NULL */
CUZK_TRACE__COLD const char *cuzk_trace_path(void); /* NULL while there is none */
CUZK_TRACE__COLD const char *cuzk_trace_problem(void);

/* ------------------------------------------------------------------------------- state of a library -- */

struct cuzk_trace__setting { /* a metadata string of this library */
    struct cuzk_trace__setting *next;
    char *key, *value;
};

struct cuzk_trace__lib {
    uint32_t *enabled; /* the word in the file; `word` while there is no session */
    uint64_t next_anchor;
    struct cuzk_trace__header *head; /* the mapped control area; NULL while there is no session */
    uint64_t thread_delta;           /* from a slot to its thread line, as bytes at 64 a slot */
    uint32_t tsc, word;
    /* What follows is not read while recording. */
    uint64_t control_bytes;
    uint64_t early; /* records dropped before there was a file to count them in */
    char **rings; /* by slot, as far as this library has mapped them */
    double ticks_per_ns;
    const void *owner; /* of the lock: the address of a thread's `cuzk_trace__tls` */
    cuzk_trace_name *names, *last_name;
    struct cuzk_trace__setting *settings;
    int fd, pid, parent_pid;
    uint8_t parent_uuid[16];
    uint8_t started, failed, left, level_set;
    pthread_key_t key;
    char path[512], problem[640];
};

struct cuzk_trace__tls {
    struct cuzk_trace__slot *slot;
    char *ring, *stack;
    const char *thread_name; /* NULL: what the kernel calls the thread */
    uint32_t no_room, wide; /* wide: it would like the slot with the largest ring */
};

CUZK_TRACE__SHARED struct cuzk_trace__lib cuzk_trace__lib = {
    &cuzk_trace__lib.word, 0, NULL, 0, 0, CUZK_TRACE_ALL, 0, 0, NULL, 1.0, NULL, NULL, NULL, NULL,
    -1, 0, 0, {0}, 0, 0, 0, 0, 0, {0}, {0}};
CUZK_TRACE__SHARED __thread struct cuzk_trace__tls cuzk_trace__tls = {NULL, NULL, NULL, NULL, 0, 0};

CUZK_TRACE__COLD struct cuzk_trace__slot *cuzk_trace__claim(void);
CUZK_TRACE__COLD uint32_t cuzk_trace__intern(cuzk_trace_name *name, uint32_t limit);
CUZK_TRACE__COLD void cuzk_trace__keep_time(int force);
CUZK_TRACE__COLD void cuzk_trace__release(void *unused);
CUZK_TRACE__COLD int cuzk_trace__settle(const cuzk_trace_span *span, uint64_t t1);

/* ------------------------------------------------------------------------------------- recording -- */

/* GCC 12.2 puts a static name into read-only memory: propagating its address into a clone of one of the functions
 * below (-O2 -fPIC), it forgets that it is passed on from there. So it shall not know what it points to. */
#define CUZK_TRACE__HIDE(name) __asm__("" : "+r"(name))

#define CUZK_TRACE__BARRIER() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#if defined(__SANITIZE_THREAD__) /* which knows no fences; nobody in this process reads what they order */
#define CUZK_TRACE__FENCE() CUZK_TRACE__BARRIER()
#else
#define CUZK_TRACE__FENCE() __atomic_thread_fence(__ATOMIC_RELEASE)
#endif
/* In a span's bits, which are 0 in one that was begun while tracing is off, and has ended: */
#define CUZK_TRACE__VOID 0x80000000u   /* count it as dropped when it ends */
#define CUZK_TRACE__ACTIVE 0x40000000u /* recorded, in `slot` */

static inline int64_t cuzk_trace__monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline uint64_t cuzk_trace_ticks(void)
{
#if defined(__x86_64__)
    if (CUZK_TRACE__LIKELY(cuzk_trace__lib.tsc))
        return __rdtsc();
#endif
    return (uint64_t)cuzk_trace__monotonic();
}

static inline int64_t cuzk_trace_f64(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint32_t cuzk_trace__level(void)
{
    return __atomic_load_n(__atomic_load_n(&cuzk_trace__lib.enabled, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
}

static inline int cuzk_trace__on(const cuzk_trace_name *name)
{
    return cuzk_trace__level() >= name->level;
}

static inline struct cuzk_trace__thread *cuzk_trace__line(struct cuzk_trace__slot *slot)
{
    return (struct cuzk_trace__thread *)((char *)slot + cuzk_trace__lib.thread_delta);
}

static inline struct cuzk_trace__open *cuzk_trace__entry(const struct cuzk_trace__tls *tls, uint32_t depth)
{
    return (struct cuzk_trace__open *)tls->stack + depth;
}

static inline void cuzk_trace_thread_faults(uint64_t *minor, uint64_t *major)
{
    struct rusage usage;
    usage.ru_minflt = usage.ru_majflt = 0;
    getrusage(RUSAGE_THREAD, &usage);
    *minor = (uint64_t)usage.ru_minflt;
    *major = (uint64_t)usage.ru_majflt;
}

static inline void cuzk_trace__drop(void)
{
    struct cuzk_trace__header *head = cuzk_trace__lib.head;
    __atomic_fetch_add(head ? &head->dropped : &cuzk_trace__lib.early, 1, __ATOMIC_RELAXED);
}

/* Write one record. Order: nothing of it before the head that was stored last (so a reader that sees that head
 * knows which place is being overwritten), its index word after its body, the head after that. */
static inline void cuzk_trace__emit(struct cuzk_trace__tls *tls, uint64_t t0, uint64_t t1, uint32_t name,
                                    uint32_t id, uint32_t parent, uint32_t kind, uint32_t depth, uint32_t track,
                                    int64_t a0, int64_t a1, uint64_t minflt, uint64_t majflt, uint32_t corr)
{
    struct cuzk_trace__slot *slot = tls->slot;
    uint64_t head = slot->head;
    uint64_t *word = (uint64_t *)(tls->ring + (head & slot->mask) * 64);
    uint64_t shape = kind | (depth < 255 ? depth : 255) << 8 | track << 16;
    CUZK_TRACE__FENCE();
    __atomic_store_n(word + 0, t0, __ATOMIC_RELAXED);
    __atomic_store_n(word + 1, t1, __ATOMIC_RELAXED);
    __atomic_store_n(word + 2, name | (uint64_t)id << 32, __ATOMIC_RELAXED);
    __atomic_store_n(word + 3, parent | shape << 32, __ATOMIC_RELAXED);
    __atomic_store_n(word + 4, (uint64_t)a0, __ATOMIC_RELAXED);
    __atomic_store_n(word + 5, (uint64_t)a1, __ATOMIC_RELAXED);
    __atomic_store_n(word + 6, (uint32_t)minflt | majflt << 32, __ATOMIC_RELAXED);
    __atomic_store_n(word + 7, corr | (head + 1) << 32, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->head, head + 1, __ATOMIC_RELEASE);
}

static inline void cuzk_trace__tick(uint64_t now)
{
    if (!CUZK_TRACE__LIKELY(now < __atomic_load_n(&cuzk_trace__lib.next_anchor, __ATOMIC_RELAXED)))
        cuzk_trace__keep_time(0);
}

static inline void cuzk_trace__enter(struct cuzk_trace__slot *slot)
{
    slot->busy = 1;
    CUZK_TRACE__BARRIER();
}

static inline void cuzk_trace__leave(struct cuzk_trace__slot *slot)
{
    CUZK_TRACE__BARRIER();
    slot->busy = 0;
}

/* This thread's slot, ready to be written. NULL: nothing is to be recorded, or it cannot and *lost is set to
 * CUZK_TRACE__VOID, because there is no slot for this thread or it is in the middle of a change. */
static inline struct cuzk_trace__slot *cuzk_trace__ready(const struct cuzk_trace__tls *tls, uint32_t level,
                                                         uint32_t *lost)
{
    struct cuzk_trace__slot *slot = tls->slot;
    *lost = 0;
    if (CUZK_TRACE__LIKELY(slot && !slot->busy))
        return slot;
    if (!slot)
        slot = cuzk_trace__claim();
    if (cuzk_trace__level() < level) /* claim may have found out */
        return NULL;
    if (!slot || slot->busy)
        *lost = CUZK_TRACE__VOID;
    return *lost ? NULL : slot;
}

static inline uint32_t cuzk_trace__id(cuzk_trace_name *name)
{
    uint32_t id = __atomic_load_n(&name->id, __ATOMIC_RELAXED);
    return CUZK_TRACE__LIKELY(id) ? id : cuzk_trace__intern(name, UINT32_MAX);
}

static inline uint32_t cuzk_trace__parent(const struct cuzk_trace__tls *tls, uint32_t depth)
{
    if (depth == 0)
        return 0;
    if (CUZK_TRACE__LIKELY(depth <= CUZK_TRACE__STACK_ENTRIES))
        return cuzk_trace__entry(tls, depth - 1)->id;
    return cuzk_trace__line(tls->slot)->top;
}

static inline uint32_t cuzk_trace__next_id(uint64_t depth_id)
{
    uint32_t id = (uint32_t)(depth_id >> 32) + 1;
    return id ? id : 1;
}

CUZK_TRACE__SHARED void cuzk_trace__begin(cuzk_trace_span *span, cuzk_trace_name *name, int64_t a0, int64_t a1,
                                          uint32_t types)
{
    struct cuzk_trace__tls *tls = &cuzk_trace__tls;
    struct cuzk_trace__slot *slot = cuzk_trace__ready(tls, name->level, &span->bits);
    uint32_t number, depth, id;
    uint64_t word;
    span->slot = slot;
    if (!CUZK_TRACE__LIKELY(slot))
        return;
    number = cuzk_trace__id(name);
    span->bits = types | CUZK_TRACE__ACTIVE;
    if (name->flags & CUZK_TRACE_FAULTS) {
        struct cuzk_trace__thread *line = cuzk_trace__line(slot);
        span->bits |= CUZK_TRACE__FAULTS_VALID;
        cuzk_trace_thread_faults(&span->minflt, &span->majflt);
        span->minflt += line->minflt;
        span->majflt += line->majflt;
    }
    cuzk_trace__enter(slot);
    word = slot->depth_id;
    depth = (uint32_t)word;
    id = cuzk_trace__next_id(word);
    span->name = number;
    span->id = id;
    span->depth = depth;
    span->parent = cuzk_trace__parent(tls, depth);
    span->a0 = a0;
    span->a1 = a1;
    span->t0 = cuzk_trace_ticks();
    if (CUZK_TRACE__LIKELY(depth < CUZK_TRACE__STACK_ENTRIES)) {
        uint64_t *entry = (uint64_t *)cuzk_trace__entry(tls, depth);
        /* F64 and F64_A1 of the track become the two top bits of the name. */
        uint64_t flags = (types & CUZK_TRACE__F64) << 16 | (types & CUZK_TRACE__F64_A1) << 19;
        __atomic_store_n(entry + 0, span->t0, __ATOMIC_RELAXED);
        __atomic_store_n(entry + 1, number | flags | (uint64_t)id << 32, __ATOMIC_RELAXED);
        __atomic_store_n(entry + 2, (uint64_t)a0, __ATOMIC_RELAXED);
        __atomic_store_n(entry + 3, (uint64_t)a1, __ATOMIC_RELAXED);
    } else {
        cuzk_trace__line(slot)->top = id;
    }
    __atomic_store_n(&slot->depth_id, (uint64_t)id << 32 | (depth + 1), __ATOMIC_RELEASE);
    cuzk_trace__leave(slot);
}

CUZK_TRACE__SHARED void cuzk_trace__end(cuzk_trace_span *span, uint32_t kind)
{
    uint64_t t1 = cuzk_trace_ticks();
    struct cuzk_trace__tls *tls = &cuzk_trace__tls;
    struct cuzk_trace__slot *slot = span->slot;
    uint32_t depth = span->depth;
    uint32_t bits = span->bits;
    uint64_t minflt = 0, majflt = 0;
    span->bits = 0;
    if (!CUZK_TRACE__LIKELY(bits & CUZK_TRACE__ACTIVE && slot == tls->slot && !slot->busy)) {
        /* Nothing to close here when it is another thread's, or from before a fork. */
        if (!(bits & CUZK_TRACE__ACTIVE) || slot == tls->slot)
            cuzk_trace__drop();
        return;
    }
    if (!CUZK_TRACE__LIKELY((uint32_t)slot->depth_id == depth + 1 &&
                            (depth >= CUZK_TRACE__STACK_ENTRIES || cuzk_trace__entry(tls, depth)->id == span->id)) &&
        !cuzk_trace__settle(span, t1))
        return;
    if (bits & CUZK_TRACE__FAULTS_VALID) {
        struct cuzk_trace__thread *line = cuzk_trace__line(slot);
        cuzk_trace_thread_faults(&minflt, &majflt);
        minflt += line->minflt - span->minflt;
        majflt += line->majflt - span->majflt;
        minflt = (int64_t)minflt < 0 ? 0 : minflt;
        majflt = (int64_t)majflt < 0 ? 0 : majflt;
    }
    cuzk_trace__enter(slot);
    /* The record before the stack: a reader that sees both takes the record. */
    cuzk_trace__emit(tls, span->t0, t1, span->name, span->id, span->parent, kind, depth, bits, span->a0,
                     span->a1, minflt, majflt, 0);
    if (!CUZK_TRACE__LIKELY(depth < CUZK_TRACE__STACK_ENTRIES))
        cuzk_trace__line(slot)->top = span->parent;
    __atomic_store_n(&slot->depth_id, (slot->depth_id >> 32) << 32 | depth, __ATOMIC_RELEASE);
    cuzk_trace__leave(slot);
    cuzk_trace__tick(t1);
}

/* Something at one moment: a counter, a mark, a flow. */
CUZK_TRACE__SHARED void cuzk_trace__point(cuzk_trace_name *name, uint32_t kind, int64_t a0, int64_t a1,
                                          uint32_t types, uint32_t corr)
{
    uint32_t depth, number, lost;
    struct cuzk_trace__tls *tls = &cuzk_trace__tls;
    struct cuzk_trace__slot *slot = cuzk_trace__ready(tls, CUZK_TRACE_COARSE, &lost);
    uint64_t now;
    if (!slot) {
        if (lost)
            cuzk_trace__drop();
        return;
    }
    number = cuzk_trace__id(name);
    depth = (uint32_t)slot->depth_id;
    cuzk_trace__enter(slot);
    now = cuzk_trace_ticks();
    cuzk_trace__emit(tls, now, now, number, 0, cuzk_trace__parent(tls, depth), kind, depth, types, a0, a1, 0, 0,
                     corr);
    cuzk_trace__leave(slot);
    cuzk_trace__tick(now);
}

CUZK_TRACE__SHARED void cuzk_trace__async_begin(cuzk_trace_span *span, cuzk_trace_name *name, int64_t a0,
                                                int64_t a1, uint32_t types, uint32_t parent)
{
    struct cuzk_trace__tls *tls = &cuzk_trace__tls;
    struct cuzk_trace__slot *slot = cuzk_trace__ready(tls, name->level, &span->bits);
    span->slot = slot;
    if (!slot)
        return;
    span->name = cuzk_trace__id(name);
    cuzk_trace__enter(slot);
    span->bits = types | CUZK_TRACE__ACTIVE;
    span->id = cuzk_trace__next_id(slot->depth_id);
    span->parent = parent ? parent : cuzk_trace__parent(tls, (uint32_t)slot->depth_id);
    span->depth = 0;
    span->a0 = a0;
    span->a1 = a1;
    span->t0 = cuzk_trace_ticks();
    slot->depth_id = (uint64_t)span->id << 32 | (uint32_t)slot->depth_id;
    cuzk_trace__leave(slot);
}

CUZK_TRACE__SHARED void cuzk_trace__async_end(cuzk_trace_span *span, uint32_t kind)
{
    uint64_t t1 = cuzk_trace_ticks();
    uint32_t id = span->id, parent = span->parent, lost;
    struct cuzk_trace__tls *tls = &cuzk_trace__tls;
    struct cuzk_trace__slot *slot = cuzk_trace__ready(tls, CUZK_TRACE_OFF, &lost);
    if (!slot || !(span->bits & CUZK_TRACE__ACTIVE)) {
        cuzk_trace__drop();
        span->bits = 0;
        return;
    }
    cuzk_trace__enter(slot);
    if (slot != span->slot) { /* ids count a slot: on another thread it needs a new one, and has no parent */
        id = cuzk_trace__next_id(slot->depth_id);
        parent = 0;
        slot->depth_id = (uint64_t)id << 32 | (uint32_t)slot->depth_id;
    }
    cuzk_trace__emit(tls, span->t0, t1, span->name, id, parent, kind, span->depth, span->bits, span->a0, span->a1,
                     0, 0, 0);
    span->bits = 0;
    cuzk_trace__leave(slot);
    cuzk_trace__tick(t1);
}

static inline void cuzk_trace_begin_as(cuzk_trace_span *span, cuzk_trace_name *name, int64_t a0, int64_t a1,
                                       uint32_t types)
{
    CUZK_TRACE__HIDE(name);
    if (cuzk_trace__on(name)) {
        cuzk_trace__begin(span, name, a0, a1, types);
    } else {
        span->bits = 0;
    }
}

static inline void cuzk_trace_begin(cuzk_trace_span *span, cuzk_trace_name *name, int64_t a0, int64_t a1)
{
    cuzk_trace_begin_as(span, name, a0, a1, 0);
}

static inline void cuzk_trace_end(cuzk_trace_span *span)
{
    if (span->bits)
        cuzk_trace__end(span, CUZK_TRACE__SPAN);
}

static inline void cuzk_trace_end_error(cuzk_trace_span *span)
{
    if (span->bits)
        cuzk_trace__end(span, CUZK_TRACE__SPAN | CUZK_TRACE__ERR);
}

static inline void cuzk_trace_async_begin(cuzk_trace_span *span, cuzk_trace_name *name, int64_t a0, int64_t a1,
                                          uint32_t types, uint32_t parent)
{
    CUZK_TRACE__HIDE(name);
    span->bits = 0;
    if (cuzk_trace__on(name))
        cuzk_trace__async_begin(span, name, a0, a1, types, parent);
}

static inline void cuzk_trace_async_end(cuzk_trace_span *span, int error)
{
    if (span->bits)
        cuzk_trace__async_end(span, CUZK_TRACE__ASYNC | (error ? CUZK_TRACE__ERR : 0));
}

static inline int cuzk_trace__any(void)
{
    return cuzk_trace__level() != CUZK_TRACE_OFF;
}

static inline void cuzk_trace_counter(cuzk_trace_name *name, int64_t value)
{
    CUZK_TRACE__HIDE(name);
    if (cuzk_trace__any())
        cuzk_trace__point(name, CUZK_TRACE__COUNTER, value, 0, 0, 0);
}

static inline void cuzk_trace_counter_f64(cuzk_trace_name *name, double value)
{
    CUZK_TRACE__HIDE(name);
    if (cuzk_trace__any())
        cuzk_trace__point(name, CUZK_TRACE__COUNTER, cuzk_trace_f64(value), 0, CUZK_TRACE__F64, 0);
}

static inline void cuzk_trace_mark(cuzk_trace_name *name, int64_t a0, int64_t a1)
{
    CUZK_TRACE__HIDE(name);
    if (cuzk_trace__any())
        cuzk_trace__point(name, CUZK_TRACE__INSTANT, a0, a1, 0, 0);
}

/* A slot's number, from 1. */
static inline uint32_t cuzk_trace__number(const struct cuzk_trace__slot *slot)
{
    const struct cuzk_trace__header *head = cuzk_trace__lib.head;
    return (uint32_t)(((uint64_t)((const char *)slot - (const char *)head) - head->slots_off) / 64 + 1);
}

CUZK_TRACE__SHARED uint32_t cuzk_trace__flow_begin(cuzk_trace_name *name)
{
    uint32_t flow, lost;
    struct cuzk_trace__tls *tls = &cuzk_trace__tls;
    struct cuzk_trace__slot *slot = cuzk_trace__ready(tls, CUZK_TRACE_COARSE, &lost);
    if (!slot) {
        if (lost)
            cuzk_trace__drop();
        return 0;
    }
    cuzk_trace__enter(slot);
    flow = cuzk_trace__next_id(slot->depth_id);
    slot->depth_id = (uint64_t)flow << 32 | (uint32_t)slot->depth_id;
    cuzk_trace__leave(slot);
    /* Unique in the process for 16 million ids of a slot: its number above the slot's own count. */
    flow = cuzk_trace__number(slot) << 24 | (flow & 0xFFFFFF);
    cuzk_trace__point(name, CUZK_TRACE__FLOW, 0, 0, 0, flow);
    return flow;
}

static inline uint32_t cuzk_trace_flow_begin(cuzk_trace_name *name)
{
    CUZK_TRACE__HIDE(name);
    return cuzk_trace__any() ? cuzk_trace__flow_begin(name) : 0;
}

static inline void cuzk_trace_flow_step(cuzk_trace_name *name, uint32_t flow)
{
    CUZK_TRACE__HIDE(name);
    if (flow && cuzk_trace__any())
        cuzk_trace__point(name, CUZK_TRACE__FLOW, 1, 0, 0, flow);
}

/* This thread's innermost open span, for records of what it launches: its slot's number in the high half, its id in
 * the low one. 0: none. */
CUZK_TRACE__SHARED uint64_t cuzk_trace__here(void)
{
    const struct cuzk_trace__tls *tls = &cuzk_trace__tls;
    uint32_t span = tls->slot ? cuzk_trace__parent(tls, (uint32_t)tls->slot->depth_id) : 0;
    return span ? (uint64_t)cuzk_trace__number(tls->slot) << 32 | span : 0;
}

/* What a device did, in ns of CLOCK_MONOTONIC: see GPU_KINDS in layout.py. launcher: cuzk_trace__here() of the thread
 * that launched it, then. */
CUZK_TRACE__SHARED void cuzk_trace__device(uint32_t kind, cuzk_trace_name *name, uint64_t start, uint64_t end,
                                           uint32_t device, uint32_t context, uint32_t stream, int64_t a0, int64_t a1,
                                           uint32_t corr, uint64_t launcher)
{
    struct cuzk_trace__tls *tls = &cuzk_trace__tls;
    uint32_t lost, number;
    struct cuzk_trace__slot *slot = cuzk_trace__ready(tls, CUZK_TRACE_OFF, &lost);
    if (!slot || end < start) {
        cuzk_trace__drop();
        return;
    }
    number = cuzk_trace__id(name);
    cuzk_trace__enter(slot);
    cuzk_trace__emit(tls, start, end, number, 0, (uint32_t)launcher, kind, 0, (uint32_t)(launcher >> 32), a0, a1, stream,
                     (device & 0xFFFF) | (uint64_t)(context & 0xFFFF) << 16, corr);
    cuzk_trace__leave(slot);
}

static inline void cuzk_trace_add_faults(uint64_t minor, uint64_t major)
{
    struct cuzk_trace__slot *slot = cuzk_trace__tls.slot;
    if (slot) {
        cuzk_trace__line(slot)->minflt += minor;
        cuzk_trace__line(slot)->majflt += major;
    }
}

/* ---------------------------------------------------------------- all that follows is off the hot path -- */

/* Close what was left open above `span`, innermost first, each flagged. 0: the span itself is no longer open. */
CUZK_TRACE__COLD int cuzk_trace__settle(const cuzk_trace_span *span, uint64_t t1)
{
    struct cuzk_trace__tls *tls = &cuzk_trace__tls;
    struct cuzk_trace__slot *slot = tls->slot;
    uint32_t depth = (uint32_t)slot->depth_id;
    if (depth <= span->depth ||
        (span->depth < CUZK_TRACE__STACK_ENTRIES && cuzk_trace__entry(tls, span->depth)->id != span->id))
        return 0;
    cuzk_trace__enter(slot);
    while (--depth > span->depth) {
        struct cuzk_trace__open *entry = cuzk_trace__entry(tls, depth);
        if (depth >= CUZK_TRACE__STACK_ENTRIES) { /* only its owner knows what it was */
            cuzk_trace__drop();
            continue;
        }
        cuzk_trace__emit(tls, entry->t0, t1, entry->name & CUZK_TRACE__OPEN_NAME_MASK, entry->id,
                         cuzk_trace__parent(tls, depth), CUZK_TRACE__SPAN, depth,
                         CUZK_TRACE__UNBALANCED | (entry->name & CUZK_TRACE__OPEN_F64 ? CUZK_TRACE__F64 : 0) |
                             (entry->name & CUZK_TRACE__OPEN_F64_A1 ? CUZK_TRACE__F64_A1 : 0),
                         entry->a0, entry->a1, 0, 0, 0);
    }
    __atomic_store_n(&slot->depth_id, slot->depth_id >> 32 << 32 | (span->depth + 1), __ATOMIC_RELEASE);
    cuzk_trace__leave(slot);
    return 1;
}

CUZK_TRACE__COLD void cuzk_trace__say(uint32_t bit, const char *what, const char *where, const char *why)
{
    if (bit && cuzk_trace__lib.head)
        __atomic_fetch_or(&cuzk_trace__lib.head->problems, bit, __ATOMIC_RELAXED);
    if (!cuzk_trace__lib.problem[0])
        snprintf(cuzk_trace__lib.problem, sizeof cuzk_trace__lib.problem, "%s%s%s%s", what, where,
                 why[0] ? ": " : "", why);
}

CUZK_TRACE__COLD void cuzk_trace__nap(void)
{
    struct timespec rest = {0, 50000};
    nanosleep(&rest, NULL);
}

/* flock that gives up after a second: nothing outside this process has a reason to hold it. */
CUZK_TRACE__COLD int cuzk_trace__flock(int fd, int wait)
{
    int64_t until = cuzk_trace__monotonic() + 1000000000;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (!wait || (errno != EWOULDBLOCK && errno != EINTR) || cuzk_trace__monotonic() > until)
            return 0;
        cuzk_trace__nap();
    }
    return 1;
}

/* Keeps out other threads of this library and, once there is a file, other libraries. 0: could not be had, or is
 * held by this thread already, which a signal handler has interrupted. */
CUZK_TRACE__COLD int cuzk_trace__lock(int wait)
{
    int64_t until = cuzk_trace__monotonic() + 1000000000;
    const void *me = &cuzk_trace__tls, *holder = NULL;
    while (!__atomic_compare_exchange_n(&cuzk_trace__lib.owner, &holder, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (holder == me || !wait || cuzk_trace__monotonic() > until)
            return 0;
        holder = NULL;
        cuzk_trace__nap();
    }
    if (cuzk_trace__lib.head && !cuzk_trace__flock(cuzk_trace__lib.fd, wait)) {
        __atomic_store_n(&cuzk_trace__lib.owner, (const void *)NULL, __ATOMIC_RELEASE);
        return 0;
    }
    return 1;
}

CUZK_TRACE__COLD void cuzk_trace__unlock(void)
{
    if (cuzk_trace__lib.fd >= 0)
        flock(cuzk_trace__lib.fd, LOCK_UN);
    __atomic_store_n(&cuzk_trace__lib.owner, (const void *)NULL, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------ strings, names, metadata (locked) -- */

/* Id of a string, added when it is new; 0 where it would take the area above `limit` bytes. */
CUZK_TRACE__COLD uint32_t cuzk_trace__string(const char *text, uint64_t limit)
{
    struct cuzk_trace__header *head = cuzk_trace__lib.head;
    char *area = (char *)head + head->strings_off;
    uint64_t used = head->strings_used, at = 8;
    uint32_t size = text ? (uint32_t)strnlen(text, CUZK_TRACE__LONGEST_STRING) : 0, have;
    if (size == CUZK_TRACE__LONGEST_STRING)
        while (size && (text[size] & 0xC0) == 0x80) /* cut before a character, not inside one */
            size--;
    if (!size)
        return 0;
    while (at + 4 <= used) {
        memcpy(&have, area + at, 4);
        if (have == size && at + 4 + size <= used && memcmp(area + at + 4, text, size) == 0)
            return (uint32_t)at;
        at += 4 + (((uint64_t)have + 3) & ~(uint64_t)3);
    }
    if (limit > head->strings_bytes)
        limit = head->strings_bytes;
    if (used + 4 + ((size + 3u) & ~3u) > limit) {
        if (limit == head->strings_bytes)
            cuzk_trace__say(CUZK_TRACE__PROBLEM_STRINGS,
                            "the ring's string area is full: some names and labels are missing", "", "");
        return 0;
    }
    memcpy(area + used, &size, 4);
    memcpy(area + used + 4, text, size);
    __atomic_store_n(&head->strings_used, used + 4 + ((size + 3u) & ~3u), __ATOMIC_RELEASE);
    return (uint32_t)used;
}

CUZK_TRACE__COLD uint32_t cuzk_trace__intern_locked(cuzk_trace_name *name, uint32_t limit)
{
    struct cuzk_trace__header *head = cuzk_trace__lib.head;
    struct cuzk_trace__named *table = (struct cuzk_trace__named *)((char *)head + head->names_off);
    uint64_t count = head->names_count, i;
    uint32_t text = cuzk_trace__string(name->text, UINT64_MAX);
    uint32_t a0 = cuzk_trace__string(name->a0, UINT64_MAX), a1 = cuzk_trace__string(name->a1, UINT64_MAX);
    uint32_t flags = name->flags & (CUZK_TRACE_STAGE | CUZK_TRACE_FAULTS);
    uint32_t id = CUZK_TRACE__NAME_OVERFLOW;
    if (limit > head->name_capacity)
        limit = head->name_capacity;
    for (i = 2; i < count; i++)
        if (table[i].text == text && table[i].a0 == a0 && table[i].a1 == a1 && table[i].flags == flags)
            break;
    if (i < count) {
        id = (uint32_t)i;
    } else if (count < limit) {
        id = (uint32_t)count;
        table[id].text = text;
        table[id].a0 = a0;
        table[id].a1 = a1;
        table[id].flags = flags;
        __atomic_store_n(&head->names_count, count + 1, __ATOMIC_RELEASE);
    } else {
        head->names_lost++;
        cuzk_trace__say(CUZK_TRACE__PROBLEM_NAMES,
                        "the ring's name table is full: the rest of the names appear as <overflow>", "", "");
    }
    __atomic_store_n(&name->id, id, __ATOMIC_RELAXED);
    return id;
}

/* Keep a name, for the sessions of children too. The list ends in 1: NULL says that a name is not in it. */
CUZK_TRACE__COLD void cuzk_trace__keep(cuzk_trace_name *name)
{
    struct cuzk_trace__lib *lib = &cuzk_trace__lib;
    if (name->next)
        return;
    name->next = (cuzk_trace_name *)1;
    if (lib->names)
        lib->last_name->next = name;
    else
        lib->names = name;
    lib->last_name = name;
}

CUZK_TRACE__COLD uint32_t cuzk_trace__intern(cuzk_trace_name *name, uint32_t limit)
{
    uint32_t id = __atomic_load_n(&name->id, __ATOMIC_RELAXED);
    int saved = errno; /* a span may stand between a call that failed and the look at why */
    if (!id && cuzk_trace__lock(1)) {
        id = __atomic_load_n(&name->id, __ATOMIC_RELAXED);
        if (!id) {
            cuzk_trace__keep(name);
            if (cuzk_trace__lib.head)
                id = cuzk_trace__intern_locked(name, limit);
        }
        cuzk_trace__unlock();
    }
    errno = saved;
    return id ? id : (uint32_t)CUZK_TRACE__NAME_OVERFLOW;
}

CUZK_TRACE__COLD void cuzk_trace__meta_locked(const char *key, const char *value)
{
    struct cuzk_trace__header *head = cuzk_trace__lib.head;
    uint32_t(*table)[2] = (uint32_t(*)[2])((char *)head + head->metas_off);
    uint32_t id = cuzk_trace__string(key, UINT64_MAX);
    uint64_t count = head->metas_count, at = 0;
    while (at < count && table[at][0] != id)
        at++;
    if (at >= head->meta_capacity) {
        cuzk_trace__say(CUZK_TRACE__PROBLEM_METAS, "too many metadata keys: the rest are missing", "", "");
        return;
    }
    table[at][0] = id;
    __atomic_store_n(&table[at][1], cuzk_trace__string(value, UINT64_MAX), __ATOMIC_RELEASE);
    if (at == count)
        __atomic_store_n(&head->metas_count, count + 1, __ATOMIC_RELEASE);
}

CUZK_TRACE__COLD void cuzk_trace_meta(const char *key, const char *value)
{
    struct cuzk_trace__setting *setting;
    char *copy = value ? strdup(value) : NULL, *old;
    if (!key || !copy || !cuzk_trace__lock(1)) {
        free(copy);
        return;
    }
    for (setting = cuzk_trace__lib.settings; setting && strcmp(setting->key, key) != 0; setting = setting->next)
        ;
    if (setting) {
        old = setting->value;
        setting->value = copy;
        free(old);
    } else if ((setting = (struct cuzk_trace__setting *)calloc(1, sizeof *setting)) != NULL) {
        setting->key = strdup(key);
        setting->value = copy;
        setting->next = cuzk_trace__lib.settings;
        if (setting->key)
            cuzk_trace__lib.settings = setting;
    }
    if (cuzk_trace__lib.head)
        cuzk_trace__meta_locked(key, value);
    cuzk_trace__unlock();
}

/* ----------------------------------------------------------------------------------------- clocks -- */

struct cuzk_trace__sample {
    uint64_t ticks;
    int64_t monotonic, realtime;
};

/* The clocks at one moment: the narrowest of five tries, which is some 20 ns wide. */
CUZK_TRACE__COLD void cuzk_trace__look(struct cuzk_trace__sample *best)
{
    uint64_t width = UINT64_MAX, before, after;
    struct timespec now;
    int64_t monotonic;
    int i;
    for (i = 0; i < 5; i++) {
        before = cuzk_trace_ticks();
        monotonic = cuzk_trace__monotonic();
        after = cuzk_trace_ticks();
        if (after - before < width) {
            width = after - before;
            best->ticks = cuzk_trace__lib.tsc ? before + width / 2 : (uint64_t)monotonic;
            best->monotonic = monotonic;
        }
    }
    monotonic = cuzk_trace__monotonic();
    clock_gettime(CLOCK_REALTIME, &now);
    best->realtime = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec -
                     (monotonic + cuzk_trace__monotonic()) / 2 + best->monotonic;
}

CUZK_TRACE__COLD int cuzk_trace__read(const char *path, char *into, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, into, size - 1);
    if (fd >= 0)
        close(fd);
    into[got > 0 ? got : 0] = 0;
    return (int)got;
}

/* Whether the time stamp counter is a clock: the kernel uses it as one, and it neither varies nor stops. */
CUZK_TRACE__COLD int cuzk_trace__tsc_is_clock(void)
{
#if defined(__x86_64__)
    char source[16];
    unsigned a, b, c, d;
    cuzk_trace__read("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
    /* CPUID 8000_0007h EDX bit 8, invariant TSC: Linux's constant_tsc and nonstop_tsc */
    return strcmp(source, "tsc\n") == 0 && __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d >> 8 & 1);
#else
    return 0;
#endif
}

CUZK_TRACE__COLD struct cuzk_trace__anchor *cuzk_trace__anchor_at(uint64_t index)
{
    struct cuzk_trace__header *head = cuzk_trace__lib.head;
    return (struct cuzk_trace__anchor *)((char *)head + head->anchors_off) + index % head->anchor_capacity;
}

CUZK_TRACE__COLD void cuzk_trace__write_anchor(const struct cuzk_trace__sample *now, uint64_t segment)
{
    struct cuzk_trace__header *head = cuzk_trace__lib.head;
    struct cuzk_trace__anchor *anchor = cuzk_trace__anchor_at(head->anchors_count);
    __atomic_store_n(&head->anchor_seq, 2 * head->anchors_count + 1, __ATOMIC_RELAXED);
    CUZK_TRACE__FENCE();
    __atomic_store_n(&anchor->ticks, now->ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&anchor->monotonic_ns, now->monotonic, __ATOMIC_RELAXED);
    __atomic_store_n(&anchor->realtime_ns, now->realtime, __ATOMIC_RELAXED);
    __atomic_store_n(&anchor->segment, segment, __ATOMIC_RELAXED);
    __atomic_store_n(&head->anchors_count, head->anchors_count + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&head->anchor_seq, 2 * head->anchors_count, __ATOMIC_RELEASE);
    __atomic_store_n(&head->heartbeat_ns, now->monotonic, __ATOMIC_RELAXED);
}

/* How long after an anchor the next one is due: twice the session's age then, at most a second, so that the rate of
 * the ticks is known soon and well. */
CUZK_TRACE__COLD int64_t cuzk_trace__gap(int64_t age)
{
    return age < 0 || age > 500000000 ? 1000000000 : 2 * age;
}

CUZK_TRACE__COLD void cuzk_trace__set_rate(void)
{
    struct cuzk_trace__header *head = cuzk_trace__lib.head;
    struct cuzk_trace__anchor *last, *before;
    double rate;
    if (!cuzk_trace__lib.tsc || head->anchors_count < 2)
        return;
    last = cuzk_trace__anchor_at(head->anchors_count - 1);
    before = cuzk_trace__anchor_at(head->anchors_count - 2);
    rate = (double)(last->ticks - before->ticks) / (double)(last->monotonic_ns - before->monotonic_ns);
    if (last->segment == before->segment && rate > 0.01 && rate < 100)
        cuzk_trace__lib.ticks_per_ns = rate;
}

/* Write an anchor when one is due; skipped while somebody else is at it. */
CUZK_TRACE__COLD void cuzk_trace__keep_time(int force)
{
    struct cuzk_trace__lib *lib = &cuzk_trace__lib;
    struct cuzk_trace__anchor *last;
    struct cuzk_trace__sample now;
    uint64_t segment;
    int64_t due, expected, offset;
    int saved = errno;
    if (!lib->head || !cuzk_trace__lock(force)) {
        errno = saved;
        return;
    }
    cuzk_trace__look(&now);
    last = cuzk_trace__anchor_at(lib->head->anchors_count - 1);
    due = last->monotonic_ns + cuzk_trace__gap(last->monotonic_ns - lib->head->opened_ns);
    if (force || now.monotonic >= due) {
        segment = last->segment;
        expected = last->monotonic_ns + (int64_t)((double)(int64_t)(now.ticks - last->ticks) / lib->ticks_per_ns);
        offset = (now.realtime - now.monotonic) - (last->realtime_ns - last->monotonic_ns);
        /* The counter jumped (suspended, moved to another host), or somebody set the wall clock. */
        if (llabs(expected - now.monotonic) > 1000000 + (now.monotonic - last->monotonic_ns) / 1000 ||
            llabs(offset) > 10000000)
            segment++;
        cuzk_trace__write_anchor(&now, segment);
        cuzk_trace__set_rate();
        due = now.monotonic + cuzk_trace__gap(now.monotonic - lib->head->opened_ns);
    }
    __atomic_store_n(&lib->next_anchor, now.ticks + (uint64_t)((double)(due - now.monotonic) * lib->ticks_per_ns),
                     __ATOMIC_RELAXED);
    cuzk_trace__unlock();
    errno = saved;
}

/* ------------------------------------------------------------------------------- the file (locked) -- */

/* When a process started, in clock ticks since boot; 0 where there is none or it is a zombie. */
CUZK_TRACE__COLD uint64_t cuzk_trace__start_time(int pid)
{
    char path[32], text[1024], *at;
    int i;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (cuzk_trace__read(path, text, sizeof text) <= 0 || !(at = strrchr(text, ')')) || strlen(at) < 3)
        return 0;
    at += 2; /* the third field */
    if (*at == 'Z' || *at == 'X' || *at == 'x')
        return 0;
    for (i = 3; i < 22 && at; i++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

/* The session of this process, if it has one: 1, its path, and where its header is mapped. */
CUZK_TRACE__COLD int cuzk_trace__find(const char *name, char *path, size_t size,
                                      struct cuzk_trace__header **header)
{
    char text[8192], *line, *end, *at;
    size_t have = 0;
    ssize_t got;
    unsigned long address, offset;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), found = 0;
    while (fd >= 0 && !found && (got = read(fd, text + have, sizeof text - 1 - have)) > 0) {
        have += (size_t)got;
        text[have] = 0;
        for (line = text; !found && (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = 0;
            at = strchr(line, '/');
            if (!at || !strstr(at, name) || sscanf(line, "%lx-%*x %*s %lx", &address, &offset) != 2 || offset)
                continue;
            *strstr(at, name) = 0; /* the name may be followed by " (deleted)" */
            found = snprintf(path, size, "%s%s", at, name) < (int)size;
            *header = (struct cuzk_trace__header *)address;
        }
        have = have - (size_t)(line - text);
        memmove(text, line, have);
        if (have == sizeof text - 1) /* a path longer than any of ours */
            have = 0;
    }
    if (fd >= 0)
        close(fd);
    return found;
}

CUZK_TRACE__COLD void *cuzk_trace__map(int fd, uint64_t size, uint64_t offset)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)offset);
    return at == MAP_FAILED ? NULL : at;
}

/* Start writing into the locked file `fd`; 0 when it is not one that this version can write. */
CUZK_TRACE__COLD int cuzk_trace__attach(int fd, const char *path)
{
    struct cuzk_trace__lib *lib = &cuzk_trace__lib;
    struct cuzk_trace__header head, *mapped;
    struct cuzk_trace__slot first;
    struct stat facts;
    uint64_t size;
    if (fstat(fd, &facts) != 0 || pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.magic, "CZRING01", 8) != 0 || head.major != CUZK_TRACE__MAJOR || head.minor < 1 ||
        pread(fd, &first, sizeof first, (off_t)head.slots_off) != (ssize_t)sizeof first)
        return 0;
    size = first.ring_off;
    if (head.file_bytes > (uint64_t)facts.st_size || size > head.file_bytes || size % 4096 ||
        head.anchors_off + head.anchor_capacity * 32ull > size || !head.anchor_capacity || !head.anchors_count ||
        head.names_off + head.name_capacity * 32ull > size || head.metas_off + head.meta_capacity * 8ull > size ||
        head.slots_off + head.slot_count * 64ull > size || head.threads_off + head.slot_count * 64ull > size ||
        head.strings_off + head.strings_bytes > size || head.strings_used > head.strings_bytes ||
        head.names_count > head.name_capacity || head.metas_count > head.meta_capacity || !head.slot_count)
        return 0;
#if !defined(__x86_64__)
    if (head.clock_kind != CUZK_TRACE__CLOCK_MONOTONIC)
        return 0;
#endif
    mapped = (struct cuzk_trace__header *)cuzk_trace__map(fd, size, 0);
    lib->rings = (char **)calloc(head.slot_count, sizeof *lib->rings);
    if (!mapped || !lib->rings) {
        if (mapped)
            munmap(mapped, size);
        free(lib->rings);
        return 0;
    }
    lib->fd = fd;
    lib->head = mapped;
    lib->control_bytes = size;
    lib->thread_delta = head.threads_off - head.slots_off;
    lib->tsc = head.clock_kind == CUZK_TRACE__CLOCK_TSC;
    lib->next_anchor = 0;
    cuzk_trace__set_rate();
    mapped->ended_ns = 0;
    mapped->writers++;
    snprintf(lib->path, sizeof lib->path, "%s", path);
    return 1;
}

/* Which session this one comes from: that of the process that forked this one, known or by its ring in the same
 * folder; else what an ancestor left in the environment. */
CUZK_TRACE__COLD void cuzk_trace__set_parent(struct cuzk_trace__header *head, const char *folder)
{
    struct cuzk_trace__lib *lib = &cuzk_trace__lib;
    struct cuzk_trace__header parent;
    char path[sizeof lib->path];
    const char *text = getenv("CUZK_TRACE_PARENT");
    unsigned byte;
    int i, fd, pid = (int)getppid();
    head->parent_pid = (uint32_t)lib->parent_pid;
    memcpy(head->parent_uuid, lib->parent_uuid, sizeof head->parent_uuid);
    if (lib->parent_pid)
        return;
    snprintf(path, sizeof path, "%s/%d.%llu.ring", folder, pid, (unsigned long long)cuzk_trace__start_time(pid));
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && pread(fd, &parent, sizeof parent, 0) == (ssize_t)sizeof parent &&
        memcmp(parent.magic, "CZRING01", 8) == 0) {
        head->parent_pid = parent.pid;
        memcpy(head->parent_uuid, parent.uuid, sizeof head->parent_uuid);
    } else if (text && strlen(text) > 33 && text[32] == ':') {
        for (i = 0; i < 16 && sscanf(text + 2 * i, "%2x", &byte) == 1; i++)
            head->parent_uuid[i] = (uint8_t)byte;
        head->parent_pid = (uint32_t)atoi(text + 33);
    }
    if (fd >= 0)
        close(fd);
}

/* Fill a new, locked file. Space is taken before it is mapped, so that a full file system is an error here and not
 * a SIGBUS in a span. */
CUZK_TRACE__COLD int cuzk_trace__fill(int fd, const char *folder, uint64_t started)
{
    struct cuzk_trace__lib *lib = &cuzk_trace__lib;
    const uint64_t slots = 2 * 4096, threads = slots + CUZK_TRACE__SLOTS * 64;
    const uint64_t names = threads + CUZK_TRACE__SLOTS * 64, strings = names + CUZK_TRACE__NAMES * 32;
    const uint64_t stacks = strings + CUZK_TRACE__STRING_BYTES;
    const uint64_t stack_bytes = CUZK_TRACE__STACK_ENTRIES * 32, control = stacks + CUZK_TRACE__SLOTS * stack_bytes;
    const uint64_t main_bytes = CUZK_TRACE__MAIN_RECORDS * 64ull, thread_bytes = CUZK_TRACE__THREAD_RECORDS * 64ull;
    const uint64_t wide_bytes = CUZK_TRACE__WIDE_RECORDS * 64ull;
    const uint64_t all = control + main_bytes + (CUZK_TRACE__SLOTS - 1 - CUZK_TRACE__WIDE_SLOTS) * thread_bytes +
                         CUZK_TRACE__WIDE_SLOTS * wide_bytes;
    struct cuzk_trace__header *head;
    struct cuzk_trace__slot *slot;
    struct cuzk_trace__anchor *anchor;
    struct cuzk_trace__sample now;
    struct rlimit limit;
    char text[80];
    unsigned byte;
    int error, i, n;
    lib->tsc = (uint32_t)cuzk_trace__tsc_is_clock();
    cuzk_trace__look(&now);
    /* Beyond this limit ftruncate would raise SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < all)
        return EFBIG;
    if (ftruncate(fd, (off_t)all) != 0)
        return errno;
    if ((error = posix_fallocate(fd, 0, (off_t)control)) != 0)
        return error;
    if (!(head = (struct cuzk_trace__header *)cuzk_trace__map(fd, control, 0)))
        return errno;
    head->major = CUZK_TRACE__MAJOR;
    head->minor = CUZK_TRACE__MINOR;
    head->header_bytes = 4096;
    head->file_bytes = all;
    head->anchors_off = 4096;
    head->anchor_capacity = CUZK_TRACE__ANCHORS;
    head->name_capacity = CUZK_TRACE__NAMES;
    head->names_off = names;
    head->metas_off = 4096 + CUZK_TRACE__ANCHORS * 32;
    head->meta_capacity = CUZK_TRACE__METAS;
    head->slot_count = CUZK_TRACE__SLOTS;
    head->strings_off = strings;
    head->strings_bytes = CUZK_TRACE__STRING_BYTES;
    head->strings_used = 8;
    head->slots_off = slots;
    head->threads_off = threads;
    head->pid = (uint32_t)getpid();
    head->start_time = started;
    head->opened_ns = now.monotonic;
    head->clock_kind = lib->tsc ? CUZK_TRACE__CLOCK_TSC : CUZK_TRACE__CLOCK_MONOTONIC;
    head->enabled = lib->word;
    head->fd = (uint32_t)fd;
    if (syscall(SYS_getrandom, head->uuid, sizeof head->uuid, 0) != (long)sizeof head->uuid)
        memcpy(head->uuid, &now, sizeof head->uuid);
    cuzk_trace__set_parent(head, folder);
    if (cuzk_trace__read("/proc/sys/kernel/random/boot_id", text, sizeof text) > 0)
        for (i = n = 0; n < 16 && text[i] && sscanf(text + i, "%2x", &byte) == 1; n++) {
            head->boot_id[n] = (uint8_t)byte;
            i += text[i + 2] == '-' ? 3 : 2;
        }
    slot = (struct cuzk_trace__slot *)((char *)head + slots);
    for (i = 0; i < (int)CUZK_TRACE__SLOTS; i++) {
        slot[i].mask = (i == 0 ? CUZK_TRACE__MAIN_RECORDS
                        : i < (int)(CUZK_TRACE__SLOTS - CUZK_TRACE__WIDE_SLOTS) ? CUZK_TRACE__THREAD_RECORDS
                                                                                 : CUZK_TRACE__WIDE_RECORDS) - 1;
        slot[i].ring_off = i ? slot[i - 1].ring_off + (slot[i - 1].mask + 1ull) * 64 : control;
        slot[i].stack_off = stacks + (uint64_t)i * stack_bytes;
    }
    anchor = (struct cuzk_trace__anchor *)((char *)head + head->anchors_off);
    anchor->ticks = now.ticks;
    anchor->monotonic_ns = now.monotonic;
    anchor->realtime_ns = now.realtime;
    head->anchors_count = 1;
    head->anchor_seq = 2;
    head->heartbeat_ns = now.monotonic;
    CUZK_TRACE__FENCE();
    memcpy(head->magic, "CZRING01", 8);
    munmap(head, control); /* attach maps what join would map */
    return 0;
}

/* Keep rings from piling up (sweep.py): of the processes that left in good order the newest 4 that ended within the
 * last minute stay, of those that did not the newest 16. */
CUZK_TRACE__COLD void cuzk_trace__tidy(const char *folder)
{
    enum { FINISHED_KEPT = 4, CRASHED_KEPT = 16, MOST = 256 };
    struct cuzk_trace__header head;
    struct {
        int64_t last_ns;
        int crashed;
        char name[48];
    } *found = NULL;
    int64_t now = cuzk_trace__monotonic();
    struct dirent *entry;
    DIR *list = opendir(folder);
    int count = 0, newer, i, k, fd, pid;
    unsigned long long started;
    if (list)
        found = (__typeof__(found))malloc(MOST * sizeof *found);
    while (found && count < MOST && (entry = readdir(list)) != NULL) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || length >= sizeof found->name || strcmp(entry->d_name + length - 5, ".ring") != 0 ||
            sscanf(entry->d_name, "%d.%llu.", &pid, &started) != 2)
            continue;
        fd = openat(dirfd(list), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head &&
            memcmp(head.magic, "CZRING01", 8) == 0 && cuzk_trace__start_time(pid) != started) {
            found[count].crashed = head.ended_ns == 0;
            found[count].last_ns = head.ended_ns ? head.ended_ns : head.heartbeat_ns;
            memcpy(found[count++].name, entry->d_name, length + 1);
        }
        if (fd >= 0)
            close(fd);
    }
    for (i = 0; i < count; i++) {
        for (newer = k = 0; k < count; k++)
            newer += found[k].crashed == found[i].crashed &&
                     (found[k].last_ns > found[i].last_ns || (found[k].last_ns == found[i].last_ns && k < i));
        if (found[i].crashed ? newer >= CRASHED_KEPT
                             : newer >= FINISHED_KEPT || found[i].last_ns + 60 * (int64_t)1000000000 < now)
            unlinkat(dirfd(list), found[i].name, 0);
    }
    free(found);
    if (list)
        closedir(list);
}

/* A session in this folder: a new one, or that of another library which is just making it. Returns an errno. */
CUZK_TRACE__COLD int cuzk_trace__make(const char *folder, const char *name, uint64_t started)
{
    struct cuzk_trace__lib *lib = &cuzk_trace__lib;
    struct cuzk_trace__header *elsewhere;
    struct cuzk_trace__sample now;
    char path[sizeof lib->path], other[sizeof lib->path];
    struct stat facts;
    int tries, fd, error, mine;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return errno;
    if (lstat(folder, &facts) != 0)
        return errno;
    if (!S_ISDIR(facts.st_mode) || facts.st_uid != getuid() || (facts.st_mode & 022))
        return EPERM; /* /dev/shm is open to everyone: only a folder that nobody else can write in will do */
    if (snprintf(path, sizeof path, "%s%s", folder, name) >= (int)sizeof path)
        return ENAMETOOLONG;
    cuzk_trace__tidy(folder);
    for (tries = 0; tries < 100; tries++) {
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        mine = fd >= 0;
        if (!mine && (errno != EEXIST || (fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC)) < 0)) {
            if (errno == ENOENT) /* gone between the two */
                continue;
            return errno;
        }
        if (!cuzk_trace__flock(fd, 1)) {
            close(fd);
            return EBUSY;
        }
        error = EEXIST;
        if (cuzk_trace__find(name, other, sizeof other, &elsewhere)) {
            if (cuzk_trace__attach(fd, path)) /* another library made it in the meantime */
                return 0;
            error = EPROTO;
        } else if (fstat(fd, &facts) == 0 && (mine || facts.st_size || tries > 50)) {
            if (mine && !facts.st_size) {
                error = cuzk_trace__fill(fd, folder, started);
                if (!error && !cuzk_trace__attach(fd, path))
                    error = ENOMEM;
                if (!error) {
                    cuzk_trace__look(&now); /* the second anchor: from here the ticks' rate is known */
                    cuzk_trace__write_anchor(&now, 0);
                    cuzk_trace__set_rate();
                    return 0;
                }
            }
            unlink(path); /* incomplete, or left by this process from before an exec */
        }
        flock(fd, LOCK_UN);
        close(fd);
        if (error != EEXIST)
            return error;
        if (!mine)
            cuzk_trace__nap(); /* another library has made it and not locked it yet */
    }
    return EEXIST;
}

CUZK_TRACE__COLD void cuzk_trace__forked(void)
{
    struct cuzk_trace__lib *lib = &cuzk_trace__lib;
    struct cuzk_trace__header *head = lib->head;
    uint32_t i;
    memset(&cuzk_trace__tls, 0, sizeof cuzk_trace__tls);
    __atomic_store_n(&lib->owner, (const void *)NULL, __ATOMIC_RELAXED);
    if (!head)
        return;
    lib->word = *lib->enabled;
    lib->enabled = &lib->word;
    lib->parent_pid = (int)head->pid;
    memcpy(lib->parent_uuid, head->uuid, sizeof lib->parent_uuid);
    for (i = 0; i < head->slot_count; i++)
        if (lib->rings[i])
            munmap(lib->rings[i], (((struct cuzk_trace__slot *)((char *)head + head->slots_off))[i].mask + 1ull) * 64);
    munmap(head, lib->control_bytes);
    close(lib->fd);
    lib->fd = -1;
    lib->head = NULL;
    lib->path[0] = 0;
}

/* At exit, or when this library is unloaded. The mappings stay: other threads may still write. */
__attribute__((destructor)) CUZK_TRACE__COLD void cuzk_trace__unload(void)
{
    struct cuzk_trace__lib *lib = &cuzk_trace__lib;
    if (lib->started)
        pthread_key_delete(lib->key);
    lib->started = 0;
    if (!lib->head || lib->left)
        return;
    lib->left = 1;
    cuzk_trace__keep_time(1);
    if (cuzk_trace__lock(1)) {
        if (--lib->head->writers == 0)
            lib->head->ended_ns = cuzk_trace__monotonic();
        cuzk_trace__unlock();
    }
}

/* Get into the session of this process; make it where there is none. The caller holds this library's lock. */
CUZK_TRACE__COLD int cuzk_trace__session(void)
{
    struct cuzk_trace__lib *lib = &cuzk_trace__lib;
    struct cuzk_trace__header *elsewhere = NULL;
    struct cuzk_trace__setting *setting;
    cuzk_trace_name *name;
    char file[48], folder[2][sizeof lib->path - 48], path[sizeof lib->path], text[4096];
    const char *wish = getenv("CUZK_TRACE"), *runtime = getenv("XDG_RUNTIME_DIR");
    uint64_t started = cuzk_trace__start_time((int)getpid());
    int i, fd, error, got;
    if (lib->failed)
        return 0;
    if (!lib->started && !lib->level_set && wish)
        lib->word = !strcmp(wish, "off") ? CUZK_TRACE_OFF : !strcmp(wish, "coarse") ? CUZK_TRACE_COARSE : CUZK_TRACE_ALL;
    snprintf(file, sizeof file, "/%d.%llu.ring", (int)getpid(), (unsigned long long)started);
    if (!lib->started) {
        if (pthread_key_create(&lib->key, cuzk_trace__release) != 0)
            return 0;
        if (!lib->pid)
            pthread_atfork(NULL, NULL, cuzk_trace__forked);
        lib->started = 1;
    }
    lib->pid = (int)getpid();
    lib->left = 0;
    if (cuzk_trace__find(file, path, sizeof path, &elsewhere)) {
        fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) { /* somebody removed it: through the descriptor of whoever made it */
            snprintf(text, sizeof text, "/proc/self/fd/%u", elsewhere->fd);
            fd = open(text, O_RDWR | O_CLOEXEC);
        }
        if (fd >= 0 && !(cuzk_trace__flock(fd, 1) && cuzk_trace__attach(fd, path))) {
            close(fd);
            fd = -1;
        }
        if (fd < 0)
            cuzk_trace__say(0, "cannot write into this process's ring ", path, "");
    } else if (lib->word == CUZK_TRACE_OFF) {
        return 0;
    } else {
        snprintf(folder[0], sizeof folder[0], "%s/cuzk", runtime ? runtime : "");
        snprintf(folder[1], sizeof folder[1], "/dev/shm/cuzk-%u", (unsigned)getuid());
        text[0] = 0;
        for (i = runtime && runtime[0] == '/' && strlen(runtime) < sizeof folder[0] - 8 ? 0 : 1; i < 2 && !lib->head; i++) {
            error = cuzk_trace__make(folder[i], file, started);
            if (error)
                snprintf(text + strlen(text), sizeof text / 2, "%s%s: %s", text[0] ? "; " : "", folder[i],
                         error == EPERM ? "not a private folder of this user" : strerror(error));
        }
        if (!lib->head)
            cuzk_trace__say(0, "cannot write a trace ring in ", text, "");
    }
    if (!lib->head) {
        lib->failed = 1;
        lib->word = CUZK_TRACE_OFF;
        return 0;
    }
    if (lib->head->names_count == 0) { /* new */
        struct cuzk_trace__named *table = (struct cuzk_trace__named *)((char *)lib->head + lib->head->names_off);
        table[CUZK_TRACE__NAME_OVERFLOW].text = cuzk_trace__string("<overflow>", UINT64_MAX);
        lib->head->names_count = 2;
        got = cuzk_trace__read("/proc/self/cmdline", text, sizeof text);
        for (i = 0; i < got - 1; i++)
            text[i] = text[i] ? text[i] : ' ';
        cuzk_trace__meta_locked("command", text);
    }
    for (name = lib->names; name && name != (cuzk_trace_name *)1; name = name->next)
        cuzk_trace__intern_locked(name, UINT32_MAX); /* a child's session: the numbers may be others */
    for (setting = lib->settings; setting; setting = setting->next)
        cuzk_trace__meta_locked(setting->key, setting->value);
    __atomic_fetch_add(&lib->head->dropped, __atomic_exchange_n(&lib->early, 0, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    if (lib->level_set)
        __atomic_store_n(&lib->head->enabled, lib->word, __ATOMIC_RELAXED);
    __atomic_store_n(&lib->enabled, &lib->head->enabled, __ATOMIC_RELEASE);
    return 1;
}

/* ------------------------------------------------------------------------------------------ slots -- */

CUZK_TRACE__COLD uint32_t cuzk_trace__state(struct cuzk_trace__slot *slot)
{
    return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
}

/* Whether another library has claimed this slot for the calling thread. */
CUZK_TRACE__COLD int cuzk_trace__is_mine(struct cuzk_trace__slot *slot, uint32_t tid)
{
    return cuzk_trace__state(slot) == CUZK_TRACE__SLOT_LIVE && slot->tid == tid &&
           cuzk_trace__line(slot)->handle == (uint64_t)pthread_self();
}

/* The slot this thread may have; -1: none. The caller holds the lock. Its own, claimed by another library; the
 * first, which has the larger ring, for the main thread; one whose thread is dead for a second; a new one; any
 * dead one; one whose thread ended unnoticed. *fresh: its ring has no space yet. */
CUZK_TRACE__COLD int cuzk_trace__choose(uint32_t tid, int may_grow, int *fresh)
{
    struct cuzk_trace__header *head = cuzk_trace__lib.head;
    struct cuzk_trace__slot *slots = (struct cuzk_trace__slot *)((char *)head + head->slots_off), *slot;
    int64_t now = cuzk_trace__monotonic(), died = INT64_MAX;
    int i, count = (int)head->slot_count, used = (int)head->slots_used, dead = -1, unused = -1;
    for (i = 0; i < used && i < count; i++) {
        slot = slots + i;
        if (cuzk_trace__is_mine(slot, tid))
            return i;
        if (cuzk_trace__state(slot) == CUZK_TRACE__SLOT_DEAD && cuzk_trace__line(slot)->died_ns < died) {
            died = cuzk_trace__line(slot)->died_ns;
            dead = i;
        }
    }
    for (i = count - 1; i > 0; i--)
        if (cuzk_trace__state(slots + i) == CUZK_TRACE__SLOT_FREE)
            unused = i;
    if ((int)tid == (int)getpid() && cuzk_trace__state(slots) == CUZK_TRACE__SLOT_FREE)
        unused = 0;
    for (i = count - 1; i > 0 && cuzk_trace__tls.wide; i--)
        if (slots[i].state == CUZK_TRACE__SLOT_FREE && unused >= 0 && slots[i].mask > slots[unused].mask)
            unused = i;
    *fresh = may_grow && unused >= 0 && (unused == 0 || cuzk_trace__tls.wide || dead < 0 || died + CUZK_TRACE__REST_NS > now);
    if (*fresh)
        return unused;
    for (i = 0; i < count && dead < 0; i++)
        if (cuzk_trace__state(slots + i) == CUZK_TRACE__SLOT_LIVE && syscall(SYS_tgkill, getpid(), slots[i].tid, 0) != 0 &&
            errno == ESRCH)
            dead = i;
    return dead;
}

CUZK_TRACE__COLD struct cuzk_trace__slot *cuzk_trace__slot_at(int number)
{
    struct cuzk_trace__header *head = cuzk_trace__lib.head;
    return (struct cuzk_trace__slot *)((char *)head + head->slots_off) + number;
}

/* Make slot `number` this thread's. 0: no space for its ring. The caller holds the lock. */
CUZK_TRACE__COLD int cuzk_trace__take(int number, uint32_t tid, int fresh)
{
    struct cuzk_trace__header *head = cuzk_trace__lib.head;
    struct cuzk_trace__slot *slot = cuzk_trace__slot_at(number);
    struct cuzk_trace__thread *line = cuzk_trace__line(slot);
    char name[20] = "main";
    if (cuzk_trace__is_mine(slot, tid)) {
        line->users++;
        return 1;
    }
    if (fresh && posix_fallocate(cuzk_trace__lib.fd, (off_t)slot->ring_off, (off_t)((slot->mask + 1ull) * 64)) != 0)
        return 0;
    if ((int)tid != (int)getpid())
        pthread_getname_np(pthread_self(), name, sizeof name);
    slot->tid = tid;
    /* Threads that come and go get half of the string area at most. */
    slot->name = cuzk_trace__string(cuzk_trace__tls.thread_name ? cuzk_trace__tls.thread_name : name,
                                    head->strings_bytes / 2);
    slot->busy = 0;
    slot->depth_id = slot->depth_id >> 32 << 32;
    slot->base = slot->head;
    slot->generation += !fresh;
    memset(line, 0, sizeof *line);
    line->users = 1;
    line->handle = (uint64_t)pthread_self();
    __atomic_store_n(&slot->state, CUZK_TRACE__SLOT_LIVE, __ATOMIC_RELEASE);
    if ((uint64_t)number >= head->slots_used)
        __atomic_store_n(&head->slots_used, (uint64_t)number + 1, __ATOMIC_RELEASE);
    return 1;
}

CUZK_TRACE__COLD void cuzk_trace__leave_slot(struct cuzk_trace__slot *slot)
{
    struct cuzk_trace__thread *line = cuzk_trace__line(slot);
    if (__atomic_sub_fetch(&line->users, 1, __ATOMIC_ACQ_REL) == 0) {
        slot->depth_id = slot->depth_id >> 32 << 32;
        line->died_ns = cuzk_trace__monotonic();
        __atomic_store_n(&slot->state, CUZK_TRACE__SLOT_DEAD, __ATOMIC_RELEASE);
    }
}

/* A thread ends. */
CUZK_TRACE__COLD void cuzk_trace__release(void *unused)
{
    struct cuzk_trace__slot *slot = cuzk_trace__tls.slot;
    (void)unused;
    cuzk_trace__tls.slot = NULL;
    if (slot)
        cuzk_trace__leave_slot(slot);
}

CUZK_TRACE__COLD struct cuzk_trace__slot *cuzk_trace__first(void)
{
    struct cuzk_trace__lib *lib = &cuzk_trace__lib;
    struct cuzk_trace__tls *tls = &cuzk_trace__tls;
    struct cuzk_trace__slot *slot;
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    uint64_t before[2], after[2];
    int number, fresh, have;
    cuzk_trace_thread_faults(before, before + 1);
    if (tls->no_room || !cuzk_trace__lock(1))
        return NULL;
    if (!lib->head && !cuzk_trace__session()) {
        cuzk_trace__unlock();
        return NULL;
    }
    number = cuzk_trace__choose(tid, 1, &fresh);
    have = number >= 0 && cuzk_trace__take(number, tid, fresh);
    if (number < 0)
        cuzk_trace__say(CUZK_TRACE__PROBLEM_SLOTS,
                        "more threads than the ring has slots: some are not recorded", "", "");
    else if (!have) {
        cuzk_trace__say(CUZK_TRACE__PROBLEM_SPACE, "no room for another thread's ring in ", lib->path, "");
        number = cuzk_trace__choose(tid, 0, &fresh);
        have = number >= 0 && cuzk_trace__take(number, tid, 0);
    }
    cuzk_trace__unlock();
    slot = have ? cuzk_trace__slot_at(number) : NULL;
    if (have && !lib->rings[number]) /* faults its pages in; the slot is ours, so the others need not wait */
        lib->rings[number] = (char *)cuzk_trace__map(lib->fd, (slot->mask + 1ull) * 64, slot->ring_off);
    if (!have || !lib->rings[number]) {
        if (have)
            cuzk_trace__leave_slot(slot);
        tls->no_room = 1;
        return NULL;
    }
    tls->ring = lib->rings[number];
    tls->stack = (char *)lib->head + slot->stack_off;
    CUZK_TRACE__BARRIER();
    tls->slot = slot; /* last: from here on a signal handler writes, too */
    pthread_setspecific(lib->key, slot);
    /* What this took is not to appear in spans that other libraries have open here. */
    cuzk_trace_thread_faults(after, after + 1);
    cuzk_trace_add_faults(before[0] - after[0], before[1] - after[1]);
    return slot;
}

/* Give this thread a slot, its first time; NULL where that cannot be. */
CUZK_TRACE__COLD struct cuzk_trace__slot *cuzk_trace__claim(void)
{
    int saved = errno;
    struct cuzk_trace__slot *slot = cuzk_trace__first();
    errno = saved;
    return slot;
}

/* ------------------------------------------------------------------------------------- public, cold -- */

CUZK_TRACE__COLD void cuzk_trace_enable(uint32_t level)
{
    struct cuzk_trace__lib *lib = &cuzk_trace__lib;
    lib->level_set = 1;
    lib->failed = 0;
    __atomic_store_n(&lib->word, level, __ATOMIC_RELAXED);
    __atomic_store_n(__atomic_load_n(&lib->enabled, __ATOMIC_ACQUIRE), level, __ATOMIC_RELAXED);
}

CUZK_TRACE__COLD const char *cuzk_trace_path(void)
{
    return cuzk_trace__lib.head ? cuzk_trace__lib.path : NULL;
}

CUZK_TRACE__COLD const char *cuzk_trace_open(void)
{
    if (!cuzk_trace__tls.slot)
        cuzk_trace__claim();
    return cuzk_trace_path();
}

CUZK_TRACE__COLD const char *cuzk_trace_problem(void)
{
    return cuzk_trace__lib.problem[0] ? cuzk_trace__lib.problem : NULL;
}

/* ------------------------------------------------------------------------- for Rust and other languages -- */

#ifdef CUZK_TRACE_FFI
/* The same as functions with external linkage. A span is 80 bytes, 8-aligned, of any content. */
cuzk_trace_name *cuzk_trace_ffi_name(const char *text, const char *a0, const char *a1, uint32_t flags)
{
    cuzk_trace_name *name = (cuzk_trace_name *)calloc(1, sizeof *name);
    if (name) {
        name->text = strdup(text);
        name->a0 = a0 ? strdup(a0) : NULL;
        name->a1 = a1 ? strdup(a1) : NULL;
        name->flags = flags;
        name->level = flags & CUZK_TRACE_STAGE ? CUZK_TRACE_COARSE : CUZK_TRACE_ALL;
    }
    return name; /* NULL without memory: the functions below ignore it */
}

void cuzk_trace_ffi_begin(cuzk_trace_span *span, cuzk_trace_name *name, int64_t a0, int64_t a1)
{
    span->bits = 0;
    if (name)
        cuzk_trace_begin(span, name, a0, a1);
}

void cuzk_trace_ffi_end(cuzk_trace_span *span, int error)
{
    if (error)
        cuzk_trace_end_error(span);
    else
        cuzk_trace_end(span);
}

void cuzk_trace_ffi_counter(cuzk_trace_name *name, int64_t value)
{
    if (name)
        cuzk_trace_counter(name, value);
}

void cuzk_trace_ffi_counter_f64(cuzk_trace_name *name, double value)
{
    if (name)
        cuzk_trace_counter_f64(name, value);
}

void cuzk_trace_ffi_mark(cuzk_trace_name *name, int64_t a0, int64_t a1)
{
    if (name)
        cuzk_trace_mark(name, a0, a1);
}

void cuzk_trace_ffi_meta(const char *key, const char *value)
{
    cuzk_trace_meta(key, value);
}

const char *cuzk_trace_ffi_open(void)
{
    return cuzk_trace_open();
}

const char *cuzk_trace_ffi_problem(void)
{
    return cuzk_trace_problem();
}
#endif

#ifdef __cplusplus
} /* extern "C" */

/* --------------------------------------------------------------------------------------------- C++ -- */

#include <exception>
#include <type_traits>

namespace cuzk_trace {

/* A static object: what it names is recorded under it for as long as the library is loaded. */
class name : public cuzk_trace_name {
public:
    explicit name(const char *text_, const char *a0_ = nullptr, const char *a1_ = nullptr, uint32_t flags_ = 0)
        : cuzk_trace_name CUZK_TRACE_NAME(text_, a0_, a1_, flags_)
    {
    }
    name(const char *text_, uint32_t flags_) : name(text_, nullptr, nullptr, flags_) {}
    name(const name &) = delete;
    name &operator=(const name &) = delete;
};

/* A span from here to the end of the scope; flagged when an exception ends it. Arguments: integers or floats. */
class span {
public:
    template <typename A = int, typename B = int>
    explicit span(cuzk_trace_name &name, A a0 = A(), B a1 = B()) : exceptions_(pending())
    {
        cuzk_trace_begin_as(&span_, &name, bits(a0), bits(a1),
                            (std::is_floating_point<A>::value ? uint32_t(CUZK_TRACE_A0_F64) : 0u) |
                                (std::is_floating_point<B>::value ? uint32_t(CUZK_TRACE_A1_F64) : 0u));
    }
    ~span()
    {
        if (pending() > exceptions_)
            cuzk_trace_end_error(&span_);
        else
            cuzk_trace_end(&span_);
    }
    span(const span &) = delete;
    span &operator=(const span &) = delete;

private:
    template <typename T>
    static typename std::enable_if<std::is_floating_point<T>::value, int64_t>::type bits(T value)
    {
        return cuzk_trace_f64(static_cast<double>(value));
    }
    template <typename T>
    static typename std::enable_if<!std::is_floating_point<T>::value, int64_t>::type bits(T value)
    {
        return static_cast<int64_t>(value);
    }
    static int pending()
    {
#if __cplusplus >= 201703L
        return std::uncaught_exceptions();
#else
        return std::uncaught_exception() ? 1 : 0;
#endif
    }
    cuzk_trace_span span_;
    int exceptions_;
};

} /* namespace cuzk_trace */
#endif /* __cplusplus */

#endif /* CUZK_TRACE_H */
