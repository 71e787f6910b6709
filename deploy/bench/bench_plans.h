#pragma once
// `troupe bench plans`: how well a ranker ranks under each plan of the same prompt (BAT §6.3, Table 3).
//
//   user, item   the two prefixes of BAT §4.2
//   causal       the plain prompt: system, user, items, each after all before it
//   blocks       causal, but items see nothing: blocks that can stand anywhere, moved to their places
//
// Items that are computed alone miss what the plain prompt shows them: the items before them. A `repair` of a
// share r recomputes the first r of each item's tokens with all that comes before them in sight, and keeps
// the rest of the block as it was computed alone (the first tokens of a block are what position-independent
// caching recomputes, since all later ones lean on them). The base is the plan that keeps every block as it
// is.
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "deploy/bench/bench_accuracy.h"
#include "deploy/data/dataset.h"
#include "kernels/decoder/decoder.h"
#include "router/request/plan.h"

namespace troupe::deploy {

enum class PlanKind : std::uint8_t { user, item, causal, blocks };

struct PlanVariant {
  PlanKind kind = PlanKind::user;
  double repair = 0;  // 0..1; above 0 only for item and blocks

  std::string name() const;  // "item", "blocks +25 %"
};
// "user", "item", "causal", "blocks"; throws std::invalid_argument.
PlanKind parse_plan_kind(const std::string& name);

// A request as tokens: `user` with the tokens that precede the history, `rows` of the output, one an item.
struct RankPrompt {
  std::vector<Token> system, user, instruction, discriminant;
  std::vector<std::vector<Token>> items;
  std::vector<Token> rows;
};

// A plan, and the parts of blocks that it reuses: segments of `ahead`, computed before, stand for segments of
// `plan`. Without such parts `ahead` is empty and all of the plan is computed.
struct VariantPlan {
  kernels::Plan plan, ahead;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> reused;  // segments of ahead, of plan
};
VariantPlan variant_plan(const RankPrompt& prompt, const PlanVariant& variant);

// Logits of the items, in their order.
std::vector<float> run_variant(kernels::Executor& decoder, const VariantPlan& plan);

// The true item's place among the candidates (ties count against it), and how probable it is among them.
EventScore judge_ranking(const std::vector<float>& logits, std::size_t truth);

struct RankEvent {
  RankPrompt prompt;
  std::size_t truth = 0;
};
// The requests of the evaluation file beside the model, or of `evaluation`. Throws ImportError, LoadError.
std::vector<RankEvent> read_rank_events(const std::filesystem::path& model, const std::filesystem::path& data,
                                        const std::filesystem::path& evaluation);

}  // namespace troupe::deploy
