// Builds a score request from a query text and document texts, for models that rank texts which no
// catalog contains.
#include "server/formats/text_pairs.h"

#include "server/formats/json_tree.h"

namespace troupe::server {
namespace {

// Tokenizes the texts of a request within their common token limit.
class PairWriter {
 public:
  PairWriter(const ModelText& model, const ScoreLimits& limits) : model_(model), left_(limits.tokens_max) {}

  void add(const Tokens& frame, std::vector<Token>& out) {
    out.insert(out.end(), frame.begin(), frame.end());
    left_ -= std::min(left_, frame.size());
  }
  // `behind`: text of the form that follows it.
  void add(const TextList& list, std::size_t index, std::string_view behind, std::vector<Token>& out) {
    const std::size_t before = out.size();
    const std::string where =
        list.texts.size() == 1 ? list.name : list.name + "[" + std::to_string(index) + "]";
    add_words_tokens(model_, list.texts[index], behind, where, before + left_, out);
    if (list.tokens_max > 0 && out.size() - before > list.tokens_max)
      throw Refusal{RefusalKind::too_large, "too_many_tokens",
                    "the text has " + std::to_string(out.size() - before) + " tokens, and none is cut", where,
                    "at most " + std::to_string(list.tokens_max) + " (max_tokens_per_doc)"};
    left_ -= out.size() - before;
  }

 private:
  const ModelText& model_;
  std::size_t left_;
};

}  // namespace

ScoreRequest score_pairs(const ModelText& model, const TextList& queries, const TextList& documents,
                         const ScoreLimits& limits) {
  const std::size_t pairs = documents.texts.size();
  if (pairs > limits.items_max)
    throw Refusal{RefusalKind::too_large, "too_many_items", "there are " + std::to_string(pairs),
                  documents.name,
                  "at most " + std::to_string(limits.items_max) + " (router.score_items_max)"};
  if (pairs == 0 || (queries.texts.size() != 1 && queries.texts.size() != pairs))
    tree_fault("wrong_count",
               "there are " + std::to_string(queries.texts.size()) + " for " + std::to_string(pairs) + " " +
                   documents.name,
               queries.name, "one for all, or one for each, and at least one");
  const PromptForm& form = *model.form;
  const bool shared = queries.texts.size() == 1;
  PairWriter writer(model, limits);
  ScoreRequest request{.label_tokens = {form.yes, form.no}, .apply_softmax = true};
  writer.add(form.system, request.query);
  const auto add_query = [&](std::size_t index, std::vector<Token>& out) {
    writer.add(form.event, out);
    writer.add(queries, index, form.item_text, out);
  };
  if (shared) add_query(0, request.query);
  for (std::size_t i = 0; i < pairs; ++i) {
    std::vector<Token>& item = request.items.emplace_back().tokens;
    if (!shared) add_query(i, item);
    if (form.item_text.empty()) writer.add(form.item, item);  // else it is behind the query
    writer.add(documents, i, "", item);
    writer.add(form.score, item);
  }
  return request;
}

}  // namespace troupe::server
