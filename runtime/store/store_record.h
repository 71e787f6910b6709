#pragma once
// Encodes one stored value: 'T', type, version, fields, and an XXH3-64 checksum over all of it and
// the value's key. A value with flipped bits, a cut end, another key's bytes or a foreign format
// does not open, and its reader treats it as absent. Integers are little-endian; a length precedes
// texts and lists.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

enum class RecordType : std::uint8_t { counter = 1, profile = 2, item = 3, block = 4, note = 6, answer = 7 };

class RecordWriter {
 public:
  explicit RecordWriter(RecordType type);
  RecordWriter& u32(std::uint32_t value);
  RecordWriter& u64(std::uint64_t value);
  RecordWriter& text(std::string_view value);
  RecordWriter& list(std::span<const std::int32_t> values);
  RecordWriter& list(std::span<const std::uint32_t> values);
  RecordWriter& list(std::span<const std::int64_t> values);
  std::string seal(std::string_view key);  // call once, last

 private:
  std::string bytes_;
};

// Reads fields in the order in which they were written. After the first field that does not fit,
// all are empty and `complete` is false. Lengths are never trusted beyond the bytes present.
class RecordReader {
 public:
  // Returns nullopt unless the value is a sound record of this type under this key. `value` must
  // outlive the reader.
  static std::optional<RecordReader> open(RecordType type, std::string_view key, std::string_view value);
  std::uint32_t u32();
  std::uint64_t u64();
  std::string text();
  std::vector<std::int32_t> list_i32();
  std::vector<std::uint32_t> list_u32();
  std::vector<std::int64_t> list_i64();
  bool more() const { return sound_ && !rest_.empty(); }
  bool complete() const { return sound_ && rest_.empty(); }  // every byte was read, none was missing

 private:
  explicit RecordReader(std::string_view fields) : rest_(fields) {}
  std::string_view take(std::uint64_t bytes);
  template <class T>
  std::vector<T> list();

  std::string_view rest_;
  bool sound_ = true;
};

}  // namespace troupe
