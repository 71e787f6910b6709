// Parses and writes the parts of gRPC's protocol that are not messages.
#include "server/grpc/grpc_framing.h"

#include <algorithm>

namespace troupe::server {

namespace {

std::uint32_t length_of(std::string_view prefix) {
  std::uint32_t length = 0;
  for (const char c : prefix.substr(1, 4)) length = length << 8 | static_cast<unsigned char>(c);
  return length;
}

}  // namespace

void GrpcMessages::take(std::string_view bytes) {
  while (!bytes.empty() && fault_ == Fault::none && text_.size() < prefix_bytes) {
    text_ += bytes.front();
    bytes.remove_prefix(1);
    if (text_.size() == prefix_bytes) check_prefix();
  }
  if (fault_ == Fault::none) text_.append(bytes);
}

// Later messages within `text_` are checked when they become the first.
void GrpcMessages::check_prefix() {
  const char flag = text_.front();
  if (flag != 0) fault_ = flag == 1 ? Fault::compressed : Fault::bad_flag;
  if (fault_ == Fault::none && length_of(text_) > bytes_max_) fault_ = Fault::too_large;
  if (fault_ != Fault::none) text_ = std::string();
}

std::optional<std::string> GrpcMessages::next() {
  if (fault_ != Fault::none || text_.size() < prefix_bytes) return std::nullopt;
  const std::size_t length = length_of(text_);
  if (text_.size() - prefix_bytes < length) return std::nullopt;
  std::string message = text_.substr(prefix_bytes, length);
  text_.erase(0, prefix_bytes + length);
  if (text_.size() >= prefix_bytes) check_prefix();
  return message;
}

bool GrpcMessages::has_surplus() const {
  return text_.size() >= prefix_bytes && text_.size() - prefix_bytes > length_of(text_);
}

std::string grpc_message(std::string_view bytes) {
  std::string text(1, '\0');
  for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(bytes.size() >> shift & 0xff);
  return text.append(bytes);
}

std::optional<std::int64_t> parse_grpc_timeout_us(std::string_view text) {
  constexpr std::size_t digits_max = 8;
  if (text.size() < 2 || text.size() > digits_max + 1) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  switch (text.back()) {
    case 'H':
      return value * 3'600'000'000;
    case 'M':
      return value * 60'000'000;
    case 'S':
      return value * 1'000'000;
    case 'm':
      return value * 1'000;
    case 'u':
      return value;
    case 'n':
      return (value + 999) / 1'000;
    default:
      return std::nullopt;
  }
}

std::string cut_text(std::string text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xc0) == 0x80) --bytes_max;
  text.resize(bytes_max);
  return text;
}

std::string grpc_status_text(std::string_view text, std::size_t bytes_max) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : cut_text(std::string(text), bytes_max)) {
    if (c >= 0x20 && c < 0x7f && c != '%') {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += '%';
    encoded += digits[byte >> 4];
    encoded += digits[byte & 15];
  }
  return encoded;
}

}  // namespace troupe::server
