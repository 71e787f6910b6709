// Counts frames by their nine-byte heads (RFC 9113 §4.1) and skips their payloads.
#include "server/http2/frame_meter.h"

#include <algorithm>

namespace troupe::server {

namespace {

enum FrameType : unsigned char { data_frame = 0, headers_frame = 1, continuation_frame = 9 };
constexpr unsigned char end_stream = 0x1, padded = 0x8;
constexpr std::uint64_t tiny_data_bytes = 16;
constexpr std::int64_t second_us = 1'000'000;

}  // namespace

bool FrameMeter::take(std::string_view bytes, std::int64_t now_us) {
  if (filled_us_ == INT64_MIN) filled_us_ = now_us;
  const std::int64_t passed_us = std::clamp<std::int64_t>(now_us - filled_us_, 0, 60 * second_us);
  const auto grown = static_cast<std::uint64_t>(passed_us) * limits_.per_second / second_us;
  if (grown > 0) add(grown), filled_us_ = now_us;
  while (!bytes.empty()) {
    if (skip_ > 0) {
      const auto skipped = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, bytes.size()));
      bytes.remove_prefix(skipped);
      skip_ -= skipped;
      continue;
    }
    head_[in_head_++] = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (in_head_ == head_bytes && !take_head()) return false;
  }
  return true;
}

bool FrameMeter::take_head() {
  in_head_ = 0;
  ++frames_;
  const std::uint64_t length = std::uint64_t{head_[0]} << 16 | std::uint64_t{head_[1]} << 8 | head_[2];
  const unsigned char type = head_[3], flags = head_[4];
  skip_ = length;
  if (type == data_frame)
    return (length > tiny_data_bytes && !(flags & padded)) || (flags & end_stream) || spend();
  const bool continues = type == continuation_frame;
  header_block_ = continues ? header_block_ + length : length;
  continuations_ = continues ? continuations_ + 1 : 0;
  const bool is_block = type == headers_frame || continues;
  if (is_block && header_block_ > limits_.header_block_bytes_max) return false;
  if (continuations_ > limits_.continuations_max) return false;
  return spend();
}

bool FrameMeter::spend() {
  if (budget_ == 0) return false;
  --budget_;
  return true;
}

void FrameMeter::add(std::uint64_t more) { budget_ = std::min<std::uint64_t>(budget_ + more, limits_.burst); }

}  // namespace troupe::server
