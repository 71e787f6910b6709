#pragma once
// What is wrong with a store's files, and what was lost with them, in words for logs and for people.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

enum class Column : std::uint8_t { items, users, blocks, meta };
std::string_view name_of(Column column);

struct StoreDamage {
  std::string file;  // in the data folder: "rocksdb/000012.log"
  std::string what;  // "the sum of a record is wrong"
  std::optional<std::uint64_t> offset;
  std::optional<Column> column;  // of a table's rows
  bool only_blocks() const { return column == Column::blocks; }
};

inline constexpr std::size_t losses_listed_max = 1000;

// Rows of a column whose keys are in [from, to), or writes that were given these versions.
struct StoreLoss {
  std::string file;
  Column column = Column::users;
  std::string from, to;                               // `to` empty: to the end
  std::uint64_t rows_max = 0;                         // at most so many; 0: nobody knows
  std::uint64_t first_version = 0, last_version = 0;  // 0: it is a range of keys
  bool is_versions() const { return last_version > 0; }
};

// "rocksdb/000012.log at byte 4711: the sum of a record is wrong"
std::string describe(const StoreDamage& damage);
// "users whose profiles have versions 12..14 (rocksdb/000012.log)"; "at most 70 users from "ann" up to "bob"
// (…)"
std::string describe(const StoreLoss& loss);
// Bytes that are no ASCII letters stand as \x0a, quotes and \ as \x22 and \x5c.
std::string bytes_shown(std::string_view key);

}  // namespace troupe
