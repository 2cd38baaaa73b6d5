/* What this capture uses of CUPTI's C interface, declared here so that building it needs no CUDA toolkit and one
 * build works with CUPTI of CUDA 12 and 13.
 *
 * The offsets were compared with cupti_activity.h of CUDA 12.1, 12.8, 13.0 and 13.4, whose records differ only behind
 * the fields below: kernels are CUpti_ActivityKernel9 (12), Kernel10 (13.0), Kernel13 (13.4); copies Memcpy5, Memcpy6,
 * Memcpy7; fills Memset4, Memset5. A test compares them again with the header where one is installed. A library of
 * another major version is refused: see cuzk_gpu__decoders.
 */
#ifndef CUZK_CUPTI_ABI_H
#define CUZK_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
    CUPTI__SUCCESS = 0,
    CUPTI__MAX_LIMIT_REACHED = 12,     /* what CUPTI 12 says to a second subscriber */
    CUPTI__MULTIPLE_SUBSCRIBERS = 39,
    CUPTI__FLUSH_FORCED = 1,
    CUPTI__KIND_MEMCPY = 1,
    CUPTI__KIND_MEMSET = 2,
    CUPTI__KIND_KERNEL = 3,
    CUPTI__KIND_CONCURRENT_KERNEL = 10,
    CUPTI__KIND_OVERHEAD = 17,
    CUPTI__KIND_MEMCPY2 = 22, /* between devices */
    CUPTI__KIND_SYNCHRONIZATION = 38,
    CUPTI__DRIVER_CALLS = 1, /* the domain of callbacks */
    CUPTI__ENTER = 0
};

struct cupti__kernel {
    uint32_t kind;
    uint8_t cache, shared_config;
    uint16_t registers;
    uint32_t partitioned[2];
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3], static_shared, dynamic_shared;
    uint32_t local_thread, local_total, corr;
    int64_t grid_id;
    const char *name;
};

struct cupti__memcpy { /* both kinds; of MEMCPY2, corr is elsewhere */
    uint32_t kind;
    uint8_t copy, source, target, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, corr;
};

struct cupti__memcpy2 {
    uint32_t kind;
    uint8_t copy, source, target, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, source_device, source_context, target_device, target_context, corr;
};

struct cupti__memset {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, corr;
};

struct cupti__overhead {
    uint32_t kind, what, object_kind, object[3];
    uint64_t start, end;
};

struct cupti__synchronization {
    uint32_t kind, type;
    uint64_t start, end;
    uint32_t corr, context, stream;
};

struct cupti__call { /* CUpti_CallbackData */
    int site;
    const char *function;
    const void *parameters;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_uid;
    uint64_t *data;
    uint32_t corr;
};

#define CUPTI__AT(type, field, offset) \
    _Static_assert(offsetof(struct cupti__##type, field) == offset, #type "." #field)
CUPTI__AT(kernel, registers, 6);
CUPTI__AT(kernel, start, 16);
CUPTI__AT(kernel, device, 40);
CUPTI__AT(kernel, grid, 52);
CUPTI__AT(kernel, block, 64);
CUPTI__AT(kernel, static_shared, 76);
CUPTI__AT(kernel, corr, 92);
CUPTI__AT(kernel, name, 104);
CUPTI__AT(memcpy, bytes, 8);
CUPTI__AT(memcpy, corr, 44);
CUPTI__AT(memcpy2, corr, 60);
CUPTI__AT(memset, bytes, 8);
CUPTI__AT(memset, corr, 44);
CUPTI__AT(overhead, start, 24);
CUPTI__AT(synchronization, start, 8);
CUPTI__AT(synchronization, stream, 32);
CUPTI__AT(call, corr, 64);

typedef void (*cupti__requested)(uint8_t **buffer, size_t *size, size_t *most_records);
typedef void (*cupti__completed)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef uint64_t (*cupti__clock)(void);
typedef void (*cupti__callback)(void *user, int domain, uint32_t id, const void *call);

/* Name in the library, and the type of the function. */
#define CUPTI__FUNCTIONS(X)                                                                                       \
    X(GetVersion, (uint32_t *))                                                                                   \
    X(GetResultString, (int, const char **))                                                                      \
    X(Subscribe, (void **, cupti__callback, void *))                                                              \
    X(ActivityRegisterCallbacks, (cupti__requested, cupti__completed))                                            \
    X(ActivityRegisterTimestampCallback, (cupti__clock))                                                          \
    X(ActivityEnable, (int))                                                                                      \
    X(ActivityDisable, (int))                                                                                     \
    X(ActivityFlushPeriod, (uint32_t))                                                                            \
    X(ActivityFlushAll, (uint32_t))                                                                               \
    X(ActivityGetNextRecord, (uint8_t *, size_t, void **))                                                        \
    X(ActivityGetNumDroppedRecords, (void *, uint32_t, size_t *))                                                        \
    X(GetCallbackName, (int, uint32_t, const char **))                                                            \
    X(EnableCallback, (uint32_t, void *, int, uint32_t))

#endif
