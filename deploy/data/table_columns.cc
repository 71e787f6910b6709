// Parses the text of `troupe import --columns`.
#include "deploy/data/table_columns.h"

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/actor/quoted_word.h"
#include "runtime/config/config.h"

namespace troupe::deploy {

namespace {

constexpr std::string_view time_forms = "s, ms, us, ns, iso";
constexpr std::string_view token_forms = "ids, text, codes";

struct Word {
  std::string_view name;
  std::array<bool, 3> belongs;  // to rows of TableContent
  std::string_view forms = {};
};
constexpr std::array words{
    Word{"user", {false, true, true}},        Word{"item", {true, true, false}},
    Word{"title", {true, false, false}},      Word{"tokens", {true, false, false}, token_forms},
    Word{"identifier", {true, false, false}}, Word{"timestamp", {false, true, false}, time_forms},
    Word{"action", {false, true, false}},     Word{"id", {false, true, false}},
    Word{"history", {false, false, true}},    Word{"timestamps", {false, false, true}, time_forms},
    Word{"actions", {false, false, true}},    Word{"event_ids", {false, false, true}}};

constexpr std::array<std::string_view, 3> content_names{"a catalog", "events", "histories"};

const Word* find_word(std::string_view name) {
  const auto* const found = std::ranges::find(words, name, &Word::name);
  return found == words.end() ? nullptr : found;
}

bool is_listed(std::string_view list, std::string_view form) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(", "), list.size());
    if (list.substr(0, end) == form) return true;
    list.remove_prefix(std::min(end + 2, list.size()));
  }
  return false;
}

std::string words_of(TableContent content) {
  std::string all;
  for (const Word& word : words)
    if (word.belongs[static_cast<std::size_t>(content)])
      all += (all.empty() ? "" : ", ") + std::string(word.name);
  return all;
}

[[noreturn]] void refuse_columns(const std::string& what, const std::string& expected) {
  throw ConfigError("--columns: " + what + "; expected " + expected);
}

TableColumn parse_column(std::string_view part) {
  const std::size_t equals = part.find('=');
  if (equals == part.npos || equals == 0 || equals + 1 == part.size())
    refuse_columns(quoted_word(part) + " is no pair", "WORD=COLUMN or WORD=COLUMN:FORM, separated by commas");
  TableColumn column{std::string(part.substr(0, equals)), std::string(part.substr(equals + 1))};
  const Word* const word = find_word(column.word);
  if (!word)
    refuse_columns("there is no word " + quoted_word(column.word),
                   words_of(TableContent::items) + " of a catalog; " + words_of(TableContent::events) +
                       " of events; " + words_of(TableContent::profiles) + " of histories");
  const std::size_t colon = column.column.rfind(':');
  if (colon == column.column.npos || word->forms.empty()) return column;
  column.form = column.column.substr(colon + 1);
  if (!is_listed(word->forms, column.form))
    refuse_columns(column.word + " has no form " + quoted_word(column.form),
                   "one of " + std::string(word->forms));
  column.column.resize(colon);
  return column;
}

// Finds out what the rows are, and refuses words of other rows.
TableColumns complete(std::vector<TableColumn> list) {
  TableColumns columns{TableContent::items, std::move(list)};
  if (columns.find("history"))
    columns.content = TableContent::profiles;
  else if (columns.find("user"))
    columns.content = TableContent::events;
  const auto content = static_cast<std::size_t>(columns.content);
  const std::string rows = std::string(content_names[content]) + " (" + words_of(columns.content) + ")";
  for (const TableColumn& column : columns.list) {
    if (!find_word(column.word)->belongs[content])
      refuse_columns(column.word + " does not belong to " + rows, "columns of one kind of rows");
    if (std::ranges::count(columns.list, column.word, &TableColumn::word) > 1)
      refuse_columns(column.word + " is given twice", "each word once");
  }
  for (const char* const needed : {"user", "item"})
    if (find_word(needed)->belongs[content] && !columns.find(needed))
      refuse_columns(std::string("there is no column for ") + needed + " of " + rows,
                     std::string(needed) + "=COLUMN, or a column of this name");
  return columns;
}

}  // namespace

const TableColumn* TableColumns::find(std::string_view word) const {
  const auto found = std::ranges::find(list, word, &TableColumn::word);
  return found == list.end() ? nullptr : &*found;
}

TableColumns parse_columns(std::string_view text) {
  std::vector<TableColumn> list;
  for (;;) {
    const std::size_t end = text.find(',');
    list.push_back(parse_column(text.substr(0, end)));
    if (end == text.npos) return complete(std::move(list));
    text.remove_prefix(end + 1);
  }
}

TableColumns columns_named_as_words(std::span<const std::string> columns) {
  std::vector<TableColumn> all;
  for (const std::string& column : columns)
    if (find_word(column)) all.push_back({column, column});
  // A column of another kind of rows is somebody else's, such as `id` of a table of items.
  const auto names = [&](std::string_view word) {
    return std::ranges::find(all, word, &TableColumn::word) != all.end();
  };
  const TableContent content = names("user") && names("history") ? TableContent::profiles
                               : names("user")                   ? TableContent::events
                                                                 : TableContent::items;
  std::erase_if(all, [&](const TableColumn& column) {
    return !find_word(column.word)->belongs[static_cast<std::size_t>(content)];
  });
  TableColumns found = complete(std::move(all));
  for (const Word& word : words)
    if (word.belongs[static_cast<std::size_t>(content)] && !found.find(word.name))
      found.others.emplace_back(word.name);
  return found;
}

}  // namespace troupe::deploy
