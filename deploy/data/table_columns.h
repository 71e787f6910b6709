#pragma once
// Says which columns of a table hold what, in the words of the HTTP API: "user=reviewer,item=asin,
// timestamp=ts:ms". Pure.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::deploy {

// A word of Troupe, the table's column for it, and how its values are written ("" = as usual).
struct TableColumn {
  std::string word, column, form = {};
  bool operator==(const TableColumn&) const = default;
};

// Kind of a table, by what a row of it is.
enum class TableContent : std::uint8_t {
  items,    // an item: has no user
  events,   // a user's event: user and item
  profiles  // a user's history: user and history
};

struct TableColumns {
  TableContent content = TableContent::items;
  std::vector<TableColumn> list;
  std::vector<std::string> others = {};  // words of such rows that the table was found to lack

  const TableColumn* find(std::string_view word) const;  // null: the table has no column for it
};

// Parses the text of --columns. Throws ConfigError for an unknown word or form, a word that is given twice,
// and words that do not belong together.
TableColumns parse_columns(std::string_view text);

// Returns the columns whose names are words. `columns`: all of the table, or those of its first line. Throws
// ConfigError as above.
TableColumns columns_named_as_words(std::span<const std::string> columns);

}  // namespace troupe::deploy
