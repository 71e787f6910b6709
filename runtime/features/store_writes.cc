// Writes profiles and items of a single node to RocksDB. A group of writes is checked one after the other,
// stored in one synced write, and answered. A failure is the failure of all of them.
#include <algorithm>
#include <map>
#include <utility>

#include "runtime/features/append_events.h"
#include "runtime/features/feature_rules.h"
#include "runtime/features/store_features.h"
#include "runtime/features/store_keys.h"

namespace troupe {

// A write that was checked and is not stored yet.
struct RocksFeaturePort::PlannedWrite {
  VersionKind kind = VersionKind::profiles;
  WriteResult result;
  Change change;                 // moved to the store
  std::optional<Item> put = {};  // that the catalog gets
  bool publishes = true;         // of a catalog write: requests see the catalog from now on
  std::string key = change.key;
};

// The writes of a group that change something. Each gets the version after the one before it.
class RocksFeaturePort::PlannedGroup {
 public:
  PlannedGroup(std::uint64_t profiles, std::uint64_t catalog) : versions_{profiles, catalog} {}

  std::uint64_t next(VersionKind kind) const { return versions_[static_cast<std::size_t>(kind)] + 1; }
  void add(WriteGroup::Member& member, PlannedWrite planned) {
    versions_[static_cast<std::size_t>(planned.kind)] = planned.result.version;
    writes.push_back({&member, std::move(planned)});
  }
  bool changes(VersionKind kind) const {
    return std::ranges::any_of(writes, [kind](const auto& one) { return one.second.kind == kind; });
  }
  bool publishes() const {
    return std::ranges::any_of(writes, [](const auto& one) {
      return one.second.kind == VersionKind::catalog && one.second.publishes;
    });
  }
  std::uint64_t last(VersionKind kind) const { return versions_[static_cast<std::size_t>(kind)]; }

  std::vector<std::pair<WriteGroup::Member*, PlannedWrite>> writes;
  std::size_t new_items = 0;  // that the catalog does not have

 private:
  std::uint64_t versions_[2];  // by VersionKind
};

namespace {

constexpr VersionKind kinds[] = {VersionKind::profiles, VersionKind::catalog};
std::string_view counter_of(VersionKind kind) {
  return kind == VersionKind::profiles ? profiles_key : catalog_key;
}

Refusal port_failed(const std::exception& error) {
  return {RefusalKind::internal, "port_failed", error.what(), "feature port", "to finish the job"};
}

Refusal write_failed(const StoreFailure& failure, const Store& store) {
  Refusal refusal = storage_failed(failure.fault);
  if (failure.fault != StoreFault::disk_full) return refusal;
  const std::string kept = std::to_string(store.free_bytes_min());
  refusal.what += ": fewer than " + kept + " bytes are free, which the store keeps free";
  refusal.expected = "a disk with more than " + kept + " bytes free";
  return refusal;
}

}  // namespace

void RocksFeaturePort::write(std::span<WriteGroup::Member* const> members) {
  const std::lock_guard lock(writing_);
  PlannedGroup group(profiles_written_, writer_.last()->version_number());
  for (WriteGroup::Member* member : members) {
    try {
      auto planned = std::visit([&](const auto& what) { return plan(what, group); }, member->write.what);
      if (auto* result = std::get_if<JobResult>(&planned))
        member->result = std::move(*result);
      else
        group.add(*member, std::get<PlannedWrite>(std::move(planned)));
    } catch (const std::exception& error) {  // out of memory
      member->result = port_failed(error);
    }
  }
  if (group.writes.empty()) return;
  JobResult failed;
  bool is_stored = false;
  try {
    const std::optional<StoreFailure> failure = store(group);
    for (const auto& [member, planned] : group.writes)
      if (planned.kind == VersionKind::profiles) profiles_.erase(planned.key);
    is_stored = !failure;
    if (failure) failed = write_failed(*failure, store_);
    if (is_stored) publish(group);
  } catch (const std::exception& error) {  // out of memory
    is_stored = false;
    failed = port_failed(error);
  }
  for (const auto& [member, planned] : group.writes)
    member->result = is_stored ? JobResult(planned.result) : failed;
}

// Makes the writes durable before they are answered, and records that in the mark, so that a lost log is
// noticed.
std::optional<StoreFailure> RocksFeaturePort::store(PlannedGroup& group) {
  std::vector<Change> changes;
  for (auto& [member, planned] : group.writes) changes.push_back(std::move(planned.change));
  for (const VersionKind kind : kinds) {
    if (!group.changes(kind)) continue;
    changes.push_back(counter_change(counter_of(kind), group.last(kind)));
    if (auto why = store_.mark().reserve(kind, group.last(kind)))
      return StoreFailure{StoreFault::failed, *std::move(why)};
  }
  if (auto failure = store_.write(changes, Durability::synced)) return failure;
  for (const VersionKind kind : kinds)
    if (group.changes(kind)) store_.mark().acknowledge(kind, group.last(kind));
  return {};
}

// The catalog is published once for all items of the group, if one of its writes publishes. Otherwise the
// writer alone has the new items, so that the next write counts on from them.
void RocksFeaturePort::publish(PlannedGroup& group) {
  if (group.changes(VersionKind::profiles)) profiles_written_ = group.last(VersionKind::profiles);
  if (!group.changes(VersionKind::catalog)) return;
  for (auto& [member, planned] : group.writes) {
    if (planned.kind != VersionKind::catalog) continue;
    if (planned.put)
      writer_.put(*std::move(planned.put), planned.result.version);
    else
      writer_.erase(planned.key);
  }
  if (group.publishes())
    publish(group.last(VersionKind::catalog));
  else
    writer_.publish(group.last(VersionKind::catalog));
  for (const auto& [member, planned] : group.writes)
    if (planned.kind == VersionKind::catalog) unreadable_items_.remove(planned.key);
}

// ---- what a write changes ----

RocksFeaturePort::Plan RocksFeaturePort::plan(const PutUser& put, PlannedGroup& group) {
  const std::string key = user_key(put.tenant, put.user);
  StoredProfile stored;
  if (auto refusal = resolve(put, limits_, *writer_.last(), stored)) return JobResult(*refusal);
  if (auto refusal = reject_if_unmet(put.condition, key)) return JobResult(*refusal);
  stored.profile.version = group.next(VersionKind::profiles);
  return PlannedWrite{VersionKind::profiles,
                      {stored.profile.version},
                      {Column::users, key, encode_profile(stored.profile, key, stored.names)}};
}

// A client that repeats a successful append gets its answer, even if the version in its condition
// has changed.
RocksFeaturePort::Plan RocksFeaturePort::plan(const AppendEvents& events, PlannedGroup& group) {
  const std::string key = user_key(events.tenant, events.user);
  std::optional<StoredProfile> before;
  if (auto refusal = read_stored(key, before)) return JobResult(*refusal);
  auto grown = append(before ? &*before : nullptr, events, limits_, *writer_.last());
  if (auto* refusal = std::get_if<Refusal>(&grown)) return JobResult(std::move(*refusal));
  auto& [stored, counts] = std::get<AppendedProfile>(grown);
  const std::uint64_t version = before ? before->profile.version : 0;
  if (before && counts.appended == 0)
    return JobResult(WriteResult{version, 0, counts.repeated, 0, counts.events});
  if (auto refusal = troupe::reject_if_unmet(events.condition, version)) return JobResult(*refusal);
  stored.profile.version = counts.version = group.next(VersionKind::profiles);
  return PlannedWrite{
      VersionKind::profiles, counts, {Column::users, key, encode_profile(stored.profile, key, stored.names)}};
}

RocksFeaturePort::Plan RocksFeaturePort::plan(const DeleteUser& gone, PlannedGroup& group) {
  const std::string key = user_key(gone.tenant, gone.user);
  const Store::Read read = store_.read(Column::users, key, [](std::string_view) {});
  if (read == Store::Read::failed) return JobResult(storage_failed(StoreFault::failed));
  if (read == Store::Read::missing) return JobResult(unknown_user(gone.tenant));
  if (auto refusal = reject_if_unmet(gone.condition, key)) return JobResult(*refusal);
  return PlannedWrite{VersionKind::profiles, {group.next(VersionKind::profiles)}, {Column::users, key}};
}

RocksFeaturePort::Plan RocksFeaturePort::plan(const PutItem& put, PlannedGroup& group) {
  if (auto refusal = validate_row(put, limits_)) return JobResult(*refusal);
  if (auto refusal = reject_if_item_unmet(put.condition, put.item)) return JobResult(*refusal);
  const bool is_new = !writer_.contains(put.item);
  if (is_new && writer_.size() + group.new_items >= limits_.items_max)
    return JobResult(catalog_full(limits_));
  group.new_items += is_new;
  Item item{put.item, put.title, put.tokens, put.identifier, name_item_(put.tokens)};
  const std::uint64_t version = group.next(VersionKind::catalog);
  Change change{Column::items, put.item, encode_item(item, version, put.item)};
  PlannedWrite planned{VersionKind::catalog, {version}, std::move(change), std::move(item)};
  planned.publishes = put.publish;
  return planned;
}

RocksFeaturePort::Plan RocksFeaturePort::plan(const DeleteItem& gone, PlannedGroup& group) {
  if (!writer_.contains(gone.item) && !unreadable_items_.contains(gone.item))
    return JobResult(unknown_item(gone.item));
  if (auto refusal = reject_if_item_unmet(gone.condition, gone.item)) return JobResult(*refusal);
  return PlannedWrite{VersionKind::catalog, {group.next(VersionKind::catalog)}, {Column::items, gone.item}};
}

}  // namespace troupe
