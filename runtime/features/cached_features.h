#pragma once
// Caches profiles so that not every request reads them (FLAME §3.1), in front of a remote or slow
// feature store. Each request, or the configuration, says how fresh its profile must be:
// - exact: as in the store, with the store's own promises; nothing is cached.
// - wait: read within the expiry. Otherwise the request waits; requests for the same user share one
//   reading.
// - behind: never waits. It uses a cached profile, even past its expiry (`stale`, bounded by
//   ExpiryOptions::stale_for), or an empty history (`missing`). A thread reads the profile
//   afterwards, many users in one round trip.
//
// So promise 4 holds for profiles only with `exact`. Other requests may see a profile up to an
// expiry old, longer if stale. They see it beside the catalog that this router knew last, which is
// no older. Each reply counts its stale and missing features. A write by this process invalidates
// what it read before. A request pinned to another catalog version is passed to the store.
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>

#include "runtime/features/expiring_profiles.h"
#include "runtime/features/feature_store.h"

namespace troupe {

struct CachedFeatureOptions {
  Freshness usual = Freshness::exact;  // default for requests that do not say
  ExpiryOptions expiry;
  std::uint32_t slot = 0;          // executor slot of the store, for readings after answers
  std::size_t waiting_max = 4096;  // users queued for reading; further ones are asked for when wanted again
  std::size_t batch_max = 64;      // users in one round trip
};

class CachedFeatures final : public FeatureStore {
 public:
  CachedFeatures(std::unique_ptr<FeatureStore> store, const CachedFeatureOptions& options);
  ~CachedFeatures() override;

  JobResult run(const Job& job, std::uint32_t slot) override;
  std::optional<JobResult> run_now(const Job& job) override;

  void import(const Import& rows) override { store_->import(rows); }
  std::optional<std::string> made_for() override { return store_->made_for(); }
  void note_made_for(const std::string& made_for) override { store_->note_made_for(made_for); }
  bool untouched() const override { return store_->untouched(); }
  bool half_imported() const override { return store_->half_imported(); }
  std::uint64_t items() const override { return store_->items(); }
  std::string catalog_version() const override { return store_->catalog_version(); }
  CatalogPointer catalog_at(const std::string& version) override { return store_->catalog_at(version); }
  CatalogPointer present_catalog() const override { return store_->present_catalog(); }
  CatalogPointer catalog_with(std::span<const std::string> items, bool behind) override {
    return store_->catalog_with(items, behind);
  }
  bool has_stale() const override { return store_->has_stale(); }
  std::vector<UserReading> find_users(std::span<const std::string> keys, std::uint32_t slot) override {
    return store_->find_users(keys, slot);
  }
  std::uint64_t bad_records() const override { return store_->bad_records(); }

 private:
  Freshness freshness_of(const FindFeatures& wanted) const;
  std::optional<JobResult> answer_from(const FindFeatures& wanted, ExpiringProfiles::Lookup found,
                                       bool behind);
  void wake_if_stale();
  std::optional<JobResult> find_cached(const FindFeatures& wanted, const std::string& key);
  JobResult read_or_wait(const FindFeatures& wanted, const std::string& key, const Job& job,
                         std::uint32_t slot);
  bool begin_reading(const std::string& key);  // false: another caller began it, and it has ended
  void end_reading(const std::string& key);
  void note(const Write& write);
  void enqueue_reading(const std::string& key);
  void read_users(std::span<const std::string> keys);
  void run_reader();

  const std::unique_ptr<FeatureStore> store_;
  const CachedFeatureOptions options_;
  ExpiringProfiles profiles_;

  std::mutex reading_mutex_;  // guards reading_
  std::unordered_set<std::string> reading_;
  std::condition_variable read_;

  std::mutex queue_mutex_;  // guards waiting_ and ended_
  std::deque<std::string> queue_;
  bool stale_ = false;  // the store has stale items to read
  bool ended_ = false;
  std::condition_variable wanted_;
  std::thread reader_;
};

}  // namespace troupe
