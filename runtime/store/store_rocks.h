#pragma once
// Shared by the files that use RocksDB: its options, its columns, and the meaning of its statuses.
// Only runtime/store includes it.
#include <rocksdb/db.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/store/store_damage.h"
#include "runtime/store/store_error.h"

namespace troupe {

inline constexpr std::size_t mebibyte = 1 << 20;
inline constexpr std::string_view format_key = "format", format = "troupe store 1";
inline constexpr std::array<const char*, 4> column_names = {"items", "users", "blocks", "meta"};

inline rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
inline std::string_view view(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

std::string status_text(int error);
StoreFault fault_of(const rocksdb::Status& status);
// True if a block, table or log is not as it was written, or is missing: reading again would not
// help.
bool is_damage(const rocksdb::Status& status);
// Returns the status as printable text: it may quote bytes of a damaged file.
std::string status_text(const rocksdb::Status& status);
[[noreturn]] void fail(StoreFault fault, const std::filesystem::path& where, const std::string& detail);

rocksdb::DBOptions database_options();
std::vector<rocksdb::ColumnFamilyDescriptor> column_families();
rocksdb::Options table_options();  // to read one table alone

// Returns the manifest that CURRENT names; "" if none.
std::string named_manifest(const std::filesystem::path& folder);

// A database with its columns; closed by the destructor.
struct OpenedRocks {
  std::unique_ptr<rocksdb::DB> database;
  std::vector<rocksdb::ColumnFamilyHandle*> columns;  // by Column

  OpenedRocks() = default;
  OpenedRocks(OpenedRocks&& other) noexcept = default;
  OpenedRocks& operator=(OpenedRocks&&) = delete;
  ~OpenedRocks() { close(); }
  rocksdb::ColumnFamilyHandle* column(Column c) const { return columns[static_cast<std::size_t>(c)]; }
  rocksdb::Status open(const rocksdb::DBOptions& options, const std::filesystem::path& folder,
                       const std::vector<rocksdb::ColumnFamilyDescriptor>& families, bool read_only);
  void close();
};

// Holds the folder's lock, as an open database does. Throws StoreError (locked) if it is taken.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  rocksdb::FileLock* lock_ = nullptr;
};

// Creates the folder with mode 0700, whatever the umask. Throws StoreError.
void prepare_folder(const std::filesystem::path& folder);
void sync_folder(const std::filesystem::path& folder);  // throws StoreError

}  // namespace troupe
