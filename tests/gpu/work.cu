// Programs to be traced unchanged: they know nothing of the tracer and say what they did, one JSON line.
//
//   work launches N [NS]   N kernels of NS ns each on one stream, one synchronise; with times of each launch in FILE
//   work mixed             kernels on two streams, copies of every kind, fills, NVTX ranges
//   work parents           four threads with NVTX ranges around their launches
//   work crash|kill|fork|exec|spawn|none|late MS
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#define OK(call)                                                                                  \
    do {                                                                                          \
        cudaError_t status = (call);                                                              \
        if (status != cudaSuccess) {                                                              \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));                       \
            exit(3);                                                                              \
        }                                                                                         \
    } while (0)

static int64_t now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

__global__ void spin(uint64_t ns, unsigned *out)
{
    uint64_t start, at;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(at));
    } while (at - start < ns);
    if (out && threadIdx.x == 0 && at == 1)
        *out = 1;
}

template <int N>
__global__ void add(unsigned *data, unsigned size)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size)
        data[i] += N;
}

static int launches(int count, uint64_t ns, const char *file)
{
    std::vector<int64_t> before(count), after(count);
    spin<<<1, 32>>>(0, nullptr); // loads the module
    OK(cudaDeviceSynchronize());
    int64_t start = now();
    for (int i = 0; i < count; i++) {
        before[i] = now();
        spin<<<1, 32>>>(ns, nullptr);
        after[i] = now();
    }
    OK(cudaGetLastError());
    int64_t launched = now();
    OK(cudaDeviceSynchronize());
    int64_t synced = now();
    if (file) {
        FILE *out = fopen(file, "w");
        for (int i = 0; i < count; i++)
            fprintf(out, "%lld %lld\n", (long long)before[i], (long long)after[i]);
        fprintf(out, "%lld %lld\n", (long long)launched, (long long)synced);
        fclose(out);
    }
    printf("{\"mode\":\"launches\",\"kernels\":%d,\"ns\":%llu,\"us_per_launch\":%.4f,\"us_per_kernel\":%.4f}\n", count + 1,
           (unsigned long long)ns, (launched - start) / 1e3 / count, (synced - start) / 1e3 / count);
    return 0;
}

// 30 kernels, 12 copies (4 H2D pageable, 4 H2D pinned, 2 D2H pinned, 2 D2D) of `bytes` each, 3 fills.
static int mixed()
{
    const size_t bytes = 8 << 20;
    unsigned *device, *other, *pinned, *pageable = (unsigned *)malloc(bytes);
    cudaStream_t streams[2];
    memset(pageable, 1, bytes);
    OK(cudaMalloc(&device, bytes));
    OK(cudaMalloc(&other, bytes));
    OK(cudaMallocHost(&pinned, bytes));
    memset(pinned, 2, bytes);
    nvtxNameOsThreadA((uint32_t)gettid(), "mixer");
    nvtxRangePushA("load");
    for (auto &stream : streams)
        OK(cudaStreamCreate(&stream));
    for (int i = 0; i < 4; i++) {
        OK(cudaMemcpy(device, pageable, bytes, cudaMemcpyHostToDevice));
        OK(cudaMemcpyAsync(other, pinned, bytes, cudaMemcpyHostToDevice, streams[0]));
    }
    for (int i = 0; i < 3; i++)
        OK(cudaMemsetAsync(device, 0, bytes, streams[1]));
    OK(cudaDeviceSynchronize());
    nvtxRangePop();
    nvtxRangeId_t job = nvtxRangeStartA("job");
    nvtxMarkA("half way");
    for (int i = 0; i < 10; i++) {
        nvtxEventAttributes_t event = {};
        event.version = NVTX_VERSION;
        event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        event.messageType = NVTX_MESSAGE_TYPE_ASCII;
        event.message.ascii = "round";
        event.payloadType = NVTX_PAYLOAD_TYPE_INT64;
        event.payload.llValue = i;
        nvtxRangePushEx(&event);
        add<1><<<(bytes / 4 + 255) / 256, 256, 0, streams[0]>>>(device, bytes / 4);
        add<2><<<(bytes / 4 + 127) / 128, 128, 0, streams[1]>>>(other, bytes / 4);
        spin<<<2, 64, 0, streams[i % 2]>>>(500000, nullptr);
        OK(cudaStreamSynchronize(streams[i % 2]));
        nvtxRangePop();
    }
    OK(cudaMemcpyAsync(other, device, bytes, cudaMemcpyDeviceToDevice, streams[0]));
    OK(cudaMemcpyAsync(other, device, bytes, cudaMemcpyDeviceToDevice, streams[0]));
    OK(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, streams[1]));
    OK(cudaMemcpyAsync(pinned, other, bytes, cudaMemcpyDeviceToHost, streams[0]));
    OK(cudaDeviceSynchronize());
    nvtxRangeEnd(job);
    printf("{\"mode\":\"mixed\",\"kernels\":30,\"copies\":12,\"copy_bytes\":%zu,\"fills\":3,\"fill_bytes\":%zu,"
           "\"h2d_pageable_bytes\":%zu,\"h2d_pinned_bytes\":%zu,\"d2h_bytes\":%zu,\"d2d_bytes\":%zu}\n",
           12 * bytes, 3 * bytes, 4 * bytes, 4 * bytes, 2 * bytes, 2 * bytes);
    return 0;
}

// Launches inside ranges, attributed to them through the capture library that the driver has loaded.
static void rounds(cudaStream_t stream, const char *even, const char *odd)
{
    for (int i = 0; i < 50; i++) {
        nvtxRangePushA(i % 2 ? odd : even);
        for (int k = 0; k < 20; k++)
            spin<<<1, 32, 0, stream>>>(1000, nullptr);
        nvtxRangePop();
        spin<<<1, 32, 0, stream>>>(0, nullptr);
    }
    OK(cudaStreamSynchronize(stream));
}

// In four threads at once, each with ranges and a stream of its own.
static int parents()
{
    static const char *const names[][2] = {{"even 0", "odd 0"}, {"even 1", "odd 1"}, {"even 2", "odd 2"}, {"even 3", "odd 3"}};
    cudaStream_t streams[4];
    std::vector<std::thread> threads;
    spin<<<1, 32>>>(0, nullptr);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++) {
        OK(cudaStreamCreate(&streams[i]));
        threads.emplace_back([&, i] { rounds(streams[i], names[i][0], names[i][1]); });
    }
    for (auto &thread : threads)
        thread.join();
    printf("{\"mode\":\"parents\",\"kernels\":4201,\"inside\":4000}\n");
    return 0;
}

static void some(int count)
{
    for (int i = 0; i < count; i++)
        spin<<<1, 32>>>(10000, nullptr);
    OK(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "mixed";
    long number = argc > 2 ? atol(argv[2]) : 0;
    if (!strcmp(mode, "launches"))
        return launches((int)number, argc > 3 ? strtoull(argv[3], nullptr, 10) : 0, argc > 4 ? argv[4] : nullptr);
    if (!strcmp(mode, "mixed"))
        return mixed();
    if (!strcmp(mode, "parents"))
        return cudaFree(nullptr) == cudaSuccess ? parents() : 3;
    if (!strcmp(mode, "none")) {
        puts("{\"mode\":\"none\"}");
        return 0;
    }
    if (!strcmp(mode, "fork")) { // the child begins CUDA of its own, before the parent does
        pid_t child = fork();
        some(100);
        if (child == 0)
            return 7;
        int status;
        waitpid(child, &status, 0);
        printf("{\"mode\":\"fork\",\"child\":%d,\"code\":%d}\n", (int)child, WEXITSTATUS(status));
        return 0;
    }
    if (!strcmp(mode, "exec")) {
        some(50);
        fflush(stdout);
        execl("/proc/self/exe", argv[0], "launches", "100", (char *)nullptr);
        return 3;
    }
    if (!strcmp(mode, "spawn")) { // a process that uses CUDA starts another program that does, and goes on
        some(50);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", argv[0], "launches", "100", (char *)nullptr);
            _exit(3);
        }
        int status;
        waitpid(child, &status, 0);
        some(25);
        printf("{\"mode\":\"spawn\",\"child\":%d,\"code\":%d}\n", (int)child, WEXITSTATUS(status));
        return 0;
    }
    some(100);
    if (!strcmp(mode, "late")) // goes on for a while: to be attached to
        for (int64_t until = now() + number * 1000000; now() < until;)
            some(10);
    usleep(200000);
    if (!strcmp(mode, "crash"))
        *(volatile int *)nullptr = 1;
    if (!strcmp(mode, "kill"))
        raise(SIGKILL);
    printf("{\"mode\":\"%s\"}\n", mode);
    return 0;
}
