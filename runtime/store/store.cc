#include "runtime/store/store.h"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <mutex>
#include <shared_mutex>
#include <system_error>

namespace troupe {
namespace {

constexpr std::size_t mebibyte = 1 << 20;
constexpr std::string_view format_key = "format";
constexpr std::string_view format = "troupe store 1";
constexpr std::array<const char*, 4> column_names = {"items", "users", "blocks", "meta"};

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view view(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

std::string words_of(int error) { return std::generic_category().message(error); }

// RocksDB has no code of its own for a lock that is taken; these are its words for it.
bool says_locked(const std::string& text) {
  return text.find("lock hold by current process") != std::string::npos ||
         text.find("While lock file") != std::string::npos;
}

// RocksDB calls a store corrupt or foreign, too, of which the system does not let it read a file. A file that
// is gone is the store's fault.
bool says_out_of_reach(const std::string& text) {
  return text.find("IO error") != std::string::npos && text.find(words_of(ENOENT)) == std::string::npos;
}

StoreFault fault_of(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  if (status.IsNoSpace() || text.find(words_of(ENOSPC)) != std::string::npos) return StoreFault::disk_full;
  if (text.find(words_of(EROFS)) != std::string::npos) return StoreFault::read_only;
  if (says_locked(text)) return StoreFault::locked;
  if (says_out_of_reach(text)) return StoreFault::failed;
  if (status.IsCorruption() || status.IsPathNotFound()) return StoreFault::corrupt;
  if (status.IsInvalidArgument()) return StoreFault::foreign_format;
  return StoreFault::failed;
}

std::string_view expected_instead_of(StoreFault fault) {
  switch (fault) {
    case StoreFault::cannot_create:
      return "a folder that this process may create and write to";
    case StoreFault::read_only:
      return "a folder that this process may write to";
    case StoreFault::locked:
      return "a data folder of its own: stop the other process or choose another folder";
    case StoreFault::corrupt:
      return "a sound store: restore a copy, or remove the folder and import again";
    case StoreFault::disk_full:
      return "free space: make room and start again";
    case StoreFault::foreign_format:
      return "a store in the format \"troupe store 1\"";
    case StoreFault::bad_row:
      return "rows that can be stored";
    case StoreFault::failed:
      return "a disk that works";
  }
  return "";
}

[[noreturn]] void fail(StoreFault fault, const std::filesystem::path& where, const std::string& detail) {
  std::string text = where.string() + ": " + std::string(describe(fault));
  if (!detail.empty()) text += " (" + detail + ")";
  throw StoreError(fault, text + "; expected " + std::string(expected_instead_of(fault)));
}

void prepare_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error.value() == EROFS) fail(StoreFault::read_only, folder, error.message());
  if (error) fail(StoreFault::cannot_create, folder, error.message());
  if (!std::filesystem::is_directory(folder, error))
    fail(StoreFault::cannot_create, folder, "it is no folder");
  if (access(folder.c_str(), W_OK | X_OK) != 0) fail(StoreFault::read_only, folder, words_of(errno));
}

// For good, before anything is written that the file denies.
void remove_only_blocks(const std::filesystem::path& folder) {
  std::error_code error;
  const bool was_there = std::filesystem::remove(folder / only_blocks_file, error);
  if (error) fail(StoreFault::failed, folder / only_blocks_file, error.message());
  if (!was_there) return;
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool durable = descriptor >= 0 && fsync(descriptor) == 0;
  const std::string why = words_of(errno);
  if (descriptor >= 0) close(descriptor);
  if (!durable) fail(StoreFault::failed, folder, why);
}

// RocksDB's own log is a file on the same disk, and some builds of it (Debian's 7.8, with assertions) stop
// the process when that file cannot be written. So there is none: what matters comes back as a status.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

// RocksDB would try to recover from a full disk in a thread of its own and answer "busy" meanwhile. Here the
// next write opens it again (Rocks::go_on), so that the first one that finds room succeeds. DB::Resume would
// do as well, but in 7.8 it now and then waits for a flush that nobody runs, forever.
class RecoverOnWrite final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* recover_now) override {
    *recover_now = false;
  }
};

// Free bytes without which the database is not opened again after a failure: it first writes what is in
// memory.
constexpr std::uint64_t room_to_open = 4 * mebibyte;
// Opening reads the log and keeps readers waiting, so what failed is not tried again at once.
constexpr std::chrono::seconds between_attempts(1);

// A write that failed on another thread has closed the database, and it could not be opened again.
StoreFailure closed_failure() {
  return {StoreFault::failed,
          std::string(describe(StoreFault::failed)) + ": the database could not be opened again"};
}

// Sized for a machine that has better uses for its memory: at most about 50 MiB in all.
rocksdb::DBOptions database_options() {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_background_jobs = 2;
  options.max_open_files = 512;
  options.db_write_buffer_size = 32 * mebibyte;
  options.max_total_wal_size = 128 * mebibyte;
  options.max_manifest_file_size = 16 * mebibyte;
  options.info_log = std::make_shared<NoLog>();
  options.listeners.push_back(std::make_shared<RecoverOnWrite>());
  return options;
}

rocksdb::ColumnFamilyOptions rows_options(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_size = 8 * mebibyte;
  options.compression = rocksdb::kLZ4Compression;
  return options;
}

// Pages do not compress and are written once, so they lie in files of their own and compaction moves only
// keys.
rocksdb::ColumnFamilyOptions blocks_options(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions options = rows_options(cache);
  options.write_buffer_size = 16 * mebibyte;
  options.compression = rocksdb::kNoCompression;
  options.enable_blob_files = true;
  options.min_blob_size = 4096;
  options.blob_file_size = 64 * mebibyte;
  options.enable_blob_garbage_collection = true;
  return options;
}

}  // namespace

std::string_view describe(StoreFault fault) {
  switch (fault) {
    case StoreFault::cannot_create:
      return "the folder cannot be made";
    case StoreFault::read_only:
      return "the folder is read-only";
    case StoreFault::locked:
      return "the store is locked by another process";
    case StoreFault::corrupt:
      return "the store is corrupt";
    case StoreFault::disk_full:
      return "the disk is full";
    case StoreFault::foreign_format:
      return "the store has a foreign format";
    case StoreFault::bad_row:
      return "a row cannot be stored";
    case StoreFault::failed:
      return "the disk failed";
  }
  return "";
}

struct Store::Rocks {
  std::filesystem::path folder;
  std::uint64_t free_bytes_min = 0;
  std::shared_mutex opening;  // held by all who use the database, and alone to open it again
  std::unique_ptr<rocksdb::DB> database;
  std::vector<rocksdb::ColumnFamilyHandle*> columns;  // by Column
  std::atomic<bool> failed = false;                   // a write did since the database was opened
  std::chrono::steady_clock::time_point not_before;   // for the next attempt to open it again

  ~Rocks() { close(); }
  rocksdb::ColumnFamilyHandle* column(Column c) const { return columns[static_cast<std::size_t>(c)]; }

  std::optional<StoreFailure> check_room(std::uint64_t bytes_min) const {
    std::error_code error;
    const auto space = std::filesystem::space(folder, error);
    if (error || space.available >= bytes_min) return {};
    return StoreFailure{StoreFault::disk_full, std::string(describe(StoreFault::disk_full)) + ": " +
                                                   std::to_string(space.available) + " bytes are free, " +
                                                   std::to_string(bytes_min) + " are kept free"};
  }
  // After a failed write RocksDB refuses all others until it is opened again. That needs room, too; while
  // there is none, the database stays as it is and can be read.
  std::optional<StoreFailure> go_on() {
    if (!failed.load()) return {};
    const std::unique_lock alone(opening);
    if (!failed.load()) return {};
    if (std::chrono::steady_clock::now() < not_before)
      return StoreFailure{StoreFault::failed, std::string(describe(StoreFault::failed)) +
                                                  ": it failed again right after it was opened again"};
    if (auto failure = check_room(room_to_open)) return failure;
    close();
    const rocksdb::Status status = open();
    not_before = std::chrono::steady_clock::now() + between_attempts;
    failed.store(!status.ok());
    if (status.ok()) return {};
    open_to_read();
    return outcome(status);
  }
  std::optional<StoreFailure> outcome(const rocksdb::Status& status) {
    if (status.ok()) return {};
    failed.store(true);  // until the database is opened again, whatever other threads' writes did
    const StoreFault fault = fault_of(status);
    return StoreFailure{fault, std::string(describe(fault)) + ": " + status.ToString()};
  }
  rocksdb::Status open();
  void open_to_read();
  void close();
  void check_format();

 private:
  std::vector<rocksdb::ColumnFamilyDescriptor> families() const;
  void keep(rocksdb::DB* opened);
};

std::vector<rocksdb::ColumnFamilyDescriptor> Store::Rocks::families() const {
  const auto cache = rocksdb::NewLRUCache(16 * mebibyte);
  std::vector<rocksdb::ColumnFamilyDescriptor> families = {{rocksdb::kDefaultColumnFamilyName, {}}};
  for (const char* name : column_names) {
    const bool blocks = name == column_names[static_cast<std::size_t>(Column::blocks)];
    families.emplace_back(name, blocks ? blocks_options(cache) : rows_options(cache));
  }
  return families;
}

void Store::Rocks::keep(rocksdb::DB* opened) {
  database.reset(opened);
  database->DestroyColumnFamilyHandle(columns.front());  // the default one, which holds nothing
  columns.erase(columns.begin());
}

rocksdb::Status Store::Rocks::open() {
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status =
      rocksdb::DB::Open(database_options(), folder.string(), families(), &columns, &opened);
  if (status.ok()) keep(opened);
  return status;
}

// Without a database everything fails, and the next write tries again.
void Store::Rocks::open_to_read() {
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(database_options(), folder.string(), families(), &columns, &opened);
  if (status.ok()) keep(opened);
}

void Store::Rocks::close() {
  for (rocksdb::ColumnFamilyHandle* column : columns) database->DestroyColumnFamilyHandle(column);
  columns.clear();
  database.reset();
}

void Store::Rocks::check_format() {
  std::string found;
  rocksdb::Status status = database->Get({}, column(Column::meta), slice(format_key), &found);
  if (status.IsNotFound()) {
    status = database->Put({}, column(Column::meta), slice(format_key), slice(format));
    found = format;
  }
  if (!status.ok()) fail(fault_of(status), folder, status.ToString());
  if (found != format) fail(StoreFault::foreign_format, folder, "\"" + found.substr(0, 64) + "\"");
}

Store::Store(const std::filesystem::path& data_dir, std::uint64_t free_bytes_min)
    : rocks_(std::make_unique<Rocks>()) {
  rocks_->folder = data_dir / "rocksdb";
  rocks_->free_bytes_min = free_bytes_min;
  prepare_folder(rocks_->folder);
  const rocksdb::Status status = rocks_->open();
  if (!status.ok()) fail(fault_of(status), rocks_->folder, status.ToString());
  rocks_->check_format();
  remove_only_blocks(rocks_->folder);
}

Store::~Store() = default;

Store::Read Store::read(Column column, std::string_view key, const UseValue& use) const {
  const std::shared_lock open(rocks_->opening);
  if (!rocks_->database) return Read::failed;
  rocksdb::PinnableSlice value;
  const rocksdb::Status status = rocks_->database->Get({}, rocks_->column(column), slice(key), &value);
  if (status.IsNotFound()) return Read::missing;
  if (status.IsCorruption()) return Read::corrupt;
  if (!status.ok()) return Read::failed;
  use(view(value));
  return Read::found;
}

bool Store::scan(Column column, std::string_view from, std::string_view to, const UseEntry& use) const {
  const std::shared_lock open(rocks_->opening);
  if (!rocks_->database) return false;
  const rocksdb::Slice end = slice(to);
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  if (!to.empty()) options.iterate_upper_bound = &end;
  const std::unique_ptr<rocksdb::Iterator> at(rocks_->database->NewIterator(options, rocks_->column(column)));
  for (at->Seek(slice(from)); at->Valid(); at->Next())
    if (!use(view(at->key()), view(at->value()))) return true;
  return at->status().ok();
}

std::optional<StoreFailure> Store::write(std::span<const Change> changes, Durability durability) {
  const auto adds = [](const Change& change) { return change.value.has_value(); };
  if (std::ranges::any_of(changes, adds))
    if (auto failure = rocks_->check_room(rocks_->free_bytes_min)) return failure;
  if (auto failure = rocks_->go_on()) return failure;
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
    if (!status.ok()) return StoreFailure{fault_of(status), status.ToString()};
  }
  rocksdb::WriteOptions options;
  options.sync = durability == Durability::synced;
  return rocks_->outcome(rocks_->database->Write(options, &batch));
}

std::optional<StoreFailure> Store::erase_range(Column column, std::string_view from, std::string_view to) {
  if (auto failure = rocks_->go_on()) return failure;
  const std::shared_lock open(rocks_->opening);
  if (!rocks_->database) return closed_failure();
  return rocks_->outcome(rocks_->database->DeleteRange({}, rocks_->column(column), slice(from), slice(to)));
}

std::optional<StoreFailure> Store::sync() {
  if (auto failure = rocks_->go_on()) return failure;
  const std::shared_lock open(rocks_->opening);
  if (!rocks_->database) return closed_failure();
  return rocks_->outcome(rocks_->database->SyncWAL());
}

}  // namespace troupe
