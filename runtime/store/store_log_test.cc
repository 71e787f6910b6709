#include "runtime/store/store_log.h"

#include <doctest/doctest.h>

#include <fstream>

#include "runtime/store/store.h"
#include "runtime/store/store_log_sums.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;

namespace {

// A log as its process leaves it when killed: copied while open.
struct Log {
  TestFolder folder;
  std::filesystem::path file = folder.path() / "log";
  std::vector<std::uint64_t> offsets, sequences;

  explicit Log(int writes, std::size_t value_bytes = 100) {
    Store store(folder.path(), {.is_cache = true});
    for (int i = 0; i < writes; ++i) {
      const Change changes[] = {{Column::users, std::to_string(i), std::string(value_bytes, 'v')},
                                {Column::meta, "counter", std::to_string(i)}};
      REQUIRE_FALSE(store.write(changes, Durability::buffered));
    }
    std::filesystem::copy_file(folder.newest("rocksdb", ".log"), file);
  }
  LogReading read() {
    offsets.clear(), sequences.clear();
    return read_log(file, [&](std::uint64_t offset, std::string_view record) {
      offsets.push_back(offset);
      sequences.push_back(batch_head(record)->sequence);
    });
  }
};

}  // namespace

TEST_CASE("store log: RocksDB's logs are read, also records that span blocks, without gaps") {
  for (const std::size_t value_bytes : {100, 90'000}) {
    Log log(50, value_bytes);
    const LogReading reading = log.read();
    CHECK(reading.damage.empty());
    CHECK_FALSE(reading.torn);
    CHECK(reading.records == 51);  // 50 rows and the store's format
    for (std::size_t i = 1; i + 1 < log.sequences.size(); ++i)
      CHECK(log.sequences[i + 1] == log.sequences[i] + 2);
  }
}

TEST_CASE("store log: a file reads like its bytes, wherever it ends") {
  const Log log(400);
  const std::string bytes = bytes_of(log.file);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{32'767}, std::size_t{32'768},
                                 std::size_t{32'769}, bytes.size()}) {
    CAPTURE(size);
    std::filesystem::resize_file(log.file, std::min(size, bytes.size()));
    const LogReading file = read_log(log.file, [](auto, auto) {});
    const LogReading right = read_log_bytes(std::string_view(bytes).substr(0, size), [](auto, auto) {});
    CHECK(file.bytes == std::min(size, bytes.size()));
    CHECK(file.bytes == right.bytes);
    CHECK(file.records == right.records);
    CHECK(file.torn.has_value() == right.torn.has_value());
    CHECK(file.damage.size() == right.damage.size());
    if (size == bytes.size()) break;
    std::ofstream(log.file, std::ios::binary) << bytes;
  }
}

TEST_CASE("store log: an empty batch has a head, fewer bytes have none") {
  const std::string head("\7\0\0\0\0\0\0\0\0\0\0\0", 12);
  REQUIRE(batch_head(head));
  CHECK(batch_head(head)->sequence == 7);
  CHECK_FALSE(batch_head(std::string_view(head).substr(1)));
}

TEST_CASE("store log: any wrong byte costs one record and is reported with its offset") {
  Log log(20);
  const LogReading whole = log.read();
  const std::vector<std::uint64_t> offsets = log.offsets;
  const std::string sound = bytes_of(log.file);
  for (std::size_t at = offsets[5]; at < offsets[6]; ++at) {
    CAPTURE(at);
    flip_byte(log.file, at);
    const LogReading reading = log.read();
    CHECK(reading.records == whole.records - 1);
    REQUIRE(reading.damage.size() == 1);
    CHECK(reading.damage[0].offset == offsets[5]);
    CHECK_FALSE(reading.torn);
    overwrite_with(log.file, sound);
  }
}

TEST_CASE("store log: zeros are damage if records follow, and an end otherwise") {
  Log log(20);
  log.read();
  const std::vector<std::uint64_t> offsets = log.offsets;
  std::string bytes = bytes_of(log.file);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(offsets[3]),
            bytes.begin() + static_cast<std::ptrdiff_t>(offsets[6]), '\0');
  overwrite_with(log.file, bytes);
  LogReading reading = log.read();
  REQUIRE(reading.damage.size() == 1);
  CHECK(reading.damage[0].offset == offsets[3]);
  CHECK(reading.damage[0].what == "zeros stand for a record");
  CHECK(reading.records == 18);
  bytes.resize(offsets[6]);
  overwrite_with(log.file, bytes);
  reading = log.read();
  CHECK(reading.damage.empty());
  REQUIRE(reading.torn);
  CHECK(reading.torn->offset == offsets[3]);
}

TEST_CASE("store log: a record cut off anywhere is an end") {
  Log log(10, 70'000);
  log.read();
  const std::uint64_t last = log.offsets.back();
  for (std::string bytes = bytes_of(log.file); bytes.size() > last + 9'000;
       bytes.resize(bytes.size() - 9'000)) {
    overwrite_with(log.file, bytes.substr(0, bytes.size() - 1));
    const LogReading reading = log.read();
    CHECK(reading.records == 10);
    REQUIRE(reading.torn);
    CHECK(reading.torn->offset == last);
  }
}

TEST_CASE(
    "store log: damage where every byte claims a long piece is searched in linear time, and records "
    "after it are found") {
  Log log(20);
  const std::uint64_t records = log.read().records;
  std::string bytes(1 << 20,
                    // Blocks of pieces of 16 KiB and more; a search that reads them all takes
                    // seconds.
                    '\x3F');
  for (std::size_t at = 0; at < bytes.size(); at += 2) bytes[at] = '\x04';
  const LogReading reading = read_log_bytes(bytes + bytes_of(log.file), [](auto, auto) {});
  CHECK(reading.records == records);
  REQUIRE(reading.damage.size() == 1);
  CHECK(reading.damage[0].offset == 0);
}

TEST_CASE("store log: records may end, begin and be empty at any of the last bytes of a block") {
  constexpr std::size_t block_bytes = 32'768, head = 7;
  const auto piece = [](char type, const std::string& bytes) {  // type 1: whole, 2: first, 4: last
    const std::string summed = type + bytes;
    const std::uint32_t sum = crc32c(summed), masked = (sum >> 15 | sum << 17) + 0xa282'ead8u;
    std::string text;
    for (int byte = 0; byte < 4; ++byte) text += static_cast<char>(masked >> (8 * byte));
    text += static_cast<char>(bytes.size());
    return text + static_cast<char>(bytes.size() >> 8) + summed;
  };
  for (std::size_t left = 0; left < head + 3; ++left) {
    CAPTURE(left);
    std::string bytes = piece(1, std::string(block_bytes - head - left, 'a'));
    if (left < head)
      bytes += std::string(left, '\0') + piece(1, "bb") + piece(1, "");
    else
      bytes += piece(2, std::string(left - head, 'b')) + piece(4, "bb") + piece(1, "");
    std::vector<std::string> records;
    const LogReading reading =
        read_log_bytes(bytes, [&](auto, std::string_view record) { records.emplace_back(record); });
    CHECK(reading.damage.empty());
    CHECK_FALSE(reading.torn);
    REQUIRE(records.size() == 3);
    CHECK(records[1] == std::string(left < head ? 0 : left - head, 'b') + "bb");
    CHECK(records[2].empty());
  }
}

TEST_CASE("store log: a missing file gives errno") {
  TestFolder folder;
  CHECK(read_log(folder.path() / "none", [](auto, auto) {}).error == ENOENT);
}

TEST_CASE("store log: the manifest's sequence number is found after any other fields, if present") {
  const auto record = [](std::initializer_list<int> bytes) {
    return std::string(bytes.begin(), bytes.end());
  };
  CHECK(manifest_sequence(record({1, 2, 'a', 'b', 2, 5, 3, 9, 4, 0xAC, 0x02, 7, 1})) == 300);
  CHECK(manifest_sequence(record({2, 5})) == 0);
  CHECK(manifest_sequence(record({100, 4, 7})) == 0);
  CHECK(manifest_sequence(record({1, 200, 'a'})) == 0);
  CHECK(manifest_sequence(record({4, 0x80})) == 0);
}
