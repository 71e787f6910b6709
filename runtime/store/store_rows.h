#pragma once
// Stores profiles and items as rows: which ones are valid, under which key, in which form. The same
// rules check rows that are read back, so that a row from before a change of model is absent
// instead of having a token out of range.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"
#include "runtime/actor/row_rules.h"

namespace troupe {

// A value that the served model requires for each event of a history, beside its item.
struct EventFeature {
  std::string name;
  bool ascending = false;  // values do not decrease from event to event
  std::int64_t least = INT64_MIN, most = INT64_MAX;
};

struct FeatureLimits {
  // Tokens and identifiers are in [0, vocabulary); an item may have no identifier.
  std::int32_t vocabulary = 0;
  std::uint32_t item_tokens_max = 0;
  // A history given as tokens has at most this × item_tokens_max tokens.
  std::uint32_t history_events_max = 0;
  std::uint64_t items_max = 10'000'000;  // items in the catalog, which is kept in memory
  std::size_t id_bytes_max =
      row_id_bytes_max;  // for ids of tenants (may be empty), users and items (may not)
  std::size_t title_bytes_max = 4096;
  // A history with events has all of these and no others.
  std::vector<EventFeature> event_features = {};
};

// Names of a profile's events: each event's item id and its own id, "" where it has none. Both
// lists are empty if no event has one.
struct EventNames {
  std::vector<std::string> items, ids;
  bool operator==(const EventNames&) const = default;
};
struct StoredProfile {
  Profile profile;
  EventNames names;
  bool operator==(const StoredProfile&) const = default;
};

// Returns the reason if the row may not be stored. For a PutUser it does not check whether the
// history's items exist. Appended events may come in any order.
std::optional<Refusal> validate_row(const PutUser& put, const FeatureLimits& limits);
std::optional<Refusal> validate_row(const AppendEvents& events, const FeatureLimits& limits);
// Validates the history of a request like that of a PutUser.
std::optional<Refusal> validate_history(const GivenHistory& given, const FeatureLimits& limits);
std::optional<Refusal> validate_row(const PutItem& put, const FeatureLimits& limits);

// Returns a key with the tenant's length first, so that ("a", "bc") and ("ab", "c") are two users.
std::string user_key(std::string_view tenant, std::string_view user);

std::string encode_profile(const Profile& profile, std::string_view key, const EventNames& names = {});
std::string encode_item(const Item& item, std::uint64_t catalog,
                        std::string_view key);  // without Item::block
std::string encode_counter(std::uint64_t value, std::string_view key);
std::string encode_note(std::string_view text, std::string_view key);

// Return nullopt unless the value is a sound record under this key and satisfies these limits.
std::optional<Profile> decode_profile(std::string_view key, std::string_view value,
                                      const FeatureLimits& limits);
// Also decodes the names, which requests skip.
std::optional<StoredProfile> decode_stored_profile(std::string_view key, std::string_view value,
                                                   const FeatureLimits& limits);
struct StoredItem {
  Item item;
  std::uint64_t catalog = 0;  // catalog version of this write
};
std::optional<StoredItem> decode_item(std::string_view key, std::string_view value,
                                      const FeatureLimits& limits);
std::optional<std::uint64_t> decode_counter(std::string_view key, std::string_view value);
std::optional<std::string> decode_note(std::string_view key, std::string_view value);

}  // namespace troupe
