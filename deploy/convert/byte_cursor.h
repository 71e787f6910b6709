#pragma once
// Reads little-endian numbers from bytes, with bounds. Used by the readers of archives and pickles.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::deploy {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

// Returns the number at `offset`, or nothing if the bytes end before.
template <class Number>
std::optional<Number> number_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(Number)) return std::nullopt;
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

// Position in bytes that are read from front to end. Every read says whether the bytes were there.
class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes, std::uint64_t position = 0)
      : bytes_(bytes), position_(position) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t left() const { return position_ > bytes_.size() ? 0 : bytes_.size() - position_; }

  template <class Number>
  std::optional<Number> take() {
    const auto number = number_at<Number>(bytes_, position_);
    if (number) position_ += sizeof(Number);
    return number;
  }
  std::optional<std::string_view> take_text(std::uint64_t length) {
    if (length > left()) return std::nullopt;
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + position_, length);
    position_ += length;
    return text;
  }
  bool skip(std::uint64_t length) { return take_text(length).has_value(); }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t position_;
};

}  // namespace troupe::deploy
