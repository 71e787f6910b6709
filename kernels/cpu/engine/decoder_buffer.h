#pragma once
// A block of floats, aligned to a cache line: the working memory of a forward pass, sized by the largest
// batch seen until it is told to shrink. Growing loses the content, so does shrinking.
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
  // Gives all of it back if it is more than that.
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
