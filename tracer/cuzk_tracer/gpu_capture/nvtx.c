/* NVTX ranges, marks and names as spans and marks: an NVTX v3 tool, named by NVTX_INJECTION64_PATH.
 *
 * NVTX asks the tool for nothing; it lends a table of its functions' pointers, and those written there are called from
 * then on. Declared here after NVTX's public headers (nvtxTypes.h, nvToolsExt.h), which building this does not need; a
 * test compares them where they are installed. Push and pop ranges are spans of their thread; start and end ranges,
 * which may overlap and end on another thread, are async spans. A thread may have RANGES ranges open, deeper ones are
 * not recorded.
 */
#include "capture.h"

enum {
    TABLE_CALLBACKS = 1,
    MODULE_CORE = 1,
    MODULE_CORE2 = 5,
    MESSAGE_ASCII = 1,
    MESSAGE_WIDE = 2,
    MESSAGE_REGISTERED = 3,
    RANGES = 64
};

struct event { /* nvtxEventAttributes_t */
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union {
        uint64_t u64;
        int64_t i64;
        double f64;
        uint32_t u32;
        int32_t i32;
        float f32;
    } payload;
    int32_t message_type;
    const void *message;
};

typedef void (*pointer)(void);
struct callbacks {
    size_t size;
    int (*module)(int module, pointer ***table, unsigned *count);
};

struct text { /* a registered string, or a domain */
    char *text;
};

static __thread struct {
    int depth;
    struct {
        const void *domain;
        cuzk_trace_span span;
    } open[RANGES];
} mine;

/* UTF-8 of a wide string. */
static char *narrow(const wchar_t *wide, char *into, size_t size)
{
    size_t used = 0;
    for (; wide && *wide && used + 5 < size; wide++) {
        uint32_t c = (uint32_t)*wide;
        if (c < 0x80) {
            into[used++] = (char)c;
        } else if (c < 0x800) {
            into[used++] = (char)(0xC0 | c >> 6);
            into[used++] = (char)(0x80 | (c & 0x3F));
        } else if (c < 0x10000) {
            into[used++] = (char)(0xE0 | c >> 12);
            into[used++] = (char)(0x80 | (c >> 6 & 0x3F));
            into[used++] = (char)(0x80 | (c & 0x3F));
        } else if (c < 0x110000) {
            into[used++] = (char)(0xF0 | c >> 18);
            into[used++] = (char)(0x80 | (c >> 12 & 0x3F));
            into[used++] = (char)(0x80 | (c >> 6 & 0x3F));
            into[used++] = (char)(0x80 | (c & 0x3F));
        }
    }
    into[used] = 0;
    return into;
}

struct what {
    cuzk_trace_name *name;
    int64_t payload;
    uint32_t types;
};

static int recording(void)
{
    return *__atomic_load_n(&cuzk_trace__lib.enabled, __ATOMIC_RELAXED) >= CUZK_TRACE_ALL;
}

static struct what plain(const char *text)
{
    struct what what = {cuzk_gpu__name(text && text[0] ? text : "nvtx", NULL, NULL), 0, 0};
    return what;
}

static struct what described(const struct event *event)
{
    char wide[1024];
    const char *text = NULL;
    struct what what = {NULL, 0, 0};
    if (!event)
        return plain(NULL);
    if (event->message_type == MESSAGE_ASCII)
        text = (const char *)event->message;
    else if (event->message_type == MESSAGE_WIDE)
        text = narrow((const wchar_t *)event->message, wide, sizeof wide);
    else if (event->message_type == MESSAGE_REGISTERED && event->message)
        text = ((const struct text *)event->message)->text;
    switch (event->payload_type) {
    case 1:
    case 2:
        what.payload = event->payload.i64;
        break;
    case 3:
        what.payload = cuzk_trace_f64(event->payload.f64);
        what.types = CUZK_TRACE_A0_F64;
        break;
    case 4:
        what.payload = event->payload.u32;
        break;
    case 5:
        what.payload = event->payload.i32;
        break;
    case 6:
        what.payload = cuzk_trace_f64(event->payload.f32);
        what.types = CUZK_TRACE_A0_F64;
        break;
    default:
        return plain(text);
    }
    what.name = cuzk_gpu__name(text && text[0] ? text : "nvtx", "payload", NULL);
    return what;
}

/* ------------------------------------------------------------------------------------ marks and ranges -- */

static void mark(struct what what)
{
    if (what.types)
        cuzk_trace__point(what.name, CUZK_TRACE__INSTANT, what.payload, 0, what.types, 0);
    else
        cuzk_trace_mark(what.name, what.payload, 0);
}

static int push(const void *domain, const struct what *what)
{
    if (mine.depth < RANGES) {
        mine.open[mine.depth].domain = domain;
        mine.open[mine.depth].span.slot = NULL;
        mine.open[mine.depth].span.bits = 0;
        if (what)
            cuzk_trace_begin_as(&mine.open[mine.depth].span, what->name, what->payload, 0, what->types);
    }
    return mine.depth++;
}

/* The innermost range of this domain; domains nest in each other as they like. */
static int pop(const void *domain)
{
    int at = mine.depth - 1, i;
    if (at >= RANGES)
        return --mine.depth;
    while (at >= 0 && mine.open[at].domain != domain)
        at--;
    if (at < 0)
        return -1;
    cuzk_trace_end(&mine.open[at].span);
    for (i = at; i + 1 < mine.depth; i++)
        mine.open[i] = mine.open[i + 1];
    return --mine.depth;
}

int cuzk_gpu__in_range(void)
{
    return mine.depth > 0;
}

static uint64_t start(struct what what)
{
    cuzk_trace_span *span = (cuzk_trace_span *)calloc(1, sizeof *span);
    if (span)
        cuzk_trace_async_begin(span, what.name, what.payload, 0, what.types, 0);
    return (uint64_t)(uintptr_t)span;
}

static void end(uint64_t range)
{
    cuzk_trace_span *span = (cuzk_trace_span *)(uintptr_t)range;
    if (span)
        cuzk_trace_async_end(span, 0);
    free(span);
}

/* --------------------------------------------------------------------------- what NVTX calls: the core -- */

static void mark_ex(const struct event *event)
{
    if (recording())
        mark(described(event));
}

static void mark_a(const char *text)
{
    if (recording())
        mark(plain(text));
}

static void mark_w(const wchar_t *text)
{
    char into[1024];
    mark_a(narrow(text, into, sizeof into));
}

static uint64_t start_ex(const struct event *event)
{
    return recording() ? start(described(event)) : 0;
}

static uint64_t start_a(const char *text)
{
    return recording() ? start(plain(text)) : 0;
}

static uint64_t start_w(const wchar_t *text)
{
    char into[1024];
    return start_a(narrow(text, into, sizeof into));
}

static int push_domain(const void *domain, const struct event *event)
{
    struct what what;
    if (!recording())
        return push(domain, NULL);
    what = described(event);
    return push(domain, &what);
}

static int push_ex(const struct event *event)
{
    return push_domain(NULL, event);
}

static int push_a(const char *text)
{
    struct what what;
    if (!recording())
        return push(NULL, NULL);
    what = plain(text);
    return push(NULL, &what);
}

static int push_w(const wchar_t *text)
{
    char into[1024];
    return push_a(narrow(text, into, sizeof into));
}

static int pop_default(void)
{
    return pop(NULL);
}

/* A name for the thread that says it of itself before it has recorded anything. */
static void name_thread(uint32_t thread, const char *name)
{
    if (name && thread == (uint32_t)syscall(SYS_gettid) && !cuzk_trace__tls.slot)
        cuzk_trace__tls.thread_name = cuzk_gpu__name(name, NULL, NULL)->text;
}

static void name_thread_w(uint32_t thread, const wchar_t *name)
{
    char into[256];
    name_thread(thread, narrow(name, into, sizeof into));
}

/* ------------------------------------------------------------------------------ what NVTX calls: domains -- */

static void domain_mark(const void *domain, const struct event *event)
{
    (void)domain;
    mark_ex(event);
}

static uint64_t domain_start(const void *domain, const struct event *event)
{
    (void)domain;
    return start_ex(event);
}

static void domain_end(const void *domain, uint64_t range)
{
    (void)domain;
    end(range);
}

static const void *keep(const char *text) /* for ever: NVTX has no call that says a string is no longer used */
{
    struct text *kept = (struct text *)calloc(1, sizeof *kept);
    if (kept)
        kept->text = strdup(text ? text : "");
    return kept;
}

static const void *string_a(const void *domain, const char *text)
{
    (void)domain;
    return keep(text);
}

static const void *string_w(const void *domain, const wchar_t *text)
{
    char into[1024];
    (void)domain;
    return keep(narrow(text, into, sizeof into));
}

static const void *domain_a(const char *name)
{
    return keep(name);
}

static const void *domain_w(const wchar_t *name)
{
    char into[1024];
    return keep(narrow(name, into, sizeof into));
}

static const struct {
    unsigned module, id;
    pointer function;
} functions[] = {
    {MODULE_CORE, 1, (pointer)mark_ex},         {MODULE_CORE, 2, (pointer)mark_a},
    {MODULE_CORE, 3, (pointer)mark_w},          {MODULE_CORE, 4, (pointer)start_ex},
    {MODULE_CORE, 5, (pointer)start_a},         {MODULE_CORE, 6, (pointer)start_w},
    {MODULE_CORE, 7, (pointer)end},             {MODULE_CORE, 8, (pointer)push_ex},
    {MODULE_CORE, 9, (pointer)push_a},          {MODULE_CORE, 10, (pointer)push_w},
    {MODULE_CORE, 11, (pointer)pop_default},    {MODULE_CORE, 14, (pointer)name_thread},
    {MODULE_CORE, 15, (pointer)name_thread_w},  {MODULE_CORE2, 1, (pointer)domain_mark},
    {MODULE_CORE2, 2, (pointer)domain_start},   {MODULE_CORE2, 3, (pointer)domain_end},
    {MODULE_CORE2, 4, (pointer)push_domain},    {MODULE_CORE2, 5, (pointer)pop},
    {MODULE_CORE2, 10, (pointer)string_a},      {MODULE_CORE2, 11, (pointer)string_w},
    {MODULE_CORE2, 12, (pointer)domain_a},      {MODULE_CORE2, 13, (pointer)domain_w},
};

/* By NVTX at its first call in each library that has it. 1: attached. */
CUZK_GPU_EXPORT int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t table))
{
    const struct callbacks *callbacks = (const struct callbacks *)get_table(TABLE_CALLBACKS);
    pointer **table;
    unsigned count, module = 0;
    size_t i;
    if (!callbacks || callbacks->size < sizeof *callbacks)
        return 0;
    cuzk_trace_open(); /* the level is in the ring */
    cuzk_gpu__want_launchers();
    for (i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (functions[i].module != module) {
            module = functions[i].module;
            if (!callbacks->module((int)module, &table, &count))
                return 0;
        }
        if (functions[i].id < count && table[functions[i].id])
            *table[functions[i].id] = functions[i].function;
    }
    return 1;
}
