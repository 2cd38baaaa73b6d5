// Uninitialised, cache-line aligned memory: the thread that first writes a page takes its fault.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace cuzk {

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t count) { reset(count); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }
  void reset(size_t count) {
    std::free(data_);
    data_ = nullptr;
    // Large ones are asked for in pages of 2 MiB: fewer faults, and bucket sums are reached at random.
    constexpr size_t huge = size_t(2) << 20;
    const size_t bytes = count * sizeof(T) + 64;
    if (posix_memalign(&data_, bytes >= huge ? huge : 64, bytes) != 0) throw std::bad_alloc();
    if (bytes >= huge) madvise(data_, bytes, MADV_HUGEPAGE);  // advice: a refusal changes nothing
  }
  T* get() { return static_cast<T*>(data_); }
  const T* get() const { return static_cast<const T*>(data_); }
  T& operator[](size_t i) { return get()[i]; }
  const T& operator[](size_t i) const { return get()[i]; }

 private:
  void* data_ = nullptr;
};

}  // namespace cuzk
