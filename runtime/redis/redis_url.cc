// Parses a Redis address such as `rediss://user:password@host:6379/0`. Its errors never quote the
// address, which may contain a password.
#include "runtime/redis/redis_url.h"

#include <charconv>
#include <optional>

#include "runtime/config/config.h"

namespace troupe {
namespace {

// Error texts quote nothing of the address: without its @ a password is parsed as a port or a
// database.
[[noreturn]] void fail(const std::string& what, const std::string& expected) {
  throw ConfigError("redis://…: " + what + "; expected " + expected);
}

constexpr const char* form = "redis://[[user]:password@]host[:port][/database]";

std::uint32_t number(std::string_view text, const std::string& name, std::uint32_t least,
                     std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    fail("a " + name + " that is invalid",
         std::to_string(least) + ".." + std::to_string(most) + ", and an @ after a password");
  return value;
}

std::optional<unsigned> hex_byte(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 2 || error != std::errc() || end != text.data() + 2) return {};
  return value;
}

std::string percent_decoded(std::string_view text, const char* name) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const auto byte = hex_byte(text.substr(i + 1, 2));
    if (!byte) fail(std::string("a % in the ") + name + " that is not followed by two hex digits", "%25");
    plain += static_cast<char>(*byte);
    i += 2;
  }
  return plain;
}

void take_login(std::string_view login, RedisAddress& address) {
  const std::size_t colon = login.find(':');
  if (colon == std::string_view::npos || colon + 1 == login.size())
    fail("a login without a password", "[user]:password before the @");
  address.user = percent_decoded(login.substr(0, colon), "user");
  address.password = percent_decoded(login.substr(colon + 1), "password");
}

void take_host(std::string_view text, RedisAddress& address) {
  const bool bracket = text.starts_with('[');
  const std::size_t end = bracket ? text.find(']') : text.find(':');
  if (bracket && end == std::string_view::npos) fail("a [ without a ]", "[::1]");
  address.host = bracket ? text.substr(1, end - 1) : text.substr(0, end);
  if (address.host.empty()) fail("no host", form);
  for (const char c : address.host)
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) fail("a blank in the host", form);
  std::string_view rest = end == std::string_view::npos ? "" : text.substr(end + (bracket ? 1 : 0));
  if (rest.empty()) return;
  if (rest.front() != ':') fail("text after the ]", "[host]:port");
  address.port = static_cast<std::uint16_t>(number(rest.substr(1), "port", 1, 65535));
}

}  // namespace

RedisAddress parse_redis_url(std::string_view url) {
  constexpr std::string_view scheme = "redis://", secure = "rediss://";
  RedisAddress address;
  address.tls = url.starts_with(secure);
  if (!address.tls && !url.starts_with(scheme)) fail("another scheme", form);
  url.remove_prefix(address.tls ? secure.size() : scheme.size());
  // The last @: some passwords contain an unescaped one.
  if (const std::size_t at = url.rfind('@'); at != std::string_view::npos) {
    take_login(url.substr(0, at), address);
    url.remove_prefix(at + 1);
  }
  if (const std::size_t slash = url.find('/'); slash != std::string_view::npos) {
    if (slash + 1 < url.size()) address.database = number(url.substr(slash + 1), "database", 0, 1'000'000);
    url = url.substr(0, slash);
  }
  take_host(url, address);
  return address;
}

void complete(RedisAddress& address, const TlsClientFiles& files, const std::string& login_file) {
  if (address.tls) address.trust = std::make_shared<const TlsClient>(files);
  if (!address.tls && files != TlsClientFiles{})
    fail("files for TLS, but an address without TLS", "rediss://, or no TLS files");
  if (login_file.empty()) return;
  if (!address.password.empty()) fail("a login both in the address and in a file", "one of the two");
  const Login login = read_login(login_file);
  address.user = login.user, address.password = login.password;
}

std::string describe(const RedisAddress& address) {
  const bool bracket = address.host.find(':') != std::string::npos;
  return (address.tls ? "rediss://" : "redis://") + (bracket ? "[" + address.host + "]" : address.host) +
         ":" + std::to_string(address.port) + "/" + std::to_string(address.database);
}

}  // namespace troupe
