// The worker threads: started once, kept asleep between calls, and their page faults counted.
#pragma once

#include "cuzk_trace.h"  // first: it sets what system headers declare

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

namespace cuzk {

// Runs a numbered set of tasks on all threads, the calling one included; one set at a time.
//
// Page faults. A worker reads its own counters when it has finished its share of a set, before it reports
// so, and adds what it took since its last reading to the pool's totals. From one reading to the next, not
// from start to end of the share, so that nothing a worker does for the pool (its first steps, waking up)
// escapes. The calling thread's faults are its own and not in the totals.
class Pool {
 public:
  static Pool& get() {
    static std::mutex guard;
    static std::atomic<Pool*> current{nullptr};
    Pool* pool = current.load(std::memory_order_acquire);
    // A forked child has none of the parent's threads: it gets a pool of its own, the old one is left.
    if (pool != nullptr && pool->pid_ == getpid()) return *pool;
    const std::lock_guard<std::mutex> lock(guard);
    pool = current.load(std::memory_order_relaxed);
    if (pool == nullptr || pool->pid_ != getpid()) {
      pool = new Pool(wanted_threads());
      current.store(pool, std::memory_order_release);
    }
    return *pool;
  }

  // The name of the spans that workers write into the trace while they serve the calling thread, or nullptr
  // for none. It must stay for good.
  static cuzk_trace_name*& worker_span() {
    static thread_local cuzk_trace_name* name = nullptr;
    return name;
  }

  int threads() const { return static_cast<int>(workers_) + 1; }

  // task(i) for every i below count, in no order. Exceptions must not leave a task.
  template <class Task>
  void run(size_t count, Task&& task, size_t threads = SIZE_MAX) {
    using T = std::remove_reference_t<Task>;
    if (count == 0) return;
    const size_t helpers = std::min({static_cast<size_t>(workers_), count - 1, threads - 1});
    if (helpers == 0) {
      for (size_t i = 0; i < count; ++i) task(i);
      return;
    }
    const std::lock_guard<std::mutex> lock(one_set_);
    context_ = const_cast<std::remove_const_t<T>*>(&task);
    call_ = [](void* context, size_t i) { (*static_cast<T*>(context))(i); };
    count_ = count;
    span_ = worker_span();
    next_.store(0, std::memory_order_relaxed);
    seats_.store(static_cast<int>(helpers), std::memory_order_relaxed);
    busy_.store(workers_, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    futex(&generation_, FUTEX_WAKE_PRIVATE, INT32_MAX);
    work();
    for (uint32_t left; (left = busy_.load(std::memory_order_acquire)) != 0;)
      futex(&busy_, FUTEX_WAIT_PRIVATE, left);
  }

  // Splits [0, n) into ranges of at least `grain`, a few for each thread, and runs body(begin, end).
  template <class Body>
  void ranges(size_t n, size_t grain, Body&& body) {
    const size_t pieces = std::max<size_t>(1, std::min<size_t>(n / std::max<size_t>(grain, 1), 4 * threads()));
    run(pieces, [&](size_t i) { body(n * i / pieces, n * (i + 1) / pieces); });
  }

  void take_faults(uint64_t* minor, uint64_t* major) {
    *minor = minor_.exchange(0);
    *major = major_.exchange(0);
  }

 private:
  explicit Pool(int threads) : pid_(getpid()) {
    sigset_t all, before;  // signals are for the application's own threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < threads; ++i) {
      pthread_t id;
      if (pthread_create(&id, nullptr, &Pool::start, this) != 0) break;  // fewer workers serve as well
      pthread_detach(id);
      ++workers_;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  // CUZK_THREADS, or the processors this process may use.
  static int wanted_threads() {
    if (const char* text = std::getenv("CUZK_THREADS")) {
      const int n = std::atoi(text);
      if (n > 0) return std::min(n, 1024);
    }
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
    return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  }

  static long futex(std::atomic<uint32_t>* word, int operation, uint32_t value) {
    return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value, nullptr, nullptr, 0);
  }

  static void* start(void* self) {
    static_cast<Pool*>(self)->serve();
    return nullptr;
  }

  [[noreturn]] void serve() {
    uint32_t seen = 0;
    rusage last{};  // RUSAGE_THREAD counts from the thread's birth, at zero
    for (;;) {
      while (generation_.load(std::memory_order_acquire) == seen) futex(&generation_, FUTEX_WAIT_PRIVATE, seen);
      ++seen;
      if (seats_.fetch_sub(1, std::memory_order_acq_rel) > 0) serve_set();
      rusage now;
      getrusage(RUSAGE_THREAD, &now);
      minor_.fetch_add(static_cast<uint64_t>(now.ru_minflt - last.ru_minflt), std::memory_order_relaxed);
      major_.fetch_add(static_cast<uint64_t>(now.ru_majflt - last.ru_majflt), std::memory_order_relaxed);
      last = now;
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) futex(&busy_, FUTEX_WAKE_PRIVATE, 1);
    }
  }

  // A worker's share, as a span of its own thread where the caller named one.
  void serve_set() {
    if (span_ == nullptr || next_.load(std::memory_order_relaxed) >= count_) return work();
    cuzk_trace_span span;
    cuzk_trace_begin(&span, span_, 0, 0);
    work();
    cuzk_trace_end(&span);
  }

  void work() {
    for (size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) call_(context_, i);
  }

  const pid_t pid_;
  uint32_t workers_ = 0;
  std::mutex one_set_;
  void* context_ = nullptr;
  void (*call_)(void*, size_t) = nullptr;
  size_t count_ = 0;
  cuzk_trace_name* span_ = nullptr;
  std::atomic<size_t> next_{0};
  std::atomic<int> seats_{0};
  std::atomic<uint32_t> generation_{0}, busy_{0};
  std::atomic<uint64_t> minor_{0}, major_{0};
};

}  // namespace cuzk
