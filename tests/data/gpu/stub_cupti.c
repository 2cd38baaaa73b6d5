/* A libcupti that needs no GPU: it delivers the records of a file, as slowly, wrongly or briefly as told.
 *
 *   STUB_CUPTI_FILE      u32 version, u32 count; then per record u32 size, u32 name length, the record, its name
 *   STUB_CUPTI_VERSION   what cuptiGetVersion says (default: the file's, else 130001)
 *   STUB_CUPTI_FAIL      NAME:CODE, that function returns this code; NAME:CODE:N, from its Nth call on
 *   STUB_CUPTI_SLOW      NAME:MS, that function takes this long
 *   STUB_CUPTI_DROPPED   what cuptiActivityGetNumDroppedRecords says once
 *   STUB_CUPTI_EACH      records a buffer (default 10); one buffer is delivered a flush
 *   STUB_CUPTI_LOG       a file to which each call's name is appended
 */
#define _GNU_SOURCE 1
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void (*requested)(uint8_t **, size_t *, size_t *);
typedef void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t);

static requested request;
static completed complete;
static uint64_t (*now)(void);
static uint64_t base;
static int kinds[64];
static uint8_t *records[100000];
static uint32_t sizes[100000], count, next, version = 130001;
static long dropped = -1;

static int called(const char *name)
{
    static struct { const char *name; int calls; } seen[32];
    const char *fail = getenv("STUB_CUPTI_FAIL"), *slow = getenv("STUB_CUPTI_SLOW"), *log = getenv("STUB_CUPTI_LOG");
    char wanted[64];
    int code = 0, from = 1, ms = 0, i;
    if (log) {
        FILE *file = fopen(log, "a");
        fprintf(file, "%s\n", name);
        fclose(file);
    }
    for (i = 0; seen[i].name && strcmp(seen[i].name, name) != 0; i++)
        ;
    seen[i].name = name;
    seen[i].calls++;
    if (slow && sscanf(slow, "%63[^:]:%d", wanted, &ms) == 2 && !strcmp(wanted, name)) {
        struct timespec rest = {ms / 1000, ms % 1000 * 1000000l};
        nanosleep(&rest, NULL);
    }
    if (fail && sscanf(fail, "%63[^:]:%d:%d", wanted, &code, &from) >= 2 && !strcmp(wanted, name) && seen[i].calls >= from)
        return code;
    return 0;
}

static void load(void)
{
    const char *path = getenv("STUB_CUPTI_FILE");
    FILE *file = path ? fopen(path, "rb") : NULL;
    uint32_t i, length;
    if (!file || count || fread(&version, 4, 1, file) != 1 || fread(&count, 4, 1, file) != 1)
        return;
    for (i = 0; i < count; i++) {
        char *name;
        if (fread(&sizes[i], 4, 1, file) != 1 || fread(&length, 4, 1, file) != 1)
            abort();
        records[i] = calloc(1, sizes[i]);
        name = calloc(1, length + 1);
        if (fread(records[i], 1, sizes[i], file) != sizes[i] || fread(name, 1, length, file) != length)
            abort();
        if (length)
            memcpy(records[i] + 104, &name, sizeof name); /* the kernel record's name */
    }
    fclose(file);
}

/* Times in the file count from 0. */
static void shift(uint8_t *record)
{
    uint32_t kind;
    uint64_t time;
    int at, i;
    memcpy(&kind, record, 4);
    at = kind == 38 ? 8 : kind == 17 ? 24 : 16;
    for (i = 0; i < 2; i++, at += 8) {
        memcpy(&time, record + at, 8);
        if (time) {
            time += base;
            memcpy(record + at, &time, 8);
        }
    }
}

int cuptiGetVersion(uint32_t *into)
{
    const char *wish = getenv("STUB_CUPTI_VERSION");
    load();
    *into = wish ? (uint32_t)atoi(wish) : version;
    return called("GetVersion");
}

int cuptiGetResultString(int code, const char **text)
{
    static char said[32];
    snprintf(said, sizeof said, "STUB_ERROR_%d", code);
    *text = said;
    return 0;
}

static void (*callback)(void *, int, uint32_t, const void *);
static void *user_data;

int cuptiSubscribe(void **subscriber, void (*one)(void *, int, uint32_t, const void *), void *user)
{
    callback = one;
    user_data = user;
    *subscriber = &count;
    return called("Subscribe");
}

int cuptiActivityRegisterCallbacks(requested one, completed two)
{
    request = one;
    complete = two;
    return called("ActivityRegisterCallbacks");
}

int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void))
{
    now = clock;
    base = clock() - 3000000000u; /* what it delivers has happened already */
    return called("ActivityRegisterTimestampCallback");
}

int cuptiActivityEnable(int kind)
{
    kinds[kind & 63] = 1;
    return called("ActivityEnable");
}

int cuptiActivityDisable(int kind)
{
    kinds[kind & 63] = 0;
    return called("ActivityDisable");
}

int cuptiActivityFlushPeriod(uint32_t ms)
{
    (void)ms;
    return called("ActivityFlushPeriod");
}

int cuptiActivityFlushAll(uint32_t how)
{
    int code = called("ActivityFlushAll");
    const char *each = getenv("STUB_CUPTI_EACH");
    uint32_t most = each ? (uint32_t)atoi(each) : 10, i;
    if (code)
        return code;
    do {
        uint8_t *buffer = NULL;
        size_t size = 0, limit = 0, used = 0;
        if (next >= count)
            return 0;
        request(&buffer, &size, &limit);
        if (!buffer)
            return 0;
        for (i = 0; i < most && next < count && used + sizes[next] <= size; i++, next++) {
            uint32_t kind;
            memcpy(&kind, records[next], 4);
            if (!kinds[kind & 63])
                continue;
            memcpy(buffer + used, records[next], sizes[next]);
            shift(buffer + used);
            used += sizes[next];
        }
        complete(NULL, 0, buffer, size, used);
    } while (how);
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
    static const int twelve[][2] = {{1, 88}, {2, 88}, {3, 208}, {10, 208}, {17, 40}, {22, 96}, {38, 40}};
    static const int thirteen[][2] = {{1, 96}, {2, 88}, {3, 216}, {10, 216}, {17, 56}, {22, 96}, {38, 56}};
    uint32_t kind, i;
    uint8_t *at = *record;
    if (at) {
        memcpy(&kind, at, 4);
        for (i = 0; i < 7; i++)
            if ((version < 100 ? twelve : thirteen)[i][0] == (int)kind) {
                at += (version < 100 ? twelve : thirteen)[i][1];
                break;
            }
        if (i == 7)
            return 1;
    } else {
        at = buffer;
    }
    if (at >= buffer + valid)
        return 25; /* CUPTI_ERROR_MAX_LIMIT_REACHED's meaning here: no more */
    *record = at;
    return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *into)
{
    const char *wish = getenv("STUB_CUPTI_DROPPED");
    (void)context, (void)stream;
    if (dropped < 0)
        dropped = wish ? atol(wish) : 0;
    *into = (size_t)dropped;
    dropped = 0;
    return called("ActivityGetNumDroppedRecords");
}

static const char *const calls[] = {"", "cuInit", "cuLaunchKernel", "cuStreamSynchronize", "cuEventQuery", "cuCtxSynchronize"};
enum { CALLS = sizeof calls / sizeof *calls };
static int heard[CALLS];

int cuptiGetCallbackName(int domain, uint32_t id, const char **name)
{
    *name = id && id < CALLS ? calls[id] : NULL;
    return domain == 1 && *name ? 0 : 1;
}

int cuptiEnableCallback(uint32_t on, void *who, int domain, uint32_t id)
{
    (void)who, (void)domain;
    heard[id] = (int)on;
    return called("EnableCallback");
}

/* A call as a program makes it: the subscriber hears of its begin and of its end, if it asked for it. */
static uint32_t call(const char *name, int ms)
{
    static uint32_t corr = 1000;
    struct {
        int site;
        const void *unused[5];
        void *context;
        uint64_t *data;
        uint32_t corr;
    } data = {0, {name}, NULL, NULL, ++corr};
    struct timespec rest = {0, ms * 1000000l};
    uint32_t id;
    for (id = 1; id < CALLS; id++)
        if (!strcmp(calls[id], name) && heard[id]) {
            callback(user_data, 1, id, &data);
            nanosleep(&rest, NULL);
            data.site = 1;
            callback(user_data, 1, id, &data);
        }
    return corr;
}

/* `ms`: how long the driver holds the call up. */
static void launch(const char *name, int ms)
{
    uint32_t corr = call("cuLaunchKernel", ms), kind = 10;
    uint64_t times[2] = {now() - base, now() - base + 10};
    uint8_t *record = calloc(1, 256);
    memcpy(record, &kind, 4);
    memcpy(record + 16, times, sizeof times);
    memcpy(record + 92, &corr, 4);
    memcpy(record + 104, &name, sizeof name);
    sizes[count] = 216;
    records[count++] = record;
}

void stub_launch(const char *name) { launch(name, 0); }
void stub_slow_launch(const char *name) { launch(name, 50); }

/* type: 1 of an event, 3 of a stream, 4 of a context; of a stream alone CUPTI tells which. */
void stub_wait(uint32_t type, uint32_t stream)
{
    struct { uint32_t kind, type; uint64_t start, end; uint32_t corr, context, stream; } sync = {
        38, type, now() - base, now() - base + 10, call(type == 4 ? "cuCtxSynchronize" : "cuStreamSynchronize", 1), 1, type == 3 ? stream : 0xFFFFFFFFu};
    records[count] = calloc(1, 256);
    sizes[count] = 56;
    memcpy(records[count++], &sync, sizeof sync);
}
