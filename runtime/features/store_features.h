#pragma once
// Feature store on RocksDB: profiles of users and the catalog of items, kept in a Store. The whole
// catalog is also in memory, as snapshots (stored_catalog.h), each item with the name of its
// item-prefix block. So are recently read profiles: a request for them reads no disk, hashes
// nothing and copies nothing. Writes are durable before they are answered; those that wait for a sync
// share the next one (write_group.h). Reads never wait for a write. Damaged records are refused (unavailable,
// `data_damaged`), because nobody can tell whether they existed.
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/features/catalogs_in_use.h"
#include "runtime/features/feature_store.h"
#include "runtime/features/profile_cache.h"
#include "runtime/features/stored_catalog.h"
#include "runtime/features/unreadable_ranges.h"
#include "runtime/features/write_group.h"
#include "runtime/store/store.h"
#include "runtime/store/store_rows.h"

namespace troupe {

class RocksFeaturePort final : public FeatureStore {
 public:
  // Loads the catalog; unreadable rows are left out and counted. `store` must outlive the port.
  // `model_version` is the one for which `name_item` names blocks; "" accepts any.
  RocksFeaturePort(Store& store, const FeatureLimits& limits, NameItem name_item,
                   std::string model_version = "", std::size_t profile_bytes_max = std::size_t{64} << 20);

  JobResult run(const Job& job, std::uint32_t slot) override;
  // Answers requests without a user, and for users that are in memory.
  std::optional<JobResult> run_now(const Job& job) override;

  // Imports in one write, all or nothing. Rows above 64 MiB take several writes. If the process or
  // the disk fails between them, the store is half imported and reports that until another import
  // succeeds.
  void import(const Import& rows) override;

  std::optional<std::string> made_for() override;
  void note_made_for(const std::string& made_for) override;
  bool untouched() const override;
  bool half_imported() const override { return half_imported_; }

  std::uint64_t items() const override;
  std::string catalog_version() const override;
  CatalogPointer catalog_at(const std::string& version) override { return catalogs_in_use_.find(version); }
  CatalogPointer present_catalog() const override { return catalog(); }
  std::vector<UserReading> find_users(std::span<const std::string> keys, std::uint32_t slot) override;
  std::uint64_t bad_records() const override { return bad_records_.load(); }

 private:
  JobResult find(const FindFeatures& wanted);
  JobResult read(const GetUser& wanted);
  JobResult read(const GetItem& wanted) const;

  std::uint64_t load_catalog();  // returns the newest version in an item's row
  struct NewestRow {
    std::uint64_t version = 0;
    bool all_were_read = true;  // false: there may be a newer one
  };
  std::uint64_t load_counter(std::string_view key, const std::function<NewestRow()>& newest_row);
  NewestRow newest_profile() const;
  // A sound row that does not fit the model is `found` with a null profile: there is no such user.
  Store::Read find_profile(const std::string& key, ProfilePointer& profile);
  Store::Read read_profile(const std::string& key, ProfilePointer& profile);
  // Returns why the profile cannot be read; nullopt if `stored` is filled or there is no such user.
  std::optional<Refusal> read_stored(const std::string& key, std::optional<StoredProfile>& stored);
  std::optional<Refusal> reject_if_unmet(const Condition& condition, const std::string& user);
  std::optional<Refusal> reject_if_item_unmet(const Condition& condition, const std::string& item) const;
  StoredCatalogPointer catalog() const;
  void publish(std::uint64_t version);
  Change change_of(const PutUser& put, const StoredProfile& stored) const;

  // store_writes.cc.
  struct PlannedWrite;
  class PlannedGroup;
  // Stores the writes of a group in one synced write, and answers them.
  void write(std::span<WriteGroup::Member* const> group);
  // Check a write against what is stored. Return what it changes, or its result if that is nothing.
  using Plan = std::variant<PlannedWrite, JobResult>;
  Plan plan(const PutUser& put, PlannedGroup& group);
  Plan plan(const DeleteUser& gone, PlannedGroup& group);
  Plan plan(const PutItem& put, PlannedGroup& group);
  Plan plan(const DeleteItem& gone, PlannedGroup& group);
  Plan plan(const AppendEvents& events, PlannedGroup& group);
  std::optional<StoreFailure> store(PlannedGroup& group);
  void publish(PlannedGroup& group);

  // store_import.cc.
  void put_items(const Import& rows, std::uint64_t version, CatalogWriter& next) const;
  std::vector<StoredProfile> resolve_users(const Import& rows, const Catalog& catalog) const;
  void store_import(const Import& rows, const StoredCatalog& catalog,
                    std::span<const StoredProfile> profiles);
  void erase_others(Column column, const std::function<bool(std::string_view)>& stays,
                    const std::function<void(Change)>& write) const;

  Store& store_;
  const FeatureLimits limits_;
  const NameItem name_item_;
  const std::string model_version_;
  std::atomic<std::uint64_t> bad_records_ = 0;
  UnreadableRanges unreadable_items_;  // by item id

  std::mutex writing_;  // one writer at a time: versions rise in the order of the store's writes
  // Changed under writing_, as are half_imported_ and writer_.
  std::atomic<std::uint64_t> profiles_written_ = 0;
  std::atomic<bool> half_imported_ = false;
  CatalogWriter writer_;
  mutable std::mutex catalog_mutex_;  // guards catalog_; held only to copy the pointer
  StoredCatalogPointer catalog_;
  CatalogsInUse catalogs_in_use_;
  ProfileCache profiles_;
  WriteGroup write_group_;
};

Refusal storage_failed(StoreFault fault);

}  // namespace troupe
