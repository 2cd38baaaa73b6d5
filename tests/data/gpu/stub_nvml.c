/* A libnvidia-ml.so.1 that needs no GPU. Handles are the GPU's number + 1.
 *
 *   STUB_NVML_GPUS   how many (default 2)
 *   STUB_NVML_HANG   NAME:GPU, that call of that GPU never comes back
 *   STUB_NVML_LOST   GPU:N, that GPU answers "is lost" from its Nth call of utilisation on
 *   STUB_NVML_FAIL   NAME:CODE, that function returns this code
 *   STUB_NVML_PID    the process that computes on GPU 0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef uintptr_t device;

static int asked[16], lost_from = 1 << 30, lost_gpu = -1;

static int gpus(void)
{
    const char *wish = getenv("STUB_NVML_GPUS");
    return wish ? atoi(wish) : 2;
}

static int called(const char *name, device gpu)
{
    const char *hang = getenv("STUB_NVML_HANG"), *fail = getenv("STUB_NVML_FAIL"), *lost = getenv("STUB_NVML_LOST");
    char wanted[64];
    int code, which;
    if (lost)
        sscanf(lost, "%d:%d", &lost_gpu, &lost_from);
    if (fail && sscanf(fail, "%63[^:]:%d", wanted, &code) == 2 && !strcmp(wanted, name))
        return code;
    if (hang && sscanf(hang, "%63[^:]:%d", wanted, &which) == 2 && !strcmp(wanted, name) && (device)which + 1 == gpu)
        for (;;)
            pause();
    if (gpu && (int)gpu - 1 == lost_gpu && asked[gpu] >= lost_from)
        return 15;
    return 0;
}

static unsigned long long ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return called("init", 0); }
int nvmlInit_v2(void) { return called("init", 0); }
int nvmlShutdown(void) { return 0; }

const char *nvmlErrorString(int code)
{
    return code == 15 ? "GPU is lost" : code == 3 ? "Not Supported" : code == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = gpus();
    return called("count", 0);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *handle)
{
    *handle = index + 1;
    return 0;
}

int nvmlDeviceGetName(device gpu, char *name, unsigned length)
{
    snprintf(name, length, "Stub %d", (int)gpu - 1);
    return called("name", gpu);
}

struct memory { unsigned long long total, free, used; };

int nvmlDeviceGetMemoryInfo(device gpu, struct memory *memory)
{
    memory->total = 8ull << 30;
    memory->used = gpu << 30;
    memory->free = memory->total - memory->used;
    return called("memory", gpu);
}

struct rates { unsigned gpu, memory; };

int nvmlDeviceGetUtilizationRates(device gpu, struct rates *rates)
{
    int code = called("utilisation", gpu);
    asked[gpu]++;
    rates->gpu = 40 + gpu;
    rates->memory = 1;
    return code;
}

int nvmlDeviceGetPowerUsage(device gpu, unsigned *milliwatts)
{
    *milliwatts = 123456;
    return called("power", gpu);
}

int nvmlDeviceGetEnforcedPowerLimit(device gpu, unsigned *milliwatts)
{
    *milliwatts = 700000;
    return called("limit", gpu);
}

int nvmlDeviceGetClockInfo(device gpu, int which, unsigned *mhz)
{
    *mhz = which == 1 ? 1755 : 0;
    return called("clock", gpu);
}

int nvmlDeviceGetMaxClockInfo(device gpu, int which, unsigned *mhz)
{
    *mhz = which == 1 ? 1980 : 0;
    return called("clock", gpu);
}

int nvmlDeviceGetTemperature(device gpu, int which, unsigned *degrees)
{
    *degrees = which == 0 ? 61 : 0;
    return called("temperature", gpu);
}

struct temperature { unsigned version; int sensor, degrees; };

int nvmlDeviceGetTemperatureV(device gpu, struct temperature *temperature)
{
    temperature->degrees = 61;
    return called("temperature", gpu);
}

/* GPU 0: generation 4, 8 lanes; GPU 1: a generation that nobody knows yet. */
int nvmlDeviceGetMaxPcieLinkGeneration(device gpu, unsigned *generation)
{
    *generation = gpu == 1 ? 4 : 99;
    return called("link", gpu);
}

int nvmlDeviceGetMaxPcieLinkWidth(device gpu, unsigned *width)
{
    *width = 8;
    return called("link", gpu);
}

int nvmlDeviceGetCurrentClocksEventReasons(device gpu, unsigned long long *reasons)
{
    *reasons = gpu == 2 ? 0x44 : 0x1; /* GPU 1: power cap and hardware thermal; GPU 0: idle */
    return called("reasons", gpu);
}

struct field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, code;
    unsigned long long value;
};

/* 2 GB/s out, 5 GB/s in. */
int nvmlDeviceGetFieldValues(device gpu, int count, struct field *fields)
{
    int i;
    for (i = 0; i < count; i++) {
        fields[i].code = fields[i].id == 197 || fields[i].id == 198 ? 0 : 3;
        fields[i].type = 3;
        fields[i].value = ms() * (fields[i].id == 197 ? 2000000ull : 5000000ull);
    }
    return called("fields", gpu);
}

struct process { unsigned pid; unsigned long long memory; unsigned instance, compute; };

int nvmlDeviceGetComputeRunningProcesses_v3(device gpu, unsigned *count, struct process *processes)
{
    const char *wish = getenv("STUB_NVML_PID");
    unsigned room = *count;
    int code = called("processes", gpu);
    *count = wish && gpu == 1 ? 1 : 0;
    if (code || *count == 0)
        return code;
    if (room < 1)
        return 7; /* insufficient size */
    memset(processes, 0, sizeof *processes);
    processes->pid = atoi(wish);
    processes->memory = 3ull << 30;
    return 0;
}
