// Reads a data set (items, users and their histories) from JSONL or TSV files. Turns each line into
// the message that stores it, and texts and semantic ids (an item's code words) into tokens.
#include "deploy/data/dataset.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "deploy/data/json_row.h"
#include "runtime/actor/row_rules.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {

namespace {

std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder, const std::string& name) {
  for (const std::string& candidate : {name, name + ".gz"})
    if (std::filesystem::exists(folder / candidate)) return folder / candidate;
  return std::nullopt;
}

Token token_named(const TextFile& file, const server::ModelText& text, const std::string& name,
                  const char* column) {
  const std::optional<Token> token = text.find(name);
  if (!token) {
    std::string quoted;
    append_json_string(quoted, std::string_view(name).substr(0, 60));
    file.fail(Refusal{RefusalKind::unprocessable, "unknown_word",
                      quoted + " is not in the model's vocabulary", column,
                      "a word of vocab.json or tokenizer.json, or a token's number"});
  }
  return *token;
}

// Maps "240,118,21,18" to <a_240> <b_118> <c_21> <d_18>.
std::vector<Token> semantic_id(const TextFile& file, const server::ModelText& text, std::string_view codes) {
  std::vector<Token> tokens;
  char level = 'a';
  for (std::string_view code : split(codes, ',')) {
    const std::uint64_t value = parse_number(file, code, "sid", 1 << 20);
    tokens.push_back(
        token_named(file, text, std::string("<") + level + "_" + std::to_string(value) + ">", "sid"));
    ++level;
  }
  return tokens;
}

// Parses token ids, such as "879 6235 30".
std::vector<Token> listed_tokens(const TextFile& file, std::string_view list) {
  constexpr NumberRule any_token{.least = std::numeric_limits<Token>::min(),
                                 .most = std::numeric_limits<Token>::max()};
  std::vector<Token> tokens;
  if (list.empty()) file.fail(no_tokens());
  for (std::string_view token : split(list, ' '))
    tokens.push_back(static_cast<Token>(
        parse_number(file, token, "tokens[" + std::to_string(tokens.size()) + "]", any_token)));
  return tokens;
}

void reject(const TextFile& file, const std::optional<Refusal>& refusal) {
  if (refusal) file.fail(*refusal);
}

// A list of a table's row is as long as one of a JSON row may be.
void reject_length(const TextFile& file, std::size_t count, const ListLimit& limit) {
  if (count > limit.max) file.fail(refuse_length(limit));
}

void reject_history(const TextFile& file, const PutUser& user, const RowReading& reading) {
  reject(file, reject_id(user.user, "user", row_id_bytes_max));
  reject_length(file, user.history.size(), server::user_limits(reading.limits).front());
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

DataRows<PutItem> read_tsv_items(const std::filesystem::path& path, const RowReading& reading) {
  TsvFile tsv(path);
  const std::size_t id = tsv.column("item_id");
  const std::optional<std::size_t> sid =
      tsv.has_column("sid") ? std::optional(tsv.column("sid")) : std::nullopt;
  const server::ModelText& text = reading.text;
  if (!sid && text.find("<a_0>"))
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
    reject(tsv.file(), reject_id(item.item, "item", row_id_bytes_max));
    const std::string name = "<item_" + item.item + ">";
    item.identifier = text.find(name).value_or(-1);
    item.tokens = sid      ? semantic_id(tsv.file(), text, fields[*sid])
                  : listed ? listed_tokens(tsv.file(), fields[*listed])
                           : std::vector{token_named(tsv.file(), text, name, "item_id")};
    reject_length(tsv.file(), item.tokens.size(), server::item_limits(reading.limits).front());
    // generators have no identifier tokens
    if (item.identifier < 0) item.identifier = item.tokens.back();
    items.add(std::move(item), tsv.file().line_number());
  }
  return items;
}

DataRows<PutUser> read_sequences(const std::filesystem::path& path, HistoryPart part,
                                 const RowReading& reading) {
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
    reject_history(tsv.file(), user, reading);
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
DataRows<PutUser> read_ratings(const std::filesystem::path& path, const RowReading& reading) {
  const std::vector<std::string>& features = reading.limits.event_features;
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
    std::int64_t time = 0;
    std::string item;
    std::vector<std::int64_t> values;  // one per feature
  };
  struct Events {
    std::uint64_t line = 0;
    std::vector<Event> list;
  };
  std::map<std::string, Events> events;
  std::vector<std::string_view> fields;
  while (tsv.next(fields)) {
    reject(tsv.file(), reject_id(fields[user], "user", row_id_bytes_max));
    Events& own = events[std::string(fields[user])];
    if (own.line == 0) own.line = tsv.file().line_number();
    Event& event = own.list.emplace_back();
    event.time = parse_number(tsv.file(), fields[time], "timestamp", number_rule("timestamp"));
    event.item = fields[item];
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string_view column = rating_column(features[i]);
      event.values.push_back(parse_number(tsv.file(), fields[columns[i]], column, number_rule(column)));
    }
    reject_length(tsv.file(), own.list.size(), server::user_limits(reading.limits).front());
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
      for (std::size_t i = 0; i < features.size(); ++i) put.features[i].values.push_back(event.values[i]);
    }
    users.add(std::move(put), own.line);
  }
  return users;
}

// Calls `read(file, line)` for each line that is not blank. A Refusal is a fault of the line.
template <class Read>
void for_each_line(const std::filesystem::path& path, Read read) {
  TextFile file(path);
  std::string line;
  while (file.next(line)) {
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      read(file, line);
    } catch (const Refusal& refusal) {
      file.fail(refusal);
    }
  }
}

DataRows<PutItem> read_jsonl_items(const std::filesystem::path& path, const RowReading& reading) {
  DataRows<PutItem> items{path};
  for_each_line(path, [&](const TextFile& file, const std::string& line) {
    PutItem item;
    reject(file, server::read_item(line, item, reading.limits, reading.text));
    reject(file, reject_id(item.item, "item", row_id_bytes_max));
    items.add(std::move(item), file.line_number());
  });
  return items;
}

DataRows<PutUser> read_jsonl_users(const std::filesystem::path& path, const RowReading& reading) {
  DataRows<PutUser> users{path};
  for_each_line(path, [&](const TextFile& file, const std::string& line) {
    PutUser user;
    reject(file, server::read_user(line, user, reading.limits, reading.text));
    reject(file, reject_id(user.user, "user", row_id_bytes_max));
    users.add(std::move(user), file.line_number());
  });
  return users;
}

// Reads the optional columns of an evaluation file.
void read_values(const TsvFile& tsv, const std::vector<std::string_view>& fields, EvaluationRow& row) {
  for (const char* name : event_feature_names) {
    if (!tsv.has_column(name)) continue;
    Feature& feature = row.features.emplace_back(Feature{name, {}});
    if (const std::string_view list = fields[tsv.column(name)]; !list.empty())
      for (std::string_view value : split(list, ' '))
        feature.values.push_back(parse_number(tsv.file(), value,
                                              name + ("[" + std::to_string(feature.values.size())) + "]",
                                              number_rule(name)));
    if (feature.values.size() != row.history.size())
      tsv.file().fail(std::string(name) + " has " + std::to_string(feature.values.size()) + " numbers",
                      std::to_string(row.history.size()) + ", one for each event of the history");
  }
  for (auto [name, value] :
       {std::pair("request_timestamp", &row.request_timestamp), std::pair("scenario", &row.scenario)})
    if (tsv.has_column(name))
      *value = parse_number(tsv.file(), fields[tsv.column(name)], name, number_rule(name));
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

// A history of a line has the rules of a user's row, without a limit of its own.
constexpr std::uint32_t line_events_max = 100'000'000;

std::vector<std::string> texts_in(const server::JsonTree& list, const std::string& where) {
  if (!list.is_array()) server::tree_type_fault(list, where, "an array");
  std::vector<std::string> texts;
  for (const server::JsonTree& text : list)
    texts.push_back(server::tree_text(text, where + "[" + std::to_string(texts.size()) + "]"));
  return texts;
}

std::int64_t number_in(const server::JsonTree& value, const std::string& where, const NumberRule& rule) {
  if (!value.is_number_integer()) throw no_number(value.type_name(), rule, where);
  auto read = read_number(value.dump(), rule, where);
  if (auto* refusal = std::get_if<Refusal>(&read)) throw std::move(*refusal);
  return std::get<std::int64_t>(read);
}

// Reads one member of a line of requests.jsonl; those of its history are put into `history`.
void read_member(const std::string& name, const server::JsonTree& value, EvaluationRow& row,
                 std::string& truth, server::JsonTree& history) {
  const bool is_event_value = std::ranges::find(event_feature_names, name) != std::end(event_feature_names);
  if (name == "user") {
    row.user = server::tree_text(value, name);
  } else if (name == "true_item") {
    truth = server::tree_text(value, name);
  } else if (name == "history" || name == "features" || is_event_value) {
    history[name] = value;
  } else if (name == "event_features") {
    history["features"] = value;
  } else if (name == "candidates") {
    row.candidates = texts_in(value, name);
  } else if (name == "request_timestamp") {
    row.request_timestamp = number_in(value, name, number_rule(name));
  } else if (name == "scenario") {
    row.scenario = number_in(value, name, number_rule(name));
  } else {
    server::tree_fault("unknown_field", "there is no such field", name,
                       "one of user, history, candidates, true_item, timestamps, actions, features, "
                       "request_timestamp, scenario");
  }
}

void read_line_history(server::JsonTree members, EvaluationRow& row) {
  if (members.empty()) return;
  row.has_history = members.contains("history");
  if (!row.has_history) members["history"] = server::JsonTree::array();
  server::RowLimits limits{.history_events_max = line_events_max};
  limits.event_features.assign(std::begin(event_feature_names), std::end(event_feature_names));
  PutUser user;
  if (auto refusal = server::read_user(members.dump(), user, limits, {})) throw *std::move(refusal);
  row.history = std::move(user.history);
  row.features = std::move(user.features);
}

std::vector<EvaluationRow> read_jsonl_evaluation(const std::filesystem::path& path) {
  std::vector<EvaluationRow> rows;
  for_each_line(path, [&](const TextFile& file, const std::string& line) {
    const server::JsonTree object = parse_row(file, line, server::Fractions::refused);
    if (!object.is_object()) server::tree_type_fault(object, "body", "an object");
    EvaluationRow& row = rows.emplace_back();
    std::string truth;
    server::JsonTree history = server::JsonTree::object();
    for (const auto& [name, value] : object.items()) read_member(name, value, row, truth, history);
    read_line_history(std::move(history), row);
    for (const char* needed : {"user", "candidates", "true_item"})
      if (!object.contains(needed) && !(std::string_view(needed) == "user" && row.has_history))
        server::tree_fault("missing_field", std::string("the line has no ") + needed, needed,
                           "user or history, candidates and true_item");
    // features in one order, whatever that of the line
    std::ranges::sort(row.features, {}, [](const Feature& feature) {
      return std::ranges::find(event_feature_names, feature.name) - std::begin(event_feature_names);
    });
    const auto found = std::find(row.candidates.begin(), row.candidates.end(), truth);
    if (found == row.candidates.end()) file.fail("true_item is not a candidate", "one of the candidates");
    row.true_index = static_cast<std::size_t>(found - row.candidates.begin());
  });
  return rows;
}

}  // namespace

DataRows<PutItem> read_item_rows(const std::filesystem::path& folder, const RowReading& reading) {
  if (const auto lines = find_file(folder, "items.jsonl")) return read_jsonl_items(*lines, reading);
  if (const auto table = find_file(folder, "items.tsv")) return read_tsv_items(*table, reading);
  throw no_catalog(folder);
}

DataRows<PutUser> read_user_rows(const std::filesystem::path& folder, HistoryPart part,
                                 const RowReading& reading) {
  const std::vector<std::string>& features = reading.limits.event_features;
  if (const auto lines = find_file(folder, "users.jsonl")) return read_jsonl_users(*lines, reading);
  const auto sequences = find_file(folder, "sequences.tsv");
  if (sequences && features.empty()) return read_sequences(*sequences, part, reading);
  if (const auto ratings = find_file(folder, "ratings.tsv")) return read_ratings(*ratings, reading);
  if (sequences)
    throw ImportError(sequences->string() + ": has no " + features.front() +
                      " of events, which the model needs; expected ratings.tsv, plain or .gz");
  return {};
}

std::vector<PutItem> read_items(const std::filesystem::path& folder, const kernels::Vocabulary& vocabulary) {
  return read_item_rows(folder, {.text = server::ModelText(&vocabulary)}).rows;
}

// Without a model it is unknown which features count: those of any model may stand in a line.
std::vector<PutUser> read_users(const std::filesystem::path& folder, HistoryPart part) {
  RowReading reading;
  if (find_file(folder, "users.jsonl"))
    reading.limits.event_features.assign(std::begin(event_feature_names), std::end(event_feature_names));
  std::vector<PutUser> users = read_user_rows(folder, part, reading).rows;
  for (PutUser& user : users) user.features.clear();
  return users;
}

std::map<std::string, std::string> read_titles(const std::filesystem::path& folder) {
  std::map<std::string, std::string> titles;
  if (const auto lines = find_file(folder, "items.jsonl")) {
    for_each_line(*lines, [&](const TextFile& file, const std::string& line) {
      const server::JsonTree item = parse_row(file, line);
      if (!item.is_object() || !item.contains("id"))
        server::tree_fault("missing_field", "the line has no id", "id", "an item");
      titles[server::tree_text(item.at("id"), "id")] =
          item.contains("title") ? server::tree_text(item.at("title"), "title") : "";
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
  const auto lacks_history = [](const EvaluationRow& row) { return row.history.empty() && !row.has_history; };
  if (std::ranges::none_of(rows, lacks_history)) return rows;
  std::map<std::string, std::vector<std::string>> histories;
  for (PutUser& user : read_users(folder, HistoryPart::before_test))
    histories[user.user] = std::move(user.history);
  for (EvaluationRow& row : rows)
    if (lacks_history(row)) row.history = histories[row.user];
  return rows;
}

}  // namespace troupe::deploy
