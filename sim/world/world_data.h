#pragma once
// The content of the world: catalogs by version and users with their profiles. An item is computed from the
// seed, its number and the catalog's version, so a hundred million of them cost nothing; only what was put or
// deleted in the course of a run is kept, with its history, so that the oracle can look up every state that a
// reply may speak of.
//
// Items are "i0" … with the identifier row of their number. A catalog version lacks some of them, and changes
// the tokens of some others for itself and later versions. Users are "u0" … in every tenant: the same id is
// somebody else in another tenant, and for some ids (`twins`) somebody with the very same history.
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
#include "sim/base/random.h"

namespace troupe::sim {

// Ranks 0 … n-1 with probability ~ 1 / (rank + 1)^exponent, in constant time and memory
// (rejection-inversion).
class Zipf {
 public:
  Zipf(std::uint64_t n, double exponent);  // n > 0, exponent >= 0
  std::uint64_t draw(SimRandom& random) const;

 private:
  double integral(double x) const;
  double inverse(double y) const;

  std::uint64_t n_;
  double exponent_, first_, last_, shortcut_;
};

struct WorldOptions {
  std::uint64_t seed = 1;
  std::vector<std::string> catalogs{"c1", "c2",
                                    "c3"};  // versions that can be served, in the order of their making
  std::vector<std::string> tenants{""};
  std::uint32_t items = 1'000, users = 1'000;  // users: of each tenant
  Token vocabulary = 5'000;                    // tokens of items and histories are below it
  std::uint32_t item_tokens_min = 2, item_tokens_max = 12;
  std::uint32_t events_min = 2, events_max = 20;  // of a history
  std::uint32_t event_tokens_min = 1, event_tokens_max = 4;
  // Where the mean is not 0, histories are log-normal in tokens instead, of events of `event_tokens_max`; the
  // mean is that of what is left when all are cut at `history_max`.
  double history_mean = 0, history_sigma = 0;
  std::uint32_t history_max = 0;
  // Then also: whole events, of which this share is drawn from so many that all histories have in common.
  std::uint32_t known_events = 0;
  double known_share = 0;
  // Instead of made items and users: these, in every catalog version; a user has a profile once it is
  // written.
  std::shared_ptr<const std::vector<Item>> catalog;
  std::size_t history_events_max = 1'000;  // of a profile that grows; the newest ones
  double absent = 0.02;                    // share of the items that a catalog version lacks
  double changed = 0.1;                    // share of the items that a catalog version changes
  double twins = 0.2;                      // share of the user ids with the same history in all tenants
  double item_exponent = 0.9, user_exponent = 0.8;
};

// A flash crowd: this share of all draws goes to `count` numbers from `first` on.
struct Flash {
  double share = 0;
  std::uint32_t first = 0, count = 1;
};

class WorldData {
 public:
  // The number of changes to the catalog so far: a state of it.
  using Edition = std::uint64_t;

  explicit WorldData(WorldOptions options);

  const WorldOptions& options() const { return options_; }
  // More than every token and identifier row: what the prompt form should say.
  Token rows() const;
  static std::string item_id(std::uint64_t number) { return "i" + std::to_string(number); }
  static std::string user_id(std::uint64_t number) { return "u" + std::to_string(number); }

  // ---- catalog ----

  // The version that is meant where none is named; the first one until somebody sets it.
  const std::string& present() const { return options_.catalogs[present_]; }
  void set_present(std::string_view catalog);
  bool has_catalog(std::string_view catalog) const { return find_catalog(catalog).has_value(); }
  Edition edition() const { return edition_; }
  // Without the name of its block. None: not in that catalog (or there is no such catalog).
  std::optional<Item> item(std::string_view id, std::string_view catalog) const;
  std::optional<Item> item(std::string_view id, std::string_view catalog, Edition edition) const;
  // Whether it was made of these tokens in that catalog, now or at any earlier edition.
  bool had_tokens(std::string_view id, std::string_view catalog, std::span<const Token> tokens) const;
  // An id's number and back, whether any catalog has the item or not; those that were put under ids of their
  // own come after the others. Absent: it was never put.
  std::optional<ItemNumber> item_number(std::string_view id) const;
  std::string id_of(ItemNumber number) const;
  ItemNumber item_numbers() const;  // all are below

  // ---- users ----

  std::optional<Profile> profile(std::string_view tenant, std::string_view user) const;  // now
  // None: that version never was.
  std::optional<Profile> profile(std::string_view tenant, std::string_view user, std::uint64_t version) const;
  std::uint64_t profile_version(std::string_view tenant, std::string_view user) const;  // of the last change
  // At some time since that version was the last one.
  bool was_absent(std::string_view tenant, std::string_view user, std::uint64_t since) const;
  bool is_twin(std::uint64_t user) const;
  // Of the history that the seed makes for that user without a tenant, in tokens; where histories are
  // log-normal.
  std::uint32_t history_length(std::uint64_t user) const;

  // ---- changes: profiles at once; items in every catalog version from now on ----

  std::variant<Written, Refusal> write(const Write& what);
  JobResult read(const Read& what) const;  // as it is now; profiles as tokens
  // The user's profile gets these items, which must be in the first catalog version as it was made; the first
  // time they take the place of the profile that the seed made. Long histories grow cheaply: no version is
  // kept as tokens.
  Written append(const std::string& tenant, const std::string& user, const std::vector<std::string>& items);

  // ---- popularity ----

  std::uint32_t draw_item(SimRandom& random) const;
  std::uint32_t draw_user(SimRandom& random) const;
  // Different items of that catalog as it is now, at most `count`; fewer if it has fewer.
  std::vector<std::string> draw_candidates(SimRandom& random, std::size_t count,
                                           std::string_view catalog) const;
  Flash item_flash, user_flash;

 private:
  struct ItemChange {
    Edition edition = 0;
    std::optional<PutItem> put;  // none: deleted
  };
  struct ProfileChange {
    std::uint64_t version = 0;
    std::optional<Profile> profile;  // none: deleted, or grown
    std::uint32_t grown = 0;         // so many items of grown_
    bool deleted() const { return !profile && grown == 0; }
  };
  using UserKey = std::pair<std::string, std::string>;

  std::optional<std::size_t> find_catalog(std::string_view catalog) const;
  std::optional<std::uint32_t> number_of(std::string_view id, char letter, std::uint32_t count) const;
  std::optional<std::uint32_t> made_number(std::string_view item) const;
  std::optional<Item> made_item(std::uint32_t number, std::size_t catalog) const;
  const ItemChange* change_of(std::string_view id, Edition edition) const;
  std::optional<Item> item_at(std::string_view id, std::size_t catalog, Edition edition) const;
  std::optional<Profile> made_profile(std::string_view tenant, std::string_view user) const;
  std::vector<Token> made_tokens(std::uint64_t key, std::uint32_t min, std::uint32_t max) const;
  std::uint64_t profile_key(std::uint64_t user, std::string_view tenant) const;
  std::uint32_t long_length(std::uint64_t key) const;
  Profile long_profile(std::uint64_t key) const;
  Profile known_profile(std::uint64_t key, std::uint32_t length) const;

  std::variant<Written, Refusal> apply(const PutUser& put);
  std::variant<Written, Refusal> apply(const DeleteUser& gone);
  std::variant<Written, Refusal> apply(const PutItem& put);
  std::variant<Written, Refusal> apply(const DeleteItem& gone);
  std::variant<Written, Refusal> apply(const AppendEvents& events);
  Written change(const std::string& tenant, const std::string& user, std::optional<Profile> profile);
  std::optional<Profile> profile_of(const UserKey& key, const ProfileChange& change) const;

  WorldOptions options_;
  Zipf item_popularity_, user_popularity_;
  double history_median_ = 0;  // of log-normal ones
  std::size_t present_ = 0;
  Edition edition_ = 0;
  std::uint64_t profiles_written_ = 1;  // versions of changed profiles follow that of the derived ones
  std::unordered_map<std::string_view, std::uint32_t>
      catalog_numbers_;  // of options_.catalog; looked up only
  std::map<std::string, std::vector<ItemChange>, std::less<>> item_changes_;
  std::map<std::string, ItemNumber, std::less<>>
      added_;  // ids of their own, by number in the order of their coming
  std::vector<std::string> added_ids_;
  std::map<UserKey, std::vector<ProfileChange>> profile_changes_;
  std::map<UserKey, std::set<std::string>> event_ids_;   // that were appended
  std::map<UserKey, std::vector<std::uint32_t>> grown_;  // items that were appended, oldest first
};

}  // namespace troupe::sim
