#pragma once
// Counts the frames of an HTTP/2 connection before anything parses them, and reports a flood: frames
// that cost the server work and bring no request forward. They are PING, SETTINGS, PRIORITY,
// RST_STREAM, WINDOW_UPDATE, CONTINUATION, unknown frames, and DATA that is empty, tiny or padded.
// A connection has a budget of such frames, which grows with time and with answered requests. The
// header block of one request is bounded, too, in however many frames it comes. Pure: the time is
// an argument.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::server {

struct FrameLimits {
  std::uint32_t burst = 1'000;                  // frames that a new or idle connection may send at once
  std::uint32_t per_second = 200;               // growth of the budget
  std::uint32_t per_answer = 16, per_data = 4;  // growth for an answered request, for a DATA frame sent
  // of HEADERS and its CONTINUATION frames
  std::uint32_t header_block_bytes_max = 32 << 10, continuations_max = 8;
};

class FrameMeter {
 public:
  explicit FrameMeter(const FrameLimits& limits) : limits_(limits), budget_(limits.burst) {}

  // Counts the frames that begin in these bytes, the next of the connection. Returns false once the
  // connection floods the server; nothing more is counted then.
  bool take(std::string_view bytes, std::int64_t now_us);

  void note_answer() { add(limits_.per_answer); }
  void note_data_sent() { add(limits_.per_data); }
  std::uint64_t frames() const { return frames_; }

 private:
  static constexpr std::size_t preface_bytes = 24, head_bytes = 9;

  bool take_head();
  bool spend();
  void add(std::uint64_t more);

  const FrameLimits limits_;
  std::uint64_t budget_;
  std::int64_t filled_us_ = INT64_MIN;  // time up to which the budget has grown
  std::uint64_t skip_ = preface_bytes;  // bytes before the next frame
  unsigned char head_[head_bytes] = {};
  std::size_t in_head_ = 0;          // bytes of the next frame's head
  std::uint64_t header_block_ = 0;   // bytes of the present header block
  std::uint32_t continuations_ = 0;  // its CONTINUATION frames
  std::uint64_t frames_ = 0;
};

}  // namespace troupe::server
