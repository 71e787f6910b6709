// Serves profiles and the catalog of a single node from RocksDB. The whole catalog and recent
// profiles are also in memory, so that a request for them reads no disk. Writes are durable before
// they are answered.
#include "runtime/features/store_features.h"

#include <algorithm>
#include <utility>

#include "runtime/features/append_events.h"
#include "runtime/features/feature_rules.h"
#include "runtime/features/store_keys.h"
#include "runtime/store/store_record.h"

namespace troupe {
namespace {

constexpr std::size_t load_batch_rows = 1024;
constexpr std::size_t items_now_max = 256;  // maximum for jobs answered without an executor slot

std::size_t given_events(const FindFeatures& wanted) {
  return wanted.history ? wanted.history->history.size() + wanted.history->tokens.size() : 0;
}

Refusal data_damaged(const char* what) {
  return {RefusalKind::unavailable, "data_damaged",
          std::string("the record of this ") + what + " is damaged on the disk", what,
          std::string("a sound record: put the ") + what + " again, or restore a backup"};
}

}  // namespace

Refusal storage_failed(StoreFault fault) {
  return {RefusalKind::unavailable, "storage_failed", std::string(describe(fault)), "store",
          "a working disk with free space"};
}

RocksFeaturePort::RocksFeaturePort(Store& store, const FeatureLimits& limits, NameItem name_item,
                                   std::string model_version, std::size_t profile_bytes_max)
    : store_(store),
      limits_(limits),
      name_item_(std::move(name_item)),
      model_version_(std::move(model_version)),
      profiles_(profile_bytes_max),
      write_group_([this](std::span<WriteGroup::Member* const> group) { write(group); }) {
  const std::uint64_t newest_item = load_catalog();
  const bool all_were_read = unreadable_items_.empty();
  publish(load_counter(catalog_key, [&] { return NewestRow{newest_item, all_were_read}; }));
  profiles_written_ = load_counter(profiles_key, [&] { return newest_profile(); });
  half_imported_ = store_.read(Column::meta, importing_key, [](std::string_view) {}) != Store::Read::missing;
}

JobResult RocksFeaturePort::run(const Job& job, std::uint32_t) {
  try {
    if (const auto* wanted = std::get_if<FindFeatures>(&job)) return find(*wanted);
    if (const auto* wanted = std::get_if<ListItems>(&job)) return list_items(*wanted, catalog());
    if (const auto* wanted = std::get_if<Write>(&job)) return write_group_.run(*wanted);
    if (const auto* wanted = std::get_if<Read>(&job))
      return std::visit([this](const auto& what) { return read(what); }, wanted->what);
    return wrong_feature_job();
  } catch (const std::exception& error) {  // out of memory
    return Refusal{RefusalKind::internal, "port_failed", error.what(), "feature port", "to finish the job"};
  }
}

std::optional<JobResult> RocksFeaturePort::run_now(const Job& job) {
  const auto* wanted = std::get_if<FindFeatures>(&job);
  if (!wanted || wanted->items.size() + given_events(*wanted) > items_now_max) return std::nullopt;
  try {
    std::optional<ProfileCache::CachedProfile> user(std::in_place);
    if (!wanted->user.empty()) user = profiles_.find(user_key(wanted->tenant, wanted->user));
    if (!user) return std::nullopt;
    if (auto refusal = reject_if_wrong_model(*wanted, model_version_)) return *refusal;
    if (!unreadable_items_.empty()) return std::nullopt;
    CatalogPointer present = catalog();
    if (wanted->paths && !present->has_paths()) return std::nullopt;
    return find_items(*wanted, user->profile, std::move(present), limits_);
  } catch (const std::exception&) {  // out of memory
    return std::nullopt;
  }
}

// ---- start ----

std::uint64_t RocksFeaturePort::load_catalog() {
  std::uint64_t newest = 0;
  const auto use = [&](std::string_view key, std::string_view value) {
    auto stored = decode_item(key, value, limits_);
    if (!stored || writer_.size() >= limits_.items_max) {
      ++bad_records_;
      if (!RecordReader::open(RecordType::item, key, value)) {
        store_.report_damage(Column::items, key);
        unreadable_items_.add(std::string(key), std::string(key) + '\0');
      }
      return true;
    }
    stored->item.block = name_item_(stored->item.tokens);
    newest = std::max(newest, stored->catalog);
    writer_.put(std::move(stored->item), stored->catalog);
    if (writer_.changes() >= load_batch_rows) writer_.publish(0);  // so that rows are in memory once
    return true;
  };
  const auto skip = [&](const Store::Gap& gap) {
    ++bad_records_;
    unreadable_items_.add(gap.from, gap.to);
  };
  if (!store_.scan(Column::items, "", "", use, skip)) skip({"", "", "the disk failed"});
  return newest;
}

// A counter that is damaged, or missing beside unreadable rows, jumps far above the newest row.
// Nobody knows how many writes were newer, or were erasures, which leave no row.
std::uint64_t RocksFeaturePort::load_counter(std::string_view key,
                                             const std::function<NewestRow()>& newest_row) {
  std::optional<std::uint64_t> count;
  const Store::Read read =
      store_.read(Column::meta, key, [&](std::string_view value) { count = decode_counter(key, value); });
  if (count) return *count;
  const NewestRow newest = newest_row();
  if (read == Store::Read::missing && newest.all_were_read) return newest.version;
  ++bad_records_;
  const VersionKind what = key == profiles_key ? VersionKind::profiles : VersionKind::catalog;
  return std::max(newest.version + counter_jump, store_.mark().ceiling(what));
}

RocksFeaturePort::NewestRow RocksFeaturePort::newest_profile() const {
  NewestRow newest;
  const auto use = [&](std::string_view key, std::string_view value) {
    auto profile = RecordReader::open(RecordType::profile, key, value);
    if (profile) newest.version = std::max(newest.version, profile->u64());
    if (!profile) newest.all_were_read = false;
    return true;
  };
  const bool ended =
      store_.scan(Column::users, "", "", use, [&](const Store::Gap&) { newest.all_were_read = false; });
  newest.all_were_read &= ended;
  return newest;
}

// ---- reads ----

Store::Read RocksFeaturePort::read_profile(const std::string& key, ProfilePointer& profile) {
  std::optional<Profile> decoded;
  bool sound = false;
  const Store::Read read = store_.read(Column::users, key, [&](std::string_view value) {
    decoded = decode_profile(key, value, limits_);
    sound = RecordReader::open(RecordType::profile, key, value).has_value();
  });
  if (decoded) profile = std::make_shared<const Profile>(std::move(*decoded));
  if (read == Store::Read::corrupt || (read == Store::Read::found && !profile)) ++bad_records_;
  if (read != Store::Read::found || sound) return read;
  store_.report_damage(Column::users, key);
  return Store::Read::corrupt;
}

Store::Read RocksFeaturePort::find_profile(const std::string& key, ProfilePointer& profile) {
  if (auto known = profiles_.find(key)) {
    profile = std::move(known->profile);
    return Store::Read::found;
  }
  const std::uint64_t since = profiles_.changes();
  const Store::Read read = read_profile(key, profile);
  if (profile) profiles_.put_unless_changed(key, {profile, {}}, since);
  return read;
}

JobResult RocksFeaturePort::find(const FindFeatures& wanted) {
  if (auto refusal = reject_if_wrong_model(wanted, model_version_)) return *refusal;
  ProfilePointer user;
  if (!wanted.user.empty()) {
    const Store::Read read = find_profile(user_key(wanted.tenant, wanted.user), user);
    if (read == Store::Read::failed) return storage_failed(StoreFault::failed);
    if (read == Store::Read::corrupt) return data_damaged("user");
  }
  const UnreadableRanges::Snapshot unreadable = unreadable_items_.now();
  const StoredCatalogPointer present = catalog();
  JobResult found = find_items(wanted, std::move(user), present, limits_);
  const auto* refusal = std::get_if<Refusal>(&found);
  if (!unreadable || (refusal && refusal->code != "unknown_item")) return found;
  const auto is_damaged = [&](const std::string& item) {
    return present->find(item) == no_item && UnreadableRanges::contains(unreadable, item);
  };
  if (std::ranges::any_of(wanted.items, is_damaged) ||
      (wanted.history && std::ranges::any_of(wanted.history->history, is_damaged)))
    return data_damaged("item");
  return found;
}

// Reads the store alone: these are readings beside requests, of any number of users, so they neither
// evict nor reorder the profiles that requests have in memory.
std::vector<UserReading> RocksFeaturePort::find_users(std::span<const std::string> keys, std::uint32_t) {
  std::vector<UserReading> users(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Store::Read read = read_profile(keys[i], users[i].user);
    users[i].read = read == Store::Read::found || read == Store::Read::missing;
  }
  return users;
}

// Reads from the store: names, which no request needs, are not cached.
std::optional<Refusal> RocksFeaturePort::read_stored(const std::string& key,
                                                     std::optional<StoredProfile>& stored) {
  bool sound = true;
  const Store::Read read = store_.read(Column::users, key, [&](std::string_view value) {
    stored = decode_stored_profile(key, value, limits_);
    sound = stored || RecordReader::open(RecordType::profile, key, value).has_value();
  });
  if (read == Store::Read::failed) return storage_failed(StoreFault::failed);
  if (read == Store::Read::corrupt || (read == Store::Read::found && !stored)) ++bad_records_;
  if (read == Store::Read::found && !sound) store_.report_damage(Column::users, key);
  if (read == Store::Read::corrupt || !sound) return data_damaged("user");
  return std::nullopt;
}

JobResult RocksFeaturePort::read(const GetUser& wanted) {
  std::optional<StoredProfile> stored;
  if (auto refusal = read_stored(user_key(wanted.tenant, wanted.user), stored)) return *refusal;
  return stored ? JobResult(reply_of(wanted.user, *std::move(stored)))
                : JobResult(unknown_user(wanted.tenant));
}

JobResult RocksFeaturePort::read(const GetItem& wanted) const {
  const UnreadableRanges::Snapshot unreadable = unreadable_items_.now();
  const StoredCatalogPointer present = catalog();
  const ItemNumber number = present->find(wanted.item);
  if (number != no_item) return reply_of(present->item(number), present->written(number));
  if (unreadable && UnreadableRanges::contains(unreadable, wanted.item)) return data_damaged("item");
  return unknown_item(wanted.item);
}

StoredCatalogPointer RocksFeaturePort::catalog() const {
  const std::lock_guard lock(catalog_mutex_);
  return catalog_;
}

std::uint64_t RocksFeaturePort::items() const { return catalog()->size(); }

std::string RocksFeaturePort::catalog_version() const { return catalog()->version(); }

// ---- writes (store_writes.cc): the caller holds writing_, so the catalog does not change ----

void RocksFeaturePort::publish(std::uint64_t version) {
  StoredCatalogPointer next = writer_.publish(version);  // the replaced one is freed after the lock
  catalogs_in_use_.note(next);
  const std::lock_guard lock(catalog_mutex_);
  catalog_.swap(next);
}

Change RocksFeaturePort::change_of(const PutUser& put, const StoredProfile& stored) const {
  const std::string key = user_key(put.tenant, put.user);
  return {Column::users, key, encode_profile(stored.profile, key, stored.names)};
}

std::optional<Refusal> RocksFeaturePort::reject_if_unmet(const Condition& condition,
                                                         const std::string& user) {
  if (condition == Condition{}) return std::nullopt;
  std::optional<StoredProfile> stored;
  if (auto refusal = read_stored(user, stored)) return refusal;
  return troupe::reject_if_unmet(condition, stored ? stored->profile.version : 0);
}

std::optional<Refusal> RocksFeaturePort::reject_if_item_unmet(const Condition& condition,
                                                              const std::string& item) const {
  const ItemNumber number = writer_.last()->find(item);
  return troupe::reject_if_unmet(condition, number == no_item ? 0 : writer_.last()->written(number));
}

}  // namespace troupe
