#pragma once
// A feature store whose profiles need not be read for every request (FLAME §3.1), over one that is far away
// or slow. How new a request's profile has to be, it says itself, or the configuration for it:
//   exact   as it is in the store: the store's own promises, and nothing is kept;
//   wait    read within the expiry; else the request waits, and several that want the same user wait for one
//   reading; behind  nobody waits: what is known here, be it past its expiry (`stale`, bounded by
//   ExpiryOptions::stale_for), else an
//           empty history (`missing`). A thread asks for it behind the answer, many users in one round trip.
// So promise 4 holds of profiles for `exact` alone: others may see a profile as it was up to an expiry ago
// (and as much longer as stale ones may be), beside the catalog as this router knew it last, which is no
// older. Each reply says how many of its features were stale or missing. What this process writes is not
// answered from what it read before. A catalog that is not the one that the request is pinned to is the
// store's to find.
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
  Freshness usual = Freshness::exact;  // of requests that do not say
  ExpiryOptions expiry;
  std::uint32_t lane = 0;  // of the store, for what is asked behind answers
  std::size_t waiting_max =
      4096;  // users that are to be asked for; more are asked for when they are wanted again
  std::size_t batch_max = 64;  // in one round trip
};

class CachedFeatures final : public FeatureStore {
 public:
  CachedFeatures(std::unique_ptr<FeatureStore> store, const CachedFeatureOptions& options);
  ~CachedFeatures() override;

  JobResult run(const Job& job, std::uint32_t lane) override;
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
  std::vector<FoundUser> find_users(std::span<const std::string> keys, std::uint32_t lane) override {
    return store_->find_users(keys, lane);
  }
  std::uint64_t bad_records() const override { return store_->bad_records(); }

 private:
  Freshness freshness_of(const FindFeatures& wanted) const;
  std::optional<JobResult> answer_from(const FindFeatures& wanted, ExpiringProfiles::Found found) const;
  std::optional<JobResult> find_known(const FindFeatures& wanted, const std::string& key);
  JobResult find_waiting(const FindFeatures& wanted, const std::string& key, const Job& job,
                         std::uint32_t lane);
  bool begin_reading(const std::string& key);  // false: somebody did, and has ended
  void end_reading(const std::string& key);
  void note(const Write& write);
  void ask_behind(const std::string& key);
  void ask_for(std::span<const std::string> keys);
  void run_behind();

  const std::unique_ptr<FeatureStore> store_;
  const CachedFeatureOptions options_;
  ExpiringProfiles profiles_;

  std::mutex reading_mutex_;  // guards the next
  std::unordered_set<std::string> reading_;
  std::condition_variable read_;

  std::mutex waiting_mutex_;  // guards the next two
  std::deque<std::string> waiting_;
  bool ended_ = false;
  std::condition_variable wanted_;
  std::thread behind_;
};

}  // namespace troupe
