#pragma once
// Parser for the body of an HTTP request, fed as bytes arrive: a given length, or chunks (RFC 9112
// §7.1). It knows the limits before it keeps a byte: of the body, of chunk extensions, of trailers.
// Extensions and trailers are parsed and dropped; a field after the body is not a field of the
// request. Pure, so hostile bytes are tested without sockets.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/actor/messages.h"

namespace troupe::server {

int hex_digit(char c);  // -1 = not a hex digit

struct BodyLimits {
  std::uint32_t body_bytes_max = 1 << 20;
  bool by_lines = false;  // read line by line: the limit applies to a line, and the body has none
  std::uint32_t extension_bytes_max = 256;     // of one chunk
  std::uint32_t extensions_bytes_max = 4096;   // of all chunks
  std::uint32_t trailers_bytes_max = 8 << 10;  // of all lines
  std::uint32_t trailers_max = 64;             // lines
};

class RequestBody {
 public:
  RequestBody(std::uint64_t length, const BodyLimits& limits);  // a length beyond the limit is a fault
  static RequestBody chunked(const BodyLimits& limits);
  static RequestBody until_end(const BodyLimits& limits);  // of any length, until `end`

  // Consumes bytes from the front and returns how many belong to the body; the others belong to the
  // next request. Consumes nothing more once it is done or has a fault.
  std::size_t take(std::string_view bytes);

  void end();  // the sender has sent all of it: it is done, or has a fault if its length was longer

  bool done() const { return at_ == At::done; }
  const std::optional<Refusal>& fault() const { return fault_; }
  // The body; of one that is read by lines, empty if and only if no byte is left to return.
  const std::string& text() const { return text_; }
  // Returns the next non-empty line without its end, for a body read by lines; nullopt = more bytes
  // are needed, or no line is left. A line that is too long is a fault.
  std::optional<std::string> next_line();
  std::size_t held_bytes() const { return text_.capacity(); }

 private:
  enum class At : std::uint8_t {
    length,
    open,
    size,
    extension,
    size_end,
    data,
    data_cr,
    data_lf,
    line,
    trailer,
    trailer_end,
    last,
    done
  };

  void take_byte(char c);
  void take_size(char c);
  void take_extension(char c);
  void take_line_start(char c);
  void take_trailer(char c);
  std::size_t take_data(std::string_view bytes);
  std::size_t take_open(std::string_view bytes);
  void size_is_read();
  void expect(char c, char wanted, At then);
  void reserve_bytes(std::size_t bytes);
  void refuse(RefusalKind kind, std::string code, std::string what, std::string expected);
  void refuse_size();
  void refuse_line();
  void drop_lines();

  BodyLimits limits_;
  At at_ = At::length;
  std::uint64_t left_ = 0;  // bytes left of the length, or of the chunk
  std::uint32_t digits_ = 0, extension_ = 0, extensions_ = 0, trailer_bytes_ = 0, trailers_ = 0;
  bool has_colon_ = false;  // the trailer has a colon
  std::string text_;
  std::size_t returned_ = 0;   // text before this was returned as lines
  std::size_t looked_at_ = 0;  // text between `returned_` and this has no line end
  std::optional<Refusal> fault_;
};

}  // namespace troupe::server
