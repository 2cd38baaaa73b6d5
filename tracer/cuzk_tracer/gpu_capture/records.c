/* One record of CUPTI's into the ring of the thread that decodes it. What it looks like there: layout.py. */
#include "capture.h"

#include "libcupti.h"

enum { KERNEL = 5, MEMCPY = 6, MEMSET = 7, OVERHEAD = 9, SYNC = 13, NO_DEVICE = 0xFFFF };

struct place {
    uint32_t device, context, stream;
};

static void put(uint32_t kind, cuzk_trace_name *name, uint64_t start, uint64_t end, struct place where,
                int64_t a0, int64_t a1, uint32_t corr, uint64_t launcher)
{
    cuzk_trace__device(kind, name, start, end, where.device, where.context, where.stream, a0, a1, corr, launcher);
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
void cuzk_gpu__decode(const void *record)
{
    union {
        const uint32_t *kind;
        const struct cupti__kernel *kernel;
        const struct cupti__memcpy *copy;
        const struct cupti__memcpy2 *peer;
        const struct cupti__memset *fill;
        const struct cupti__overhead *overhead;
        const struct cupti__synchronization *sync;
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
            (int64_t)k->block[0] * k->block[1] * k->block[2], k->corr, cuzk_gpu__launcher_of(k->corr));
        return;
    }
    case CUPTI__KIND_MEMCPY:
        put(MEMCPY, cuzk_gpu__name(copy_name(at.copy->copy, at.copy->source, at.copy->target), "bytes", NULL),
            at.copy->start, at.copy->end, (struct place){at.copy->device, at.copy->context, at.copy->stream},
            (int64_t)at.copy->bytes, 0, at.copy->corr, cuzk_gpu__launcher_of(at.copy->corr));
        return;
    case CUPTI__KIND_MEMCPY2:
        put(MEMCPY, cuzk_gpu__name("memcpy.p2p", "bytes", "to"), at.peer->start, at.peer->end,
            (struct place){at.peer->device, at.peer->context, at.peer->stream}, (int64_t)at.peer->bytes,
            at.peer->target_device, at.peer->corr, cuzk_gpu__launcher_of(at.peer->corr));
        return;
    case CUPTI__KIND_MEMSET:
        put(MEMSET, cuzk_gpu__name("memset", "bytes", "value"), at.fill->start, at.fill->end,
            (struct place){at.fill->device, at.fill->context, at.fill->stream}, (int64_t)at.fill->bytes,
            at.fill->value, at.fill->corr, cuzk_gpu__launcher_of(at.fill->corr));
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
            cuzk_gpu__launcher_of(s->corr));
        return;
    }
    default:
        return;
    }
}

void cuzk_gpu__blocked(const char *function, uint64_t start, uint64_t end, uint32_t context, uint32_t corr,
                       uint64_t launcher)
{
    char text[128];
    snprintf(text, sizeof text, "sync.%s", function);
    put(SYNC, cuzk_gpu__name(text, NULL, NULL), start, end, (struct place){NO_DEVICE, context, 0}, 0, 0, corr, launcher);
}
