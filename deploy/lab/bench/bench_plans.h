#pragma once
// `troupe-lab bench plans`: measures how well a ranker ranks under each of the router's plans of the same
// prompt (BAT §6.3, Table 3).
//
// Items that are computed alone do not see the items before them, as they would in the plain prompt. A
// repair recomputes a share of their tokens, which then see everything before them. The selection chooses
// these tokens (router/request/plans.h), and the other tokens may be corrected. The baselines are the plans
// that keep every block unchanged, and the plain prompt, which reuses nothing.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "deploy/data/dataset.h"
#include "deploy/reports/ranking_quality.h"
#include "kernels/decoder/decoder.h"
#include "router/request/plans.h"

namespace troupe::deploy {

struct PlanVariant {
  const router::PlanKind* plan = nullptr;
  router::RepairChoice repair;  // its share is above 0 only if the plan can be repaired
  // Chooses the tokens that truly differ most from their blocks over all layers, instead of the selection.
  bool oracle = false;

  bool repairs() const;
  std::string name() const;       // "item", "blocks +25 %", "all_blocks +30 %, history 20 %"
  std::string selection() const;  // "none" without a repair
  std::string correction() const;
};

// A request as tokens.
struct RankEvent {
  Tokens history;                     // the whole history, behind the form's tokens
  std::vector<std::uint32_t> events;  // number of tokens of each of its events
  std::vector<Item> items;
  std::size_t truth = 0;  // index of the item that was taken
};
struct RankEvents {
  PromptForm form;
  std::vector<RankEvent> list;
};
// Returns the names of the plans of the arrangements that a form declares.
std::vector<std::string> plans_of(const PromptForm& form);
// Returns a plan of an arrangement that prompts of the form can have, declared or not. Throws
// std::invalid_argument.
const router::PlanKind& parse_plan(const std::string& name, const PromptForm& form);
// Returns such a plan with the repair that follows its name: "blocks+30:tail:mean" (router/request/
// repair_choice.h), or without one. Throws std::invalid_argument.
PlanVariant parse_variant(const std::string& name, const PromptForm& form);
Plan plan_of(const PromptForm& form, const RankEvent& event, const PlanVariant& variant);

// Returns the scores of the items, in their order.
std::vector<float> scores_of(const kernels::Reply& reply);
// Computes all tokens in one pass and returns the scores of the items.
std::vector<float> run_plan(kernels::Executor& decoder, const Plan& plan);

// Runs plans whose blocks are cached, like a cluster that has seen each item before. A block is computed at
// its first use, outside the measured time.
class BlockBench {
 public:
  // `keeps_prefix`: the system prompt is cached like a block for every plan, as in a prefix cache.
  BlockBench(kernels::Executor& decoder, const kernels::DecoderConfig& config, bool keeps_prefix = false);
  ~BlockBench();

  struct Run {
    std::vector<float> scores;
    double seconds = 0;     // CPU time to check the plan and to run it
    double operations = 0;  // of the layers in the CPU engine, two per multiply-add
  };
  Run run(const Plan& plan);
  // Returns `plan` with the repair's tokens chosen by the truth: those that differ most from their blocks
  // over all layers after the first, as measured by a run of `plain`. The repair's budgets set their number.
  Plan with_oracle(const Plan& plan, const Plan& plain);

 private:
  struct Pages;
  void fill(const Plan& plan, std::vector<kernels::SegmentKv>& kv);
  void fill_prefix(const Plan& plan, std::vector<kernels::SegmentKv>& kv);

  kernels::Executor& decoder_;
  const kernels::DecoderConfig config_;
  const bool keeps_prefix_;
  std::map<std::vector<Token>, Pages> blocks_;  // by the tokens that they see and their own
};

// Reads the requests of `evaluation`; if it is empty, of the evaluation file beside the model. `prompt`:
// the prompt form's file; empty = as a server finds it. Throws ImportError, LoadError.
RankEvents read_rank_events(const std::filesystem::path& model, const std::filesystem::path& data,
                            const std::filesystem::path& evaluation,
                            const std::filesystem::path& prompt = {});

}  // namespace troupe::deploy
