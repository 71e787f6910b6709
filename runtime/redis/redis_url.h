#pragma once
// Where a Redis is: redis://[[user]:password@]host[:port][/database], or rediss:// for TLS. A host that is an
// IPv6 address stands in brackets; user and password may hold %xx. Unix sockets are not supported. Not
// Boost.URL, which takes no password with an @ in it, as people paste them, and whose errors would have to be
// kept from telling the address.
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
  std::string user, password;  // "": none
  std::uint32_t database = 0;
  bool tls = false;
  std::shared_ptr<const TlsClient> trust = nullptr;  // of who speaks TLS
  bool operator==(const RedisAddress&) const = default;
};

// Throws ConfigError, which holds nothing of the address, since a password may stand anywhere in one that is
// wrong: "redis://…: a port that is none; expected 1..65535, and an @ behind a password".
RedisAddress parse_redis_url(std::string_view url);

// What an address that was read lacks: whom it believes, and a login that stands in a file of its own ("":
// none does). Throws ConfigError, which tells no secret.
void complete(RedisAddress& address, const TlsClientFiles& files, const std::string& login_file);

std::string describe(const RedisAddress& address);  // "redis://host:6379/0", without user and password

}  // namespace troupe
