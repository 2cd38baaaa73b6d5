/* What the files of the capture library share. */
#ifndef CUZK_GPU_CAPTURE_H
#define CUZK_GPU_CAPTURE_H

#include "cuzk_trace.h"

#define CUZK_GPU_EXPORT __attribute__((visibility("default")))

/* The name with this text and argument names, made when it is new; lives for ever. Any thread. Beyond
 * CUZK_GPU__MOST_NAMES distinct ones: "<other names>". */
cuzk_trace_name *cuzk_gpu__name(const char *text, const char *a0, const char *a1);

enum { CUZK_GPU__MOST_NAMES = 4096 };

/* Record kernels, copies, fills and waits of this process from now on. 1: recording, or dormant as the ring's
 * `enabled` word says, and cuzk_gpu_problem() may say what is left out; 0: it says why not. Calls after the first
 * change nothing. */
CUZK_GPU_EXPORT int cuzk_gpu_start(void);
CUZK_GPU_EXPORT const char *cuzk_gpu_problem(void); /* NULL: none */

/* Hand everything that is complete to the ring now. */
CUZK_GPU_EXPORT void cuzk_gpu_flush(void);

/* What this thread launches from here to the matching leave has that span (cuzk_trace__here) as parent. Elsewhere it has
 * the thread's innermost NVTX range. From the first use of either on CUPTI calls back at each launch. */
CUZK_GPU_EXPORT void cuzk_gpu_enter_as(uint64_t launcher);
CUZK_GPU_EXPORT void cuzk_gpu_leave(void);

/* Whether this thread is in an NVTX range. */
int cuzk_gpu__in_range(void);

/* Have what launches found out from now on, if it is not yet. Any thread. */
void cuzk_gpu__want_launchers(void);

#endif
