// Makes, checks and restores backups of what a node cannot recompute: profiles, catalog, and which
// versions are served. A list of checksums is written last, so an unfinished or damaged backup is
// recognised.
#include "runtime/store/store_backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include "runtime/store/store_damage.h"
#include "runtime/store/store_rocks.h"
#include "runtime/store/store_rows.h"
#include "runtime/store/store_salvage.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr const char* list_file = "backup";
constexpr std::uintmax_t list_bytes_max = 16 << 20;  // enough for several hundred thousand files
constexpr std::string_view list_head = "troupe backup 1";
constexpr const char* coordination_file = "coordination";

struct Entry {
  std::string file;
  std::uint64_t bytes = 0, sum = 0;
};

void require(const rocksdb::Status& status, const fs::path& where) {
  if (!status.ok()) fail(fault_of(status), where, status_text(status));
}

[[noreturn]] void fail_with(int error, const fs::path& where) {
  fail(error == ENOSPC ? StoreFault::disk_full : StoreFault::failed, where, status_text(error));
}

// The root of a new volume has a folder lost+found, which belongs to the file system.
bool is_empty_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  fs::directory_iterator entries(folder, error);
  return !error && std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    std::error_code unknown;
    return entry.path().filename() == "lost+found" && entry.is_directory(unknown);
  });
}

void require_empty(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error) || is_empty_folder(folder)) return;
  throw StoreError(
      StoreFault::cannot_create,
      folder.string() + ": it is not empty; expected an empty folder, or a path where nothing is yet");
}

class File {
 public:
  File(const fs::path& path, int flags)
      : path_(path), file_(open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0600)) {
    if (file_ < 0) fail_with(errno, path);
  }
  ~File() { close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::size_t read(std::span<char> into) const {
    const ssize_t got = ::read(file_, into.data(), into.size());
    if (got < 0) fail_with(errno, path_);
    return static_cast<std::size_t>(got);
  }
  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t wrote = ::write(file_, bytes.data(), bytes.size());
      if (wrote < 0 && errno != EINTR) fail_with(errno, path_);
      if (wrote > 0) bytes.remove_prefix(static_cast<std::size_t>(wrote));
    }
  }
  void sync() const {
    if (fsync(file_) != 0) fail_with(errno, path_);
  }

 private:
  const fs::path path_;
  const int file_;
};

// Computes a file's size and checksum, and copies the file to `copy` unless that is null.
Entry sum_up(const fs::path& path, const File* copy) {
  const File file(path, O_RDONLY);
  std::vector<char> part(mebibyte);
  Entry entry{path.filename().string()};
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  while (const std::size_t got = file.read(part)) {
    XXH3_64bits_update(state, part.data(), got);
    entry.bytes += got;
    if (copy) copy->write({part.data(), got});
  }
  entry.sum = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return entry;
}

Entry copy_summed(const fs::path& from, const fs::path& to) {
  const File copy(to, O_WRONLY | O_CREAT | O_EXCL);
  const Entry entry = sum_up(from, &copy);
  copy.sync();
  return entry;
}

// Drops saved blocks from the copy: they may be many times larger than all other data, and can be
// recomputed.
void leave_out_blocks(const fs::path& folder) {
  OpenedRocks rocks;
  require(rocks.open(database_options(), folder, column_families(), false), folder);
  rocksdb::ColumnFamilyHandle*& blocks = rocks.columns[static_cast<std::size_t>(Column::blocks)];
  const rocksdb::ColumnFamilyOptions options = rocks.database->GetOptions(blocks);
  require(rocks.database->DropColumnFamily(blocks), folder);
  rocks.database->DestroyColumnFamilyHandle(blocks);
  require(rocks.database->CreateColumnFamily(options, column_names[static_cast<std::size_t>(Column::blocks)],
                                             &blocks),
          folder);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 20 &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Returns true for names that RocksDB gives its files.
bool is_rocksdb_file(std::string_view name) {
  for (const std::string_view whole : {"CURRENT", "IDENTITY", "LOG"})
    if (name == whole) return true;
  for (const std::string_view head : {"MANIFEST-", "OPTIONS-", "LOG.old."})
    if (name.starts_with(head)) return is_number(name.substr(head.size()));
  for (const std::string_view tail : {".sst", ".log", ".blob"})
    if (name.ends_with(tail)) return is_number(name.substr(0, name.size() - tail.size()));
  return false;
}

// The list comes from outside: a name such as ../x would be read and written elsewhere.
bool is_backup_file(std::string_view file) {
  constexpr std::string_view folder = "rocksdb/";
  return file == coordination_file ||
         (file.starts_with(folder) && is_rocksdb_file(file.substr(folder.size())));
}

std::string text_of(const std::vector<Entry>& entries) {
  std::ostringstream text;
  text << list_head << "\n";
  for (const Entry& entry : entries)
    text << "file " << entry.bytes << " " << entry.sum << " " << entry.file << "\n";
  const std::string list = text.str();
  return list + "sum " + std::to_string(XXH3_64bits(list.data(), list.size())) + "\n";
}

// Returns nullopt if the list is incomplete or damaged.
std::optional<std::vector<Entry>> read_list(const fs::path& from) {
  std::error_code error;
  const auto bytes = fs::file_size(from / list_file, error);
  if (error || bytes > list_bytes_max) return {};
  std::ifstream in(from / list_file, std::ios::binary);
  std::string head, word;
  std::getline(in, head);
  std::vector<Entry> entries;
  if (head != list_head) return {};
  while (in >> word && word == "file") {
    Entry entry;
    in >> entry.bytes >> entry.sum;
    in.get();
    std::getline(in, entry.file);
    entries.push_back(std::move(entry));
  }
  std::uint64_t sum = 0;
  in >> sum;
  const std::string text = text_of(entries);
  return word == "sum" && in && text.ends_with("\nsum " + std::to_string(sum) + "\n") ? std::optional(entries)
                                                                                      : std::nullopt;
}

void jump_counters(const fs::path& folder, const fs::path& mark) {
  OpenedRocks rocks;
  require(rocks.open(database_options(), folder, column_families(), false), folder);
  AcknowledgedMark::State state;
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < state.last.size(); ++i) {
    std::string value;
    if (!rocks.database->Get({}, rocks.column(Column::meta), slice(counter_keys[i]), &value).ok()) continue;
    state.last[i] = state.ceiling[i] = decode_counter(counter_keys[i], value).value_or(0) + counter_jump;
    batch.Put(rocks.column(Column::meta), slice(counter_keys[i]),
              encode_counter(state.last[i], counter_keys[i]));
  }
  rocksdb::WriteOptions synced;
  synced.sync = true;
  require(rocks.database->Write(synced, &batch), folder);
  AcknowledgedMark made(mark, state);
}

}  // namespace

std::uint64_t make_backup(const fs::path& copy, const fs::path& data_dir, const fs::path& to) {
  require_empty(to);
  leave_out_blocks(copy);
  prepare_folder(to);
  prepare_folder(to / "rocksdb");
  std::vector<Entry> entries;
  for (const auto& entry : fs::directory_iterator(copy)) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file() || name == "LOCK") continue;
    if (!is_rocksdb_file(name)) fail(StoreFault::failed, entry.path(), "it is no file of RocksDB's");
    entries.push_back(copy_summed(entry.path(), to / "rocksdb" / name));
    entries.back().file = "rocksdb/" + name;
  }
  if (fs::exists(data_dir / coordination_file))
    entries.push_back(copy_summed(data_dir / coordination_file, to / coordination_file));
  sync_folder(to / "rocksdb");
  const File list(to / list_file, O_WRONLY | O_CREAT | O_EXCL);
  list.write(text_of(entries));
  list.sync();
  sync_folder(to);
  std::uint64_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.bytes;
  return bytes;
}

namespace {

// Returns what is wrong with the file of an entry; "" = nothing.
std::string entry_fault(const fs::path& from, const Entry& entry) {
  if (!is_backup_file(entry.file))
    return "the list names \"" + bytes_shown(entry.file) +
           "\", which is no file of a backup; expected coordination, and RocksDB's files in rocksdb/";
  const fs::path file = from / entry.file;
  const auto kind = [](const fs::path& path) {
    std::error_code error;
    return fs::symlink_status(path, error).type();
  };
  if (kind(file) == fs::file_type::not_found) return entry.file + ": it is missing";
  // A link, or a folder that is one, may lead anywhere.
  const bool in_folder = file.parent_path() == from || kind(file.parent_path()) == fs::file_type::directory;
  if (!in_folder || kind(file) != fs::file_type::regular)
    return entry.file + ": it is not a regular file of the backup's folder";
  const Entry now = sum_up(file, nullptr);
  if (now.bytes != entry.bytes)
    return entry.file + ": it has " + std::to_string(now.bytes) + " bytes; expected " +
           std::to_string(entry.bytes);
  return now.sum == entry.sum ? "" : entry.file + ": its sum is wrong";
}

}  // namespace

std::vector<std::string> check_backup(const fs::path& from) {
  const auto entries = read_list(from);
  if (!entries)
    return {(from / list_file).string() +
            ": there is no whole list of files; expected a backup that was finished"};
  std::vector<std::string> faults;
  std::set<std::string> seen;
  for (const Entry& entry : *entries)
    if (!seen.insert(entry.file).second)
      faults.push_back(entry.file + ": the list names it twice");
    else if (std::string fault = entry_fault(from, entry); !fault.empty())
      faults.push_back(std::move(fault));
  return faults;
}

void restore_backup(const fs::path& from, const fs::path& data_dir) {
  require_empty(data_dir);
  if (const auto faults = check_backup(from); !faults.empty())
    fail(StoreFault::corrupt, from, faults.front() + (faults.size() > 1 ? ", and others" : ""));
  const fs::path beginning = data_dir / "rocksdb.restored";
  prepare_folder(beginning);
  const auto entries = read_list(from);
  for (const Entry& entry : *entries) {
    const fs::path file = entry.file;
    copy_summed(from / file, file.parent_path() == "rocksdb" ? beginning / file.filename() : data_dir / file);
  }
  jump_counters(beginning, data_dir / mark_file);
  sync_folder(beginning);
  fs::rename(beginning, data_dir / "rocksdb");
  sync_folder(data_dir);
  if (const StoreCheck check = check_store(data_dir, ~std::uint64_t{0}); !check.is_whole())
    fail(StoreFault::corrupt, data_dir, "the restored store is damaged");
}

}  // namespace troupe
