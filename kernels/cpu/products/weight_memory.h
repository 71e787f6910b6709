#pragma once
// Memory for the packed weights of a model. Every forward pass streams all of them, and with pages
// of 4 KiB address translation slows that stream. With huge pages a product of 10 to 24 rows whose
// weight is not in the second-level cache ran 1.1 to 1.2 times as fast. A huge page is larger than
// most weights, so weights are placed one after another in large chunks; a chunk lives until the
// last of its weights is destroyed.
#include <cstddef>
#include <memory>

namespace troupe::kernels {

class WeightMemory {
 public:
  static constexpr std::size_t default_chunk_bytes = std::size_t{32} << 20;

  // Chunks have `chunk_bytes`, or the size of a single weight if that is larger. Memory that is
  // never touched takes no pages.
  explicit WeightMemory(std::size_t chunk_bytes = default_chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  // Returns `count` uninitialised floats, aligned to a cache line. Not thread-safe.
  std::shared_ptr<float> take(std::size_t count);

 private:
  std::size_t chunk_bytes_;
  std::shared_ptr<std::byte> chunk_;
  std::size_t used_ = 0, size_ = 0;  // bytes of chunk_
};

}  // namespace troupe::kernels
