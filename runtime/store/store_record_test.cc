#include "runtime/store/store_record.h"

#include <doctest/doctest.h>

#include <random>

using namespace troupe;

namespace {

const std::vector<std::int32_t> some_tokens = {-1, 0, 7, 2147483647};

std::string sample() {
  RecordWriter writer(RecordType::item);
  writer.u32(5).u64(1ULL << 40).text("title").list(some_tokens).list(std::vector<std::uint32_t>{});
  return writer.seal("key");
}

}  // namespace

TEST_CASE("store record: fields are read as they were written") {
  const std::string value = sample();
  auto reader = RecordReader::open(RecordType::item, "key", value);
  REQUIRE(reader);
  CHECK(reader->u32() == 5);
  CHECK(reader->u64() == 1ULL << 40);
  CHECK(reader->text() == "title");
  CHECK(reader->list_i32() == some_tokens);
  CHECK_FALSE(reader->complete());
  CHECK(reader->list_u32().empty());
  CHECK(reader->complete());
}

TEST_CASE("store record: a flipped bit, a cut, another key or another type does not open") {
  const std::string value = sample();
  for (std::size_t bit = 0; bit < 8 * value.size(); ++bit) {
    std::string flipped = value;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    CHECK_FALSE(RecordReader::open(RecordType::item, "key", flipped));
  }
  for (std::size_t size = 0; size < value.size(); ++size)
    CHECK_FALSE(RecordReader::open(RecordType::item, "key", value.substr(0, size)));
  CHECK_FALSE(RecordReader::open(RecordType::item, "kez", value));
  CHECK_FALSE(RecordReader::open(RecordType::profile, "key", value));
  CHECK_FALSE(RecordReader::open(RecordType::item, "key", value + '\0'));
}

TEST_CASE("store record: a length beyond the end is rejected, and all later fields are empty") {
  RecordWriter writer(RecordType::item);
  const std::string value = writer.u32(0xFFFFFFFF).u32(1).seal("");
  auto reader = RecordReader::open(RecordType::item, "", value);
  REQUIRE(reader);
  CHECK(reader->list_i32().empty());
  CHECK(reader->u32() == 0);
  CHECK(reader->text().empty());
  CHECK_FALSE(reader->complete());
}

TEST_CASE("store record: a sound record with too few or too many fields is not complete") {
  const std::string value = RecordWriter(RecordType::counter).u64(1).seal("k");
  auto less = RecordReader::open(RecordType::counter, "k", value);
  less->u32();
  CHECK_FALSE(less->complete());
  auto more = RecordReader::open(RecordType::counter, "k", value);
  more->u64(), more->u32();
  CHECK_FALSE(more->complete());
}

TEST_CASE("store record: random bytes never open") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10000; ++i) {
    std::string bytes = "T\x03\x01";  // the right head, so that only the checksum can tell
    bytes.resize(3 + random() % 40);
    for (std::size_t b = 3; b < bytes.size(); ++b) bytes[b] = static_cast<char>(random());
    REQUIRE_FALSE(RecordReader::open(RecordType::item, "", bytes));
  }
}
