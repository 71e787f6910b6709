#pragma once
// Profiles and items as rows of the store: which ones may be stored, under which key, in which form. What is
// read back is checked by the same rules, so that a row from before a change of model is absent and not a
// token out of range.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"

namespace troupe {

// What the served model's family wants of each event of a history beside its item.
struct EventFeature {
  std::string name;
  bool ascending = false;  // values do not decrease from event to event
  std::int64_t least = INT64_MIN, most = INT64_MAX;
};

struct FeatureLimits {
  std::int32_t vocabulary = 0;  // tokens and identifiers are in [0, vocabulary)
  std::uint32_t item_tokens_max = 0;
  std::uint32_t history_events_max = 0;  // a history given as tokens: at most this × item_tokens_max tokens
  std::uint64_t history_tokens_max = 0;  // to which a history grows by events that are appended; 0: any
  std::uint64_t items_max = 10'000'000;  // of the catalog, which is held in memory
  std::size_t id_bytes_max = 256;        // of a tenant (may be empty), user or item id (may not)
  std::size_t title_bytes_max = 4096;
  std::vector<EventFeature> event_features = {};  // a history with events has each of them, and no other
};

// What a profile's events were put as: of each its item's id and its own, "" where it has none. None at all:
// no list.
struct EventNames {
  std::vector<std::string> items, ids;
  bool operator==(const EventNames&) const = default;
};
struct StoredProfile {
  Profile profile;
  EventNames names;
  bool operator==(const StoredProfile&) const = default;
};

// Absent if the row may be stored. Of a PutUser: all but whether its history's items exist. Events that are
// appended may come in any order.
std::optional<Refusal> find_fault(const PutUser& put, const FeatureLimits& limits);
std::optional<Refusal> find_fault(const AppendEvents& events, const FeatureLimits& limits);
std::optional<Refusal> find_fault(const PutItem& put, const FeatureLimits& limits);

// Tenant and user with the tenant's length before both: ("a", "bc") and ("ab", "c") are two users.
std::string user_key(std::string_view tenant, std::string_view user);

std::string encode_profile(const Profile& profile, std::string_view key, const EventNames& names = {});
std::string encode_item(const Item& item, std::uint64_t catalog,
                        std::string_view key);  // without Item::block
std::string encode_counter(std::uint64_t value, std::string_view key);
std::string encode_note(std::string_view text, std::string_view key);

// Absent if the value is not a sound record under this key, or not one that could be stored under these
// limits.
std::optional<Profile> decode_profile(std::string_view key, std::string_view value,
                                      const FeatureLimits& limits);
// The same with the names, which requests do not look at.
std::optional<StoredProfile> decode_stored_profile(std::string_view key, std::string_view value,
                                                   const FeatureLimits& limits);
struct StoredItem {
  Item item;
  std::uint64_t catalog = 0;  // the catalog version that this write made
};
std::optional<StoredItem> decode_item(std::string_view key, std::string_view value,
                                      const FeatureLimits& limits);
std::optional<std::uint64_t> decode_counter(std::string_view key, std::string_view value);
std::optional<std::string> decode_note(std::string_view key, std::string_view value);

}  // namespace troupe
