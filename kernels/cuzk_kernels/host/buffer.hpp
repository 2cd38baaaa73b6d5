// Uninitialised, cache-line aligned memory: the thread that first writes a page takes its fault.
#pragma once

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
    if (posix_memalign(&data_, 64, count * sizeof(T) + 64) != 0) throw std::bad_alloc();
  }
  T* get() { return static_cast<T*>(data_); }
  const T* get() const { return static_cast<const T*>(data_); }
  T& operator[](size_t i) { return get()[i]; }
  const T& operator[](size_t i) const { return get()[i]; }

 private:
  void* data_ = nullptr;
};

}  // namespace cuzk
