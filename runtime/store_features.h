#pragma once
// The router's features: profiles of users and the catalog of items, kept in a Store. The whole catalog is in
// memory too, each item with the name of its item-prefix block, so that a request for candidates touches no
// disk and hashes nothing; profiles are read from the store. Writes are durable before they are answered.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/ports.h"
#include "runtime/store.h"
#include "runtime/store_rows.h"

namespace troupe {

// Thread-safe: several lanes may run it.
class FeaturePort final : public Port {
 public:
  using NameItem = std::function<BlockName(std::span<const Token>)>;  // of an item's item-prefix block

  // Loads the catalog; rows that cannot be read are left out and counted. `store` must outlive the port.
  // `model_version` is the one that `name_item` names for; "": whatever is asked for.
  FeaturePort(Store& store, const FeatureLimits& limits, NameItem name_item, std::string model_version = "");

  // FindFeatures, Write and ListItems. A refusal of a write names the field as the HTTP body does; features
  // of another model or catalog version than the present one are refused (503 `wrong_model`,
  // `wrong_catalog`).
  JobResult run(const Job& job, std::uint32_t lane) override;

  // In one go, durable at the end; a later row with the same id wins. All rows are checked before the first
  // is stored: throws StoreError (bad_row) that names the first bad one, counted from 1, or what the disk
  // reported.
  void import_items(std::span<const PutItem> rows);
  void import_users(std::span<const PutUser> rows);

  std::uint64_t items() const;
  std::string catalog_version() const;
  std::uint64_t bad_records() const { return bad_records_.load(); }  // seen since the start; each was a miss

 private:
  using Catalog = std::map<std::string, Item, std::less<>>;

  JobResult find(const FindFeatures& wanted) const;
  JobResult list(const ListItems& wanted) const;
  JobResult write(const PutUser& put);
  JobResult write(const DeleteUser& gone);
  JobResult write(const PutItem& put);
  JobResult write(const DeleteItem& gone);

  std::uint64_t load_catalog();  // the newest version that an item of it names
  std::uint64_t load_counter(std::string_view key, const std::function<std::uint64_t()>& newest_row);
  std::uint64_t newest_profile() const;
  Store::Read read_profile(const std::string& key, std::optional<Profile>& profile) const;
  std::optional<Refusal> resolve(const PutUser& put, Profile& profile) const;
  Change change_of(const PutUser& put, Profile profile) const;
  std::optional<StoreFailure> import_item_batch(std::span<const PutItem> rows);
  std::optional<StoreFailure> import_user_batch(std::span<const PutUser> rows);

  Store& store_;
  const FeatureLimits limits_;
  const NameItem name_item_;
  const std::string model_version_;
  mutable std::atomic<std::uint64_t> bad_records_ = 0;

  std::mutex writing_;                       // one writer at a time: versions rise in the order of the store
  std::uint64_t profiles_written_ = 0;       // guarded by writing_
  mutable std::shared_mutex catalog_mutex_;  // held for memory only, never while the disk is busy
  Catalog catalog_;                          // these two are guarded by catalog_mutex_, and change under both
  std::uint64_t catalog_written_ = 0;
};

}  // namespace troupe
