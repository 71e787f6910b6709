#pragma once
// Authenticates requests by API keys. The file keeps only salted hashes of keys, one JSON object per
// line (wrapped here):
//   {"id":"9f86d081884c","tenant":"acme","salt":"…","hash":"…","admin":true,"rate":50,"at_once":8,
//    "made":"2026-11-24"}
// A key is "tk-ID-SECRET". The secret has 256 random bits, so its salted SHA-256
// cannot be guessed and no slow hash is needed. The comparison takes the same time wherever the
// hashes differ. Pure except for the random numbers in make_key().
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe::server {

// Holds "keys.jsonl:3: …; expected …", without the file's name.
struct KeysError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ApiKey {
  std::string id;             // not secret: shown and logged
  std::string tenant;         // tenant of requests with this key
  bool any_tenant = false;    // may act for the tenant that the header names, as a gateway does
  bool admin = false;         // may change versions and the catalog, and see all tenants
  bool scrape = false;        // may read metrics, and nothing else
  double rate = 0;            // requests per second; 0 = the server's limit per tenant
  std::uint32_t at_once = 0;  // unanswered requests; 0 = the server's limit per tenant
  std::string salt, hash;     // hexadecimal
  std::string made;           // day of creation
};

// Right that a request needs of its key.
enum class KeyRight : std::uint8_t {
  none,     // whoever asks, with a key or without
  ask,      // for the key's tenant
  metrics,  // of all tenants
  admin     // sees all tenants
};

// Refuses with 403 `needs_admin_key`, `needs_scrape_key` or `only_metrics`.
std::optional<Refusal> reject_without_right(const ApiKey& key, KeyRight right);

class ApiKeys {
 public:
  static constexpr std::size_t file_bytes_max = 16 << 20;

  static ApiKeys parse(std::string_view text);  // throws KeysError
  std::string text() const;
  void add(ApiKey key) { keys_[key.id] = std::move(key); }
  bool revoke(const std::string& id) { return keys_.erase(id) > 0; }
  const std::map<std::string, ApiKey>& all() const { return keys_; }

  // Finds the key in the header `authorization` ("Bearer tk-…") and the tenant that it may act for.
  // Refuses with 401 no_key or bad_key, and with 403 not_your_tenant if the header names another
  // tenant. The returned key lives as long as the keys.
  struct Caller {
    const ApiKey* key = nullptr;
    std::string tenant;
  };
  std::variant<Caller, Refusal> find(std::string_view authorization, std::string_view tenant_header) const;

 private:
  std::map<std::string, ApiKey> keys_;
};

// A new key with random id, salt and hash, and its full text, which cannot be recovered later.
struct NewKey {
  ApiKey key;
  std::string text;
};
NewKey make_key(ApiKey wanted);

}  // namespace troupe::server
