// Makes the owner key under which a user's blocks are stored, and the hash that picks the user's
// home. The home is the worker to which requests of that user go by default.
#include "runtime/actor/user_home.h"

#define XXH_STATIC_LINKING_ONLY  // for a state on the stack
#include <xxhash.h>

#include <charconv>
#include <optional>

namespace troupe {
namespace {

void add(XXH3_state_t& state, std::string_view text) {
  const std::uint64_t bytes = text.size();
  XXH3_64bits_update(&state, &bytes, sizeof bytes);
  XXH3_64bits_update(&state, text.data(), text.size());
}

std::optional<std::uint64_t> hash_of_key(std::string_view key) {
  std::size_t tenant = 0;
  const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), tenant);
  if (fault != std::errc() || end == key.data() + key.size() || *end != ':') return std::nullopt;
  key.remove_prefix(static_cast<std::size_t>(end - key.data()) + 1);
  if (tenant > key.size()) return std::nullopt;
  return user_hash(key.substr(0, tenant), key.substr(tenant));
}

}  // namespace

std::string owner_of_user(std::string_view tenant, std::string_view user) {
  return std::to_string(tenant.size()) + ':' + std::string(tenant) + std::string(user);
}

std::uint64_t user_hash(std::string_view tenant, std::string_view user) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  add(state, "user");
  add(state, tenant);
  add(state, user);
  return XXH3_64bits_digest(&state);
}

std::uint64_t owner_hash(std::string_view owner) {
  if (const auto hash = hash_of_key(owner)) return *hash;
  const std::size_t model = owner.find('/');
  if (model != owner.npos)
    if (const auto hash = hash_of_key(owner.substr(model + 1))) return *hash;
  return user_hash("", owner);
}

}  // namespace troupe
