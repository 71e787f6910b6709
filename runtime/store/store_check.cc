// Checks all files of a node's data folder without changing them, and lists damage and lost
// acknowledged writes. A store that opens, a salvage and the operator's check use this list.
#include "runtime/store/store_check.h"

#include <rocksdb/sst_file_reader.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "runtime/store/store_log.h"
#include "runtime/store/store_rocks.h"
#include "runtime/store/store_rows.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

// Collects the columns that a log record changes, by RocksDB's column ids.
struct ColumnCollector final : rocksdb::WriteBatch::Handler {
  explicit ColumnCollector(std::set<std::uint32_t>& columns) : columns(columns) {}
  rocksdb::Status PutCF(std::uint32_t column, const rocksdb::Slice&, const rocksdb::Slice&) override {
    columns.insert(column);
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteCF(std::uint32_t column, const rocksdb::Slice&) override {
    columns.insert(column);
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteRangeCF(std::uint32_t column, const rocksdb::Slice&, const rocksdb::Slice&) override {
    columns.insert(column);
    return rocksdb::Status::OK();
  }
  void LogData(const rocksdb::Slice&) override {}

  std::set<std::uint32_t>& columns;
};

class Checker {
 public:
  Checker(const fs::path& data_dir, std::uint64_t table_bytes_max)
      : data_dir_(data_dir), folder_(data_dir / "rocksdb"), table_bytes_max_(table_bytes_max) {}

  StoreCheck run() {
    read_mark();
    if (has_files()) {
      check_manifest();
      check_logs();
      check_database();
    }
    compare_with_mark();
    check_.exists = has_files() || !check_.lost_tail.empty();
    return std::move(check_);
  }

 private:
  static constexpr std::size_t last_column = 3;

  std::string shown(const fs::path& file) const {
    return file.lexically_relative(data_dir_).generic_string();
  }
  void note(const std::string& kind, const fs::path& file, const std::string& what,
            std::optional<std::uint64_t> offset = {}, std::optional<Column> column = {}) {
    check_.damage.push_back({shown(file), what, offset, column});
    ++check_.kinds[kind].damaged;
  }
  void count(const std::string& kind, std::uint64_t bytes) {
    ++check_.kinds[kind].files;
    check_.kinds[kind].bytes += bytes;
  }
  static std::uint64_t size_of(const fs::path& file) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(file, error);
    return error ? 0 : bytes;
  }
  std::vector<fs::path> files_with(const char* extension) const {
    std::vector<fs::path> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error))
      if (entry.path().extension() == extension) files.push_back(entry.path());
    std::ranges::sort(files, {},
                      [](const fs::path& file) { return std::stoull("0" + file.stem().string()); });
    return files;
  }

  void read_mark() {
    const fs::path file = data_dir_ / mark_file;
    const AcknowledgedMark::MarkReading found = AcknowledgedMark::read_file(file);
    check_.has_mark = found.state.has_value();
    if (found.state) check_.mark = *found.state;
    std::error_code error;
    if (!fs::exists(file, error)) return;
    count("mark", size_of(file));
    if (!found.damage.empty()) note("mark", file, found.damage);
    check_.mark_is_missed = !found.state;
  }
  // True for more files than a process leaves that ends while it creates the first ones.
  bool has_files() const {
    std::error_code error;
    if (fs::exists(folder_ / "CURRENT", error) || !files_with(".sst").empty()) return true;
    const auto holds_some = [](const fs::path& log) { return size_of(log) > 0; };
    return std::ranges::any_of(files_with(".log"), holds_some);
  }

  void check_manifest() {
    const fs::path current = folder_ / "CURRENT";
    const std::string name = named_manifest(folder_);
    count("current", size_of(current));
    constexpr std::string_view manifests = "MANIFEST-";
    if (!name.starts_with(manifests) || name.find_first_not_of("0123456789", manifests.size()) != name.npos) {
      manifest_sequence_ = ~std::uint64_t{0} - 1;  // unknown
      return note("current", current, "it names no manifest");
    }
    const fs::path manifest = folder_ / name;
    count("manifest", size_of(manifest));
    const LogReading reading = read(manifest, "manifest", [&](std::uint64_t, std::string_view record) {
      manifest_sequence_ = std::max(manifest_sequence_, manifest_sequence(record));
    });
    if (reading.error == ENOENT) return;
    for (const LogDamage& damage : reading.damage) note("manifest", manifest, damage.what, damage.offset);
    // A loss of power cuts off the record being written; it does not corrupt its bytes.
    if (reading.torn && reading.torn->what != "a record is cut off")
      note("manifest", manifest, reading.torn->what, reading.torn->offset);
    if (reading.records == 0) note("manifest", manifest, "it has no records");
  }

  LogReading read(const fs::path& file, const std::string& kind, const UseRecord& use) {
    const LogReading reading = read_log(file, use);
    if (reading.error == 0) return reading;
    if (reading.error == ENOENT) {
      note(kind, file, "it is missing");
    } else if (reading.error != EIO) {
      fail(StoreFault::failed, file, status_text(reading.error));
    }
    return reading;
  }

  // Everything written is in tables or logs, and sequence numbers in logs have no gaps.
  void check_logs() {
    const std::vector<fs::path> logs = files_with(".log");
    std::optional<std::uint64_t> expected;
    // End of the previous log; a normal end if the next log continues from there.
    std::optional<StoreDamage> torn;
    for (const fs::path& log : logs) {
      count("log", size_of(log));
      std::optional<std::uint64_t> gap_at;
      const LogReading reading = read(log, "log", [&](std::uint64_t offset, std::string_view record) {
        const auto head = batch_head(record);
        if (!head) return note("log", log, "a record is too short", offset);
        const bool follows =
            expected ? head->sequence == *expected : head->sequence <= manifest_sequence_ + 1;
        if (!follows && torn && !tear_) tear_ = torn;
        if (!follows && !gap_at && !torn) gap_at = offset;
        if (tear_) note_columns(record);
        torn.reset();
        expected = head->sequence + head->changes;
      });
      for (const LogDamage& damage : reading.damage) note("log", log, damage.what, damage.offset);
      if (gap_at && reading.damage.empty()) note("log", log, "writes before this one are missing", gap_at);
      if (reading.torn) torn = {shown(log), reading.torn->what, reading.torn->offset, {}};
    }
  }

  void note_columns(std::string_view record) {
    ColumnCollector columns(columns_after_tear_);
    rocksdb::WriteBatch(std::string(record)).Iterate(&columns);
  }

  // An older log may end in the middle of a record, and the next log does not continue its numbers.
  // A loss of power does that to saved blocks, which are not synced. RocksDB then recovers to the
  // tear (its point-in-time recovery) and drops later writes. Rows and notes are synced together
  // with all older logs. So if one of them is behind the tear, the missing bytes were on the disk
  // and are damage.
  void report_tear(const OpenedRocks* rocks) {
    if (!tear_) return;
    const bool only_blocks = rocks && std::ranges::all_of(columns_after_tear_, [&](std::uint32_t column) {
                               return column == rocks->column(Column::blocks)->GetID();
                             });
    if (!only_blocks) note("log", data_dir_ / tear_->file, tear_->what, tear_->offset);
  }

  void check_database() {
    OpenedRocks rocks;
    rocksdb::DBOptions options = database_options();
    options.create_if_missing = options.create_missing_column_families = false;
    options.paranoid_checks = false;  // names all wrong files, not only the first
    const rocksdb::Status status = rocks.open(options, folder_, column_families(), true);
    report_tear(status.ok() ? &rocks : nullptr);
    if (!status.ok()) {
      if (!is_damage(status) && !status.IsInvalidArgument())
        fail(fault_of(status), folder_, status_text(status));
      const std::string words = status.ToString(), missing = "Missing WAL with log number: ";
      const std::size_t at = words.find(missing);
      if (at == words.npos) return note("manifest", folder_, words);
      const std::string number = std::to_string(std::stoull("0" + words.substr(at + missing.size())));
      return note("log",
                  folder_ / (std::string(6 - std::min<std::size_t>(6, number.size()), '0') + number + ".log"),
                  "it is missing");
    }
    check_tables(*rocks.database);
    check_blob_files(rocks);
    read_counters(rocks);
  }

  void check_tables(rocksdb::DB& database) {
    std::vector<rocksdb::LiveFileMetaData> tables;
    database.GetLiveFilesMetaData(&tables);
    const auto turn = [](const rocksdb::LiveFileMetaData& table) {
      const std::string_view order[] = {"meta", "items", "blocks", "users"};
      return std::ranges::find(order, table.column_family_name) - order;
    };
    std::ranges::stable_sort(tables, {}, turn);
    std::uint64_t bytes = 0;
    for (const rocksdb::LiveFileMetaData& table : tables) {
      const auto at = std::ranges::find(column_names, table.column_family_name);
      if (at == column_names.end()) continue;
      const auto column = static_cast<Column>(at - column_names.begin());
      const std::string kind = "table of " + table.column_family_name;
      const fs::path file = folder_ / table.name.substr(table.name.find_first_not_of('/'));
      count(kind, table.size);
      if (size_of(file) != table.size) {
        std::error_code error;
        note(kind, file, fs::exists(file, error) ? "its length is wrong" : "it is missing", {}, column);
      } else if ((bytes += table.size) > table_bytes_max_) {
        check_.unchecked.push_back(file.string());
      } else if (const std::string fault = check_table(file); !fault.empty()) {
        note(kind, file, fault, {}, column);
      }
    }
  }

  void check_blob_files(const OpenedRocks& rocks) {
    rocksdb::ColumnFamilyMetaData column;
    rocks.database->GetColumnFamilyMetaData(rocks.column(Column::blocks), &column);
    for (const rocksdb::BlobMetaData& blob : column.blob_files) {
      const fs::path file = folder_ / blob.blob_file_name.substr(blob.blob_file_name.find_first_not_of('/'));
      count("blob", size_of(file));
      std::error_code error;
      if (size_of(file) < blob.blob_file_size)
        note("blob", file, fs::exists(file, error) ? "it is cut off" : "it is missing", {}, Column::blocks);
    }
  }

  void read_counters(const OpenedRocks& rocks) {
    const auto get = [&](std::string_view key, std::string& value) {
      return rocks.database->Get({}, rocks.column(Column::meta), slice(key), &value).ok();
    };
    std::string value;
    for (std::size_t i = 0; i < check_.counters.size(); ++i) {
      if (!get(counter_keys[i], value)) continue;
      check_.counters[i] = decode_counter(counter_keys[i], value).value_or(check_.mark.last[i]);
    }
    if (check_.has_mark || check_.mark_is_missed || !get(marked_key, value)) return;
    check_.mark_is_missed = true;
    note("mark", data_dir_ / mark_file, "it is missing");
  }

  void compare_with_mark() {
    for (std::size_t i = 0; i < check_.counters.size(); ++i) {
      if (check_.counters[i] >= check_.mark.last[i]) continue;
      check_.lost_tail.push_back({.column = i == 0 ? Column::users : Column::items,
                                  .first_version = check_.counters[i] + 1,
                                  .last_version = check_.mark.last[i]});
    }
  }

  const fs::path data_dir_, folder_;
  const std::uint64_t table_bytes_max_;
  std::uint64_t manifest_sequence_ = 0;
  std::optional<StoreDamage> tear_;             // in a log that is not the last
  std::set<std::uint32_t> columns_after_tear_;  // columns written after the tear
  StoreCheck check_;
};

}  // namespace

bool StoreCheck::only_blocks() const {
  return lost_tail.empty() && !damage.empty() && std::ranges::all_of(damage, &StoreDamage::only_blocks);
}

bool StoreCheck::only_mark() const {
  const auto is_mark = [](const StoreDamage& d) { return d.file == mark_file; };
  return lost_tail.empty() && !damage.empty() && std::ranges::all_of(damage, is_mark);
}

std::string check_table(const fs::path& table) {
  rocksdb::SstFileReader reader(table_options());
  rocksdb::Status status = reader.Open(table.string());
  if (status.ok()) status = reader.VerifyChecksum();
  if (status.ok()) return "";
  if (!is_damage(status)) fail(fault_of(status), table, status_text(status));
  return status_text(status);
}

StoreCheck check_data_folder(const fs::path& data_dir) {
  std::error_code error;
  if (!fs::exists(data_dir / "rocksdb", error)) return check_store(data_dir, ~std::uint64_t{0});
  const FolderLock lock(data_dir / "rocksdb");
  return check_store(data_dir, ~std::uint64_t{0});
}

StoreCheck check_store(const fs::path& data_dir, std::uint64_t table_bytes_max) {
  return Checker(data_dir, table_bytes_max).run();
}

}  // namespace troupe
