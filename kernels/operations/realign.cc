// Rotates all keys of a cached block, page by page, so that the block can be used at another
// position of a prompt.
#include "kernels/operations/realign.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

bool overlap(const std::byte* a, const std::byte* b, std::size_t bytes) {
  return a < b + bytes && b < a + bytes;
}

void rotate_run(const RealignVersion& version, const KvLayout& layout, const std::byte* from, std::byte* to,
                std::size_t tokens, const KeyRotation& rotation) {
  if (!rotation.cosines.empty())
    version.of_format[static_cast<std::size_t>(layout.format)](
        from, to, tokens, layout.head_dim, rotation.cosines.data(), rotation.sines.data());
  else if (from != to)
    std::memcpy(to, from, tokens * layout.vector_bytes());
}

// Realigns the keys of one head, and copies its values if the pages differ.
void realign_head(const RealignVersion& version, const KvLayout& layout, const std::byte* from, std::byte* to,
                  std::size_t tokens, const KeyRotation& rotation) {
  const std::size_t filled = tokens * layout.vector_bytes(), head = layout.head_bytes();
  rotate_run(version, layout, from, to, tokens, rotation);
  if (from == to) return;
  std::memset(to + filled, 0, head - filled);
  std::memcpy(to + head, from + head, filled);
  std::memset(to + head + filled, 0, head - filled);
}

}  // namespace

KeyRotation make_rotation(std::span<const double> frequencies, std::int64_t distance) {
  KeyRotation rotation;
  if (distance == 0) return rotation;
  for (const double frequency : frequencies) {
    const double angle = static_cast<double>(distance) * frequency;
    rotation.cosines.push_back(static_cast<float>(std::cos(angle)));
    rotation.sines.push_back(static_cast<float>(std::sin(angle)));
  }
  return rotation;
}

void realign(const RealignTask& task, const KeyRotation& rotation, const RealignVersion& version) {
  const KvLayout& layout = task.layout;
  TROUPE_CHECK(task.from.size() == layout.pages_for(task.tokens) && task.to.size() == task.from.size(),
               "realign: expected as many pages as the tokens fill, on both sides");
  TROUPE_CHECK(layout.head_dim % 2 == 0, "realign: expected an even head_dim");
  TROUPE_CHECK(rotation.cosines.empty() || rotation.cosines.size() == layout.head_dim / 2,
               "realign: expected angles for this head_dim");
  for (std::size_t p = 0; p < task.to.size(); ++p) {
    TROUPE_CHECK(task.from[p] == task.to[p] || !overlap(task.from[p], task.to[p], layout.page_bytes()),
                 "realign: expected pages that do not overlap");
    const std::size_t tokens =
        std::min<std::size_t>(layout.page_tokens, task.tokens - p * layout.page_tokens);
    for (std::uint32_t layer = 0; layer < layout.layers; ++layer)
      for (std::uint32_t head = 0; head < layout.kv_heads; ++head) {
        const std::size_t at = layout.keys(layer, head);
        realign_head(version, layout, task.from[p] + at, task.to[p] + at, tokens, rotation);
      }
  }
}

}  // namespace troupe::kernels
