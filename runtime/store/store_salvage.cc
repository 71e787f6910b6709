// Rebuilds a damaged store: copies every readable profile, item and note into a new store, replays
// the logs, and lists each loss in lost.txt. Saved blocks are left out, since they can be
// recomputed. The damaged store is read through a folder of links (`rocksdb.work`), never changed,
// and set aside at the end.
#include "runtime/store/store_salvage.h"

#include <rocksdb/sst_file_reader.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <system_error>

#include "runtime/store/store_record.h"
#include "runtime/store/store_replay.h"
#include "runtime/store/store_rocks.h"
#include "runtime/store/store_rows.h"
#include "runtime/store/store_walk.h"

namespace troupe {
namespace {

// Stands in a new store for the lost note of the model for which its rows were imported.
constexpr std::string_view lost_note = "lost with damage";

namespace fs = std::filesystem;

// Columns that are salvaged. Blocks are not: they can be recomputed.
constexpr Column kept[] = {Column::items, Column::users, Column::meta};
constexpr std::uint32_t batch_rows = 1024;
constexpr const char* list_name = "lost.txt";

void check(const rocksdb::Status& status, const fs::path& where) {
  if (!status.ok()) fail(fault_of(status), where, status_text(status));
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files, {},
                    [](const fs::path& file) { return std::pair(file.string().size(), file.string()); });
  return files;
}

// Collects changes and writes them to the new store in batches.
class NewStore {
 public:
  explicit NewStore(const fs::path& folder) : folder_(folder) {
    prepare_folder(folder);
    check(rocks_.open(database_options(), folder, column_families(), false), folder);
  }
  void put(Column column, std::string_view key, std::string_view value) {
    batch_.Put(rocks_.column(column), slice(key), slice(value));
    write_if(batch_.Count() >= batch_rows);
  }
  void erase(Column column, std::string_view key) {
    batch_.Delete(rocks_.column(column), slice(key));
    write_if(batch_.Count() >= batch_rows);
  }
  // Returns a row of the column meta, such as the model for which the rows were imported.
  std::optional<std::string> note(std::string_view key) {
    write_if(true);
    std::string value;
    if (!rocks_.database->Get({}, rocks_.column(Column::meta), slice(key), &value).ok()) return {};
    return value;
  }
  std::uint64_t counter(std::string_view key) {
    const auto value = note(key);
    return value ? decode_counter(key, *value).value_or(0) : 0;
  }
  void finish() {
    write_if(true);
    check(rocks_.database->Flush({}, rocks_.columns), folder_);
    rocks_.close();
    sync_folder(folder_);
  }

 private:
  void write_if(bool now) {
    if (!now) return;
    rocksdb::WriteOptions options;
    options.disableWAL = true;  // it is flushed at the end
    check(rocks_.database->Write(options, &batch_), folder_);
    batch_.Clear();
  }

  const fs::path folder_;
  OpenedRocks rocks_;
  rocksdb::WriteBatch batch_;
};

class StoreSalvager {
 public:
  StoreSalvager(const fs::path& data_dir, const StoreCheck& found)
      : data_dir_(data_dir),
        damaged_(data_dir / "rocksdb"),
        work_(data_dir / "rocksdb.work"),
        result_(data_dir / "rocksdb.salvaged"),
        found_(found) {}

  SalvageResult run() {
    salvaged_.aside = free_aside_name();
    fs::remove_all(work_);
    fs::remove_all(result_);
    make_work();
    list_.open(work_ / list_name);
    for (const StoreDamage& damage : found_.damage) list_ << "damaged: " << describe(damage) << "\n";
    open_work();
    {
      NewStore next(result_);
      copy_rows(next);
      replay_logs(next);
      replace_lost_note(next);
      set_counters(next);
      next.finish();
    }
    rocks_.close();
    list_.close();
    fs::rename(work_ / list_name, damaged_ / list_name);
    fs::remove_all(work_);
    swap_stores();
    return std::move(salvaged_);
  }

 private:
  fs::path free_aside_name() const {
    for (const char* const name : {"rocksdb.damaged", "rocksdb.damaged.2"})
      if (!fs::exists(fs::symlink_status(data_dir_ / name))) return data_dir_ / name;
    fail(
        StoreFault::corrupt, damaged_,
        "two damaged ones are there already: look at rocksdb.damaged and rocksdb.damaged.2, and remove them");
  }

  // Links tables, which never change; copies manifests but no logs, and writes CURRENT.
  void make_work() const {
    prepare_folder(work_);
    std::string manifest;
    for (const fs::path& file : files_of(damaged_)) {
      const std::string name = file.filename(), extension = file.extension();
      std::error_code error;
      if (extension == ".sst" || extension == ".blob") {
        fs::create_hard_link(file, work_ / name, error);
        if (error) fs::copy_file(file, work_ / name);
      } else if (name.starts_with("MANIFEST-")) {
        fs::copy_file(file, work_ / name, error);
        if (!error) manifest = name;  // the newest is last
      }
    }
    const std::string named = named_manifest(damaged_);
    if (fs::exists(work_ / named) && named.starts_with("MANIFEST-")) manifest = named;
    if (!manifest.empty()) std::ofstream(work_ / "CURRENT") << manifest << "\n";
  }

  static rocksdb::DBOptions work_options() {
    rocksdb::DBOptions options = database_options();
    options.create_if_missing = options.create_missing_column_families = false;
    options.paranoid_checks = false;  // tables may be missing
    options.track_and_verify_wals_in_manifest = false;
    return options;
  }

  bool manifest_is_damaged() const {
    return std::ranges::any_of(
        found_.damage, [](const StoreDamage& damage) { return damage.file.starts_with("rocksdb/MANIFEST"); });
  }

  void open_work() {
    rocksdb::Status status = rocksdb::Status::Corruption("the manifest is damaged");
    if (!manifest_is_damaged()) status = rocks_.open(work_options(), work_, column_families(), true);
    if (status.ok()) return;
    check(rocksdb::RepairDB(work_.string(), database_options(), column_families()), work_);
    rocksdb::DBOptions options = work_options();
    options.create_missing_column_families = true;  // for columns without a table
    check(rocks_.open(options, work_, column_families(), false), work_);
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(work_ / "lost", error))
      for (const Column column : kept)
        note_loss(column, "rocksdb/" + entry.path().filename().string(), "", "", 0);
  }

  // ---- rows of tables: keys from each table, newest values from the whole database ----

  void copy_rows(NewStore& next) {
    std::vector<rocksdb::LiveFileMetaData> tables;
    rocks_.database->GetLiveFilesMetaData(&tables);
    for (const rocksdb::LiveFileMetaData& table : tables)
      for (const Column column : kept)
        if (name_of(column) == table.column_family_name) {
          replay_.flushed[column] = std::max<std::uint64_t>(replay_.flushed[column], table.largest_seqno);
          copy_table(next, column, table);
        }
  }

  void copy_table(NewStore& next, Column column, const rocksdb::LiveFileMetaData& table) {
    const std::string name = table.name.substr(table.name.find_first_not_of('/'));
    const std::string behind = table.largestkey + '\0';
    rocksdb::SstFileReader reader(table_options());
    const rocksdb::Status opened = reader.Open((work_ / name).string());
    if (!opened.ok())
      return note_loss(column, "rocksdb/" + name, table.smallestkey, behind, table.num_entries);
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    const auto make = [&] { return std::unique_ptr<rocksdb::Iterator>(reader.NewIterator(options)); };
    std::uint64_t rows = 0;
    std::vector<std::pair<std::string, std::string>> gaps;
    // Adjacent unreadable rows, reported as one loss: a missing newer table can make every row of
    // this table unreadable.
    StoreLoss run;
    const auto end_run = [&] {
      if (run.rows_max > 0) note_loss(column, "rocksdb/" + name, run.from, run.to, run.rows_max);
      run = {};
    };
    const auto use = [&](std::string_view key, std::string_view) {
      ++rows;
      if (copy_row(next, column, key)) return end_run(), true;
      if (run.rows_max++ == 0) run.from = key;
      run.to = std::string(key) + '\0';
      return true;
    };
    const auto skip = [&](const StoreGap& gap) {
      gaps.emplace_back(gap.from, gap.to.empty() ? behind : gap.to);
    };
    check(walk(make, "", "", use, skip), work_ / name);
    end_run();
    for (const auto& [from, to] : gaps)
      note_loss(column, "rocksdb/" + name, from, to, table.num_entries - std::min(rows, table.num_entries));
  }

  // Returns false if the key's newest value cannot be determined.
  bool copy_row(NewStore& next, Column column, std::string_view key) {
    rocksdb::PinnableSlice value;
    const rocksdb::Status status = rocks_.database->Get({}, rocks_.column(column), slice(key), &value);
    if (status.IsNotFound()) return true;
    if (status.ok()) return keep(next, column, key, view(value)), true;
    const std::unique_ptr<rocksdb::Iterator> all(rocks_.database->NewIterator({}, rocks_.column(column)));
    all->Seek(slice(key));  // uses no filters, which may be the damaged part
    if (!all->status().ok()) return false;
    if (all->Valid() && view(all->key()) == key) keep(next, column, key, view(all->value()));
    return true;
  }

  void keep(NewStore& next, Column column, std::string_view key, std::string_view value) {
    next.put(column, key, value);
    if (column == Column::meta) return;
    has_rows_ = true;
    const bool user = column == Column::users;
    auto record = RecordReader::open(user ? RecordType::profile : RecordType::item, key, value);
    std::uint64_t& newest = replay_.versions[user ? 0 : 1];
    if (record) newest = std::max(newest, record->u64());
  }

  // Adds a loss to the list. In the column meta only notes count as lost, since counters are set
  // anew.
  void note_loss(Column column, const std::string& file, std::string_view from, const std::string& to,
                 std::uint64_t rows) {
    if (column != Column::meta) return name({file, column, std::string(from), to, rows});
    for (const std::string_view note : {made_for_key, importing_key})
      if (note >= from && (to.empty() || note < to)) notes_lost_.try_emplace(std::string(note), file);
  }

  // Writes a loss to lost.txt and counts it.
  void name(StoreLoss loss) {
    list_ << "lost: " << describe(loss) << "\n";
    ++salvaged_.losses;
    if (salvaged_.lost.size() < losses_listed_max) salvaged_.lost.push_back(std::move(loss));
  }

  // ---- logs ----

  bool logs_are_damaged() const {
    return std::ranges::any_of(found_.damage, [](const StoreDamage& damage) {
      return !damage.column && damage.file != mark_file && damage.file != "rocksdb/CURRENT";
    });
  }

  void replay_logs(NewStore& next) {
    for (const Column column : {Column::items, Column::users, Column::blocks, Column::meta})
      replay_.columns[rocks_.column(column)->GetID()] = column;
    table_counters_ = {next.counter(counter_keys[0]), next.counter(counter_keys[1])};
    replay_.is_damaged = logs_are_damaged();
    std::vector<fs::path> logs;
    for (const fs::path& file : files_of(damaged_))
      if (file.extension() == ".log") logs.push_back(file);
    replay_.run(logs, [&](Column column, std::string_view key, std::optional<std::string_view> value) {
      value ? next.put(column, key, *value) : next.erase(column, key);
      if (column == Column::meta) notes_lost_.erase(std::string(key));
      has_rows_ |= column == Column::users || column == Column::items;
    });
    for (const StoreLoss& loss : replay_.lost) name(loss);
    // Versions that the mark (store_mark.h) says were acknowledged, but that neither tables nor
    // logs reached, are lost. Counters in tables prove nothing if logs or their end are damaged.
    for (std::size_t i = 0; i < replay_.versions.size(); ++i) {
      std::uint64_t reached = replay_.versions[i];
      if (!replay_.is_damaged && found_.lost_tail.empty()) reached = std::max(reached, table_counters_[i]);
      if (found_.mark.last[i] <= reached) continue;
      name({.column = i == 0 ? Column::users : Column::items,
            .first_version = reached + 1,
            .last_version = found_.mark.last[i]});
    }
  }

  // Rows without a note of their model would be taken for rows of whatever model is served. So the
  // loss is noted in its place, and a reader of the note finds no model there.
  void replace_lost_note(NewStore& next) {
    const auto kept = next.note(made_for_key);
    // An earlier salvage lost the note already; it is reported again.
    const bool was_lost = kept && decode_note(made_for_key, *kept) == lost_note;
    const bool is_lost = was_lost || (has_rows_ && !found_.only_blocks() && !kept);
    if (is_lost) notes_lost_.try_emplace(std::string(made_for_key));
    if (is_lost) next.put(Column::meta, made_for_key, encode_note(lost_note, made_for_key));
    for (const auto& [note, file] : notes_lost_) name({file, Column::meta, note, note + '\0', 1});
  }

  // Sets version counters so high that no number is used twice: to the mark's ceiling if there is a
  // mark, otherwise far above every number seen.
  void set_counters(NewStore& next) {
    for (std::size_t i = 0; i < replay_.versions.size(); ++i) {
      const std::uint64_t known = std::max(
          {replay_.versions[i], found_.counters[i], next.counter(counter_keys[i]), found_.mark.last[i]});
      std::uint64_t& counter = salvaged_.counters[i];
      counter = found_.has_mark ? std::max(known, found_.mark.ceiling[i]) : known + counter_jump;
      if (counter > 0) next.put(Column::meta, counter_keys[i], encode_counter(counter, counter_keys[i]));
    }
  }

  // ---- replacement ----

  // If the process ends between the two renames, the next start calls finish_salvage.
  void swap_stores() const {
    std::error_code error;
    fs::rename(damaged_, salvaged_.aside, error);
    if (error) fail(StoreFault::failed, damaged_, "it cannot be renamed: " + error.message());
    finish_salvage(data_dir_);
  }

  // `work_` has links to the damaged store's tables, so that the store itself is never changed.
  const fs::path data_dir_, damaged_, work_, result_;
  const StoreCheck& found_;
  OpenedRocks rocks_;  // tables of the damaged store
  LogReplay replay_;
  std::array<std::uint64_t, 2> table_counters_{};
  bool has_rows_ = false;                          // rows of users or items
  std::map<std::string, std::string> notes_lost_;  // key in meta → file that had it
  std::ofstream list_;                             // lists all losses for operators
  SalvageResult salvaged_;
};

}  // namespace

SalvageResult salvage_store(const fs::path& data_dir, const StoreCheck& check) {
  try {
    return StoreSalvager(data_dir, check).run();
  } catch (const fs::filesystem_error& error) {
    fail(StoreFault::failed, data_dir / "rocksdb", error.what());
  }
}

void finish_salvage(const fs::path& data_dir) {
  const fs::path now = data_dir / "rocksdb", made = data_dir / "rocksdb.salvaged";
  std::error_code error;
  if (fs::exists(now, error) || !fs::exists(made, error)) return;
  fs::rename(made, now, error);
  if (error) fail(StoreFault::failed, made, "it cannot be renamed: " + error.message());
  sync_folder(data_dir);
}

}  // namespace troupe
