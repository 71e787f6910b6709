#pragma once
// Content of the simulated world: catalogs by version, and users with their profiles. An item is computed
// from the seed, its number and the catalog's version, so a hundred million items need no memory. Only
// items put or deleted during a run are stored, with their history, so that the oracle can look up every
// state that a reply may refer to.
//
// Item ids are "i0" …; an item's identifier row is its number. A catalog version lacks some items and
// changes the tokens of others for itself and later versions. User ids are "u0" … in every tenant. The same
// id is a different user in each tenant, except that some ids (`twins`) have the same history in all.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/actor/ports.h"
#include "runtime/store/store_rows.h"
#include "sim/base/random.h"

namespace troupe::sim {

// Draws ranks 0 … n-1 with probability ~ 1 / (rank + 1)^exponent in constant time and memory
// (rejection-inversion).
class Zipf {
 public:
  Zipf(std::uint64_t n, double exponent);  // n > 0, exponent >= 0
  std::uint64_t draw(RandomStream& random) const;

 private:
  double integral(double x) const;
  double inverse(double y) const;

  std::uint64_t n_;
  double exponent_, first_, last_, shortcut_;
};

struct WorldOptions {
  std::uint64_t seed = 1;
  // Versions that can be served, in the order of their creation.
  std::vector<std::string> catalogs{"c1", "c2", "c3"};
  std::vector<std::string> tenants{""};
  std::uint32_t items = 1'000, users = 1'000;  // `users` per tenant
  Token vocabulary = 5'000;                    // upper bound of the tokens of items and histories
  std::uint32_t item_tokens_min = 2, item_tokens_max = 12;
  std::uint32_t events_min = 2, events_max = 20;  // per history
  std::uint32_t event_tokens_min = 1, event_tokens_max = 4;
  // Mean not 0: history lengths are log-normal in tokens instead, in events of `event_tokens_max`. The mean
  // is that of the lengths after all are cut at `history_max`.
  double history_mean = 0, history_sigma = 0;
  std::uint32_t history_max = 0;
  // Not 0: histories consist of whole events, and the fraction `known_share` is drawn from this many events
  // that occur in all histories.
  std::uint32_t known_events = 0;
  double known_share = 0;
  // Not null: these items, in every catalog version, instead of generated items and users. A user has a
  // profile once it is written.
  std::shared_ptr<const std::vector<Item>> catalog;
  std::size_t history_events_max = 1'000;  // newest events of a growing profile that are kept
  // Features that each event of a growing profile gets. An ascending one is the event's number in the
  // history, another one is its least value, or 0 if that is allowed.
  std::vector<EventFeature> event_features = {};
  double absent = 0.02;  // share of the items that a catalog version lacks
  double changed = 0.1;  // share of the items that a catalog version changes
  double twins = 0.2;    // share of the user ids with the same history in all tenants
  double item_exponent = 0.9, user_exponent = 0.8;
};

// Sends this share of all draws to `count` numbers starting at `first`, like a flash crowd.
struct FlashCrowd {
  double share = 0;
  std::uint32_t first = 0, count = 1;
};

class WorldData {
 public:
  // Number of catalog changes so far, which identifies a state of the catalog.
  using Edition = std::uint64_t;

  explicit WorldData(WorldOptions options);

  const WorldOptions& options() const { return options_; }
  // Returns a number above every token and identifier row, for the prompt form.
  Token rows() const;
  static std::string item_id(std::uint64_t number) { return "i" + std::to_string(number); }
  static std::string user_id(std::uint64_t number) { return "u" + std::to_string(number); }

  // ---- catalog ----

  // Returns the version used if a request names none; the first version until set_present.
  const std::string& present() const { return options_.catalogs[present_]; }
  void set_present(std::string_view catalog);
  bool has_catalog(std::string_view catalog) const { return find_catalog(catalog).has_value(); }
  Edition edition() const { return edition_; }
  // Returns the item without its block's name; nullopt if that catalog lacks it or does not exist.
  std::optional<Item> item(std::string_view id, std::string_view catalog) const;
  std::optional<Item> item(std::string_view id, std::string_view catalog, Edition edition) const;
  // True if the item had these tokens in that catalog, now or at any earlier edition.
  bool had_tokens(std::string_view id, std::string_view catalog, std::span<const Token> tokens) const;
  // Converts between ids and numbers, whether or not a catalog has the item. Items put under other ids come
  // after the generated ones. nullopt = never put.
  std::optional<ItemNumber> item_number(std::string_view id) const;
  std::string id_of(ItemNumber number) const;
  ItemNumber item_numbers() const;  // all numbers are below this

  // ---- users ----

  std::optional<Profile> profile(std::string_view tenant, std::string_view user) const;  // now
  // Returns nullopt if that version never existed.
  std::optional<Profile> profile(std::string_view tenant, std::string_view user, std::uint64_t version) const;
  // Returns the version of the last change.
  std::uint64_t profile_version(std::string_view tenant, std::string_view user) const;
  // True if the user had no profile at some time since `since` was the latest version.
  bool was_absent(std::string_view tenant, std::string_view user, std::uint64_t since) const;
  bool is_twin(std::uint64_t user) const;
  // Returns the length in tokens of the history generated for that user without a tenant; only for
  // log-normal histories.
  std::uint32_t history_length(std::uint64_t user) const;

  // ---- changes: to profiles immediately, to items in every catalog version from now on ----

  std::variant<WriteResult, Refusal> write(const Write& what);
  JobResult read(const Read& what) const;  // in the present state; profiles as tokens
  // Appends these items to the user's profile; they must be in the first catalog version as it was
  // generated. The first call replaces the generated profile. Long histories grow cheaply: versions are not
  // kept as tokens.
  WriteResult append(const std::string& tenant, const std::string& user,
                     const std::vector<std::string>& items);

  // ---- popularity ----

  std::uint32_t draw_item(RandomStream& random) const;
  std::uint32_t draw_user(RandomStream& random) const;
  // Returns at most `count` different items of that catalog as it is now, fewer if it has fewer.
  std::vector<std::string> draw_candidates(RandomStream& random, std::size_t count,
                                           std::string_view catalog) const;
  FlashCrowd item_flash, user_flash;

 private:
  struct ItemChange {
    Edition edition = 0;
    std::optional<PutItem> put;  // none = deleted
  };
  struct ProfileChange {
    std::uint64_t version = 0;
    std::optional<Profile> profile;  // none = deleted or grown
    std::uint32_t grown = 0;         // number of items of grown_
    bool deleted() const { return !profile && grown == 0; }
  };
  using UserKey = std::pair<std::string, std::string>;

  std::optional<std::size_t> find_catalog(std::string_view catalog) const;
  std::optional<std::uint32_t> number_of(std::string_view id, char letter, std::uint32_t count) const;
  // made_…: as generated from the seed or given by `catalog`, without later changes
  std::optional<std::uint32_t> made_number(std::string_view item) const;
  // Returns what the item's tokens are made from; nullopt if that catalog lacks it. Only for generated items.
  std::optional<std::uint64_t> made_key(std::uint32_t number, std::size_t catalog) const;
  std::optional<std::vector<Token>> made_item_tokens(std::uint32_t number, std::size_t catalog) const;
  std::optional<Item> made_item(std::uint32_t number, std::size_t catalog) const;
  const ItemChange* change_of(std::string_view id, Edition edition) const;
  std::optional<Item> item_at(std::string_view id, std::size_t catalog, Edition edition) const;
  bool has_item(std::string_view id, std::size_t catalog) const;  // now
  std::optional<Profile> made_profile(std::string_view tenant, std::string_view user) const;
  std::vector<Token> made_tokens(std::uint64_t key, std::uint32_t min, std::uint32_t max) const;
  std::uint64_t profile_key(std::uint64_t user, std::string_view tenant) const;
  // long_…: histories whose length in tokens is log-normal (`history_mean`)
  std::uint32_t long_length(std::uint64_t key) const;
  Profile long_profile(std::uint64_t key) const;
  Profile known_profile(std::uint64_t key, std::uint32_t length) const;

  std::variant<WriteResult, Refusal> apply(const PutUser& put);
  std::variant<WriteResult, Refusal> apply(const DeleteUser& gone);
  std::variant<WriteResult, Refusal> apply(const PutItem& put);
  std::variant<WriteResult, Refusal> apply(const DeleteItem& gone);
  std::variant<WriteResult, Refusal> apply(const AppendEvents& events);
  WriteResult change(const std::string& tenant, const std::string& user, std::optional<Profile> profile);
  std::optional<Profile> profile_of(const UserKey& key, const ProfileChange& change) const;

  WorldOptions options_;
  Zipf item_popularity_, user_popularity_;
  double history_median_ = 0;  // of log-normal lengths
  std::size_t present_ = 0;
  Edition edition_ = 0;
  // The generated profile is version 1; changed ones continue from there.
  std::uint64_t profiles_written_ = 1;
  // Number of each item of options_.catalog; looked up only, never iterated.
  std::unordered_map<std::string_view, std::uint32_t> catalog_numbers_;
  std::map<std::string, std::vector<ItemChange>, std::less<>> item_changes_;
  // Numbers of items put under other ids, in the order of their creation.
  std::map<std::string, ItemNumber, std::less<>> added_;
  std::vector<std::string> added_ids_;
  std::map<UserKey, std::vector<ProfileChange>> profile_changes_;
  std::map<UserKey, std::set<std::string>> event_ids_;   // of appended events
  std::map<UserKey, std::vector<std::uint32_t>> grown_;  // appended items, oldest first
};

}  // namespace troupe::sim
