#pragma once
// What keeps the router's features: profiles of users and the catalog of items. Two stores stand behind this
// interface: FeaturePort (store_features.h, RocksDB, one box) and RedisFeaturePort (redis_features.h, several
// routers). Jobs, answers and refusals are the same; `features_contract_test.cc` runs over both.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/ports.h"

namespace troupe {

using NameItem = std::function<BlockName(std::span<const Token>)>;  // of an item's item-prefix block

// A profile as it was read; null: there is no such user.
struct FoundUser {
  ProfilePointer user;
  bool read = false;  // false: it could not be read, and nothing is known of it
};

// What is imported at once. All rows are checked before the first is stored.
struct Import {
  std::span<const PutItem> items;
  std::span<const PutUser> users;
  bool replace = false;       // the catalog is these items, and what else was in it goes
  bool forget_users = false;  // all that were there go, too
  std::string made_for;       // kept with the rows (made_for.h); "": what is kept stays
  // A row in words, for errors: of an "item" or a "user", from 0; none: "item row 1".
  std::function<std::string(std::string_view kind, std::size_t row)> where;
};

// Runs FindFeatures, Write, Read and ListItems. A refusal of a write names the field as the HTTP body does;
// features of another model or catalog version than the present one are refused (503 `wrong_model`,
// `wrong_catalog`). Thread-safe: several lanes may run it.
class FeatureStore : public Port {
 public:
  // Durable at the end, as far as the store is; a later row with the same id wins. Histories may name items
  // of the same import. Throws StoreError: bad_row, which names the first bad one, and then nothing was
  // stored; or what the store reported.
  virtual void import(const Import& rows) = 0;
  void import_items(std::span<const PutItem> rows) { import({.items = rows}); }
  void import_users(std::span<const PutUser> rows) { import({.users = rows}); }

  // What was noted with the rows (made_for.h); none: nothing; "": it is damaged. Both throw StoreError.
  virtual std::optional<std::string> made_for() = 0;
  virtual void note_made_for(const std::string& made_for) = 0;
  virtual bool untouched() const = 0;  // nothing was ever written to it
  virtual bool half_imported() const {
    return false;
  }  // an import was interrupted: neither the old rows nor the new

  virtual std::uint64_t items() const = 0;
  virtual std::string catalog_version() const = 0;
  // The snapshot of that version: the present one, one that somebody still holds, or one that is remembered;
  // null: none of these.
  virtual CatalogPointer catalog_at(const std::string& version) = 0;
  virtual CatalogPointer present_catalog()
      const = 0;  // as it was known last, without asking; null: it never was
  // Profiles of several users by their keys (user_key() of store_rows.h), read in one round trip in which the
  // present catalog follows, too; each as it was at some time meanwhile.
  virtual std::vector<FoundUser> find_users(std::span<const std::string> keys, std::uint32_t lane) = 0;
  virtual std::uint64_t bad_records() const = 0;  // seen since the start; each was a miss
};

}  // namespace troupe
