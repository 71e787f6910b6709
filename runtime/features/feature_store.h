#pragma once
// Interface to the router's features: profiles of users and the catalog of items. It has two
// implementations: RocksFeaturePort (store_features.h, RocksDB, single node) and RedisFeaturePort
// (redis_features.h, several routers). Jobs, answers and refusals are the same;
// `features_contract_test.cc` tests both.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/ports.h"

namespace troupe {

using NameItem = std::function<BlockName(std::span<const Token>)>;  // names an item's item-prefix block

// A profile as read; null: there is no such user.
struct UserReading {
  ProfilePointer user;
  bool read = false;  // false: the reading failed and nothing is known
};

// Rows of one import. All are checked before the first is stored.
struct Import {
  std::span<const PutItem> items;
  std::span<const PutUser> users;
  bool replace = false;       // the catalog becomes exactly these items
  bool forget_users = false;  // all existing users are erased too
  std::string made_for;       // stored with the rows (made_for.h); "" keeps the stored text
  // Names a row for errors: `kind` is "item" or "user", `row` counts from 0; unset: "item row 1".
  std::function<std::string(std::string_view kind, std::size_t row)> where;
};

// Runs FindFeatures, Write, Read and ListItems. A refusal of a write names the field as the HTTP
// body does. A request for another model or catalog version than the present one is refused as
// unavailable (`wrong_model`, `wrong_catalog`). Thread-safe: several executor slots may run it.
class FeatureStore : public Port {
 public:
  // Imports rows; durable on return, as far as the store is. A later row with the same id wins.
  // Histories may name items of the same import. Throws StoreError: bad_row names the first bad
  // row, and then nothing was stored; other faults are the store's.
  virtual void import(const Import& rows) = 0;
  void import_items(std::span<const PutItem> rows) { import({.items = rows}); }
  void import_users(std::span<const PutUser> rows) { import({.users = rows}); }

  // Text stored with the rows (made_for.h); nullopt: none; "": damaged. Both functions throw
  // StoreError.
  virtual std::optional<std::string> made_for() = 0;
  virtual void note_made_for(const std::string& made_for) = 0;
  virtual bool untouched() const = 0;  // nothing was ever written to it
  virtual bool half_imported() const {
    return false;
  }  // an import was interrupted: the store has neither the old rows nor the new ones

  virtual std::uint64_t items() const = 0;
  virtual std::string catalog_version() const = 0;
  // Returns the snapshot of a version if it is the present one, still held by somebody, or
  // remembered; otherwise null.
  virtual CatalogPointer catalog_at(const std::string& version) = 0;
  virtual CatalogPointer present_catalog()
      const = 0;  // last known catalog, without asking the store; null: none yet
  // Returns a catalog that has these items as far as they exist, without asking the store; null: not known.
  // `behind`: they may be stale.
  virtual CatalogPointer catalog_with(std::span<const std::string> items, bool behind) {
    static_cast<void>(items), static_cast<void>(behind);
    return present_catalog();
  }
  virtual bool has_stale() const { return false; }  // stale items were used: find_users() reads them, too
  // Reads profiles by their keys (user_key() of store_rows.h) in one round trip, which also updates
  // the present catalog. Each profile is as it was at some time during the call.
  virtual std::vector<UserReading> find_users(std::span<const std::string> keys, std::uint32_t slot) = 0;
  virtual std::uint64_t bad_records() const = 0;  // records seen since the start; each was a miss
};

}  // namespace troupe
