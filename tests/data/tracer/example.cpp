// A C++ program that is traced: spans that end with their scope, flagged when an exception ends them.
#include "cuzk_trace.h"

#include <stdexcept>
#include <thread>
#include <vector>

static cuzk_trace::name PROVE{"prove", "constraints", nullptr, CUZK_TRACE_STAGE};
static cuzk_trace::name MSM{"msm.a", "points", "share"};
static cuzk_trace::name FAILS{"fails"};
static cuzk_trace::name WORK{"work", "thread"};

static void fails()
{
    cuzk_trace::span span(FAILS);
    throw std::runtime_error("as planned");
}

int main()
{
    {
        cuzk_trace::span prove(PROVE, 4096);
        for (int i = 0; i < 3; i++)
            cuzk_trace::span msm(MSM, i, i / 4.0);
        try {
            cuzk_trace::span outer(MSM, -1);
            fails();
        } catch (const std::exception &) {
            cuzk_trace::span inside(MSM, -2); // made while an exception is handled, not by one
        }
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([i] {
            cuzk_trace::span work(WORK, i);
            cuzk_trace::span msm(MSM, 10L + i, 2.5F);
        });
    for (auto &thread : threads)
        thread.join();
    return cuzk_trace_problem() != nullptr;
}
