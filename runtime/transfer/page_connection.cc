// Cuts a byte stream between two nodes into messages, and fills TLS records with the messages to
// send, without copying large parts.
#include "runtime/transfer/page_connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t length_bytes = sizeof(std::uint32_t);

}  // namespace

PageConnection::PageConnection(PageSocket socket, std::size_t message_max)
    : socket_(std::move(socket)), message_max_(message_max), received_(length_bytes) {
  staged_.reserve(record_bytes);
}

void PageConnection::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
}

// ---- receiving ----

// Reads until received_ has `end` bytes. Returns false if they are not all there yet.
bool PageConnection::fill(std::size_t end) {
  while (filled_ < end) {
    const PageSocket::Moved moved = socket_.read(std::span(received_).subspan(filled_, end - filled_));
    if (moved.progress == PageSocket::Progress::closed) fail("has closed the connection");
    if (moved.progress != PageSocket::Progress::some) return false;
    filled_ += moved.bytes;
  }
  return true;
}

std::optional<std::span<const std::uint8_t>> PageConnection::receive() {
  if (std::exchange(taken_, false)) filled_ = 0;
  if (!failure_.empty() || !fill(length_bytes)) return std::nullopt;
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, received_.data(), length_bytes);
  if (bytes == 0 || bytes > message_max_) {
    malformed_ = true;
    fail("has sent a message of " + std::to_string(bytes) + " bytes; expected 1.." +
         std::to_string(message_max_));
    return std::nullopt;
  }
  if (received_.size() < length_bytes + bytes) received_.resize(length_bytes + bytes);
  if (!fill(length_bytes + bytes)) return std::nullopt;
  taken_ = true;
  return std::span<const std::uint8_t>(received_).subspan(length_bytes, bytes);
}

// ---- sending ----

std::span<const std::uint8_t> PageConnection::part_left() const {
  const std::span<const std::uint8_t> part =
      part_ == 0 ? std::span<const std::uint8_t>(outgoing_.head) : outgoing_.parts[part_ - 1];
  return part.subspan(part_at_);
}

void PageConnection::skip(std::size_t bytes) {
  part_at_ += bytes;
  if (!part_left().empty()) return;
  ++part_;
  part_at_ = 0;
}

// Goes to the next part that has bytes left, of the next message if necessary.
bool PageConnection::has_message(const Source& next) {
  for (;;) {
    if (outgoing_.head.empty() || part_ > outgoing_.parts.size()) {
      outgoing_.head.assign(length_bytes, 0);
      outgoing_.parts.clear();
      part_ = part_at_ = 0;
      if (!next(outgoing_)) {
        outgoing_.head.clear();
        return false;
      }
      std::size_t bytes = outgoing_.head.size() - length_bytes;
      for (const auto& part : outgoing_.parts) bytes += part.size();
      const auto length = static_cast<std::uint32_t>(bytes);
      std::memcpy(outgoing_.head.data(), &length, length_bytes);
    }
    if (!part_left().empty()) return true;
    skip(0);
  }
}

// Returns the bytes of the next write, at most one record: a large part where it lies, or small ones
// copied together. A large part that does not fit behind small ones begins there and goes on alone.
// The same bytes are returned until they were written. Empty: there is nothing to send.
std::span<const std::uint8_t> PageConnection::next_bytes(const Source& next) {
  if (staged_at_ < staged_.size()) return std::span<const std::uint8_t>(staged_).subspan(staged_at_);
  staged_.clear();
  staged_at_ = 0;
  while (has_message(next)) {
    const auto left = part_left();
    const bool large = left.size() >= direct_bytes_min;
    if (staged_.empty() && large) return left.first(std::min(left.size(), record_bytes));
    const std::size_t space = record_bytes - staged_.size();
    if (left.size() > space && staged_.size() >= direct_bytes_min) break;
    const std::size_t bytes = left.size() <= space ? left.size() : std::min(left.size(), record_bytes) / 2;
    staged_.insert(staged_.end(), left.begin(), left.begin() + static_cast<std::ptrdiff_t>(bytes));
    skip(bytes);
    if (staged_.size() == record_bytes) break;
  }
  return staged_;
}

bool PageConnection::send(const Source& next) {
  for (std::size_t sent = 0; failure_.empty();) {
    const auto bytes = next_bytes(next);
    if (bytes.empty()) return false;
    if (sent >= sent_at_once) return true;
    const bool staged = !staged_.empty();
    const PageSocket::Moved moved = socket_.write(bytes);
    if (moved.progress == PageSocket::Progress::closed) fail("has closed the connection");
    if (moved.progress != PageSocket::Progress::some) return failure_.empty();
    sent += moved.bytes;
    staged ? void(staged_at_ += moved.bytes) : skip(moved.bytes);
  }
  return false;
}

}  // namespace troupe
