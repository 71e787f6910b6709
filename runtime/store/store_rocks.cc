// Configures RocksDB: the options of its columns, private files (mode 0600), no log of its own, and
// a check of table footers. It also translates RocksDB's statuses into this project's kinds of
// failure.
#include "runtime/store/store_rocks.h"

#include <fcntl.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <fstream>
#include <iomanip>
#include <system_error>

#include "runtime/store/store_footer.h"

namespace troupe {
namespace {

constexpr int manifest_name_max = 64;
constexpr std::uintmax_t small_file_max = 4 << 10;

// Discards RocksDB's own info log. It is a file on the same disk, and some builds (Debian's 7.8,
// with assertions) abort the process when it cannot be written. Everything relevant is returned as
// a status.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

// Disables RocksDB's own recovery from a full disk, which runs in a thread and answers "busy"
// meanwhile. Here the next write reopens the database (Rocks::reopen_if_failed), so that the first
// write that finds space succeeds. DB::Resume would also work, but in 7.8 it sometimes waits
// forever for a flush that never runs.
class RecoverOnWrite final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* recover_now) override {
    *recover_now = false;
  }
};

// Creates files with mode 0600, whatever the umask; RocksDB's are 0644. Refuses to open a table
// with a wrong footer.
class PrivateFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "OwnersFiles"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    return owned(name, FileSystemWrapper::NewWritableFile(name, options, file, debug));
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = FileSystemWrapper::NewRandomAccessFile(name, options, file, debug);
    if (status.ok() && name.ends_with(".sst")) status = check_footer(name, **file, debug);
    if (!status.ok()) file->reset();
    return status;
  }
  rocksdb::IOStatus ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* debug) override {
    return owned(name, FileSystemWrapper::ReopenWritableFile(name, options, file, debug));
  }
  rocksdb::IOStatus LockFile(const std::string& name, const rocksdb::IOOptions& options,
                             rocksdb::FileLock** lock, rocksdb::IODebugContext* debug) override {
    return owned(name, FileSystemWrapper::LockFile(name, options, lock, debug));
  }

 private:
  rocksdb::IOStatus check_footer(const std::string& name, const rocksdb::FSRandomAccessFile& table,
                                 rocksdb::IODebugContext* debug) {
    std::uint64_t bytes = 0;
    if (rocksdb::IOStatus status = GetFileSize(name, {}, &bytes, debug); !status.ok()) return status;
    if (bytes < table_footer_bytes) return rocksdb::IOStatus::OK();  // RocksDB reports it
    std::array<char, table_footer_bytes> buffer;
    rocksdb::Slice footer;
    if (rocksdb::IOStatus status =
            table.Read(bytes - buffer.size(), buffer.size(), {}, &footer, buffer.data(), debug);
        !status.ok())
      return status;
    const std::string fault = validate_footer(view(footer), bytes);
    return fault.empty() ? rocksdb::IOStatus::OK() : rocksdb::IOStatus::Corruption(fault, name);
  }
  static rocksdb::IOStatus owned(const std::string& name, rocksdb::IOStatus status) {
    if (status.ok()) chmod(name.c_str(), 0600);
    return status;
  }
};

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

// Pages do not compress and are written once. They go to blob files, so that compactions move only
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
      return "the folder cannot be created";
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

std::string status_text(int error) { return std::generic_category().message(error); }

namespace {

// RocksDB has no status code for a lock that is taken; these are its texts.
bool says_locked(const std::string& text) {
  return text.find("lock hold by current process") != std::string::npos ||
         text.find("While lock file") != std::string::npos;
}

bool says(const std::string& text, int error) { return text.find(status_text(error)) != std::string::npos; }

// RocksDB also calls a store corrupt or foreign if the system does not let it read a file. A file
// that is missing is damage, however.
bool says_out_of_reach(const std::string& text) {
  return text.find("IO error") != std::string::npos && !says(text, ENOENT);
}

}  // namespace

StoreFault fault_of(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  if (status.IsNoSpace() || text.find(status_text(ENOSPC)) != std::string::npos) return StoreFault::disk_full;
  if (text.find(status_text(EROFS)) != std::string::npos) return StoreFault::read_only;
  if (says_locked(text)) return StoreFault::locked;
  if (says_out_of_reach(text)) return StoreFault::failed;
  if (status.IsCorruption() || status.IsPathNotFound()) return StoreFault::corrupt;
  if (status.IsInvalidArgument()) return StoreFault::foreign_format;
  return StoreFault::failed;
}

bool is_damage(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  if (says(text, EIO) || says(text, ENOENT)) return true;
  return !says_out_of_reach(text) && (status.IsCorruption() || status.IsPathNotFound());
}

namespace {

std::string_view expected_instead_of(StoreFault fault) {
  switch (fault) {
    case StoreFault::cannot_create:
      return "a folder that this process may create and write to";
    case StoreFault::read_only:
      return "a folder that this process may write to";
    case StoreFault::locked:
      return "a data folder of its own: stop the other process or choose another folder";
    case StoreFault::corrupt:
      return "a sound store: `troupe check` says what is damaged; `troupe restore` a backup, set "
             "store.on_damage to "
             "start to serve what is whole, or remove the folder and import again";
    case StoreFault::disk_full:
      return "free space: free some and start again";
    case StoreFault::foreign_format:
      return "a store in the format \"troupe store 1\"";
    case StoreFault::bad_row:
      return "rows that can be stored";
    case StoreFault::failed:
      return "a working disk";
  }
  return "";
}

}  // namespace

std::string status_text(const rocksdb::Status& status) {
  std::string text;
  for (const char c : status.ToString())
    text += c >= ' ' && c < 0x7F ? std::string(1, c) : bytes_shown({&c, 1});
  return text;
}

[[noreturn]] void fail(StoreFault fault, const std::filesystem::path& where, const std::string& detail) {
  std::string text = where.string() + ": " + std::string(describe(fault));
  if (!detail.empty()) text += " (" + detail + ")";
  throw StoreError(fault, text + "; expected " + std::string(expected_instead_of(fault)));
}

void prepare_folder(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code error, ignored;
  if (!folder.parent_path().empty() && fs::create_directories(folder.parent_path(), error))
    fs::permissions(folder.parent_path(), fs::perms::owner_all, ignored);
  if (!error) fs::create_directory(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, ignored);  // also if it existed before
  if (error.value() == EROFS) fail(StoreFault::read_only, folder, error.message());
  if (error) fail(StoreFault::cannot_create, folder, error.message());
  if (!fs::is_directory(folder, error)) fail(StoreFault::cannot_create, folder, "it is not a folder");
  if (access(folder.c_str(), W_OK | X_OK) != 0) fail(StoreFault::read_only, folder, status_text(errno));
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool durable = descriptor >= 0 && fsync(descriptor) == 0;
  const std::string why = status_text(errno);
  if (descriptor >= 0) close(descriptor);
  if (!durable) fail(StoreFault::failed, folder, why);
}

// Sized to leave memory to other uses: at most about 50 MiB in total.
rocksdb::DBOptions database_options() {
  static const std::unique_ptr<rocksdb::Env> owners =
      rocksdb::NewCompositeEnv(std::make_shared<PrivateFileSystem>(rocksdb::FileSystem::Default()));
  rocksdb::DBOptions options;
  options.env = owners.get();
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_background_jobs = 2;
  options.max_open_files = 512;
  options.db_write_buffer_size = 32 * mebibyte;
  options.max_total_wal_size = 128 * mebibyte;
  options.max_manifest_file_size = 16 * mebibyte;
  // Recovers to the tear if an older log is torn, and drops later writes (store_check.cc decides
  // which tears are damage).
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.track_and_verify_wals_in_manifest = true;  // a missing log is damage, not an end
  options.info_log = std::make_shared<NoLog>();
  options.listeners.push_back(std::make_shared<RecoverOnWrite>());
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> column_families() {
  const auto cache = rocksdb::NewLRUCache(16 * mebibyte);
  std::vector<rocksdb::ColumnFamilyDescriptor> families = {{rocksdb::kDefaultColumnFamilyName, {}}};
  for (std::size_t column = 0; column < column_names.size(); ++column) {
    const bool blocks = static_cast<Column>(column) == Column::blocks;
    families.emplace_back(column_names[column], blocks ? blocks_options(cache) : rows_options(cache));
  }
  return families;
}

rocksdb::Options table_options() {
  return {database_options(), rows_options(rocksdb::NewLRUCache(mebibyte))};
}

std::string named_manifest(const std::filesystem::path& folder) {
  std::string name;
  std::ifstream(folder / "CURRENT") >> std::setw(manifest_name_max) >> name;
  return name;
}

namespace {

// RocksDB reads these files whole, whatever their length.
rocksdb::Status check_small_files(const std::filesystem::path& folder) {
  for (const char* name : {"CURRENT", "IDENTITY"}) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(folder / name, error);
    if (!error && bytes > small_file_max)
      return rocksdb::Status::Corruption(std::string(name) + " is " + std::to_string(bytes) + " bytes long",
                                         "expected at most " + std::to_string(small_file_max));
  }
  return rocksdb::Status::OK();
}

}  // namespace

rocksdb::Status OpenedRocks::open(const rocksdb::DBOptions& options, const std::filesystem::path& folder,
                                  const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                                  bool read_only) {
  if (rocksdb::Status fault = check_small_files(folder); !fault.ok()) return fault;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status =
      read_only ? rocksdb::DB::OpenForReadOnly(options, folder.string(), families, &columns, &opened)
                : rocksdb::DB::Open(options, folder.string(), families, &columns, &opened);
  if (!status.ok()) return status;
  database.reset(opened);
  // The default column family, which holds nothing.
  database->DestroyColumnFamilyHandle(columns.front());
  columns.erase(columns.begin());
  return status;
}

void OpenedRocks::close() {
  for (rocksdb::ColumnFamilyHandle* column : columns) database->DestroyColumnFamilyHandle(column);
  columns.clear();
  database.reset();
}

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const rocksdb::Status status = rocksdb::Env::Default()->LockFile((folder / "LOCK").string(), &lock_);
  if (!status.ok()) fail(fault_of(status), folder, status_text(status));
}

FolderLock::~FolderLock() { rocksdb::Env::Default()->UnlockFile(lock_); }

}  // namespace troupe
