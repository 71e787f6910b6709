#pragma once
// Catalogs and histories from files, as the messages that store them. Two forms, found by what lies in the
// folder:
//   JSONL: items.jsonl[.gz], users.jsonl[.gz] (deploy/demo/README.md describes the lines);
//   TSV:   items.tsv.gz (item_id, sid, …) with sequences.tsv.gz (user_id, n_train, n_valid, n_test, items)
//          or ratings.tsv.gz (user_id, item_id, rating, timestamp).
// Of a model with a tokenizer.json `tokens` of a line may be a text. A column `tokens` has an item's token
// ids as they are. Semantic IDs become the tokens <a_…> <b_…> … of the model's vocabulary. Where neither the
// catalog nor the vocabulary has them, an item is its own identifier token <item_…>.
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "deploy/data/text_file.h"
#include "kernels/checkpoint/vocabulary.h"
#include "runtime/actor/messages.h"
#include "runtime/tokenizer/tokenizer.h"

namespace troupe::deploy {

enum class HistoryPart : std::uint8_t { all, before_test, train };

// What a file holds, and on which of its lines.
template <class Row>
struct DataRows {
  std::filesystem::path file;
  std::vector<Row> rows;
  std::vector<std::uint64_t> lines;  // of each row, from 1

  void add(Row row, std::uint64_t line) {
    rows.push_back(std::move(row));
    lines.push_back(line);
  }
  std::string where(std::size_t row) const {  // "users.jsonl:101"
    return file.filename().string() + ":" + std::to_string(lines.at(row));
  }
};

// All throw ImportError with file, line, what is wrong and what was expected.
// `tokenizer`: with it `tokens` of items.jsonl may be a text.
DataRows<PutItem> read_item_rows(const std::filesystem::path& folder, const kernels::Vocabulary& vocabulary,
                                 const Tokenizer* tokenizer = nullptr);
// `features`: what histories bring of each event beside its item, from ratings.tsv ("timestamps", and
// "actions": its ratings) or, under the names of the features, from the lines of users.jsonl.
DataRows<PutUser> read_user_rows(const std::filesystem::path& folder, HistoryPart part,
                                 std::span<const std::string> features = {});
std::vector<PutItem> read_items(const std::filesystem::path& folder, const kernels::Vocabulary& vocabulary);
// Empty if the folder has no users; their items are not looked up here.
std::vector<PutUser> read_users(const std::filesystem::path& folder, HistoryPart part);
// Titles by item id, for people.
std::map<std::string, std::string> read_titles(const std::filesystem::path& folder);

// One request of an evaluation file: the true item is candidates[true_index].
struct EvaluationRow {
  std::string user;
  std::vector<std::string> history;  // oldest first
  std::vector<std::string> candidates;
  std::size_t true_index = 0;
};
// eval.tsv.gz: user_id, history, candidates, true_index (lists are space-separated item ids); or
// requests.jsonl[.gz].
std::vector<EvaluationRow> read_evaluation(const std::filesystem::path& file);
// The same; where it leaves a history out, the user has the one of the data folder
// (HistoryPart::before_test), if that knows him.
std::vector<EvaluationRow> read_evaluation(const std::filesystem::path& file,
                                           const std::filesystem::path& folder);

}  // namespace troupe::deploy
