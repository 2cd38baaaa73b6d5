/* libcupti as it was opened, and what this capture's files on it share. */
#ifndef CUZK_LIBCUPTI_H
#define CUZK_LIBCUPTI_H

#include "cupti_abi.h"

struct cuzk_cupti {
#define CUZK_GPU__MEMBER(name, arguments) int(*name) arguments;
    CUPTI__FUNCTIONS(CUZK_GPU__MEMBER)
#undef CUZK_GPU__MEMBER
    char path[512]; /* of the library */
    uint32_t version; /* as cuptiGetVersion counts: from 13.0 on 10000 * major + 100 * minor */
};
extern struct cuzk_cupti cuzk_cupti;

/* Open it. 1: its functions are there and its records are known; 0: see cuzk_gpu_problem(). */
int cuzk_gpu__load(void);

/* Keep the reason for cuzk_gpu_problem() and for the ring; always 0. */
int cuzk_gpu__fail(const char *what, const char *why);
const char *cuzk_gpu__said(int result); /* what CUPTI calls this result */

/* records.c: into the ring of this thread, one record; a call of this thread that stood still. */
void cuzk_gpu__decode(const void *record);
void cuzk_gpu__blocked(const char *function, uint64_t start, uint64_t end, uint32_t context, uint32_t corr,
                       uint64_t launcher);

/* launches.c: the subscriber's callback; the calls that it is for, on or off (one thread at a time); and the span that
 * launched what has this correlation id, 0 where none is known. */
void cuzk_gpu__on_call(void *user, int domain, uint32_t id, const void *data);
void cuzk_gpu__hear_calls(void *subscriber, int on);
uint64_t cuzk_gpu__launcher_of(uint32_t corr);

#endif
