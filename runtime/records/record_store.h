#pragma once
// Keeps answered requests so that they can be computed again (`replay.keep`). A record holds a user's
// history as tokens, so it lives for the retention at most, and no longer than its user's profile.
// The store is a cache: nothing in it was acknowledged, a damaged one is deleted, and a record that
// cannot be read is absent.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/features/feature_store.h"
#include "runtime/store/store.h"
#include "runtime/store/store_error.h"

namespace troupe {

struct RecordStoreOptions {
  Duration keep{0};             // age at which a record is erased; above 0
  std::uint64_t bytes_max = 0;  // of live records and their index; beyond it the oldest ones are erased
  std::function<std::int64_t()> now_us;  // wall clock: microseconds since 1970
  // Reads profiles by their keys (FeatureStore::find_users); null = profiles are not looked up.
  std::function<std::vector<UserReading>(std::span<const std::string> keys, std::uint32_t slot)> find_users;
};

// Thrown if histories on the disk can be neither used nor deleted. A node must not start then: they
// would outlive their users.
class UndeletableRecords final : public StoreError {
 public:
  using StoreError::StoreError;
};

// Runs KeepRecords, FindRecord, DropRecords and SweepRecords. Thread-safe.
//
// Sweeps come in rounds: the first job of a round erases what is too old, and each job looks up one
// batch of users. A round begins after the last user of the one before, so that a profile that can
// never be read does not hide the users behind it.
class RecordStore final : public Port {
 public:
  // Opens or creates the store in `folder`, which holds nothing else, and erases what is too old.
  // Throws StoreError; UndeletableRecords if what is there cannot be deleted.
  RecordStore(std::filesystem::path folder, RecordStoreOptions options);

  JobResult run(const Job& job, std::uint32_t slot) override;
  std::uint64_t records() const;
  std::uint64_t bytes() const;

 private:
  struct Entry {
    std::int64_t kept_us = 0;
    std::uint64_t bytes = 0;
    std::string user;  // key of the user's profile; "" = the request names none
    std::uint64_t profile_version = 0;
  };
  using Entries = std::map<std::string, Entry>;  // by tenant and request id

  void open(const std::filesystem::path& folder);
  void read_index();
  JobResult keep(const KeepRecords& job);
  std::optional<StoreFailure> keep_one(const AnswerRecord& record);
  JobResult find(const FindRecord& job);
  JobResult drop(const DropRecords& job);
  JobResult sweep(std::uint32_t slot);
  void erase_old();
  std::vector<std::string> next_users();
  // Returns false if a profile could not be read, which says nothing about its user.
  bool erase_without_profile(std::span<const std::string> users, std::span<const UserReading> readings);
  bool is_old(const Entry& entry) const;
  void add(const std::string& id, Entry entry);
  void forget(Entries::iterator at);  // in memory alone
  bool erase(const std::string& id);  // returns false if the disk failed
  RecordsChanged totals() const;

  const RecordStoreOptions options_;
  std::unique_ptr<Store> store_;
  mutable std::mutex mutex_;  // guards all that follows, and writes to the store
  Entries entries_;
  std::set<std::pair<std::int64_t, std::string>> by_age_;  // time and request id
  std::map<std::string, std::set<std::string>> of_user_;   // request ids by the user's key
  std::uint64_t bytes_ = 0;
  std::string last_user_;             // the last one that a sweep looked up
  std::size_t users_to_look_up_ = 0;  // in the present round of sweeps; 0 = the next sweep begins one
};

// Deletes the folder of a RecordStore that is not open. Does nothing if there is none; throws
// UndeletableRecords if it cannot be deleted.
void delete_records(const std::filesystem::path& folder);

}  // namespace troupe
