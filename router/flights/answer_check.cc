// Checks a worker's answer before it reaches the client: right model version, right shape for the
// plan, finite logits, and for searches valid paths. A worker with a fault must not produce a wrong
// ranking.
#include "router/flights/answer_check.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "router/request/ranking.h"

namespace troupe::router {
namespace {

// Returns how many numbers a readout gives: one for a head of the model, those of the first row for hidden
// states, which are all of one size, else one per row of the vocabulary.
std::size_t numbers_of(const Readout& readout, const Executed& executed) {
  if (readout.what == Readout::What::state)
    return std::max<std::size_t>(1, executed.readouts.front().scores.size());
  return readout.what == Readout::What::head ? 1 : readout.rows.size();
}

Refusal bad_output(std::string what, std::string expected) {
  return {RefusalKind::internal, "bad_model_output", std::move(what), "inference worker",
          std::move(expected)};
}

// Checks that the paths are at most as many as asked for, have finite numbers and are ordered best
// first.
std::optional<Refusal> validate_beams(const Search& search, std::span<const Beam> beams) {
  const std::size_t most = search.width > 0 ? search.results : 0;
  if (beams.size() > most)
    return bad_output("the search found " + std::to_string(beams.size()) + " paths",
                      "at most " + std::to_string(most));
  for (std::size_t i = 0; i < beams.size(); ++i) {
    const double value = beams[i].log_probability;
    if (!std::isfinite(value)) return bad_output("a log-probability is not a finite number", "finite ones");
    if (beams[i].by_token.size() != (search.by_token ? beams[i].path.size() : 0) ||
        !all_finite(beams[i].by_token))
      return bad_output("a path has the wrong number of token log-probabilities, or one that is not finite",
                        search.by_token ? "a finite one for each" : "none");
    if (i > 0 && value > beams[i - 1].log_probability)
      return bad_output("paths are not in order", "the most probable first");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> validate_answer(const Plan& plan, const std::string& model_version,
                                       const Executed& executed) {
  if (executed.model_version != model_version)
    return bad_output("computed by model " + executed.model_version, "model " + model_version);
  if (executed.readouts.size() != plan.readouts.size() || executed.reused.size() != plan.segments.size())
    return bad_output("the answer's shape differs from the plan's",
                      "one row per readout, one flag per segment");
  for (std::size_t i = 0; i < plan.readouts.size(); ++i) {
    const std::size_t columns = numbers_of(plan.readouts[i], executed);
    if (executed.readouts[i].scores.size() != columns)
      return bad_output("the answer's shape differs from the plan's",
                        std::to_string(columns) + " logits in a row");
    if (!all_finite(executed.readouts[i].scores))
      return bad_output("a logit is not a finite number", "finite logits");
  }
  return validate_beams(plan.search, executed.beams);
}

std::optional<Refusal> validate_answer(const Request& request, const Plan& plan,
                                       const std::string& model_version, const Executed& executed) {
  if (auto fault = validate_answer(plan, model_version, executed)) return fault;
  std::string what = request.validate_beams(executed.beams);
  if (what.empty()) return std::nullopt;
  return bad_output(std::move(what), "each path once, each in the catalog that the request is pinned to");
}

}  // namespace troupe::router
