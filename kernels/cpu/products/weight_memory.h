#pragma once
// Memory for the packed weights of a model. Every forward pass streams all of them, and in pages of 4 KiB
// that stream is held up by address translation: with huge pages a product of 10 to 24 rows whose weight is
// not in the second-level cache ran 1.1 to 1.2 times as fast. A huge page is larger than most weights, so
// they are placed one after another in large chunks; a chunk lives until the last of its weights is gone.
#include <cstddef>
#include <memory>

namespace troupe::kernels {

class WeightMemory {
 public:
  static constexpr std::size_t default_chunk_bytes = std::size_t{32} << 20;

  // Chunks have `chunk_bytes`, or what a single weight needs if that is more. Pages that are never touched
  // are never backed.
  explicit WeightMemory(std::size_t chunk_bytes = default_chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  // `count` floats, uninitialised, aligned to a cache line. Not for several threads at once.
  std::shared_ptr<float> take(std::size_t count);

 private:
  std::size_t chunk_bytes_;
  std::shared_ptr<std::byte> chunk_;
  std::size_t used_ = 0, size_ = 0;  // bytes of chunk_
};

}  // namespace troupe::kernels
