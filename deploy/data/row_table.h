#pragma once
// Tables of other programs, row by row: CSV, tables with tabs, and lines of JSON, whose columns are the
// members of their objects.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "deploy/data/text_file.h"

namespace troupe::deploy {

enum class TableKind : std::uint8_t { csv, tsv, jsonl };

// A row's value in a column.
struct Cell {
  enum class Kind : std::uint8_t { absent, text, number, list };
  Kind kind = Kind::absent;
  std::string text;        // of a text, or of a number as it is written
  std::vector<Cell> list;  // texts and numbers
};

class RowTable {
 public:
  // "-" is standard input. Throws ImportError.
  static std::unique_ptr<RowTable> open(TableKind kind, const std::filesystem::path& file);
  virtual ~RowTable() = default;

  // Names of the columns: of the header, or of the members of the first line of JSON.
  virtual std::vector<std::string> columns() const = 0;
  // Chooses the columns that next() reads. Throws ImportError if a header lacks one. `others`: columns that
  // next() refuses in a line of JSON; a header has none of them.
  virtual void select(const std::vector<std::string>& columns, const std::vector<std::string>& others) = 0;
  // Reads the next row's cells of the selected columns; false at the end. Cells of tables are texts; an
  // object of JSON may lack a member, or have null there, but a column that no line has is a fault at the
  // end. A row that repeats the header is refused: two files were joined. Throws ImportError.
  virtual bool next(std::vector<Cell>& row) = 0;
  virtual const LinePosition& place() const = 0;  // of the last row
};

}  // namespace troupe::deploy
