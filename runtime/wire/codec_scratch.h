#pragma once
// Where a thread builds its messages. A builder would take zeroed memory from the allocator for whatever its
// first segment has no room for, and large zeroed blocks come fresh from the system, a page fault for every
// page; so the first segment stays with the thread and grows to what its messages took. The builder leaves it
// zero again. Included only by codec.cc and json.cc.
#include <capnp/message.h>

#include <algorithm>
#include <cstddef>

namespace troupe::codec {

class Scratch {
 public:
  static constexpr std::size_t words_min = 1 << 10, words_max = 1 << 17;  // 8 KiB, 1 MiB

  // Of the builder to come; the one before is gone.
  kj::ArrayPtr<capnp::word> segment() {
    if (wanted_ > segment_.size()) {
      segment_ = kj::heapArray<capnp::word>(wanted_);
      std::fill(segment_.asBytes().begin(), segment_.asBytes().end(), kj::byte{0});
    }
    return segment_;
  }
  // A message was built. False: not in one piece, for want of room; there is room for twice as much from now
  // on. What has to be the same bytes whatever the thread built before is built again then.
  bool took(std::size_t words) {
    if (words <= segment_.size() || segment_.size() == words_max) return true;
    wanted_ = std::min(2 * words, words_max);
    return false;
  }

 private:
  kj::Array<capnp::word> segment_;
  std::size_t wanted_ = words_min;
};

}  // namespace troupe::codec
