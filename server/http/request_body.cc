// Parses an HTTP request's body as bytes arrive, by length or in chunks. Limits apply before any
// byte is kept.
#include "server/http/request_body.h"

#include <algorithm>

namespace troupe::server {

namespace {

constexpr std::uint32_t size_digits_max = 16;

bool is_text(char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f); }

}  // namespace

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

RequestBody::RequestBody(std::uint64_t length, const BodyLimits& limits)
    : limits_(limits), at_(length == 0 ? At::done : At::length), left_(length) {
  if (length > limits.body_bytes_max && !limits.by_lines) refuse_size();
}

RequestBody RequestBody::chunked(const BodyLimits& limits) {
  RequestBody body(0, limits);
  body.at_ = At::size;
  return body;
}

RequestBody RequestBody::until_end(const BodyLimits& limits) {
  RequestBody body(0, limits);
  body.at_ = At::open;
  return body;
}

void RequestBody::end() {
  if (done() || fault_) return;
  if (at_ == At::open) return void(at_ = At::done);
  refuse(RefusalKind::malformed, "bad_http", "the body ended before its length", "the whole body");
}

std::size_t RequestBody::take(std::string_view bytes) {
  std::size_t taken = 0;
  drop_lines();
  while (taken < bytes.size() && !done() && !fault_) {
    if (at_ == At::open)
      taken += take_open(bytes.substr(taken));
    else if (at_ == At::length || at_ == At::data)
      taken += take_data(bytes.substr(taken));
    else
      take_byte(bytes[taken++]);
  }
  return taken;
}

std::size_t RequestBody::take_data(std::string_view bytes) {
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
  reserve_bytes(size);
  text_.append(bytes.substr(0, size));
  left_ -= size;
  if (left_ == 0) at_ = at_ == At::length ? At::done : At::data_cr;
  return size;
}

std::size_t RequestBody::take_open(std::string_view bytes) {
  if (!limits_.by_lines && bytes.size() > limits_.body_bytes_max - text_.size())
    return refuse_size(), bytes.size();
  reserve_bytes(bytes.size());
  text_.append(bytes);
  return bytes.size();
}

// Grows the buffer to at most twice what came and little more than may come. A larger body gets a
// large block, which the allocator returns to the system afterwards.
void RequestBody::reserve_bytes(std::size_t bytes) {
  constexpr std::size_t small = 16 << 10, large = 128 << 10;
  const std::size_t wanted = text_.size() + bytes;
  if (wanted <= text_.capacity()) return;
  const std::uint64_t most = limits_.by_lines
                                 ? std::max<std::uint64_t>(limits_.body_bytes_max + bytes, wanted)
                             : at_ == At::length ? text_.size() + left_
                                                 : limits_.body_bytes_max;
  const std::size_t roomy = std::max({2 * text_.capacity(), wanted, wanted > small ? large : 0});
  std::string larger;  // a non-empty string may reserve twice what is asked
  larger.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(roomy, most)));
  larger.append(text_);
  text_ = std::move(larger);
}

void RequestBody::take_byte(char c) {
  switch (at_) {
    case At::size:
      return take_size(c);
    case At::extension:
      return take_extension(c);
    case At::size_end:
      if (c == '\n') return size_is_read();
      return expect(c, '\n', At::data);
    case At::data_cr:
      return expect(c, '\r', At::data_lf);
    case At::data_lf:
      digits_ = extension_ = 0;
      return expect(c, '\n', At::size);
    case At::line:
      return take_line_start(c);
    case At::trailer:
      return take_trailer(c);
    case At::trailer_end:
      return expect(c, '\n', At::line);
    default:
      return expect(c, '\n', At::done);  // after the last line
  }
}

void RequestBody::take_size(char c) {
  const int digit = hex_digit(c);
  if (digit < 0 && digits_ > 0 && c == '\r') return void(at_ = At::size_end);
  if (digit < 0 && digits_ > 0 && c == ';') return void(at_ = At::extension);
  if (digit < 0 || ++digits_ > size_digits_max)
    return refuse(RefusalKind::malformed, "bad_http", "a chunk's size is not a number",
                  "at most 16 hexadecimal digits");
  left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
  if (!limits_.by_lines && left_ > limits_.body_bytes_max - text_.size()) refuse_size();
}

void RequestBody::take_extension(char c) {
  if (c == '\r') return void(at_ = At::size_end);
  if (!is_text(c))
    return refuse(RefusalKind::malformed, "bad_http", "a chunk's extension has a control character", "text");
  if (++extension_ > limits_.extension_bytes_max || ++extensions_ > limits_.extensions_bytes_max)
    refuse(RefusalKind::too_large, "extension_too_long", "chunk extensions are too long",
           "at most " + std::to_string(limits_.extension_bytes_max) + " bytes a chunk and " +
               std::to_string(limits_.extensions_bytes_max) + " in all");
}

void RequestBody::size_is_read() { at_ = left_ > 0 ? At::data : At::line; }

// After the last chunk: a trailer or the end.
void RequestBody::take_line_start(char c) {
  if (c == '\r') return void(at_ = At::last);
  if (++trailers_ > limits_.trailers_max)
    return refuse(RefusalKind::header_too_large, "trailer_too_long", "there are too many trailers",
                  "at most " + std::to_string(limits_.trailers_max) + ", or none: trailers are dropped");
  has_colon_ = false;
  if (c == ':' || c == ' ' || c == '\t')
    return refuse(RefusalKind::malformed, "bad_http", "a trailer has no name",
                  "name: value, or no trailers: they are dropped");
  at_ = At::trailer;
  take_trailer(c);
}

void RequestBody::take_trailer(char c) {
  if (c == '\r' && has_colon_) return void(at_ = At::trailer_end);
  if (!is_text(c))
    return refuse(RefusalKind::malformed, "bad_http", "a trailer is not a field",
                  "name: value, or no trailers: they are dropped");
  has_colon_ |= c == ':';
  if (++trailer_bytes_ > limits_.trailers_bytes_max)
    refuse(
        RefusalKind::header_too_large, "trailer_too_long", "the trailers are too long",
        "at most " + std::to_string(limits_.trailers_bytes_max) + " bytes, or no trailers: they are dropped");
}

void RequestBody::expect(char c, char wanted, At then) {
  if (c != wanted)
    return refuse(RefusalKind::malformed, "bad_http", "a chunk does not end where its size says",
                  "CRLF there");
  at_ = then;
}

void RequestBody::refuse(RefusalKind kind, std::string code, std::string what, std::string expected) {
  const char* where = at_ >= At::line ? "trailer" : "body";
  fault_ = Refusal{kind, std::move(code), std::move(what), where, std::move(expected)};
  text_ = {};
}

std::optional<std::string> RequestBody::next_line() {
  while (!fault_) {
    const std::size_t end = text_.find('\n', std::max(looked_at_, returned_));
    const bool whole = end != text_.npos || (done() && returned_ < text_.size());
    if (!whole) {
      drop_lines();
      looked_at_ = text_.size();
      if (text_.size() > limits_.body_bytes_max) refuse_line();
      return std::nullopt;
    }
    std::string line = text_.substr(returned_, end == text_.npos ? end : end - returned_);
    returned_ = std::min(returned_ + line.size() + 1, text_.size());
    if (returned_ == text_.size()) drop_lines();
    if (line.size() > limits_.body_bytes_max) return refuse_line(), std::nullopt;
    if (line.find_first_not_of(" \t\r") != line.npos) return line;
  }
  return std::nullopt;
}

// Moves the bytes after the returned lines to the front, once for all lines that came together: moving them
// for each line would take time quadratic in the number of lines. A buffer that was large for them is freed.
void RequestBody::drop_lines() {
  constexpr std::size_t kept_bytes = 16 << 10;
  if (returned_ == 0) return;
  if (text_.capacity() > kept_bytes && text_.size() - returned_ <= text_.capacity() / 4)
    std::string(text_, returned_).swap(text_);  // assigning a short one would keep the buffer
  else
    text_.erase(0, returned_);
  looked_at_ -= std::min(looked_at_, returned_);
  returned_ = 0;
}

void RequestBody::refuse_line() {
  refuse(RefusalKind::too_large, "line_too_long", "the line is too long",
         "at most " + std::to_string(limits_.body_bytes_max) + " bytes (http.body_bytes_max)");
}

void RequestBody::refuse_size() {
  refuse(RefusalKind::too_large, "body_too_long", "the body is too long",
         "at most " + std::to_string(limits_.body_bytes_max) + " bytes (http.body_bytes_max)");
}

}  // namespace troupe::server
