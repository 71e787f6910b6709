// Reads a data set (items, users and their histories) from JSONL or TSV files. Turns each line into
// the message that stores it, and texts and semantic ids (an item's code words) into tokens.
#include "deploy/data/dataset.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "deploy/data/json_row.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder, const std::string& name) {
  for (const std::string& candidate : {name, name + ".gz"})
    if (std::filesystem::exists(folder / candidate)) return folder / candidate;
  return std::nullopt;
}

Token token_named(const TextFile& file, const kernels::Vocabulary& vocabulary, const std::string& name) {
  const std::optional<Token> token = vocabulary.find(name);
  if (!token) {
    std::string quoted;
    append_json_string(quoted, std::string_view(name).substr(0, 60));
    file.fail("token " + quoted + " is unknown", "a token of the model's vocab.json");
  }
  return *token;
}

Token token_of(const TextFile& file, const kernels::Vocabulary& vocabulary, const json& value) {
  if (value.is_string()) return token_named(file, vocabulary, value.get<std::string>());
  const bool is_id =
      value.is_number_unsigned() && value.get<std::uint64_t>() <= std::numeric_limits<Token>::max();
  if (!is_id)
    file.fail("token " + value.dump().substr(0, 60) + " is no token", "a token id or name of the vocabulary");
  return value.get<Token>();
}

// Maps "240,118,21,18" to <a_240> <b_118> <c_21> <d_18>.
std::vector<Token> semantic_id(const TextFile& file, const kernels::Vocabulary& vocabulary,
                               std::string_view codes) {
  std::vector<Token> tokens;
  char level = 'a';
  for (std::string_view code : split(codes, ',')) {
    const std::uint64_t value = parse_number(file, code, "semantic ID code", 1 << 20);
    tokens.push_back(
        token_named(file, vocabulary, std::string("<") + level + "_" + std::to_string(value) + ">"));
    ++level;
  }
  return tokens;
}

// Parses token ids, such as "879 6235 30".
std::vector<Token> listed_tokens(const TextFile& file, std::string_view list) {
  std::vector<Token> tokens;
  for (std::string_view token : split(list, ' '))
    tokens.push_back(
        static_cast<Token>(parse_number(file, token, "token", std::numeric_limits<Token>::max())));
  return tokens;
}

// Returns the column of titles; catalogs without titles have an ASIN instead.
std::optional<std::size_t> title_column(const TsvFile& tsv) {
  for (const char* name : {"title", "asin"})
    if (tsv.has_column(name)) return tsv.column(name);
  return std::nullopt;
}

ImportError no_catalog(const std::filesystem::path& folder) {
  return ImportError(folder.string() +
                     ": there is no catalog; expected items.jsonl or items.tsv, plain or .gz");
}

DataRows<PutItem> read_tsv_items(const std::filesystem::path& path, const kernels::Vocabulary& vocabulary) {
  TsvFile tsv(path);
  const std::size_t id = tsv.column("item_id");
  const std::optional<std::size_t> sid =
      tsv.has_column("sid") ? std::optional(tsv.column("sid")) : std::nullopt;
  if (!sid && vocabulary.find("<a_0>"))
    tsv.file().fail("there is no column sid",
                    "semantic IDs, because the model's vocab.json has tokens for them");
  const std::optional<std::size_t> listed =
      !sid && tsv.has_column("tokens") ? std::optional(tsv.column("tokens")) : std::nullopt;
  const std::optional<std::size_t> title = title_column(tsv);
  DataRows<PutItem> items{path};
  std::vector<std::string_view> fields;
  while (tsv.next(fields)) {
    PutItem item;
    item.item = fields[id];
    if (title) item.title = fields[*title];
    item.identifier = vocabulary.find("<item_" + item.item + ">").value_or(-1);
    item.tokens = sid      ? semantic_id(tsv.file(), vocabulary, fields[*sid])
                  : listed ? listed_tokens(tsv.file(), fields[*listed])
                           : std::vector{token_named(tsv.file(), vocabulary, "<item_" + item.item + ">")};
    // generators have no identifier tokens
    if (item.identifier < 0) item.identifier = item.tokens.back();
    items.add(std::move(item), tsv.file().line_number());
  }
  return items;
}

DataRows<PutUser> read_sequences(const std::filesystem::path& path, HistoryPart part) {
  TsvFile tsv(path);
  const std::size_t id = tsv.column("user_id"), items = tsv.column("items");
  const std::size_t counts[] = {tsv.column("n_train"), tsv.column("n_valid"), tsv.column("n_test")};
  DataRows<PutUser> users{path};
  std::vector<std::string_view> fields;
  while (tsv.next(fields)) {
    PutUser user;
    user.user = fields[id];
    if (!fields[items].empty())
      for (std::string_view item : split(fields[items], ' ')) user.history.emplace_back(item);
    std::uint64_t keep = parse_number(tsv.file(), fields[counts[0]], "n_train", user.history.size());
    if (part != HistoryPart::train)
      keep += parse_number(tsv.file(), fields[counts[1]], "n_valid", user.history.size());
    if (part == HistoryPart::all)
      keep += parse_number(tsv.file(), fields[counts[2]], "n_test", user.history.size());
    if (keep > user.history.size())
      tsv.file().fail("the counts exceed the number of items", "n_train + n_valid + n_test items");
    user.history.resize(keep);
    users.add(std::move(user), tsv.file().line_number());
  }
  return users;
}

// Returns the feature's column in ratings.tsv; empty: it has none.
std::string_view rating_column(const std::string& feature) {
  if (feature == "timestamps") return "timestamp";
  return feature == "actions" ? "rating" : "";
}

// A user's row has the number of the user's first line.
DataRows<PutUser> read_ratings(const std::filesystem::path& path, std::span<const std::string> features) {
  TsvFile tsv(path);
  const std::size_t user = tsv.column("user_id"), item = tsv.column("item_id"),
                    time = tsv.column("timestamp");
  std::vector<std::size_t> columns;
  for (const std::string& feature : features) {
    if (rating_column(feature).empty())
      throw ImportError(path.string() + ": has no " + feature +
                        " of events, which the model needs; expected users.jsonl");
    columns.push_back(tsv.column(std::string(rating_column(feature)).c_str()));
  }
  struct Event {
    std::uint64_t time = 0;
    std::string item;
    std::vector<std::uint64_t> values;  // one per feature
  };
  struct Events {
    std::uint64_t line = 0;
    std::vector<Event> list;
  };
  std::map<std::string, Events> events;
  std::vector<std::string_view> fields;
  while (tsv.next(fields)) {
    Events& own = events[std::string(fields[user])];
    if (own.line == 0) own.line = tsv.file().line_number();
    Event& event = own.list.emplace_back();
    event.time = parse_number(tsv.file(), fields[time], "timestamp", std::uint64_t{1} << 40);
    event.item = fields[item];
    for (std::size_t i = 0; i < columns.size(); ++i)
      event.values.push_back(
          parse_number(tsv.file(), fields[columns[i]], features[i].c_str(), std::uint64_t{1} << 40));
  }
  DataRows<PutUser> users{path};
  for (auto& [name, own] : events) {
    std::stable_sort(own.list.begin(), own.list.end(),
                     [](const Event& a, const Event& b) { return a.time < b.time; });
    PutUser put;
    put.user = name;
    for (const std::string& feature : features) put.features.push_back({feature, {}});
    for (Event& event : own.list) {
      put.history.push_back(std::move(event.item));
      for (std::size_t i = 0; i < features.size(); ++i)
        put.features[i].values.push_back(static_cast<std::int64_t>(event.values[i]));
    }
    users.add(std::move(put), own.line);
  }
  return users;
}

// Reads one JSON object per line. `read` gets the object and throws nlohmann errors for wrong
// types.
template <class Read>
void for_each_line(const std::filesystem::path& path, Read read) {
  TextFile file(path);
  std::string line;
  while (file.next(line)) {
    if (line.empty()) continue;
    try {
      read(file, parse_row(file, line));
    } catch (const json::exception& error) {
      file.fail(error.what(), "one JSON object in the documented format");
    }
  }
}

std::vector<Token> tokens_in(const TextFile& file, const Tokenizer* tokenizer, const std::string& text) {
  constexpr std::size_t tokens_max = 1 << 20;
  std::vector<Token> tokens;
  if (!tokenizer) file.fail("tokens are a text, but the model has no tokenizer.json", "a list of tokens");
  const Tokenizer::Fault fault = tokenizer->encode(text, tokens_max, tokens);
  if (fault == Tokenizer::Fault::too_slow)
    file.fail(
        "the text of tokens takes the tokenizer too long, because of its expression or of combining marks",
        "another text, or a list of tokens");
  if (fault != Tokenizer::Fault::none)
    file.fail("the text of tokens has too many tokens or is not UTF-8",
              "at most " + std::to_string(tokens_max) + " tokens");
  return tokens;
}

DataRows<PutItem> read_jsonl_items(const std::filesystem::path& path, const kernels::Vocabulary& vocabulary,
                                   const Tokenizer* tokenizer) {
  DataRows<PutItem> items{path};
  for_each_line(path, [&](const TextFile& file, const json& line) {
    PutItem item;
    item.item = line.at("id").get<std::string>();
    item.title = line.value("title", "");
    const json &tokens = line.at("tokens"), &identifier = line.at("identifier");
    if (tokens.is_string())
      item.tokens = tokens_in(file, tokenizer, tokens.get_ref<const std::string&>());
    else
      for (const json& value : tokens.get_ref<const json::array_t&>())
        item.tokens.push_back(token_of(file, vocabulary, value));
    const auto named = identifier.is_string() && tokenizer
                           ? tokenizer->find(identifier.get_ref<const std::string&>())
                           : std::nullopt;
    item.identifier = named ? *named : token_of(file, vocabulary, identifier);
    items.add(std::move(item), file.line_number());
  });
  return items;
}

DataRows<PutUser> read_jsonl_users(const std::filesystem::path& path, std::span<const std::string> features) {
  DataRows<PutUser> users{path};
  for_each_line(path, [&](const TextFile& file, const json& line) {
    PutUser user;
    user.user = line.at("id").get<std::string>();
    user.history = line.at("history").get<std::vector<std::string>>();
    for (const std::string& feature : features)
      user.features.push_back({feature, line.at(feature).get<std::vector<std::int64_t>>()});
    users.add(std::move(user), file.line_number());
  });
  return users;
}

// Values of a history's events, and of a request, that models whose tokens are items read.
constexpr const char* event_values[] = {"timestamps", "actions"};
constexpr std::uint64_t event_value_max = std::uint64_t{1} << 40;

std::int64_t number_in(const TextFile& file, std::string_view text, std::string_view name) {
  return static_cast<std::int64_t>(parse_number(file, text, name, event_value_max));
}

// Reads the optional columns of an evaluation file.
void read_values(const TsvFile& tsv, const std::vector<std::string_view>& fields, EvaluationRow& row) {
  for (const char* name : event_values) {
    if (!tsv.has_column(name)) continue;
    Feature& feature = row.features.emplace_back(Feature{name, {}});
    if (const std::string_view list = fields[tsv.column(name)]; !list.empty())
      for (std::string_view value : split(list, ' '))
        feature.values.push_back(number_in(tsv.file(), value, name));
    if (feature.values.size() != row.history.size())
      tsv.file().fail(std::string(name) + " has " + std::to_string(feature.values.size()) + " numbers",
                      std::to_string(row.history.size()) + ", one for each event of the history");
  }
  for (auto [name, value] :
       {std::pair("request_timestamp", &row.request_timestamp), std::pair("scenario", &row.scenario)})
    if (tsv.has_column(name)) *value = number_in(tsv.file(), fields[tsv.column(name)], name);
}

std::vector<EvaluationRow> read_tsv_evaluation(const std::filesystem::path& path) {
  TsvFile tsv(path);
  const std::size_t user = tsv.column("user_id"),
                    history = tsv.column(tsv.has_column("items") ? "items" : "history"),
                    candidates = tsv.column("candidates"), truth = tsv.column("true_index");
  std::vector<EvaluationRow> rows;
  std::vector<std::string_view> fields;
  while (tsv.next(fields)) {
    EvaluationRow& row = rows.emplace_back();
    row.user = fields[user];
    if (!fields[history].empty())
      for (std::string_view item : split(fields[history], ' ')) row.history.emplace_back(item);
    for (std::string_view item : split(fields[candidates], ' ')) row.candidates.emplace_back(item);
    row.true_index = parse_number(tsv.file(), fields[truth], "true_index", row.candidates.size() - 1);
    read_values(tsv, fields, row);
  }
  return rows;
}

std::vector<EvaluationRow> read_jsonl_evaluation(const std::filesystem::path& path) {
  std::vector<EvaluationRow> rows;
  for_each_line(path, [&](const TextFile& file, const json& line) {
    EvaluationRow& row = rows.emplace_back();
    row.user = line.at("user").get<std::string>();
    row.history = line.value("history", std::vector<std::string>{});
    row.candidates = line.at("candidates").get<std::vector<std::string>>();
    const std::string truth = line.at("true_item").get<std::string>();
    const auto found = std::find(row.candidates.begin(), row.candidates.end(), truth);
    if (found == row.candidates.end()) file.fail("true_item is not a candidate", "one of the candidates");
    row.true_index = static_cast<std::size_t>(found - row.candidates.begin());
    for (const char* name : event_values)
      if (line.contains(name)) row.features.push_back({name, line[name].get<std::vector<std::int64_t>>()});
    row.request_timestamp = line.value("request_timestamp", std::int64_t{0});
    row.scenario = line.value("scenario", std::int64_t{0});
  });
  return rows;
}

}  // namespace

DataRows<PutItem> read_item_rows(const std::filesystem::path& folder, const kernels::Vocabulary& vocabulary,
                                 const Tokenizer* tokenizer) {
  if (const auto lines = find_file(folder, "items.jsonl"))
    return read_jsonl_items(*lines, vocabulary, tokenizer);
  if (const auto table = find_file(folder, "items.tsv")) return read_tsv_items(*table, vocabulary);
  throw no_catalog(folder);
}

DataRows<PutUser> read_user_rows(const std::filesystem::path& folder, HistoryPart part,
                                 std::span<const std::string> features) {
  if (const auto lines = find_file(folder, "users.jsonl")) return read_jsonl_users(*lines, features);
  const auto sequences = find_file(folder, "sequences.tsv");
  if (sequences && features.empty()) return read_sequences(*sequences, part);
  if (const auto ratings = find_file(folder, "ratings.tsv")) return read_ratings(*ratings, features);
  if (sequences)
    throw ImportError(sequences->string() + ": has no " + features.front() +
                      " of events, which the model needs; expected ratings.tsv, plain or .gz");
  return {};
}

std::vector<PutItem> read_items(const std::filesystem::path& folder, const kernels::Vocabulary& vocabulary) {
  return read_item_rows(folder, vocabulary).rows;
}

std::vector<PutUser> read_users(const std::filesystem::path& folder, HistoryPart part) {
  return read_user_rows(folder, part).rows;
}

std::map<std::string, std::string> read_titles(const std::filesystem::path& folder) {
  std::map<std::string, std::string> titles;
  if (const auto lines = find_file(folder, "items.jsonl")) {
    for_each_line(*lines, [&](const TextFile&, const json& line) {
      titles[line.at("id").get<std::string>()] = line.value("title", "");
    });
    return titles;
  }
  const auto table = find_file(folder, "items.tsv");
  if (!table) throw no_catalog(folder);
  TsvFile tsv(*table);
  const std::size_t id = tsv.column("item_id");
  const std::optional<std::size_t> title = title_column(tsv);
  std::vector<std::string_view> fields;
  while (tsv.next(fields)) titles[std::string(fields[id])] = title ? fields[*title] : fields[id];
  return titles;
}

std::vector<EvaluationRow> read_evaluation(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name.find(".jsonl") != std::string::npos ? read_jsonl_evaluation(file) : read_tsv_evaluation(file);
}

std::vector<EvaluationRow> read_evaluation(const std::filesystem::path& file,
                                           const std::filesystem::path& folder) {
  std::vector<EvaluationRow> rows = read_evaluation(file);
  if (std::ranges::none_of(rows, [](const EvaluationRow& row) { return row.history.empty(); })) return rows;
  std::map<std::string, std::vector<std::string>> histories;
  for (PutUser& user : read_users(folder, HistoryPart::before_test))
    histories[user.user] = std::move(user.history);
  for (EvaluationRow& row : rows)
    if (row.history.empty()) row.history = histories[row.user];
  return rows;
}

}  // namespace troupe::deploy
