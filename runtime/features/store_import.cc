// Imports profiles and items into a single node's RocksDB. All rows are checked before the first is
// written. A large import is written in parts, with a note in the store that it is unfinished.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "runtime/features/feature_rules.h"
#include "runtime/features/store_features.h"
#include "runtime/features/store_keys.h"

namespace troupe {
namespace {

constexpr std::size_t publish_rows = 1024;
constexpr std::size_t write_bytes_max = 64 << 20;

[[noreturn]] void stop(const StoreFailure& failure, bool half) {
  throw StoreError(failure.fault,
                   "import: " + failure.why + "; expected to store all rows, " +
                       (half ? "and some are stored: import again" : "and stored none of them"));
}

// Writes an import in one write unless it is too large. Otherwise its first part notes that more
// follows, and its last part removes that note.
class ImportWriter {
 public:
  explicit ImportWriter(Store& store, bool half) : store_(store), half_(half) {}

  void add(Change change) {
    bytes_ += change.key.size() + (change.value ? change.value->size() : 0);
    changes_.push_back(std::move(change));
    if (bytes_ < write_bytes_max) return;
    changes_.push_back(note_change(importing_key, "an import"));
    write();
  }
  void finish() {
    if (half_) changes_.push_back({Column::meta, std::string(importing_key)});
    write();
    half_ = false;
  }
  bool half() const { return half_; }

 private:
  void write() {
    if (const auto failure = store_.write(changes_, Durability::synced)) stop(*failure, half_);
    half_ = true;
    changes_.clear();
    bytes_ = 0;
  }

  Store& store_;
  bool half_;  // a part was written
  std::vector<Change> changes_;
  std::size_t bytes_ = 0;
};

}  // namespace

void RocksFeaturePort::import(const Import& rows) {
  const std::lock_guard lock(writing_);
  const bool changes_items = rows.replace || !rows.items.empty();
  const std::uint64_t version = writer_.last()->version_number() + (changes_items ? 1 : 0);
  CatalogWriter next(rows.replace ? std::make_shared<const StoredCatalog>() : writer_.last());
  put_items(rows, version, next);
  const StoredCatalogPointer catalog = changes_items ? next.publish(version) : writer_.last();
  const std::vector<StoredProfile> profiles = resolve_users(rows, *catalog);
  store_import(rows, *catalog, profiles);
  for (const PutUser& row : rows.users) profiles_.erase(user_key(row.tenant, row.user));
  if (rows.forget_users) profiles_.clear();
  profiles_written_ = profiles_written_ + profiles.size();
  if (!changes_items) return;
  writer_ = std::move(next);
  {
    catalogs_in_use_.note(catalog);
    const std::lock_guard publishing(catalog_mutex_);
    catalog_ = catalog;
  }
  for (const PutItem& row : rows.items) unreadable_items_.remove(row.item);
}

void RocksFeaturePort::put_items(const Import& rows, std::uint64_t version, CatalogWriter& next) const {
  for (std::size_t i = 0; i < rows.items.size(); ++i) {
    const PutItem& row = rows.items[i];
    if (const auto fault = validate_row(row, limits_)) refuse_row(rows, "item", i, *fault);
    if (next.size() >= limits_.items_max && !next.contains(row.item))
      refuse_row(rows, "item", i, catalog_full(limits_));
    next.put({row.item, row.title, row.tokens, row.identifier, name_item_(row.tokens)}, version);
    if (next.changes() >= publish_rows) next.publish(version);  // so that rows are in memory once
  }
}

std::vector<StoredProfile> RocksFeaturePort::resolve_users(const Import& rows, const Catalog& catalog) const {
  std::vector<StoredProfile> profiles;
  std::uint64_t version = profiles_written_;
  for (std::size_t i = 0; i < rows.users.size(); ++i) {
    StoredProfile& stored = profiles.emplace_back();
    stored.profile.version = ++version;
    if (const auto refusal = resolve(rows.users[i], limits_, catalog, stored))
      refuse_row(rows, "user", i, *refusal);
  }
  return profiles;
}

// Erases the column's keys for which `stays` is false, whether their rows are readable or not.
void RocksFeaturePort::erase_others(Column column, const std::function<bool(std::string_view)>& stays,
                                    const std::function<void(Change)>& write) const {
  std::vector<std::string> gone;
  const auto use = [&](std::string_view key, std::string_view) {
    if (!stays(key)) gone.emplace_back(key);
    return true;
  };
  const auto skip = [](const Store::Gap&) {};  // unreadable keys stay damaged
  if (!store_.scan(column, "", "", use, skip))
    stop({StoreFault::failed, "the rows to erase cannot be read"}, half_imported_);
  for (std::string& key : gone) write({column, std::move(key)});
}

void RocksFeaturePort::store_import(const Import& rows, const StoredCatalog& catalog,
                                    std::span<const StoredProfile> profiles) {
  const std::uint64_t users_version = profiles_written_ + profiles.size();
  AcknowledgedMark& mark = store_.mark();
  for (const auto& [what, version] :
       {std::pair{VersionKind::catalog, catalog.version_number()}, {VersionKind::profiles, users_version}})
    if (auto why = mark.reserve(what, version)) stop({StoreFault::failed, *std::move(why)}, half_imported_);
  ImportWriter writer(store_, half_imported_);
  const auto add = [&](Change change) {
    writer.add(std::move(change));
    half_imported_ = writer.half();
  };
  if (rows.replace)
    erase_others(
        Column::items, [&](std::string_view id) { return catalog.find(id) != no_item; }, add);
  for (const PutItem& row : rows.items)
    add({Column::items, row.item,
         encode_item({row.item, row.title, row.tokens, row.identifier}, catalog.version_number(), row.item)});
  if (rows.forget_users)
    erase_others(
        Column::users, [](std::string_view) { return false; }, add);
  for (std::size_t i = 0; i < profiles.size(); ++i) add(change_of(rows.users[i], profiles[i]));
  if (!rows.made_for.empty()) add(note_change(made_for_key, rows.made_for));
  add(counter_change(catalog_key, catalog.version_number()));
  add(counter_change(profiles_key, users_version));
  writer.finish();
  mark.acknowledge(VersionKind::catalog, catalog.version_number());
  mark.acknowledge(VersionKind::profiles, users_version);
  half_imported_ = false;
}

// ---- model of the rows ----

std::optional<std::string> RocksFeaturePort::made_for() {
  std::optional<std::string> text;
  const auto use = [&](std::string_view value) { text = decode_note(made_for_key, value).value_or(""); };
  const Store::Read read = store_.read(Column::meta, made_for_key, use);
  if (read == Store::Read::failed)
    throw StoreError(StoreFault::failed, "the note of the rows' model cannot be read");
  return read == Store::Read::corrupt ? "" : text;
}

void RocksFeaturePort::note_made_for(const std::string& made_for) {
  const Change change = note_change(made_for_key, made_for);
  if (const auto failure = store_.write({&change, 1}, Durability::synced)) stop(*failure, false);
}

bool RocksFeaturePort::untouched() const {
  return catalog()->version_number() == 0 && profiles_written_ == 0 && bad_records_ == 0;
}

}  // namespace troupe
