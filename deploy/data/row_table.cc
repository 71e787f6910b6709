// Reads rows of CSV, of tables with tabs and of lines of JSON in one form.
#include "deploy/data/row_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "deploy/data/csv_file.h"
#include "deploy/data/json_row.h"

namespace troupe::deploy {

namespace {

constexpr std::size_t shown_names_bytes_max = 1'000;

// Returns the positions of the columns in the header.
std::vector<std::size_t> positions_of(const std::vector<std::string>& columns,
                                      const std::vector<std::string>& header, const LinePosition& place) {
  std::vector<std::size_t> positions;
  for (const std::string& column : columns) {
    const auto found = std::ranges::find(header, column);
    if (found == header.end()) {
      std::string all;
      for (const std::string& name : header) all += (all.empty() ? "" : ", ") + name;
      place.fail("there is no column " + column, "one of " + all.substr(0, shown_names_bytes_max));
    }
    positions.push_back(static_cast<std::size_t>(found - header.begin()));
  }
  return positions;
}

template <class Field>
void take_cells(const std::vector<Field>& fields, const std::vector<std::size_t>& positions,
                std::vector<Cell>& row) {
  row.resize(positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    row[i].kind = Cell::Kind::text;
    row[i].text = fields[positions[i]];
  }
}

// A row of one column may have its name by chance.
template <class Field>
void reject_if_header(const std::vector<Field>& fields, const std::vector<std::string>& header,
                      const LinePosition& place) {
  if (header.size() > 1 && std::ranges::equal(fields, header))
    place.fail("the line repeats the header", "one header, at the beginning, if files are joined");
}

class CsvTable : public RowTable {
 public:
  explicit CsvTable(const std::filesystem::path& file) : csv_(file) {}
  std::vector<std::string> columns() const override { return csv_.header(); }
  void select(const std::vector<std::string>& columns, const std::vector<std::string>&) override {
    positions_ = positions_of(columns, csv_.header(), csv_.place());
  }
  bool next(std::vector<Cell>& row) override {
    if (!csv_.next(fields_)) return false;
    reject_if_header(fields_, csv_.header(), csv_.place());
    take_cells(fields_, positions_, row);
    return true;
  }
  const LinePosition& place() const override { return csv_.place(); }

 private:
  CsvFile csv_;
  std::vector<std::size_t> positions_;
  std::vector<std::string> fields_;
};

class TabTable : public RowTable {
 public:
  explicit TabTable(const std::filesystem::path& file) : tsv_(file) {}
  std::vector<std::string> columns() const override { return tsv_.header(); }
  void select(const std::vector<std::string>& columns, const std::vector<std::string>&) override {
    positions_ = positions_of(columns, tsv_.header(), place());
  }
  bool next(std::vector<Cell>& row) override {
    if (!tsv_.next(fields_)) return false;
    reject_if_header(fields_, tsv_.header(), place());
    take_cells(fields_, positions_, row);
    return true;
  }
  const LinePosition& place() const override { return tsv_.file().place(); }

 private:
  TsvFile tsv_;
  std::vector<std::size_t> positions_;
  std::vector<std::string_view> fields_;
};

class JsonTable : public RowTable {
 public:
  explicit JsonTable(const std::filesystem::path& file) : file_(file) {
    if (!read_line()) LinePosition{file_.place().file, 1}.fail("the file is empty", "one object a line");
    for (const auto& [name, value] : ahead_->items()) first_.push_back(name);
  }
  std::vector<std::string> columns() const override { return first_; }
  void select(const std::vector<std::string>& columns, const std::vector<std::string>& others) override {
    columns_ = columns;
    others_ = others;
    is_found_.assign(columns.size(), false);
  }
  bool next(std::vector<Cell>& row) override {
    if (!ahead_ && !read_line()) {
      reject_if_never_found();
      return false;
    }
    row.assign(columns_.size(), {});
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (const auto member = ahead_->find(columns_[i]); member != ahead_->end()) {
        row[i] = cell_of(*member, columns_[i], true);
        is_found_[i] = true;
      }
    for (const std::string& other : others_)
      if (ahead_->contains(other))
        file_.fail("the line has " + other + ", which the first line lacks",
                   "--columns with all members to read, such as " + other + "=" + other);
    ahead_.reset();
    return true;
  }
  const LinePosition& place() const override { return file_.place(); }

 private:
  bool read_line() {
    while (file_.next(line_)) {
      if (line_.find_first_not_of(" \t\r") == line_.npos) continue;
      ahead_ = parse_row(file_, line_);
      if (!ahead_->is_object()) file_.fail("the line is " + std::string(ahead_->type_name()), "an object");
      return true;
    }
    return false;
  }
  void reject_if_never_found() const {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (is_found_[i]) continue;
      std::string all;
      for (const std::string& name : first_) all += (all.empty() ? "" : ", ") + name;
      file_.fail("no line has a member " + columns_[i],
                 "members of the lines; the first has " + all.substr(0, shown_names_bytes_max));
    }
  }
  Cell cell_of(const server::JsonTree& value, const std::string& where, bool may_be_list) const {
    Cell cell;
    if (value.is_null() && may_be_list) return cell;
    if (value.is_string()) {
      cell = {Cell::Kind::text, value.get<std::string>(), {}};
    } else if (value.is_number()) {
      cell = {Cell::Kind::number, value.dump(), {}};
    } else if (value.is_array() && may_be_list) {
      cell.kind = Cell::Kind::list;
      for (const server::JsonTree& element : value)
        cell.list.push_back(cell_of(element, where + "[" + std::to_string(cell.list.size()) + "]", false));
    } else {
      file_.fail(where + " is " + value.type_name(),
                 may_be_list ? "a text, a number, or a list of them" : "a text or a number");
    }
    return cell;
  }

  TextFile file_;
  std::string line_;
  std::optional<server::JsonTree> ahead_;  // the next line, if it was read
  std::vector<std::string> first_;         // members of the first line
  std::vector<std::string> columns_, others_;
  std::vector<bool> is_found_;  // by column: a line had it
};

}  // namespace

std::unique_ptr<RowTable> RowTable::open(TableKind kind, const std::filesystem::path& file) {
  switch (kind) {
    case TableKind::csv:
      return std::make_unique<CsvTable>(file);
    case TableKind::tsv:
      return std::make_unique<TabTable>(file);
    case TableKind::jsonl:
      break;
  }
  return std::make_unique<JsonTable>(file);
}

}  // namespace troupe::deploy
