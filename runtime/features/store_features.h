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

#include "runtime/features/feature_store.h"
#include "runtime/store/store.h"
#include "runtime/store/store_rows.h"

namespace troupe {

class FeaturePort final : public FeatureStore {
 public:
  // Loads the catalog; rows that cannot be read are left out and counted. `store` must outlive the port.
  // `model_version` is the one that `name_item` names for; "": whatever is asked for.
  FeaturePort(Store& store, const FeatureLimits& limits, NameItem name_item, std::string model_version = "");

  JobResult run(const Job& job, std::uint32_t lane) override;

  void import_items(std::span<const PutItem> rows) override;
  void import_users(std::span<const PutUser> rows) override;

  std::uint64_t items() const override;
  std::string catalog_version() const override;
  std::uint64_t bad_records() const override { return bad_records_.load(); }

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
