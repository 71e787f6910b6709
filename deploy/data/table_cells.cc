// Reads ids, times and numbers from cells of tables.
#include "deploy/data/table_cells.h"

#include <algorithm>

#include "runtime/wire/json_text.h"

namespace troupe::deploy {

namespace {

constexpr std::size_t shown_max = 64;
// 2200-01-01. Milliseconds that are read as seconds are later, if they are of 1970-03-26 or later.
constexpr std::int64_t end_of_times = 7'258'118'400;

std::string element(std::string_view word, std::size_t i) {
  return std::string(word) + "[" + std::to_string(i) + "]";
}

TimeForm form_of(const TableColumn* column) {
  return column ? time_form(column->form).value_or(TimeForm::whole_seconds) : TimeForm::whole_seconds;
}

// Programs that keep numbers with fractions write 5 as 5.0.
std::string_view without_zeros(std::string_view number) {
  const std::size_t point = number.find('.');
  if (point == number.npos || point == 0 || point + 1 == number.size()) return number;
  return number.find_first_not_of('0', point + 1) == number.npos ? number.substr(0, point) : number;
}

}  // namespace

TableCells::TableCells(RowTable& table, const TableColumns& columns) : table_(table), columns_(columns) {
  std::vector<std::string> names;
  for (const TableColumn& column : columns.list) names.push_back(column.column);
  table.select(names, columns.others);
}

const Cell& TableCells::cell(std::string_view word) const {
  static const Cell absent;
  const TableColumn* const column = columns_.find(word);
  return column ? row_.at(static_cast<std::size_t>(column - columns_.list.data())) : absent;
}

bool TableCells::is_empty(std::string_view word) const {
  const Cell& found = cell(word);
  return found.kind == Cell::Kind::absent || (found.kind == Cell::Kind::text && found.text.empty());
}

std::string TableCells::id(std::string_view word) const { return id_of(cell(word), word, std::string(word)); }

std::string TableCells::id_of(const Cell& cell, std::string_view word, const std::string& where) const {
  if (cell.kind == Cell::Kind::absent) return "";
  if (cell.kind == Cell::Kind::list) fail(word, where + " is a list", "an id");
  const bool is_whole = cell.text.find_first_not_of("-0123456789") == std::string::npos;
  if (cell.kind == Cell::Kind::number && !is_whole)
    fail(word, where + " is " + cell.text.substr(0, shown_max), "a text or a whole number");
  return cell.text;
}

std::string TableCells::text(std::string_view word) const {
  const Cell& found = cell(word);
  if (found.kind == Cell::Kind::list) fail(word, std::string(word) + " is a list", "a text");
  return found.text;
}

WrittenTime TableCells::time() const { return time_of(cell("timestamp"), "timestamp", "timestamp"); }

WrittenTime TableCells::time_of(const Cell& cell, std::string_view word, const std::string& where) const {
  if (cell.kind == Cell::Kind::list) fail(word, where + " is a list", "a time");
  const TimeForm form = form_of(columns_.find(word));
  auto read = read_time(cell.text, form, where);
  if (auto* refusal = std::get_if<Refusal>(&read)) {
    const bool names_a_form = refusal->expected.find(":iso") != std::string::npos;
    if (form == TimeForm::whole_seconds && !cell.text.empty() && !names_a_form)
      refusal->expected += ", or the column's form, such as " + std::string(word) + "=" +
                           columns_.find(word)->column + ":ms (s, ms, us, ns or iso)";
    fail(word, std::move(*refusal));
  }
  const WrittenTime time = std::get<WrittenTime>(read);
  if (time.seconds < end_of_times) return time;
  std::string expected = "a time before 2200";
  if (form != TimeForm::iso)
    expected += "; the form behind the column's name says the unit, as in " + std::string(word) + "=" +
                columns_.find(word)->column + ":ms";
  fail(word, Refusal{RefusalKind::malformed, "bad_timestamp",
                     where + " is " + cell.text.substr(0, shown_max) + ", which is " + iso_text(time.seconds),
                     std::string(word), std::move(expected)});
}

std::int64_t TableCells::action() const { return action_of(cell("action"), "action", "action"); }

std::int64_t TableCells::action_of(const Cell& cell, std::string_view word, const std::string& where) const {
  if (cell.kind == Cell::Kind::list) fail(word, where + " is a list", "a whole number");
  auto read = read_number(without_zeros(cell.text), number_rule("action"), where);
  if (auto* refusal = std::get_if<Refusal>(&read)) fail(word, std::move(*refusal));
  return std::get<std::int64_t>(read);
}

std::vector<Cell> TableCells::list(std::string_view word) const {
  const Cell& found = cell(word);
  if (found.kind == Cell::Kind::list) return found.list;
  std::vector<Cell> elements;
  if (is_empty(word)) return elements;
  for (const std::string_view part : split(found.text, ' '))
    elements.push_back({Cell::Kind::text, std::string(part), {}});
  return elements;
}

std::vector<std::string> TableCells::ids(std::string_view word) const {
  std::vector<std::string> values;
  for (const Cell& cell : list(word)) values.push_back(id_of(cell, word, element(word, values.size())));
  return values;
}

std::vector<std::int64_t> TableCells::times() const {
  std::vector<std::int64_t> values;
  for (const Cell& cell : list("timestamps"))
    values.push_back(time_of(cell, "timestamps", element("timestamps", values.size())).seconds);
  return values;
}

std::vector<std::int64_t> TableCells::actions() const {
  std::vector<std::int64_t> values;
  for (const Cell& cell : list("actions"))
    values.push_back(action_of(cell, "actions", element("actions", values.size())));
  return values;
}

void TableCells::fail(std::string_view word, Refusal refusal) const {
  const TableColumn* const column = columns_.find(word);
  std::string text = table_.place().file + ":" + std::to_string(line()) + ": ";
  if (column && column->column != column->word) text += "column " + column->column + ": ";
  if (!refusal.what.starts_with(refusal.where) && refusal.where != "body") text += refusal.where + ": ";
  text += refusal.what + "; expected " + refusal.expected;
  throw ImportError(printable(std::move(text)), std::move(refusal));
}

void TableCells::fail(std::string_view word, std::string what, std::string expected) const {
  fail(word, Refusal{RefusalKind::malformed, "wrong_type", std::move(what), std::string(word),
                     std::move(expected)});
}

}  // namespace troupe::deploy
