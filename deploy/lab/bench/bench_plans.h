#pragma once
// `troupe bench plans`: how well a ranker ranks under each plan of the same prompt (BAT §6.3, Table 3), of
// all that the router's table of plans has.
//
// Items that are computed alone miss what the plain prompt shows them: the items before them. A repair
// recomputes a share of their tokens with all that comes before them in sight: in plans of a prefix the first
// of each item's, in those of the plain prompt whichever the selection says (router/request/plans.h), and the
// others may be corrected. The bases are the plans that keep every block as it is, and the plain prompt,
// which reuses nothing.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "deploy/data/dataset.h"
#include "deploy/lab/bench/bench_accuracy.h"
#include "kernels/decoder/decoder.h"
#include "router/request/plans.h"

namespace troupe::deploy {

struct PlanVariant {
  const router::PlanKind* plan = nullptr;
  router::RepairChoice repair;  // a share above 0 only where the plan can be repaired
  bool oracle = false;  // not its selection: tokens that are truly furthest from their blocks, in all layers

  std::string name() const;       // "item", "blocks +25 %"
  std::string selection() const;  // "none" without a repair
  std::string correction() const;
};
const router::PlanKind& parse_plan(const std::string& name);  // throws std::invalid_argument

// Requests as tokens.
struct RankEvent {
  Tokens history;                     // all of it, behind the form's tokens
  std::vector<std::uint32_t> events;  // tokens of each of its events
  std::vector<Item> items;
  std::size_t truth = 0;  // the item that was taken
};
struct RankEvents {
  PromptForm form;
  std::vector<RankEvent> list;
};
// Plans that a form has room for: those of a prefix read no score behind each candidate.
std::vector<std::string> plans_of(const PromptForm& form);
Plan plan_of(const PromptForm& form, const RankEvent& event, const PlanVariant& variant);

// Scores of the items, in their order.
std::vector<float> scores_of(const kernels::Reply& reply);
// All is computed in one pass.
std::vector<float> run_plan(kernels::Executor& decoder, const Plan& plan);

// Runs plans whose blocks are cached, as a cluster that has seen each item before does: a block is computed
// when it is first asked for, and nothing is timed then.
class BlockBench {
 public:
  // keeps_prefix: the system prompt is cached like a block, for every plan, as a prefix cache has it.
  BlockBench(kernels::Executor& decoder, const kernels::DecoderConfig& config, bool keeps_prefix = false);
  ~BlockBench();

  struct Run {
    std::vector<float> scores;
    double seconds = 0;     // of a CPU
    double operations = 0;  // two per multiply-add, of what the CPU engine computes of the layers
  };
  Run run(const Plan& plan);
  // The repair's tokens by the truth: those furthest from their blocks in all layers behind the first, out of
  // a run of the plain prompt. As many as its budgets ask for.
  Plan with_oracle(const Plan& plan, const Plan& plain);

 private:
  struct Pages;
  void fill(const Plan& plan, std::vector<kernels::SegmentKv>& kv);
  void fill_prefix(const Plan& plan, std::vector<kernels::SegmentKv>& kv);

  kernels::Executor& decoder_;
  const kernels::DecoderConfig config_;
  const bool keeps_prefix_;
  std::map<std::vector<Token>, Pages> blocks_;  // by what they see, and their tokens
};

// The true item's place among the candidates (ties count against it), and how probable it is among them.
EventScore judge_ranking(const std::vector<float>& logits, std::size_t truth);

// Of the ten best items of one, how many are among those of the other; of fewer items, the half of them.
double overlap_at_10(const std::vector<float>& one, const std::vector<float>& other);

// The requests of the evaluation file beside the model, or of `evaluation`. Throws ImportError, LoadError.
RankEvents read_rank_events(const std::filesystem::path& model, const std::filesystem::path& data,
                            const std::filesystem::path& evaluation);

}  // namespace troupe::deploy
