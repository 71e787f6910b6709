// Creates, reads and checks API keys. The key file contains only salted hashes, so it does not
// reveal keys.
#include "server/auth/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "runtime/wire/json_bounds.h"
#include "runtime/wire/json_text.h"

namespace troupe::server {
namespace {

using KeyLine = nlohmann::ordered_json;

constexpr std::size_t id_bytes = 6, salt_bytes = 16, secret_bytes = 32, tenant_bytes_max = 256;
constexpr std::string_view key_begins = "tk-", scheme = "bearer ";

std::string hex_of(std::span<const unsigned char> bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

template <std::size_t bytes>
std::string random_hex() {
  std::array<unsigned char, bytes> drawn{};
  if (RAND_bytes(drawn.data(), static_cast<int>(drawn.size())) != 1)
    throw KeysError("the system provides no random bytes");
  return hex_of(drawn);
}

std::string hash_of(std::string_view salt, std::string_view secret) {
  const std::string text = std::string(salt) + ":" + std::string(secret);
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), sum.data(), &size, EVP_sha256(), nullptr);
  return hex_of(std::span(sum).first(size));
}

bool is_hex(const std::string& text, std::size_t bytes) {
  return text.size() == 2 * bytes &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'f'); });
}

[[noreturn]] void bad_line(std::size_t line, const std::string& what) {
  throw KeysError(std::to_string(line) + ": " + what + "; expected lines that `troupe keys add` wrote");
}

ApiKey key_of(const KeyLine& line, std::size_t number) {
  ApiKey key;
  for (const auto& [name, value] : line.items()) {
    if (name == "id" && value.is_string())
      key.id = value;
    else if (name == "tenant" && value.is_string())
      key.tenant = value;
    else if (name == "any_tenant" && value.is_boolean())
      key.any_tenant = value;
    else if (name == "admin" && value.is_boolean())
      key.admin = value;
    else if (name == "scrape" && value.is_boolean())
      key.scrape = value;
    else if (name == "rate" && value.is_number() && value >= 0)
      key.rate = value;
    else if (name == "at_once" && value.is_number_unsigned() && value <= UINT32_MAX)
      key.at_once = value;
    else if (name == "salt" && value.is_string())
      key.salt = value;
    else if (name == "hash" && value.is_string())
      key.hash = value;
    else if (name == "made" && value.is_string())
      key.made = value;
    else
      bad_line(number, printable(name.substr(0, 64)) + " is not known, or has the wrong type");
  }
  if (!is_hex(key.id, id_bytes) || !is_hex(key.salt, salt_bytes) || !is_hex(key.hash, 32))
    bad_line(number, "id, salt or hash is malformed");
  if (key.tenant.size() > tenant_bytes_max) bad_line(number, "the tenant has more than 256 bytes");
  return key;
}

Refusal no_key() {
  return {RefusalKind::unauthenticated, "no_key", "the request has no key", "authorization",
          "Bearer and a key of this server (troupe keys add)"};
}

// Gives the same answer for every fault, so that a client cannot learn which ids exist.
Refusal bad_key() {
  return {RefusalKind::unauthenticated, "bad_key", "the key does not belong to this server, or was revoked",
          "authorization", "Bearer and a key of this server (troupe keys add)"};
}

}  // namespace

std::optional<Refusal> reject_without_right(const ApiKey& key, KeyRight right) {
  const auto refused = [](const char* code, const char* what, const char* expected) {
    return Refusal{RefusalKind::forbidden, code, what, "authorization", expected};
  };
  if (right == KeyRight::none || key.admin) return std::nullopt;
  if (right == KeyRight::metrics && key.scrape) return std::nullopt;
  if (right == KeyRight::metrics)
    return refused("needs_scrape_key", "metrics show the names and the load of all tenants",
                   "a key made with --scrape or --admin");
  if (right == KeyRight::admin)
    return refused("needs_admin_key", "this path shows the whole cluster", "a key made with --admin");
  if (key.scrape)
    return refused("only_metrics", "the key may only read metrics", "GET /metrics, or another key");
  return std::nullopt;
}

ApiKeys ApiKeys::parse(std::string_view text) {
  ApiKeys keys;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (!exceeded_bound(line, {.values_max = 64, .depth_max = 2}).empty())
      bad_line(number, "the line is not a key");
    const KeyLine parsed = KeyLine::parse(line, nullptr, false);
    if (!parsed.is_object()) bad_line(number, "the line is not a JSON object");
    ApiKey key = key_of(parsed, number);
    if (keys.keys_.contains(key.id)) bad_line(number, "the id " + key.id + " appears twice");
    keys.add(std::move(key));
  }
  return keys;
}

std::string ApiKeys::text() const {
  std::string text;
  for (const auto& [id, key] : keys_) {
    KeyLine line{{"id", id}, {"tenant", key.tenant}};
    if (key.any_tenant) line["any_tenant"] = true;
    if (key.admin) line["admin"] = true;
    if (key.scrape) line["scrape"] = true;
    if (key.rate > 0) line["rate"] = key.rate;
    if (key.at_once > 0) line["at_once"] = key.at_once;
    line["salt"] = key.salt, line["hash"] = key.hash, line["made"] = key.made;
    text += line.dump() + "\n";
  }
  return text;
}

std::variant<ApiKeys::Caller, Refusal> ApiKeys::find(std::string_view authorization,
                                                     std::string_view tenant_header) const {
  if (authorization.empty()) return no_key();
  const bool is_bearer =
      authorization.size() > scheme.size() &&
      std::ranges::equal(authorization.substr(0, scheme.size()), scheme, {},
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view text = is_bearer ? authorization.substr(scheme.size()) : std::string_view();
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (!text.starts_with(key_begins) || text.size() != key_begins.size() + 2 * (id_bytes + secret_bytes) + 1)
    return bad_key();
  text.remove_prefix(key_begins.size());
  const auto found = keys_.find(std::string(text.substr(0, 2 * id_bytes)));
  const std::string_view secret = text.substr(2 * id_bytes + 1);
  static const ApiKey nobody{.salt = std::string(2 * salt_bytes, '0'), .hash = std::string(64, '0')};
  const ApiKey& key = found == keys_.end() ? nobody : found->second;
  const std::string hash = hash_of(key.salt, secret);
  if (CRYPTO_memcmp(hash.data(), key.hash.data(), hash.size()) != 0 || found == keys_.end()) return bad_key();
  if (key.any_tenant && !tenant_header.empty()) return Caller{&key, std::string(tenant_header)};
  if (!tenant_header.empty() && tenant_header != key.tenant)
    return Refusal{RefusalKind::forbidden, "not_your_tenant",
                   "the key belongs to another tenant than the header names", "x-troupe-tenant",
                   "the key's own tenant, or no header"};
  return Caller{&key, key.tenant};
}

NewKey make_key(ApiKey wanted) {
  const std::string secret = random_hex<secret_bytes>();
  wanted.id = random_hex<id_bytes>();
  wanted.salt = random_hex<salt_bytes>();
  wanted.hash = hash_of(wanted.salt, secret);
  return {wanted, std::string(key_begins) + wanted.id + "-" + secret};
}

}  // namespace troupe::server
