#pragma once
// Reads catalogs and histories from files, as the messages that store them. The files in the folder
// determine the format:
//   JSONL: items.jsonl[.gz], users.jsonl[.gz] (deploy/demo/README.md describes the lines);
//   TSV:   items.tsv.gz (item_id, sid, …) with sequences.tsv.gz (user_id, n_train, n_valid, n_test, items)
//          or ratings.tsv.gz (user_id, item_id, rating, timestamp).
// For a model with a tokenizer, `tokens` of a line may be a text. A column `tokens` has an
// item's token ids. Semantic IDs become the tokens <a_…> <b_…> … of the model's vocabulary. If
// neither the catalog nor the vocabulary has semantic IDs, an item is its own identifier token
// <item_…>.
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "deploy/data/text_file.h"
#include "kernels/checkpoint/vocabulary.h"
#include "runtime/actor/catalog.h"
#include "runtime/actor/messages.h"
#include "server/formats/row_bodies.h"

namespace troupe::deploy {

enum class HistoryPart : std::uint8_t { all, before_test, train };

// Rows of a file, with the line number of each.
template <class Row>
struct DataRows {
  std::filesystem::path file;
  std::vector<Row> rows;
  std::vector<std::uint64_t> lines;  // line of each row, from 1
  // Line of each event of each row's history, if events are lines of their own; else empty.
  std::vector<std::vector<std::uint64_t>> event_lines = {};

  void add(Row row, std::uint64_t line) {
    rows.push_back(std::move(row));
    lines.push_back(line);
  }
  std::string where(std::size_t row) const {  // such as "users.jsonl:101"
    return name_of_input(file) + ":" + std::to_string(lines.at(row));
  }
  // Returns "users.jsonl:101: history[7]", or "events.csv:9000" of an event with a line of its own.
  std::string where_event(std::size_t row, std::size_t event) const {
    if (event_lines.empty()) return where(row) + ": history[" + std::to_string(event) + "]";
    return name_of_input(file) + ":" + std::to_string(event_lines.at(row).at(event));
  }
};

// The parts of a model and of the configuration that readers of rows need. By default lists may be as long as
// any configuration allows.
struct RowReading {
  server::ModelText text = {};
  // `event_features` names the values that histories have for each event besides its item. They come from
  // ratings.tsv ("timestamps", and "actions", which are its ratings) or from members of these names in
  // users.jsonl.
  server::RowLimits limits = {.history_events_max = 1'000'000, .prompt_tokens_max = 1 << 20};
};

// All readers throw ImportError with the file, the line, the field, the fault and what was expected. A line
// of JSON is read as by the HTTP server (server/formats/row_bodies.h).
DataRows<PutItem> read_item_rows(const std::filesystem::path& folder, const RowReading& reading);
DataRows<PutUser> read_user_rows(const std::filesystem::path& folder, HistoryPart part,
                                 const RowReading& reading);
std::vector<PutItem> read_items(const std::filesystem::path& folder, const kernels::Vocabulary& vocabulary);
// Returns an empty list if the folder has no users. Their items are not looked up here.
std::vector<PutUser> read_users(const std::filesystem::path& folder, HistoryPart part);
// Returns titles by item id, for output.
std::map<std::string, std::string> read_titles(const std::filesystem::path& folder);

// Request of an evaluation file. The true item is candidates[true_index].
struct EvaluationRow {
  std::string user;                  // "" = a visitor, whose history the line has
  bool has_history = false;          // the row has its own history, which may be empty
  std::vector<std::string> history;  // oldest first
  std::vector<std::string> candidates;
  std::size_t true_index = 0;
  // Used by models whose tokens are items: features of the history's events, the request's time and its
  // scenario.
  std::vector<Feature> features = {};
  std::int64_t request_timestamp = 0;
  std::int64_t scenario = 0;
};
// Reads eval.tsv.gz (user_id, history or items, candidates, true_index; lists are space-separated item
// ids) or requests.jsonl[.gz]. Both may have timestamps and actions of the events, request_timestamp and
// scenario. A line of requests.jsonl may have a history in place of a user, with the members of a row of
// users.jsonl.
std::vector<EvaluationRow> read_evaluation(const std::filesystem::path& file);
// Does the same. A user without a history in the file gets the history of the data folder
// (HistoryPart::before_test), if the folder has this user.
std::vector<EvaluationRow> read_evaluation(const std::filesystem::path& file,
                                           const std::filesystem::path& folder);

}  // namespace troupe::deploy
