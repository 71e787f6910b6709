#pragma once
// Turns cells of a table into values, and refuses them with file, line and column.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "deploy/data/row_table.h"
#include "deploy/data/table_columns.h"
#include "deploy/data/time_text.h"

namespace troupe::deploy {

// The row of a table that was read last, by words.
class TableCells {
 public:
  // Selects the columns. Both must outlive it.
  TableCells(RowTable& table, const TableColumns& columns);

  bool next() { return table_.next(row_); }
  std::uint64_t line() const { return table_.place().line; }
  bool has(std::string_view word) const { return columns_.find(word); }  // the table has a column for it
  const Cell& cell(std::string_view word) const;                         // absent without a column
  bool is_empty(std::string_view word) const;  // absent, or a text without characters

  std::string id(std::string_view word) const;  // of a user, item or event; may be empty, or a whole number
  std::string text(std::string_view word) const;
  WrittenTime time() const;     // `timestamp`, in the form of its column
  std::int64_t action() const;  // a whole number; 5.0 is one
  // Elements of a list: of JSON, or with blanks between them.
  std::vector<Cell> list(std::string_view word) const;
  std::vector<std::string> ids(std::string_view word) const;
  std::vector<std::int64_t> times() const;  // seconds
  std::vector<std::int64_t> actions() const;

  // Throws ImportError: "events.csv:17: column ts: timestamp is …; expected …".
  [[noreturn]] void fail(std::string_view word, Refusal refusal) const;
  [[noreturn]] void fail(std::string_view word, std::string what, std::string expected) const;

 private:
  WrittenTime time_of(const Cell& cell, std::string_view word, const std::string& where) const;
  std::int64_t action_of(const Cell& cell, std::string_view word, const std::string& where) const;
  std::string id_of(const Cell& cell, std::string_view word, const std::string& where) const;

  RowTable& table_;
  const TableColumns& columns_;
  std::vector<Cell> row_;
};

}  // namespace troupe::deploy
