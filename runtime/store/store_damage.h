#pragma once
// Describes damage to a store's files and the losses from it, for logs and for operators.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

enum class Column : std::uint8_t { items, users, blocks, meta };
std::string_view name_of(Column column);

struct StoreDamage {
  std::string file;  // relative to the data folder: "rocksdb/000012.log"
  std::string what;  // "the sum of a record is wrong"
  std::optional<std::uint64_t> offset;
  std::optional<Column> column;  // column of the table's rows
  bool only_blocks() const { return column == Column::blocks; }
};

inline constexpr std::size_t losses_listed_max = 1000;

// Rows of a column with keys in [from, to), or writes with these version numbers.
struct StoreLoss {
  std::string file;
  Column column = Column::users;
  std::string from, to;                               // `to` empty: to the end
  std::uint64_t rows_max = 0;                         // upper bound; 0 = unknown
  std::uint64_t first_version = 0, last_version = 0;  // 0 = the loss is a range of keys
  bool is_versions() const { return last_version > 0; }
};

// Example: "rocksdb/000012.log at byte 4711: the sum of a record is wrong"
std::string describe(const StoreDamage& damage);
// Examples: "writes of users with profile versions 12..14 (rocksdb/000012.log)"; "at most 70 users
// from "ann" up to "bob" (…)"
std::string describe(const StoreLoss& loss);
// Escapes bytes that are not printable ASCII as \x0a, spaces, quotes and \ as \x20, \x22 and \x5c.
std::string bytes_shown(std::string_view key);

}  // namespace troupe
