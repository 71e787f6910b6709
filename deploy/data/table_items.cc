// Reads a catalog from a table. Each row becomes a row of JSON, whose tokens may be numbers, names or a text.
#include <algorithm>
#include <utility>

#include "deploy/data/table_cells.h"
#include "deploy/data/table_rows.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {

namespace {

constexpr std::size_t left_out_shown_max = 5;

std::string in_json(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return quoted;
}

// A number as it is, everything else as a name.
std::string token_in_json(std::string_view token) {
  const auto number = read_number(token, {}, "tokens");
  return std::holds_alternative<std::int64_t>(number) ? std::string(token) : in_json(token);
}

std::string list_in_json(std::span<const std::string> elements) {
  std::string list = "[";
  for (const std::string& element : elements) list += (list.size() > 1 ? "," : "") + element;
  return list + "]";
}

template <class Number>
std::string numbers_in_json(const std::vector<Number>& numbers) {
  std::vector<std::string> elements;
  for (const Number number : numbers) elements.push_back(std::to_string(number));
  return list_in_json(elements);
}

std::string name_of_item(const std::string& item) { return "<item_" + item + ">"; }

// Source of the tokens of a table's items.
class ItemTokens {
 public:
  ItemTokens(const TableCells& cells, const TableColumn* column, const TableReading& reading)
      : cells_(cells), column_(column), reading_(reading), text_(reading.rows.text) {}

  // Returns the member's value as JSON. Nothing: the model has no tokens for this item.
  std::optional<std::string> of(const std::string& item) const {
    if (column_) return of_column();
    if (reading_.items) {
      const PutItem* const known = reading_.items->find(item);
      return known ? std::optional(numbers_in_json(known->tokens)) : std::nullopt;
    }
    if (text_.find(name_of_item(item))) return list_in_json(std::array{in_json(name_of_item(item))});
    if (reads_titles()) return in_json(cells_.text("title"));
    return std::nullopt;
  }
  // Returns the identifier as JSON; "" = the item has none.
  std::string identifier_of(const std::string& item) const {
    if (!cells_.is_empty("identifier")) return token_in_json(cells_.text("identifier"));
    if (const PutItem* const known = reading_.items && !column_ ? reading_.items->find(item) : nullptr)
      return known->identifier == no_identifier ? "" : std::to_string(known->identifier);
    const auto named = text_.find(name_of_item(item));
    return named ? std::to_string(*named) : "";
  }
  std::string describe() const {
    if (column_) return "column " + column_->column;
    if (reading_.items) return reading_.items->file();
    return reads_titles() ? "the titles" : "the items' ids, which are rows of the model";
  }
  [[noreturn]] void fail_unknown(const std::string& item) const {
    const std::string shown = "item " + in_json(std::string_view(item).substr(0, 64));
    const std::string column = "a column for tokens, such as tokens=COLUMN";
    if (reading_.items)
      cells_.fail("item", shown + " is not in " + reading_.items->file(),
                  "an item of the model, " + column + ", or --skip-unknown to leave such items out");
    if (text_.item_names)
      cells_.fail("item", shown + " is no row of the model",
                  "a number from 1 to " + std::to_string(text_.item_names->named()) + ", " + column +
                      ", or a model that `troupe convert --items` made");
    cells_.fail("item", "nothing gives the tokens of " + shown,
                column + (text_.tokenizer ? ", or one for title" : ""));
  }

 private:
  bool reads_titles() const { return text_.tokenizer && cells_.has("title"); }
  bool reads_text() const {
    return column_->form == "text" ||
           (column_->form.empty() && text_.tokenizer && cells_.cell("tokens").kind == Cell::Kind::text);
  }
  std::string of_column() const {
    const Cell& cell = cells_.cell("tokens");
    if (cell.kind == Cell::Kind::number) return "[" + cell.text + "]";
    if (cell.kind != Cell::Kind::list && column_->form == "codes") return codes(cell.text);
    if (cell.kind != Cell::Kind::list && reads_text()) return in_json(cell.text);
    std::vector<std::string> elements;
    for (const Cell& element : cells_.list("tokens"))
      elements.push_back(element.kind == Cell::Kind::number ? element.text
                         : cell.kind == Cell::Kind::list    ? in_json(element.text)
                                                            : token_in_json(element.text));
    return list_in_json(elements);
  }
  // Turns "8,73,94" into ["<a_8>","<b_73>","<c_94>"].
  std::string codes(std::string_view written) const {
    std::vector<std::string> names;
    for (const std::string_view code : split(written, ',')) {
      const auto number = read_number(code, {.least = 0, .most = 1 << 20}, "tokens");
      if (const auto* refusal = std::get_if<Refusal>(&number)) cells_.fail("tokens", *refusal);
      if (names.size() == 26) cells_.fail("tokens", "there are more than 26 codes", "at most 26");
      names.push_back(
          in_json(std::string("<") + static_cast<char>('a' + names.size()) + "_" + std::string(code) + ">"));
    }
    return list_in_json(names);
  }

  const TableCells& cells_;
  const TableColumn* column_;
  const TableReading& reading_;
  const server::ModelText& text_;
};

PutItem read_row(const TableCells& cells, const std::string& id, const std::string& json,
                 const TableReading& reading) {
  PutItem item;
  if (auto fault = reject_id(id, "item", row_id_bytes_max)) cells.fail("item", std::move(*fault));
  if (auto fault = server::read_item(json, item, reading.rows.limits, reading.rows.text)) {
    const std::string word = fault->where.substr(0, fault->where.find('['));
    cells.fail(word, std::move(*fault));
  }
  if (item.tokens.empty()) cells.fail("tokens", no_tokens());
  return item;
}

}  // namespace

ModelItems::ModelItems(DataRows<PutItem> items) : rows_(std::move(items)) {
  for (const PutItem& item : rows_.rows) by_id_.emplace(item.item, &item);
}

std::optional<ModelItems> ModelItems::of_model(const std::filesystem::path& directory,
                                               const RowReading& reading) {
  for (const char* const name : {"items.jsonl", "items.jsonl.gz"})
    if (std::filesystem::exists(directory / name)) return ModelItems(read_item_rows(directory, reading));
  return std::nullopt;
}

const PutItem* ModelItems::find(const std::string& item) const {
  const auto found = by_id_.find(item);
  return found == by_id_.end() ? nullptr : found->second;
}

TableItems read_item_table(RowTable& table, const TableColumns& columns, const TableReading& reading) {
  TableCells cells(table, columns);
  const ItemTokens tokens(cells, columns.find("tokens"), reading);
  TableItems read{.items = {table.place().file, {}, {}}, .tokens_from = tokens.describe()};
  while (cells.next()) {
    const std::string id = cells.id("item");
    const std::optional<std::string> made = tokens.of(id);
    if (!made) {
      if (!reading.skip_unknown) tokens.fail_unknown(id);
      ++read.left_out;
      if (read.left_out_first.size() < left_out_shown_max) read.left_out_first.push_back(id);
      continue;
    }
    std::string title = cells.text("title");
    const PutItem* const known = reading.items ? reading.items->find(id) : nullptr;
    if (title.empty() && known) title = known->title;
    const std::string identifier = tokens.identifier_of(id);
    const std::string json = "{\"item\":" + in_json(id) + ",\"title\":" + in_json(title) +
                             ",\"tokens\":" + *made +
                             (identifier.empty() ? "" : ",\"identifier\":" + identifier) + "}";
    read.items.add(read_row(cells, id, json, reading), cells.line());
  }
  return read;
}

}  // namespace troupe::deploy
