/* A C program that is traced: cc -I$(python -c 'import cuzk_tracer; print(cuzk_tracer.header())') -pthread example.c */
#include "cuzk_trace.h"

static cuzk_trace_name PROVE = CUZK_TRACE_NAME("prove", "constraints", NULL, CUZK_TRACE_STAGE | CUZK_TRACE_FAULTS);
static cuzk_trace_name MSM = CUZK_TRACE_NAME("msm.h", "points", "scale", 0);
static cuzk_trace_name WINDOW = CUZK_TRACE_NAME("msm.h.window", "index", NULL, 0);
static cuzk_trace_name QUEUE = CUZK_TRACE_NAME("queue", NULL, NULL, 0);
static cuzk_trace_name LOAD = CUZK_TRACE_NAME("load", NULL, NULL, 0);
static cuzk_trace_name READY = CUZK_TRACE_NAME("ready", NULL, NULL, 0);
static cuzk_trace_name HANDOVER = CUZK_TRACE_NAME("handover", NULL, NULL, 0);
static cuzk_trace_name JOB = CUZK_TRACE_NAME("job", "number", NULL, 0);

static uint32_t flow;

static void *worker(void *unused)
{
    cuzk_trace_span window;
    int i;
    for (i = 0; i < 3; i++) {
        cuzk_trace_begin(&window, &WINDOW, i, 0);
        if (i == 0)
            cuzk_trace_flow_step(&HANDOVER, flow);
        cuzk_trace_end(&window);
    }
    return unused;
}

int main(void)
{
    cuzk_trace_span prove, msm, job[2];
    pthread_t thread;
    int i;
    cuzk_trace_open();
    cuzk_trace_meta("backend", "example");
    cuzk_trace_begin(&prove, &PROVE, 1024, 0);
    for (i = 0; i < 2; i++) {
        cuzk_trace_begin_as(&msm, &MSM, 1 << i, cuzk_trace_f64(0.5 * i), CUZK_TRACE_A1_F64);
        cuzk_trace_counter(&QUEUE, -i);
        if (i == 0)
            flow = cuzk_trace_flow_begin(&HANDOVER);
        if (i == 1)
            cuzk_trace_end_error(&msm);
        else
            cuzk_trace_end(&msm);
    }
    cuzk_trace_counter_f64(&LOAD, 0.25);
    cuzk_trace_mark(&READY, 7, 8);
    cuzk_trace_add_faults(100, 3);
    cuzk_trace_async_begin(&job[0], &JOB, 0, 0, 0, 0); /* two that overlap */
    cuzk_trace_async_begin(&job[1], &JOB, 1, 0, 0, job[0].id);
    cuzk_trace_async_end(&job[0], 0);
    cuzk_trace_async_end(&job[1], 1);
    cuzk_trace_end(&prove);
    if (pthread_create(&thread, NULL, worker, NULL) == 0)
        pthread_join(thread, NULL);
    return cuzk_trace_problem() != NULL;
}
