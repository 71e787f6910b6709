#include "runtime/store/store_footer.h"

#include <doctest/doctest.h>

#include "runtime/store/store.h"
#include "runtime/store/store_check.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;

namespace {

// A table as a store leaves it.
struct Table {
  TestFolder folder;
  std::filesystem::path file;
  std::string bytes, footer;

  Table() {
    for (int round = 0; round < 2; ++round) {  // the second opening writes tables
      Store store(folder.path());
      for (int i = 0; i < 200; ++i) {
        const Change changes[] = {{Column::users, std::to_string(i), std::string(100, 'v')}};
        REQUIRE_FALSE(store.write(changes, Durability::buffered));
      }
    }
    file = folder.newest("rocksdb", ".sst");
    bytes = bytes_of(file);
    footer = bytes.substr(bytes.size() - table_footer_bytes);
  }
};

}  // namespace

TEST_CASE("store footer: RocksDB's footers are sound, and in a shorter file they are not") {
  const Table table;
  CHECK(validate_footer(table.footer, table.bytes.size()) == "");
  CHECK(validate_footer(table.footer, table.bytes.size() - 1) != "");
  CHECK(validate_footer(table.footer, table_footer_bytes) != "");
}

TEST_CASE("store footer: with any bit wrong a store reports it or opens, without a crash") {
  const Table table;
  const std::size_t begin = table.bytes.size() - table_footer_bytes;
  int found = 0, passed = 0;
  for (std::size_t bit = 0; bit < 8 * table_footer_bytes; bit += 3) {
    CAPTURE(bit);
    std::string bytes = table.bytes;
    bytes[begin + bit / 8] = static_cast<char>(bytes[begin + bit / 8] ^ 1 << bit % 8);
    overwrite_with(table.file, bytes);
    (check_table(table.file).empty() ? passed : found) += 1;
  }
  CHECK(found > 20);
  CHECK(passed > 20);  // bits of the padding, which RocksDB ignores
}

TEST_CASE("store footer: a footer that claims a terabyte is damage of that table") {
  const Table table;
  std::string bytes = table.bytes;
  std::string far;
  for (const char c : {0, -128, -128, -128, -128, -128, 32, 0, -128, -128, -128, -128, -128, 32})
    far += c;  // 0, 2^40, twice
  far.resize(40);
  bytes.replace(bytes.size() - table_footer_bytes + 1, far.size(), far);
  CHECK(validate_footer(bytes.substr(bytes.size() - table_footer_bytes), bytes.size())
            .starts_with("the footer names 1099511627776 bytes at 0 of "));
  overwrite_with(table.file, bytes);
  CHECK(check_table(table.file).find("the footer names") != std::string::npos);
  const StoreCheck check = check_data_folder(table.folder.path());
  REQUIRE(check.damage.size() >= 1);
  CHECK(check.damage[0].file == "rocksdb/" + table.file.filename().string());
}
