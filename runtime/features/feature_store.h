#pragma once
// What keeps the router's features: profiles of users and the catalog of items. Two stores stand behind this
// interface: FeaturePort (store_features.h, RocksDB, one box) and RedisFeaturePort (redis_features.h, several
// routers). Jobs, answers and refusals are the same; `features_contract_test.cc` runs over both.
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "runtime/actor/ports.h"

namespace troupe {

using NameItem = std::function<BlockName(std::span<const Token>)>;  // of an item's item-prefix block

// Runs FindFeatures, Write and ListItems. A refusal of a write names the field as the HTTP body does;
// features of another model or catalog version than the present one are refused (503 `wrong_model`,
// `wrong_catalog`). Thread-safe: several lanes may run it.
class FeatureStore : public Port {
 public:
  // Durable at the end, as far as the store is; a later row with the same id wins. All rows are checked
  // before the first is stored: throws StoreError (bad_row) that names the first bad one, counted from 1, or
  // what the store reported.
  virtual void import_items(std::span<const PutItem> rows) = 0;
  virtual void import_users(std::span<const PutUser> rows) = 0;

  virtual std::uint64_t items() const = 0;
  virtual std::string catalog_version() const = 0;
  virtual std::uint64_t bad_records() const = 0;  // seen since the start; each was a miss
};

}  // namespace troupe
