#pragma once
// Where a Redis is: redis://[[user]:password@]host[:port][/database]. A host that is an IPv6 address stands
// in brackets; user and password may hold %xx. TLS (rediss://) and Unix sockets are not supported.
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

struct RedisAddress {
  std::string host;
  std::uint16_t port = 6379;
  std::string user, password;  // "": none
  std::uint32_t database = 0;
  bool operator==(const RedisAddress&) const = default;
};

// Throws ConfigError, which holds nothing of the address, since a password may stand anywhere in one that is wrong:
// "redis://…: a port that is none; expected 1..65535, and an @ behind a password".
RedisAddress parse_redis_url(std::string_view url);

std::string describe(const RedisAddress& address);  // "redis://host:6379/0", without user and password

}  // namespace troupe
