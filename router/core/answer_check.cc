#include "router/core/answer_check.h"

#include "router/request/ranking.h"
#include "runtime/actor/planted.h"

namespace troupe::router {
namespace {

Refusal bad_output(std::string what, std::string expected) {
  return {500, "bad_model_output", std::move(what), "inference worker", std::move(expected)};
}

}  // namespace

std::optional<Refusal> find_answer_fault(const Flight& flight, const Executed& executed) {
  if (executed.model_version != flight.pinned.model_version)
    return bad_output("computed by model " + executed.model_version, "model " + flight.pinned.model_version);
  if (planted(Bug::answer_without_check)) return std::nullopt;
  std::size_t rows = 1, columns = 0;
  if (const auto* rank = std::get_if<RankWork>(&flight.work)) {
    columns = rank->items.size();
  } else {
    const ScoreRequest& score = std::get<ScoreWork>(flight.work).request;
    rows = score.items.size();
    columns = score.label_tokens.size();
  }
  if (executed.readouts.size() != rows || executed.reused.size() != flight.sent.size())
    return bad_output("the answer has another shape than the plan",
                      "one row per readout, one flag per segment");
  for (const ScoreRow& row : executed.readouts) {
    if (row.scores.size() != columns)
      return bad_output("the answer has another shape than the plan",
                        std::to_string(columns) + " logits in a row");
    if (!all_finite(row.scores)) return bad_output("a logit is not a finite number", "finite logits");
  }
  return std::nullopt;
}

std::vector<double> scores_of(const Executed& executed, std::size_t row, std::size_t count) {
  std::vector<double> scores;
  if (row < executed.readouts.size()) scores = executed.readouts[row].scores;
  scores.resize(count);
  return scores;
}

}  // namespace troupe::router
