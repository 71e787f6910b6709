#pragma once
// Parses a Redis address: redis://[[user]:password@]host[:port][/database], or rediss:// for TLS.
// An IPv6 host is in brackets; user and password may contain %xx. Unix sockets are not supported.
// Boost.URL is not used: it rejects a pasted password with an @ in it, and its errors could reveal
// the address.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/tls/login.h"
#include "runtime/tls/tls_client.h"

namespace troupe {

struct RedisAddress {
  std::string host;
  std::uint16_t port = 6379;
  std::string user, password;  // "" = none
  std::uint32_t database = 0;
  bool tls = false;
  std::shared_ptr<const TlsClient> trust = nullptr;  // certificates to trust over TLS
  bool operator==(const RedisAddress&) const = default;
};

// Throws ConfigError, whose text quotes nothing of the address, because a password may be anywhere
// in a malformed one: "redis://…: a port that is invalid; expected 1..65535, and an @ after a
// password".
RedisAddress parse_redis_url(std::string_view url);

// Adds the trusted certificates and the login from a file ("" = no file). Throws ConfigError, which
// reveals no secret.
void complete(RedisAddress& address, const TlsClientFiles& files, const std::string& login_file);

std::string describe(const RedisAddress& address);  // "redis://host:6379/0", without user and password

}  // namespace troupe
