// Encodes and decodes one stored value with a checksum over the value and its key. Damaged,
// truncated or misplaced values are thus recognised and treated as absent.
#include "runtime/store/store_record.h"

#include <xxhash.h>

#include <bit>
#include <cstring>

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as integers lie in memory");

constexpr char magic = 'T';
constexpr char version = 1;
constexpr std::size_t head_bytes = 3, sum_bytes = 8;

std::uint64_t sum_of(std::string_view key, std::string_view body) {
  return XXH3_64bits_withSeed(body.data(), body.size(), XXH3_64bits(key.data(), key.size()));
}

template <class T>
void append(std::string& bytes, const T* values, std::size_t count) {
  if (count > 0) bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

}  // namespace

RecordWriter::RecordWriter(RecordType type) : bytes_{magic, static_cast<char>(type), version} {}

RecordWriter& RecordWriter::u32(std::uint32_t value) {
  append(bytes_, &value, 1);
  return *this;
}

RecordWriter& RecordWriter::u64(std::uint64_t value) {
  append(bytes_, &value, 1);
  return *this;
}

RecordWriter& RecordWriter::text(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  append(bytes_, value.data(), value.size());
  return *this;
}

RecordWriter& RecordWriter::list(std::span<const std::int32_t> values) {
  u32(static_cast<std::uint32_t>(values.size()));
  append(bytes_, values.data(), values.size());
  return *this;
}

RecordWriter& RecordWriter::list(std::span<const std::uint32_t> values) {
  u32(static_cast<std::uint32_t>(values.size()));
  append(bytes_, values.data(), values.size());
  return *this;
}

RecordWriter& RecordWriter::list(std::span<const std::int64_t> values) {
  u32(static_cast<std::uint32_t>(values.size()));
  append(bytes_, values.data(), values.size());
  return *this;
}

std::string RecordWriter::seal(std::string_view key) {
  u64(sum_of(key, bytes_));
  return std::move(bytes_);
}

std::optional<RecordReader> RecordReader::open(RecordType type, std::string_view key,
                                               std::string_view value) {
  if (value.size() < head_bytes + sum_bytes) return {};
  if (value[0] != magic || value[1] != static_cast<char>(type) || value[2] != version) return {};
  const std::string_view body = value.substr(0, value.size() - sum_bytes);
  std::uint64_t sum;
  std::memcpy(&sum, value.data() + body.size(), sizeof sum);
  if (sum != sum_of(key, body)) return {};
  return RecordReader(body.substr(head_bytes));
}

std::string_view RecordReader::take(std::uint64_t bytes) {
  if (!sound_ || bytes > rest_.size()) {
    sound_ = false;
    rest_ = {};
    return {};
  }
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::uint32_t RecordReader::u32() {
  std::uint32_t value = 0;
  if (const auto bytes = take(sizeof value); !bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::uint64_t RecordReader::u64() {
  std::uint64_t value = 0;
  if (const auto bytes = take(sizeof value); !bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string RecordReader::text() { return std::string(take(u32())); }

template <class T>
std::vector<T> RecordReader::list() {
  const std::string_view bytes = take(std::uint64_t{u32()} * sizeof(T));
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::int32_t> RecordReader::list_i32() { return list<std::int32_t>(); }
std::vector<std::uint32_t> RecordReader::list_u32() { return list<std::uint32_t>(); }
std::vector<std::int64_t> RecordReader::list_i64() { return list<std::int64_t>(); }

}  // namespace troupe
