/* NVTX as a program has it: loads the tool that NVTX_INJECTION64_PATH names and calls through the table it fills,
 * with the layouts of NVTX v3's public headers. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

typedef void (*function)(void);
static function core[16], core2[16];
static function *core_at[16], *core2_at[16];
static function **core_table = core_at, **core2_table = core2_at;

static int module(int which, function ***table, unsigned *count)
{
    *table = which == 1 ? core_table : core2_table;
    *count = 16;
    return which == 1 || which == 5;
}

static struct { size_t size; int (*module)(int, function ***, unsigned *); } callbacks = {sizeof callbacks, module};

static const void *export_table(uint32_t which) { return which == 1 ? &callbacks : NULL; }

struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union { uint64_t u; int64_t i; double d; uint32_t u32; int32_t i32; float f; } payload;
    int32_t message_type;
    const void *message;
};

#define CORE(id, type) ((type)core[id])
#define CORE2(id, type) ((type)core2[id])
typedef int (*push_a)(const char *);
typedef int (*push_w)(const wchar_t *);
typedef int (*push_ex)(const struct attributes *);
typedef int (*pop)(void);
typedef uint64_t (*start_a)(const char *);
typedef void (*end_range)(uint64_t);
typedef void (*mark_a)(const char *);
typedef void (*name_thread)(uint32_t, const char *);
typedef void *(*domain_create)(const char *);
typedef void *(*register_string)(void *, const char *);
typedef int (*domain_push)(void *, const struct attributes *);
typedef int (*domain_pop)(void *);

static struct attributes event(const char *text, int type)
{
    struct attributes made;
    memset(&made, 0, sizeof made);
    made.version = 3;
    made.size = sizeof made;
    made.payload_type = type;
    made.message_type = 1;
    made.message = text;
    return made;
}

static void *worker(void *range)
{
    CORE(14, name_thread)((uint32_t)syscall(SYS_gettid), "gpu worker");
    CORE(9, push_a)("on a worker");
    CORE(7, end_range)((uint64_t)(uintptr_t)range);
    CORE(11, pop)();
    return NULL;
}

/* A library that gives a stub of CUPTI its launches; see stub_cupti.c. */
static void (*launch)(const char *);

static void *launcher(void *unused)
{
    (void)unused;
    CORE(9, push_a)("elsewhere");
    launch("launched elsewhere");
    CORE(11, pop)();
    return NULL;
}

static void launches(void)
{
    pthread_t thread;
    launch("launched before");
    CORE(9, push_a)("round");
    launch("launched in a round");
    CORE(9, push_a)("part");
    launch("launched in its part");
    pthread_create(&thread, NULL, launcher, NULL);
    pthread_join(thread, NULL);
    CORE(11, pop)();
    CORE(11, pop)();
    launch("launched behind");
}

int main(int argc, char **argv)
{
    void *library = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW | RTLD_LOCAL), *domain, *string;
    int (*init)(const void *(*)(uint32_t)), i;
    pthread_t thread;
    struct attributes one;
    uint64_t range;
    if (!library)
        return puts(dlerror()), 3;
    *(void **)&init = dlsym(library, "InitializeInjectionNvtx2");
    for (i = 0; i < 16; i++) {
        core_at[i] = &core[i];
        core2_at[i] = &core2[i];
    }
    if (!init(export_table))
        return 4;
    if (argc > 1 && !strcmp(argv[1], "launches")) { /* the driver has loaded the tool before, or does so now */
        *(void **)&launch = dlsym(dlopen(getenv("CUZK_CUPTI"), RTLD_NOW), "stub_launch");
        *(void **)&init = dlsym(library, "InitializeInjection");
        ((int (*)(void))(function)init)();
        launches();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "deep")) {
        for (i = 0; i < 100; i++)
            CORE(9, push_a)("deep");
        for (i = 0; i < 100; i++)
            CORE(11, pop)();
        CORE(11, pop)(); /* one too many */
        CORE(9, push_a)("after");
        CORE(11, pop)();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "names")) {
        char text[32];
        for (i = 0; i < 6000; i++) {
            snprintf(text, sizeof text, "iteration %d", i);
            CORE(9, push_a)(text);
            CORE(11, pop)();
        }
        return 0;
    }
    CORE(9, push_a)("outer");
    for (i = 0; i < 3; i++) {
        one = event("round", 2);
        one.payload.i = 100 + i;
        CORE(8, push_ex)(&one);
        one = event("ratio", 3);
        one.payload.d = 0.25;
        CORE(8, push_ex)(&one);
        CORE(11, pop)();
        CORE(11, pop)();
    }
    CORE(10, push_w)(L"w\u00efde \u20ac \U0001F600");
    CORE(11, pop)();
    CORE(11, pop)();
    domain = CORE2(12, domain_create)("library");
    string = CORE2(10, register_string)(domain, "registered");
    one = event(NULL, 0);
    one.message_type = 3;
    one.message = string;
    CORE2(4, domain_push)(domain, &one);
    CORE(9, push_a)("of the default domain");
    CORE2(5, domain_pop)(domain); /* domains need not nest in each other */
    CORE(11, pop)();
    CORE(2, mark_a)("half way");
    range = CORE(5, start_a)("job");
    pthread_create(&thread, NULL, worker, (void *)(uintptr_t)range);
    pthread_join(thread, NULL);
    CORE(9, push_a)("left open");
    return 0;
}
