#pragma once
// A block of floats, aligned to a cache line: working memory of a forward pass. Its size is that of
// the largest batch so far, until shrink() is called. Growing and shrinking lose the content.
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "kernels/base/check.h"

namespace troupe::kernels {

class FloatBuffer {
 public:
  void reserve(std::size_t count) {
    if (count <= count_) return;
    const std::size_t lines = (count * sizeof(float) + 63) / 64;
    data_.reset(static_cast<float*>(std::aligned_alloc(64, lines * 64)));
    TROUPE_CHECK(data_ != nullptr, "out of memory for the activations of a batch");
    count_ = count;
  }
  // Frees all of it if it is larger than `count`.
  void shrink(std::size_t count) {
    if (count_ <= count) return;
    data_.reset();
    count_ = 0;
  }
  float* data() const { return data_.get(); }
  std::size_t floats() const { return count_; }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  std::unique_ptr<float[], Free> data_;
  std::size_t count_ = 0;
};

}  // namespace troupe::kernels
