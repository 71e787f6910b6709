// Keeps answered requests in a RocksDB of their own. Each record is two values: its entry, which is
// also in memory, and its bytes, which only a replay reads.
#include "runtime/records/record_store.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "runtime/store/store_record.h"
#include "runtime/store/store_rows.h"
#include "runtime/wire/codec.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t record_format = 1;
constexpr std::uint64_t index_bytes = 512;              // a record's share of the index in memory, about
constexpr std::size_t users_at_a_time = 256;            // profiles that one sweep looks up
constexpr char entry_prefix = 'e', bytes_prefix = 'r';  // of keys; the first is the smaller one
constexpr std::int64_t us_per_s = 1'000'000;

// Names a record. Different tenants may use the same request id; a tenant has no NUL.
std::string record_id(const std::string& tenant, const std::string& request_id) {
  return tenant + '\0' + request_id;
}
std::string entry_key(const std::string& id) { return entry_prefix + id; }
std::string end_of(char prefix) { return {static_cast<char>(prefix + 1)}; }
std::string bytes_key(const std::string& id) { return bytes_prefix + id; }

template <class M>
void append_message(RecordWriter& writer, const M& message) {
  const Bytes bytes = encode({{}, message});
  writer.text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

template <class M>
bool read_message(RecordReader& reader, M& message) {
  const std::string text = reader.text();
  auto decoded = decode({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  auto* envelope = std::get_if<Envelope>(&decoded);
  auto* found = envelope ? std::get_if<M>(&envelope->message) : nullptr;
  if (found) message = std::move(*found);
  return found != nullptr;
}

std::string encode_record(const AnswerRecord& record, std::string_view key) {
  RecordWriter writer(RecordType::answer);
  writer.u32(record_format).u64(record.fingerprint);
  append_message(writer, record.reply);
  append_message(writer, record.plan);
  append_message(writer, record.answer);
  return writer.seal(key);
}

std::optional<AnswerRecord> decode_record(std::string_view key, std::string_view value) {
  auto reader = RecordReader::open(RecordType::answer, key, value);
  if (!reader || reader->u32() != record_format) return std::nullopt;
  AnswerRecord record;
  record.fingerprint = reader->u64();
  const bool whole = read_message(*reader, record.reply) && read_message(*reader, record.plan) &&
                     read_message(*reader, record.answer);
  return whole && reader->complete() ? std::optional(std::move(record)) : std::nullopt;
}

Refusal record_unreadable(const char* what) {
  return {RefusalKind::unavailable, "storage_failed", what, "record store", "a working disk"};
}

void note_lost(RecordsChanged& changed, std::string why) {
  ++changed.lost;
  if (changed.why.empty()) changed.why = std::move(why);
}

}  // namespace

void delete_records(const fs::path& folder) {
  std::error_code failure;
  fs::remove_all(folder, failure);
  if (failure)
    throw UndeletableRecords(StoreFault::failed,
                             folder.string() + " holds users' histories and cannot be deleted (" +
                                 failure.message() + "); expected a folder that can be deleted");
}

RecordStore::RecordStore(fs::path folder, RecordStoreOptions options) : options_(std::move(options)) {
  open(folder);
  read_index();
  erase_old();
}

// A damaged store is deleted and not set aside: it holds histories, which nobody would delete there.
void RecordStore::open(const fs::path& folder) {
  const StoreOptions cache{.is_cache = true};
  try {
    store_ = std::make_unique<Store>(folder, cache);
  } catch (const StoreError& error) {
    if (error.fault != StoreFault::corrupt && error.fault != StoreFault::foreign_format) throw;
    delete_records(folder);
    store_ = std::make_unique<Store>(folder, cache);
  }
}

// Reads the entries of all records. Whatever cannot be read, or belongs to another format, is erased:
// it could outlive its user unseen.
void RecordStore::read_index() {
  std::vector<std::string> bad;
  const auto take = [&](std::string_view key, std::string_view value) {
    auto reader = RecordReader::open(RecordType::answer, key, value);
    Entry entry;
    if (reader && reader->u32() == record_format) {
      entry.kept_us = static_cast<std::int64_t>(reader->u64());
      entry.bytes = reader->u64();
      entry.user = reader->text();
      entry.profile_version = reader->u64();
    }
    const std::string id(key.substr(1));
    if (!reader || !reader->complete())
      bad.push_back(id);
    else
      add(id, std::move(entry));
    return true;
  };
  bool whole = store_->scan(Column::blocks, std::string(1, entry_prefix), end_of(entry_prefix), take);
  whole = whole && std::ranges::all_of(bad, [&](const std::string& id) { return erase(id); });
  if (whole) return;
  if (store_->erase_range(Column::blocks, std::string(1, entry_prefix), end_of(bytes_prefix)))
    throw UndeletableRecords(
        StoreFault::failed,
        "the records of answered requests can neither be read nor erased; expected a working disk");
  entries_.clear(), by_age_.clear(), of_user_.clear();
  bytes_ = 0;
}

JobResult RecordStore::run(const Job& job, std::uint32_t slot) {
  try {
    if (const auto* what = std::get_if<KeepRecords>(&job)) return keep(*what);
    if (const auto* what = std::get_if<FindRecord>(&job)) return find(*what);
    if (const auto* what = std::get_if<DropRecords>(&job)) return drop(*what);
    if (std::holds_alternative<SweepRecords>(job)) return sweep(slot);
    return Refusal{RefusalKind::internal, "wrong_port", "this job is not about records", "record store",
                   "KeepRecords, FindRecord, DropRecords, SweepRecords"};
  } catch (const std::exception& error) {  // out of memory
    return Refusal{RefusalKind::internal, "port_failed", error.what(), "record store", "to finish the job"};
  }
}

std::uint64_t RecordStore::records() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::uint64_t RecordStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

// ---- jobs ----

JobResult RecordStore::keep(const KeepRecords& job) {
  const std::lock_guard lock(mutex_);
  RecordsChanged failed;
  for (const AnswerRecord& record : job.records)
    if (const auto failure = keep_one(record)) note_lost(failed, failure->why);
  RecordsChanged changed = totals();
  changed.lost = failed.lost;
  changed.why = std::move(failed.why);
  return changed;
}

// Erases the oldest records first if this one would not fit.
std::optional<StoreFailure> RecordStore::keep_one(const AnswerRecord& record) {
  const std::string id = record_id(record.reply.tenant, record.reply.request_id);
  AnswerRecord stamped = record;
  Entry entry{.kept_us = options_.now_us()};
  stamped.reply.answered_at = entry.kept_us / us_per_s;
  if (!record.reply.user.empty()) entry.user = user_key(record.reply.tenant, record.reply.user);
  entry.profile_version = record.reply.profile_version;
  const std::string key = bytes_key(id), index_key = entry_key(id);
  std::string value = encode_record(stamped, key);
  entry.bytes = value.size() + id.size() + entry.user.size() + index_bytes;
  if (entry.bytes > options_.bytes_max)
    return StoreFailure{StoreFault::failed, "a record of " + std::to_string(entry.bytes) +
                                                " bytes is larger than replay.bytes_max"};
  bool erased = !entries_.contains(id) || erase(id);
  while (erased && bytes_ + entry.bytes > options_.bytes_max) {
    const std::string oldest = by_age_.begin()->second;
    erased = erase(oldest);
  }
  if (!erased) return StoreFailure{StoreFault::failed, "older records could not be erased"};
  RecordWriter index(RecordType::answer);
  index.u32(record_format).u64(static_cast<std::uint64_t>(entry.kept_us)).u64(entry.bytes).text(entry.user);
  index.u64(entry.profile_version);
  const Change changes[] = {{Column::blocks, key, std::move(value)},
                            {Column::blocks, index_key, index.seal(index_key)}};
  if (auto failure = store_->write(changes, Durability::buffered)) return failure;
  add(id, std::move(entry));
  return std::nullopt;
}

JobResult RecordStore::find(const FindRecord& job) {
  const std::lock_guard lock(mutex_);
  const std::string id = record_id(job.tenant, job.request_id);
  const auto at = entries_.find(id);
  if (at == entries_.end() || is_old(at->second)) return FoundRecord{};
  const std::string key = bytes_key(id);
  FoundRecord found;
  const Store::Read read = store_->read(
      Column::blocks, key, [&](std::string_view value) { found.record = decode_record(key, value); });
  if (read == Store::Read::failed) return record_unreadable("reading a record failed");
  if (!found.record) erase(id);
  return found;
}

JobResult RecordStore::drop(const DropRecords& job) {
  const std::lock_guard lock(mutex_);
  RecordsChanged changed;
  for (const RecordOwner& owner : job.of) {
    const auto at = of_user_.find(user_key(owner.tenant, owner.user));
    if (at == of_user_.end()) continue;
    const std::set<std::string> ids = at->second;
    for (const std::string& id : ids)
      if (!erase(id)) note_lost(changed, "a deleted user's record could not be erased");
  }
  const RecordsChanged now = totals();
  changed.records = now.records;
  changed.bytes = now.bytes;
  return changed;
}

// Looks profiles up without the lock, so that other jobs go on meanwhile. A batch with a profile that
// could not be read ends the round: the store of profiles may be unreachable.
JobResult RecordStore::sweep(std::uint32_t slot) {
  std::vector<std::string> users;
  {
    const std::lock_guard lock(mutex_);
    if (users_to_look_up_ == 0) {
      erase_old();
      users_to_look_up_ = options_.find_users ? of_user_.size() : 0;
    }
    users = next_users();
  }
  std::vector<UserReading> readings;
  if (!users.empty()) readings = options_.find_users(users, slot);
  const std::lock_guard lock(mutex_);
  if (!erase_without_profile(users, readings)) users_to_look_up_ = 0;
  RecordsChanged changed = totals();
  changed.more = users_to_look_up_ > 0;
  return changed;
}

// ---- rules ----

// A clock that was set back does not lengthen the retention without end.
bool RecordStore::is_old(const Entry& entry) const {
  const std::int64_t age = options_.now_us() - entry.kept_us;
  return age > options_.keep.us || age < -options_.keep.us;
}

void RecordStore::erase_old() {
  std::vector<std::string> old;
  const auto take_old = [&](auto from, auto to) {
    for (; from != to && is_old(entries_.at(from->second)); ++from) old.push_back(from->second);
  };
  take_old(by_age_.begin(), by_age_.end());
  if (old.size() < by_age_.size()) take_old(by_age_.rbegin(), by_age_.rend());  // kept before a clock's reset
  for (const std::string& id : old) erase(id);
}

// Returns the users after the last one that was looked up; after the last user comes the first one.
std::vector<std::string> RecordStore::next_users() {
  users_to_look_up_ = std::min(users_to_look_up_, of_user_.size());  // others are gone meanwhile
  const std::size_t count = std::min(users_to_look_up_, users_at_a_time);
  std::vector<std::string> users;
  for (auto at = of_user_.upper_bound(last_user_); users.size() < count; ++at) {
    if (at == of_user_.end()) at = of_user_.begin();
    users.push_back(at->first);
  }
  users_to_look_up_ -= count;
  if (count > 0) last_user_ = users.back();
  return users;
}

// Erases the records of users without a profile, also those of requests that were answered without
// one. A profile of a lower version is another one, which was put after a deletion.
bool RecordStore::erase_without_profile(std::span<const std::string> users,
                                        std::span<const UserReading> readings) {
  bool all_were_read = readings.size() == users.size();
  for (std::size_t i = 0; i < users.size() && i < readings.size(); ++i) {
    all_were_read &= readings[i].read;
    const auto at = of_user_.find(users[i]);
    if (at == of_user_.end() || !readings[i].read) continue;
    const ProfilePointer& present = readings[i].user;
    const std::set<std::string> ids = at->second;
    for (const std::string& id : ids)
      if (!present || entries_.at(id).profile_version > present->version) erase(id);
  }
  return all_were_read;
}

void RecordStore::add(const std::string& id, Entry entry) {
  by_age_.emplace(entry.kept_us, id);
  if (!entry.user.empty()) of_user_[entry.user].insert(id);
  bytes_ += entry.bytes;
  entries_.emplace(id, std::move(entry));
}

void RecordStore::forget(Entries::iterator at) {
  const auto& [id, entry] = *at;
  by_age_.erase({entry.kept_us, id});
  if (const auto owned = of_user_.find(entry.user); owned != of_user_.end()) {
    owned->second.erase(id);
    if (owned->second.empty()) of_user_.erase(owned);
  }
  bytes_ -= entry.bytes;
  entries_.erase(at);
}

bool RecordStore::erase(const std::string& id) {
  const Change changes[] = {{Column::blocks, bytes_key(id), std::nullopt},
                            {Column::blocks, entry_key(id), std::nullopt}};
  if (store_->write(changes, Durability::buffered)) return false;
  if (const auto at = entries_.find(id); at != entries_.end()) forget(at);
  return true;
}

RecordsChanged RecordStore::totals() const { return {.records = entries_.size(), .bytes = bytes_}; }

}  // namespace troupe
