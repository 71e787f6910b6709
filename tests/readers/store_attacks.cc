// Attacks on files that a store reads: values, logs, manifests, tables, marks, and the lists of backups.
#include <cstring>
#include <fstream>

#include "runtime/store/store.h"
#include "runtime/store/store_backup.h"
#include "runtime/store/store_check.h"
#include "runtime/store/store_log.h"
#include "runtime/store/store_record.h"
#include "runtime/testing/store_test_folder.h"
#include "tests/readers/attack.h"
#include "tests/readers/endless.h"

namespace troupe::readers {
namespace {

using Path = std::filesystem::path;

constexpr std::size_t opened = 96 * mib;  // memory of a store that is opened and closed

// Fills a store with a few rows in its tables, and some in its log.
void fill(const Path& folder) {
  for (int round = 0; round < 2; ++round) {
    Store store(folder);
    for (int i = 0; i < 50; ++i) {
      const std::string key = "key-" + std::to_string(round) + "-" + std::to_string(i);
      const Change change[] = {
          {Column::users, key, RecordWriter(RecordType::profile).u64(7).text("abc").seal(key)}};
      if (store.write(change, Durability::synced)) throw std::runtime_error("the store takes no rows");
    }
  }
}

std::string words_of(const StoreCheck& check) {
  std::string words;
  for (const StoreDamage& damage : check.damage) words += describe(damage) + "\n";
  return words.empty() ? "nothing is damaged" : words;
}

// Checks the store and then opens it, which must be refused.
std::string check_and_open(const Path& folder) {
  std::string words = words_of(check_data_folder(folder));
  try {
    const Store store(folder);
    words += "opened";
  } catch (const StoreError& error) {
    words += error.what();
  }
  return words;
}

void add(std::vector<Attack>& all, std::string name, std::function<void(const TestFolder&)> harm,
         std::vector<std::string> says) {
  all.push_back({"store", std::move(name), opened,
                 [harm = std::move(harm)] {
                   const TestFolder folder;
                   fill(folder.path());
                   harm(folder);
                   return check_and_open(folder.path());
                 },
                 std::move(says)});
}

std::string whole_of(const Path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Encodes a length in RocksDB's form, with seven bits per byte.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// Lengthens a table: its last 53 bytes locate its index and its list of other parts, and no sum protects
// them.
void lengthen_table(const TestFolder& folder) {
  const Path table = folder.newest("rocksdb", ".sst");
  std::string bytes = whole_of(table);
  constexpr std::size_t footer = 53, handles = 40;
  std::string far = varint(0) + varint(terabyte) + varint(0) + varint(terabyte);
  far.resize(handles);
  bytes.replace(bytes.size() - footer + 1, handles, far);
  overwrite_with(table, bytes);
}

std::string read_long_record() {
  const std::string key = "a";
  std::string value = RecordWriter(RecordType::profile).u64(~std::uint64_t{0}).text("abc").seal(key);
  auto reader = RecordReader::open(RecordType::profile, key, value);
  if (!reader) return "not opened";
  reader->u32();  // skips a word, so that the next numbers are lengths
  const auto list = reader->list_u32();
  const std::string text = reader->text();
  return reader->complete() || !list.empty() || !text.empty() ? "taken" : "refused";
}

// A log of zeros in place of records, and a log of records that claim to continue for ever.
std::string read_long_log() {
  const TestFolder folder;
  const Path log = folder.path() / "000001.log";
  std::ofstream(log, std::ios::binary) << std::string(100, '\x7f');
  std::filesystem::resize_file(log, 64 * mib);
  const LogReading reading = read_log(log, [](std::uint64_t, std::string_view) {});
  return reading.torn ? reading.torn->what : "taken";
}

}  // namespace

std::vector<Attack> store_attacks() {
  std::vector<Attack> all;
  all.push_back({"store", "a row of lists beyond its end", 64 * kib, read_long_record, {"refused"}});
  all.push_back({"store", "a log of 64 MiB of zeros", mib, read_long_log, {"the sum of a record is wrong"}});
  add(all, "CURRENT is a terabyte long",
      [](const TestFolder& folder) {
        write_sparse(folder.path() / "rocksdb/CURRENT", std::string(5'000, 'M'));
      },
      {"rocksdb/CURRENT", "it names no manifest", "; expected "});
  add(all, "IDENTITY is a terabyte long",
      [](const TestFolder& folder) { write_sparse(folder.path() / "rocksdb/IDENTITY", "x"); },
      {"IDENTITY is 1099511627776 bytes long", "expected at most 4096", "; expected "});
  add(all, "the mark is a terabyte long",
      [](const TestFolder& folder) { write_sparse(folder.path() / mark_file, "x"); },
      {"acknowledged", "neither of its two slots is sound"});
  add(all, "a table says that its index has a terabyte", lengthen_table, {".sst", "; expected "});
  all.push_back({"store",
                 "the list of a backup is a terabyte long",
                 mib,
                 [] {
                   const TestFolder folder;
                   write_sparse(folder.path() / "backup", "troupe backup 1\n");
                   std::string words;
                   for (const std::string& fault : check_backup(folder.path())) words += fault + "\n";
                   return words;
                 },
                 {"expected"}});
  return all;
}

}  // namespace troupe::readers
