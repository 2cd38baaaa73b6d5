/* A libcuda.so.1 that needs no GPU.
 *
 *   STUB_CUDA_INIT   what cuInit returns (default 0); "hang": it never does; "crash": it aborts
 *   STUB_CUDA_GPUS   how many devices (default 1), of compute capability 9.0
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuDriverGetVersion(int *version)
{
    *version = 13010;
    return 0;
}

int cuInit(unsigned flags)
{
    const char *wish = getenv("STUB_CUDA_INIT");
    (void)flags;
    if (wish && !strcmp(wish, "hang"))
        for (;;)
            pause();
    if (wish && !strcmp(wish, "crash"))
        abort();
    return wish ? atoi(wish) : 0;
}

int cuDeviceGetCount(int *count)
{
    const char *wish = getenv("STUB_CUDA_GPUS");
    *count = wish ? atoi(wish) : 1;
    return 0;
}

int cuDeviceGet(int *device, int index)
{
    *device = index;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 75 ? 9 : 0;
    return 0;
}
