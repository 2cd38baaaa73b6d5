/* What the driver and NVTX call in a process that was started with
 * CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH naming this library. */
#include "capture.h"

/* By cuInit, before the first module is loaded. */
CUZK_GPU_EXPORT int InitializeInjection(void)
{
    if (!cuzk_gpu_start())
        cuzk_trace_open(); /* so that somebody reads why */
    return 1;
}
