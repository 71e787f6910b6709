#pragma once
// `troupe bench plans`: how well a ranker ranks under each plan of the same prompt (BAT §6.3, Table 3), of
// all that the router's table of plans has.
//
// Items that are computed alone miss what the plain prompt shows them: the items before them. A `repair` of a
// share r recomputes the first r of each item's tokens with all that comes before them in sight, and keeps
// the rest of the block as it was computed alone (the first tokens of a block are what position-independent
// caching recomputes, since all later ones lean on them). The base is the plan that keeps every block as it
// is.
#include <filesystem>
#include <string>
#include <vector>

#include "deploy/bench/bench_accuracy.h"
#include "deploy/data/dataset.h"
#include "kernels/decoder/decoder.h"
#include "router/request/plans.h"

namespace troupe::deploy {

struct PlanVariant {
  const router::PlanKind* plan = nullptr;
  double repair = 0;  // 0..1; above 0 only where the plan can be repaired

  std::string name() const;  // "item", "blocks +25 %"
};
const router::PlanKind& parse_plan(const std::string& name);  // throws std::invalid_argument

// Requests as tokens.
struct RankEvent {
  Tokens history;  // all of it, behind the form's tokens
  std::vector<Item> items;
  std::size_t truth = 0;  // the item that was taken
};
struct RankEvents {
  router::PromptForm form;
  std::vector<RankEvent> list;
};
Plan plan_of(const router::PromptForm& form, const RankEvent& event, const PlanVariant& variant);

// Logits of the items, in their order: all is computed in one pass.
std::vector<float> run_plan(kernels::Executor& decoder, const Plan& plan);

// The true item's place among the candidates (ties count against it), and how probable it is among them.
EventScore judge_ranking(const std::vector<float>& logits, std::size_t truth);

// The requests of the evaluation file beside the model, or of `evaluation`. Throws ImportError, LoadError.
RankEvents read_rank_events(const std::filesystem::path& model, const std::filesystem::path& data,
                            const std::filesystem::path& evaluation);

}  // namespace troupe::deploy
