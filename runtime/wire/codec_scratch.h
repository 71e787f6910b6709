#pragma once
// Per-thread memory in which messages are built. A builder would take zeroed memory from the
// allocator for everything that does not fit into its first segment. Large zeroed blocks come fresh
// from the system and cost a page fault per page. The first segment therefore stays with the thread
// and grows to the size of its messages. The builder leaves it zeroed. Included only by codec.cc
// and json.cc.
#include <capnp/message.h>

#include <algorithm>
#include <cstddef>

namespace troupe::codec {

class MessageScratch {
 public:
  static constexpr std::size_t words_min = 1 << 10, words_max = 1 << 17;  // 8 KiB, 1 MiB

  // Returns the first segment for the next builder; the previous builder must be destroyed.
  kj::ArrayPtr<capnp::word> segment() {
    if (wanted_ > segment_.size()) {
      segment_ = kj::heapArray<capnp::word>(wanted_);
      std::fill(segment_.asBytes().begin(), segment_.asBytes().end(), kj::byte{0});
    }
    return segment_;
  }
  // Call after a message of `words` words was built. Returns false if it did not fit into the
  // segment; the next segment will have twice its size. Code whose bytes must not depend on earlier
  // messages of the thread then builds it again.
  bool record_size(std::size_t words) {
    if (words <= segment_.size() || segment_.size() == words_max) return true;
    wanted_ = std::min(2 * words, words_max);
    return false;
  }

 private:
  kj::Array<capnp::word> segment_;
  std::size_t wanted_ = words_min;
};

}  // namespace troupe::codec
