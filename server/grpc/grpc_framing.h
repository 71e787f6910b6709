#pragma once
// gRPC over HTTP/2 without messages: the length before each message, the deadline of a call, and its
// status. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http2/http2_session.h"

namespace troupe::server {

// Numbers of gRPC's statuses.
enum class GrpcCode : std::uint8_t {
  ok = 0,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  unauthenticated = 16
};

// Divides a request's body into messages. A message that is too large or compressed is a fault as soon
// as its length has come, and nothing of it is kept.
class GrpcMessages {
 public:
  enum class Fault : std::uint8_t { none, too_large, compressed, bad_flag };

  explicit GrpcMessages(std::uint32_t bytes_max) : bytes_max_(bytes_max) {}

  void take(std::string_view bytes);
  // Returns the next whole message.
  std::optional<std::string> next();
  Fault fault() const { return fault_; }
  bool is_within_message() const { return !text_.empty(); }
  bool has_surplus() const;  // bytes after the first message have come
  std::size_t held_bytes() const { return text_.capacity(); }

 private:
  static constexpr std::size_t prefix_bytes = 5;

  void check_prefix();

  std::uint32_t bytes_max_;
  std::string text_;  // from the length of the first message on
  Fault fault_ = Fault::none;
};

std::string grpc_message(std::string_view bytes);  // with its length before it

// Returns the microseconds of a grpc-timeout, at least 1 unless it is 0; nullopt = malformed. The
// longest, 99999999H, is 11,415 years and fits.
std::optional<std::int64_t> parse_grpc_timeout_us(std::string_view text);

// Returns the text as a value of grpc-message: cut to `bytes_max` bytes at the end of a character, and
// percent-encoded.
std::string grpc_status_text(std::string_view text, std::size_t bytes_max);

std::string cut_text(std::string text, std::size_t bytes_max);  // at the end of a character

}  // namespace troupe::server
