#pragma once
// Who may come in: API keys, of which only salted hashes are kept, one JSON object a line:
//   {"id":"9f86d081884c","tenant":"acme","salt":"…","hash":"…","admin":true,"rate":50,"at_once":8,"made":"2026-11-24"}
// A key is "tk-ID-SECRET". The secret has 256 random bits, so its SHA-256 behind a salt cannot be guessed,
// and no slow hash is needed; it is compared in a time that does not depend on where it differs. Pure but for
// chance in make_key().
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/actor/messages.h"

namespace troupe::server {

// "keys.jsonl:3: …; expected …", without the file's name.
struct KeysError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ApiKey {
  std::string id;             // is told and logged
  std::string tenant;         // who asks with it
  bool any_tenant = false;    // may speak for whichever tenant its header names: a gateway's
  bool admin = false;         // may change versions, and the catalog
  double rate = 0;            // requests a second; 0: as many as the door lets a tenant
  std::uint32_t at_once = 0;  // the same, of requests without an answer
  std::string salt, hash;     // hexadecimal
  std::string made;           // the day
};

class ApiKeys {
 public:
  static constexpr std::size_t file_bytes_max = 16 << 20;

  static ApiKeys parse(std::string_view text);  // throws KeysError
  std::string text() const;
  void add(ApiKey key) { keys_[key.id] = std::move(key); }
  bool revoke(const std::string& id) { return keys_.erase(id) > 0; }
  const std::map<std::string, ApiKey>& all() const { return keys_; }

  // Whose the header `authorization` is ("Bearer tk-…"), and for whom it may ask. 401 no_key, bad_key; 403
  // not_your_tenant where the header names another tenant. A key outlives this only with the keys.
  struct Asker {
    const ApiKey* key = nullptr;
    std::string tenant;
  };
  std::variant<Asker, Refusal> find(std::string_view authorization, std::string_view tenant_header) const;

 private:
  std::map<std::string, ApiKey> keys_;
};

// A new key with a random id, salt and hash, and its whole text, which nobody can tell again.
struct MadeKey {
  ApiKey key;
  std::string text;
};
MadeKey make_key(ApiKey wanted);

}  // namespace troupe::server
