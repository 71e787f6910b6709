#include "runtime/features/store_features.h"

#include <algorithm>
#include <utility>

#include "runtime/features/feature_rules.h"
#include "runtime/features/store_keys.h"

namespace troupe {
namespace {

constexpr std::size_t load_batch_rows = 1024;
constexpr std::size_t items_now_max = 256;  // of a job that is answered without a lane
constexpr std::uint64_t deletions_lost_max = 1'000'000;

Refusal storage_failed(StoreFault fault) {
  return {503, "storage_failed", std::string(describe(fault)), "store", "a disk that works and has room"};
}

}  // namespace

FeaturePort::FeaturePort(Store& store, const FeatureLimits& limits, NameItem name_item,
                         std::string model_version, std::size_t profile_bytes_max)
    : store_(store),
      limits_(limits),
      name_item_(std::move(name_item)),
      model_version_(std::move(model_version)),
      profiles_(profile_bytes_max) {
  const std::uint64_t newest_item = load_catalog();
  publish(load_counter(catalog_key, [&] { return newest_item; }));
  profiles_written_ = load_counter(profiles_key, [&] { return newest_profile(); });
  half_imported_ = store_.read(Column::meta, importing_key, [](std::string_view) {}) != Store::Read::missing;
}

JobResult FeaturePort::run(const Job& job, std::uint32_t) {
  try {
    if (const auto* wanted = std::get_if<FindFeatures>(&job)) return find(*wanted);
    if (const auto* wanted = std::get_if<ListItems>(&job)) return list_items(*wanted, catalog());
    if (const auto* wanted = std::get_if<Write>(&job))
      return std::visit([this](const auto& what) { return write(what); }, wanted->what);
    return wrong_feature_job();
  } catch (const std::exception& error) {  // out of memory
    return Refusal{500, "port_failed", error.what(), "feature port", "to finish the job"};
  }
}

std::optional<JobResult> FeaturePort::run_now(const Job& job) {
  const auto* wanted = std::get_if<FindFeatures>(&job);
  if (!wanted || wanted->items.size() > items_now_max) return std::nullopt;
  try {
    std::optional<ProfileCache::Known> user(std::in_place);
    if (!wanted->user.empty()) user = profiles_.find(user_key(wanted->tenant, wanted->user));
    if (!user) return std::nullopt;
    if (auto refusal = check_model(*wanted, model_version_)) return *refusal;
    return find_items(*wanted, user->profile, catalog());
  } catch (const std::exception&) {  // out of memory
    return std::nullopt;
  }
}

// ---- start ----

std::uint64_t FeaturePort::load_catalog() {
  std::uint64_t newest = 0;
  const bool whole = store_.scan(Column::items, "", "", [&](std::string_view key, std::string_view value) {
    auto stored = decode_item(key, value, limits_);
    if (!stored || writer_.size() >= limits_.items_max) {
      ++bad_records_;
      return true;
    }
    stored->item.block = name_item_(stored->item.tokens);
    newest = std::max(newest, stored->catalog);
    writer_.put(std::move(stored->item), stored->catalog);
    if (writer_.changes() >= load_batch_rows) writer_.publish(0);  // so that rows are in memory once
    return true;
  });
  if (!whole) ++bad_records_;  // the rest of the column cannot be read
  return newest;
}

// A counter that is lost goes on above the newest row; deletions, which leave no row, are allowed for.
std::uint64_t FeaturePort::load_counter(std::string_view key,
                                        const std::function<std::uint64_t()>& newest_row) {
  std::optional<std::uint64_t> count;
  const Store::Read read =
      store_.read(Column::meta, key, [&](std::string_view value) { count = decode_counter(key, value); });
  if (count) return *count;
  if (read == Store::Read::missing) return newest_row();
  ++bad_records_;
  return newest_row() + deletions_lost_max;
}

std::uint64_t FeaturePort::newest_profile() const {
  std::uint64_t newest = 0;
  store_.scan(Column::users, "", "", [&](std::string_view key, std::string_view value) {
    if (const auto profile = decode_profile(key, value, limits_)) newest = std::max(newest, profile->version);
    return true;
  });
  return newest;
}

// ---- reads ----

ProfilePointer FeaturePort::read_profile(const std::string& key, bool& failed) {
  std::optional<Profile> profile;
  Store::Read read = store_.read(
      Column::users, key, [&](std::string_view value) { profile = decode_profile(key, value, limits_); });
  if (read == Store::Read::found && !profile) read = Store::Read::corrupt;
  if (read == Store::Read::corrupt) ++bad_records_;
  failed = read == Store::Read::failed;
  return profile ? std::make_shared<const Profile>(std::move(*profile)) : nullptr;
}

bool FeaturePort::find_profile(const std::string& key, ProfilePointer& profile) {
  if (auto known = profiles_.find(key)) {
    profile = std::move(known->profile);
    return true;
  }
  const std::uint64_t since = profiles_.changes();
  bool failed = false;
  profile = read_profile(key, failed);
  if (profile) profiles_.put_unless_changed(key, {profile, {}}, since);
  return !failed;
}

JobResult FeaturePort::find(const FindFeatures& wanted) {
  if (auto refusal = check_model(wanted, model_version_)) return *refusal;
  ProfilePointer user;
  if (!wanted.user.empty() && !find_profile(user_key(wanted.tenant, wanted.user), user))
    return storage_failed(StoreFault::failed);
  return find_items(wanted, std::move(user), catalog());
}

StoredCatalogPointer FeaturePort::catalog() const {
  const std::lock_guard lock(catalog_mutex_);
  return catalog_;
}

std::uint64_t FeaturePort::items() const { return catalog()->size(); }

std::string FeaturePort::catalog_version() const { return catalog()->version(); }

// ---- writes: their caller holds writing_, so the catalog stands still ----

void FeaturePort::publish(std::uint64_t version) {
  StoredCatalogPointer next = writer_.publish(version);  // what is replaced is freed after the lock
  const std::lock_guard lock(catalog_mutex_);
  catalog_.swap(next);
}

std::optional<Refusal> FeaturePort::resolve(const PutUser& put, Profile& profile) const {
  return troupe::resolve(put, limits_, *writer_.last(), profile);
}

Change FeaturePort::change_of(const PutUser& put, const Profile& profile) const {
  const std::string key = user_key(put.tenant, put.user);
  return {Column::users, key, encode_profile(profile, key)};
}

JobResult FeaturePort::write(const PutUser& put) {
  const std::lock_guard lock(writing_);
  Profile profile{profiles_written_ + 1};
  if (auto refusal = resolve(put, profile)) return *refusal;
  const Change changes[] = {change_of(put, profile), counter_change(profiles_key, profile.version)};
  const auto failure = store_.write(changes, Durability::synced);
  profiles_.erase(changes[0].key);
  if (failure) return storage_failed(failure->fault);
  profiles_written_ = profile.version;
  return Written{profile.version};
}

JobResult FeaturePort::write(const DeleteUser& gone) {
  const std::lock_guard lock(writing_);
  const std::string key = user_key(gone.tenant, gone.user);
  const Store::Read read = store_.read(Column::users, key, [](std::string_view) {});
  if (read == Store::Read::failed) return storage_failed(StoreFault::failed);
  if (read == Store::Read::missing) return unknown_user();
  const std::uint64_t version = profiles_written_ + 1;
  const Change changes[] = {{Column::users, key}, counter_change(profiles_key, version)};
  const auto failure = store_.write(changes, Durability::synced);
  profiles_.erase(key);
  if (failure) return storage_failed(failure->fault);
  profiles_written_ = version;
  return Written{version};
}

JobResult FeaturePort::write(const PutItem& put) {
  const std::lock_guard lock(writing_);
  if (auto refusal = find_fault(put, limits_)) return *refusal;
  if (writer_.size() >= limits_.items_max && !writer_.contains(put.item)) return catalog_full(limits_);
  Item item{put.item, put.title, put.tokens, put.identifier, name_item_(put.tokens)};
  const std::uint64_t version = writer_.last()->version_number() + 1;
  const Change changes[] = {{Column::items, put.item, encode_item(item, version, put.item)},
                            counter_change(catalog_key, version)};
  if (const auto failure = store_.write(changes, Durability::synced)) return storage_failed(failure->fault);
  writer_.put(std::move(item), version);
  publish(version);
  return Written{version};
}

JobResult FeaturePort::write(const DeleteItem& gone) {
  const std::lock_guard lock(writing_);
  if (!writer_.contains(gone.item)) return unknown_item(gone.item);
  const std::uint64_t version = writer_.last()->version_number() + 1;
  const Change changes[] = {{Column::items, gone.item}, counter_change(catalog_key, version)};
  if (const auto failure = store_.write(changes, Durability::synced)) return storage_failed(failure->fault);
  writer_.erase(gone.item);
  publish(version);
  return Written{version};
}

}  // namespace troupe
