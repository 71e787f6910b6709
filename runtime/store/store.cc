// Wraps the node's RocksDB (profiles, items, saved blocks and notes) so that disk failures become
// values. It salvages a damaged store when it opens, and reopens the database after a failed write.
#include "runtime/store/store.h"

#include <rocksdb/listener.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <system_error>
#include <thread>

#include "kernels/base/check.h"
#include "runtime/store/store_check.h"
#include "runtime/store/store_rocks.h"
#include "runtime/store/store_rows.h"
#include "runtime/store/store_salvage.h"
#include "runtime/store/store_walk.h"

namespace troupe {
namespace {

// Removes the file durably, before anything is written that contradicts it.
void remove_only_blocks(const std::filesystem::path& folder) {
  std::error_code error;
  const bool was_there = std::filesystem::remove(folder / only_blocks_file, error);
  if (error) fail(StoreFault::failed, folder / only_blocks_file, error.message());
  if (was_there) sync_folder(folder);
}

// Free bytes needed to reopen the database after a failure: it first writes its memory tables to
// disk.
constexpr std::uint64_t free_bytes_to_open = 4 * mebibyte;
// Minimum time between attempts to reopen. Opening reads the log and blocks readers.
constexpr std::chrono::seconds between_attempts(1);

// A write that failed on another thread closed the database, and reopening failed.
StoreFailure closed_failure() {
  return {StoreFault::failed,
          std::string(describe(StoreFault::failed)) + ": the database could not be opened again"};
}

std::string summary_of(const StoreCheck& check) {
  std::vector<std::string> words;
  for (const StoreDamage& damage : check.damage) words.push_back(describe(damage));
  for (const StoreLoss& loss : check.lost_tail) words.push_back("acknowledged and lost: " + describe(loss));
  return words.front() + (words.size() > 1 ? ", and " + std::to_string(words.size() - 1) + " more" : "");
}

std::array<std::uint64_t, 2> after_jump(std::array<std::uint64_t, 2> counters) {
  for (std::uint64_t& counter : counters)
    if (counter > 0) counter += counter_jump;
  return counters;
}

// Collects the distinct damage found and passes each to the subscriber.
class DamageLog {
 public:
  void subscribe(std::function<void(const StoreDamage&)> subscribe) {
    const std::lock_guard lock(mutex_);
    subscriber_ = std::move(subscribe);
  }
  void note(const StoreDamage& damage) {
    const std::lock_guard lock(mutex_);
    if (reported_.size() >= reported_max || !reported_.insert(describe(damage)).second) return;
    ++health_.damages;
    if (health_.found.size() < shown_max) health_.found.push_back(damage);
    if (subscriber_) subscriber_(damage);
  }
  void count_read() { ++reads_; }
  void set_opening(SalvageResult salvaged) {
    const std::lock_guard lock(mutex_);
    health_.losses = salvaged.losses;
    health_.lost = std::move(salvaged.lost);
    health_.aside = salvaged.aside.string();
  }
  StoreHealth health() const {
    const std::lock_guard lock(mutex_);
    StoreHealth health = health_;
    health.damaged_reads = reads_;
    return health;
  }

 private:
  static constexpr std::size_t reported_max = 1000, shown_max = 100;
  mutable std::mutex mutex_;  // guards all but reads_
  std::atomic<std::uint64_t> reads_ = 0;
  std::set<std::string> reported_;
  StoreHealth health_;
  std::function<void(const StoreDamage&)> subscriber_;
};

// Stops compactions for good after one met damage. A damaged compaction ends all writes, and would
// do so again after every reopening.
class CompactionStopper final : public rocksdb::EventListener {
 public:
  CompactionStopper(DamageLog& damage_log, std::atomic<bool>& stop, std::atomic<bool>& failed)
      : damage_log_(damage_log), stop_(stop), failed_(failed) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* status) override {
    if (!is_damage(*status)) return;
    stop_.store(true);
    failed_.store(true);
    damage_log_.note({"rocksdb", status_text(*status)});
  }

 private:
  DamageLog& damage_log_;
  std::atomic<bool>&stop_, &failed_;
};

}  // namespace

struct Store::Rocks : OpenedRocks {
  std::filesystem::path data_dir, folder;
  StoreOptions options;
  std::shared_mutex opening;         // shared by all users of the database; exclusive to reopen it
  std::atomic<bool> failed = false;  // a write has failed since the database was opened
  std::atomic<bool> compactions_stopped = false;       // a compaction met damage: no more compactions
  std::chrono::steady_clock::time_point next_attempt;  // for the next attempt to reopen
  DamageLog damage_log;
  std::unique_ptr<AcknowledgedMark> mark;
  AcknowledgedMark::State mark_state;
  std::jthread checks;  // checks the tables that were not checked before opening

  ~Rocks() { close(); }  // while the subscriber to damage still exists
  std::optional<StoreFailure> check_free_bytes(std::uint64_t bytes_min) const {
    std::error_code error;
    const auto space = std::filesystem::space(folder, error);
    if (error || space.available >= bytes_min) return {};
    return StoreFailure{StoreFault::disk_full, std::string(describe(StoreFault::disk_full)) + ": " +
                                                   std::to_string(space.available) + " bytes are free, " +
                                                   std::to_string(bytes_min) + " are kept free"};
  }
  // Reopens the database if a write has failed, because RocksDB then refuses all writes until it is
  // reopened. Reopening needs free space too; while there is too little, the database stays open
  // for reading.
  std::optional<StoreFailure> reopen_if_failed() {
    if (!failed.load()) return {};
    const std::unique_lock alone(opening);
    if (!failed.load()) return {};
    if (std::chrono::steady_clock::now() < next_attempt)
      return StoreFailure{StoreFault::failed, std::string(describe(StoreFault::failed)) +
                                                  ": it failed again right after it was opened again"};
    if (auto failure = check_free_bytes(free_bytes_to_open)) return failure;
    close();
    const rocksdb::Status status = open();
    next_attempt = std::chrono::steady_clock::now() + between_attempts;
    failed.store(!status.ok());
    if (status.ok()) return {};
    open_to_read();
    return outcome(status);
  }
  std::optional<StoreFailure> outcome(const rocksdb::Status& status) {
    if (status.ok()) return {};
    failed.store(true);  // until the database is reopened, whatever other threads' writes returned
    const StoreFault fault = fault_of(status);
    return StoreFailure{fault, std::string(describe(fault)) + ": " + status_text(status)};
  }
  rocksdb::Status open();
  void open_to_read();
  void check_format();
  void check_and_salvage();
  void check_remaining_tables(const std::stop_token& stop, const std::vector<std::string>& tables);
  void open_mark();
  StoreDamage damage_of(Column column, const rocksdb::Status& status) const {
    return {"rocksdb", status_text(status), {}, column};
  }

 private:
  std::vector<rocksdb::ColumnFamilyDescriptor> families() const;
  rocksdb::DBOptions database_options();
};

std::vector<rocksdb::ColumnFamilyDescriptor> Store::Rocks::families() const {
  std::vector<rocksdb::ColumnFamilyDescriptor> families = column_families();
  if (compactions_stopped.load())
    for (rocksdb::ColumnFamilyDescriptor& family : families) {
      family.options.disable_auto_compactions = true;
      family.options.level0_slowdown_writes_trigger = family.options.level0_stop_writes_trigger = 1 << 20;
    }
  return families;
}

rocksdb::DBOptions Store::Rocks::database_options() {
  rocksdb::DBOptions all = troupe::database_options();
  all.listeners.push_back(std::make_shared<CompactionStopper>(damage_log, compactions_stopped, failed));
  return all;
}

rocksdb::Status Store::Rocks::open() {
  return OpenedRocks::open(database_options(), folder, families(), false);
}

// Opens it read-only. If that fails too, all operations fail and the next write tries again.
void Store::Rocks::open_to_read() { OpenedRocks::open(database_options(), folder, families(), true); }

void Store::Rocks::check_format() {
  std::string found;
  rocksdb::Status status = database->Get({}, column(Column::meta), slice(format_key), &found);
  if (status.IsNotFound()) {
    status = database->Put({}, column(Column::meta), slice(format_key), slice(format));
    found = format;
  }
  if (!status.ok()) fail(fault_of(status), folder, status_text(status));
  if (found != format) fail(StoreFault::foreign_format, folder, "\"" + found.substr(0, 64) + "\"");
}

// ---- damage ----

// Checks the store and salvages it if needed, so that the opened database has no damage, as far as
// it was checked.
void Store::Rocks::check_and_salvage() {
  const FolderLock lock(folder);
  StoreCheck check = check_store(data_dir, options.check_bytes_max);
  for (const StoreDamage& damage : check.damage) damage_log.note(damage);
  for (const StoreLoss& loss : check.lost_tail)
    damage_log.note({"rocksdb", "acknowledged and lost: " + describe(loss)});
  mark_state = check.mark;
  if (check.exists && !check.is_whole() && !check.only_mark()) {
    if (options.on_damage == OnDamage::refuse && !check.only_blocks())
      fail(StoreFault::corrupt, data_dir, summary_of(check));
    SalvageResult salvaged = salvage_store(data_dir, check);
    mark_state.last = mark_state.ceiling = salvaged.counters;
    damage_log.set_opening(std::move(salvaged));
    check.unchecked.clear();  // the salvage read all tables
  }
  if (check.only_mark() && check.mark_is_missed)
    mark_state.last = mark_state.ceiling = after_jump(check.counters);
  if (!check.unchecked.empty())
    checks = std::jthread([this, tables = std::move(check.unchecked)](const std::stop_token& stop) {
      check_remaining_tables(stop, tables);
    });
}

void Store::Rocks::check_remaining_tables(const std::stop_token& stop,
                                          const std::vector<std::string>& tables) {
  for (const std::string& table : tables) {
    if (stop.stop_requested()) return;
    std::error_code error;
    try {
      const std::string fault = check_table(table);
      if (!fault.empty() && std::filesystem::exists(table, error)) damage_log.note({table, fault, {}, {}});
    } catch (const StoreError& failure) {  // the disk's failure: whoever reads the table will meet it
    }
  }
}

void Store::Rocks::open_mark() {
  try {
    mark = std::make_unique<AcknowledgedMark>(data_dir / mark_file, mark_state);
  } catch (const std::system_error& error) {
    fail(error.code().value() == ENOSPC ? StoreFault::disk_full : StoreFault::failed, data_dir / mark_file,
         error.code().message());
  }
  sync_folder(data_dir);
  rocksdb::WriteBatch batch;
  batch.Put(column(Column::meta), slice(marked_key), "yes");
  for (std::size_t i = 0; i < std::size(counter_keys); ++i) {
    std::string value;
    const bool there = database->Get({}, column(Column::meta), slice(counter_keys[i]), &value).ok();
    const std::uint64_t counter = there ? decode_counter(counter_keys[i], value).value_or(0) : 0;
    if (counter > 0 && counter < mark_state.last[i])
      batch.Put(column(Column::meta), slice(counter_keys[i]),
                encode_counter(mark_state.last[i], counter_keys[i]));
  }
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const rocksdb::Status status = database->Write(synced, &batch);
  if (!status.ok()) fail(fault_of(status), folder, status_text(status));
}

Store::Store(const std::filesystem::path& data_dir, const StoreOptions& options)
    : rocks_(std::make_unique<Rocks>()) {
  rocks_->data_dir = data_dir;
  rocks_->folder = data_dir / "rocksdb";
  rocks_->options = options;
  finish_salvage(data_dir);
  prepare_folder(rocks_->folder);
  if (!options.is_cache) rocks_->check_and_salvage();
  prepare_folder(rocks_->folder);
  const rocksdb::Status status = rocks_->open();
  if (!status.ok()) fail(fault_of(status), rocks_->folder, status_text(status));
  rocks_->check_format();
  remove_only_blocks(rocks_->folder);
  if (!options.is_cache) rocks_->open_mark();
}

Store::~Store() = default;

Store::Read Store::read(Column column, std::string_view key, const UseValue& use) const {
  const std::shared_lock open(rocks_->opening);
  if (!rocks_->database) return Read::failed;
  rocksdb::PinnableSlice value;
  const rocksdb::Status status = rocks_->database->Get({}, rocks_->column(column), slice(key), &value);
  if (status.IsNotFound()) return Read::missing;
  if (is_damage(status)) {
    rocks_->damage_log.count_read();
    rocks_->damage_log.note(rocks_->damage_of(column, status));
    return Read::corrupt;
  }
  if (!status.ok()) return Read::failed;
  use(view(value));
  return Read::found;
}

bool Store::scan(Column column, std::string_view from, std::string_view to, const UseEntry& use,
                 const UseGap& skip) const {
  const std::shared_lock open(rocks_->opening);
  if (!rocks_->database) return false;
  const rocksdb::Slice end = slice(to);
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  if (!to.empty()) options.iterate_upper_bound = &end;
  const auto make = [&] {
    return std::unique_ptr<rocksdb::Iterator>(rocks_->database->NewIterator(options, rocks_->column(column)));
  };
  const UseGap note = [&](const Gap& gap) {
    rocks_->damage_log.note({"rocksdb", gap.why, {}, column});
    skip(gap);
  };
  return walk(make, from, to, use, skip ? note : UseGap{}).ok();
}

std::optional<StoreFailure> Store::write(std::span<const Change> changes, Durability durability) {
  const auto adds = [](const Change& change) { return change.value.has_value(); };
  if (std::ranges::any_of(changes, adds))
    if (auto failure = rocks_->check_free_bytes(rocks_->options.free_bytes_min)) return failure;
  if (auto failure = rocks_->reopen_if_failed()) return failure;
  const std::shared_lock open(rocks_->opening);
  if (!rocks_->database) return closed_failure();
  rocksdb::WriteBatch batch;
  for (const Change& change : changes) {
    rocksdb::ColumnFamilyHandle* column = rocks_->column(change.column);
    const rocksdb::Slice key = slice(change.key);
    rocksdb::Status status;
    if (change.value) {
      std::vector<rocksdb::Slice> parts = {slice(*change.value)};
      for (const std::string_view part : change.tail) parts.push_back(slice(part));
      status = batch.Put(column, {&key, 1}, {parts.data(), static_cast<int>(parts.size())});
    } else {
      status = batch.Delete(column, key);
    }
    if (!status.ok()) return StoreFailure{fault_of(status), status_text(status)};
  }
  rocksdb::WriteOptions options;
  options.sync = durability == Durability::synced;
  return rocks_->outcome(rocks_->database->Write(options, &batch));
}

std::optional<StoreFailure> Store::erase_range(Column column, std::string_view from, std::string_view to) {
  if (auto failure = rocks_->reopen_if_failed()) return failure;
  const std::shared_lock open(rocks_->opening);
  if (!rocks_->database) return closed_failure();
  return rocks_->outcome(rocks_->database->DeleteRange({}, rocks_->column(column), slice(from), slice(to)));
}

// ---- administration ----

std::optional<StoreFailure> Store::copy_to(const std::filesystem::path& target) {
  const std::shared_lock open(rocks_->opening);
  if (!rocks_->database) return closed_failure();
  rocksdb::Checkpoint* made = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(rocks_->database.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  if (status.ok()) status = checkpoint->CreateCheckpoint(target.string());
  if (status.ok()) return {};
  return StoreFailure{fault_of(status), std::string(describe(fault_of(status))) + ": " + status_text(status)};
}

AcknowledgedMark& Store::mark() {
  TROUPE_CHECK(rocks_->mark, "only a store that is not a cache has a mark");
  return *rocks_->mark;
}

std::uint64_t Store::free_bytes_min() const { return rocks_->options.free_bytes_min; }

StoreHealth Store::health() const { return rocks_->damage_log.health(); }

void Store::on_damage(std::function<void(const StoreDamage&)> subscribe) {
  rocks_->damage_log.subscribe(std::move(subscribe));
}

void Store::report_damage(Column column, std::string_view key) const {
  rocks_->damage_log.count_read();
  rocks_->damage_log.note(
      {"rocksdb", "the row of \"" + bytes_shown(key) + "\" does not match its sum", {}, column});
}

}  // namespace troupe
