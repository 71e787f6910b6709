// Computes scores of a request with and without blocks of earlier computations.
#include "deploy/verify/arrangement_scores.h"

#include <algorithm>
#include <new>
#include <utility>

#include "deploy/data/text_file.h"
#include "kernels/base/check.h"
#include "router/request/plans.h"
#include "router/request/prompt.h"

namespace troupe::deploy {
namespace {

using kernels::SegmentKv;
using kernels::Source;

constexpr std::size_t kept_bytes_max = std::size_t{1} << 30;
constexpr std::size_t page_alignment = 64;

// Returns the segments of a candidate that are blocks, ascending. A segment whose token is read must be
// computed.
std::vector<std::uint32_t> blocks_of(const router::Candidate& candidate) {
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t s = 0; s < candidate.plan.segments.size(); ++s)
    if (candidate.blocks[s].name &&
        std::ranges::find(candidate.plan.readouts, s, &Readout::segment) == candidate.plan.readouts.end())
      blocks.push_back(s);
  return blocks;
}

struct BlockChoice {
  const char* name;
  std::vector<std::uint32_t> segments;
};

// Returns the choices of blocks to reuse, without empty ones and repetitions.
std::vector<BlockChoice> choices_of(const Plan& plan, const std::vector<std::uint32_t>& blocks) {
  const auto of_kind = [&](SegmentKind kind) {
    std::vector<std::uint32_t> chosen;
    std::ranges::copy_if(blocks, std::back_inserter(chosen),
                         [&](std::uint32_t s) { return plan.segments[s].kind == kind; });
    return chosen;
  };
  std::vector<std::uint32_t> alternate;
  for (std::size_t i = 1; i < blocks.size(); i += 2) alternate.push_back(blocks[i]);
  std::vector<BlockChoice> choices;
  for (BlockChoice& choice : std::vector<BlockChoice>{{"system", of_kind(SegmentKind::system)},
                                                      {"user", of_kind(SegmentKind::user)},
                                                      {"items", of_kind(SegmentKind::item)},
                                                      {"every other block", alternate},
                                                      {"all blocks", blocks}})
    if (!choice.segments.empty() &&
        std::ranges::find(choices, choice.segments, &BlockChoice::segments) == choices.end())
      choices.push_back(std::move(choice));
  return choices;
}

}  // namespace

std::vector<std::byte*> KeptBlocks::find(const BlockName& name) const {
  const auto at = blocks_.find(name);
  return at == blocks_.end() ? std::vector<std::byte*>{} : at->second.pages;
}

std::vector<std::byte*> KeptBlocks::add(const BlockName& name, std::size_t tokens) {
  const std::size_t page = (layout_.page_bytes() + page_alignment - 1) / page_alignment * page_alignment;
  const std::size_t bytes = page * layout_.pages_for(tokens);
  Block block{{static_cast<std::byte*>(std::aligned_alloc(page_alignment, bytes)), &std::free}, {}};
  if (!block.bytes) throw std::bad_alloc();
  for (std::size_t at = 0; at < bytes; at += page) block.pages.push_back(block.bytes.get() + at);
  bytes_ += bytes;
  return blocks_.insert_or_assign(name, std::move(block)).first->second.pages;
}

ArrangementScores::ArrangementScores(kernels::Executor& executor, const PromptForm& form,
                                     const NameContext& names)
    : executor_(executor), form_(form), names_(form, names, false), kept_(executor.layout()) {}

std::size_t ArrangementScores::item_positions(const VerifiedRequest& request, Arrangement arrangement) const {
  if (form_.generates()) return 0;
  return router::item_positions(router::exact_plan(arrangement), form_, views(request.items));
}

std::size_t ArrangementScores::positions(const VerifiedRequest& request, Arrangement arrangement) const {
  return router::positions_without_history(form_, item_positions(request, arrangement));
}

std::optional<router::Candidate> ArrangementScores::plan(const VerifiedRequest& request,
                                                         Arrangement arrangement) const {
  if (positions(request, arrangement) > form_.positions_max) return std::nullopt;
  const std::vector<ItemView> items = views(request.items);
  const bool generates = form_.generates();
  const router::PlanKind& kind = router::exact_plan(arrangement);
  const router::FittedHistory history =
      router::fit_history(form_, request.profile, item_positions(request, arrangement));
  if (form_.next_items && history.events.empty()) return std::nullopt;  // no state to score items by
  const router::RankPrompt prompt{.form = form_,
                                  .names = &names_,
                                  .history = history.tokens,
                                  .events = history.events,
                                  .items = items,
                                  .features = history.features,
                                  .now = request.now,
                                  .scenario = request.scenario};
  router::Candidate made = generates ? router::search_plan(prompt, Search{}) : kind.build(prompt);
  if (generates) {
    made.plan.search = {};
    Readout next;
    next.segment = static_cast<std::uint32_t>(made.plan.segments.size() - 1);
    next.offset = static_cast<std::uint32_t>(made.plan.segments.back().tokens.size() - 1);
    next.what = Readout::What::all_rows;
    made.plan.readouts.push_back(std::move(next));
  }
  std::string fault = validate(made.plan, executor_.limits());
  if (fault.empty()) fault = executor_.fault(made.plan);
  if (!fault.empty()) throw ImportError(request.name + ": " + fault);
  return made;
}

std::vector<float> ArrangementScores::run(const Plan& plan, std::vector<SegmentKv> kv,
                                          const std::string& who) {
  const kernels::Request request{&plan, std::move(kv)};
  executor_.run({&request, 1}, replies_);
  const kernels::Reply& reply = replies_.at(0);
  if (!reply.too_large.empty()) throw ImportError(who + ": " + reply.too_large);
  std::vector<float> scores;
  for (const std::vector<float>& rows : reply.readouts) {
    if (form_.scores_each() && rows.size() == 2)
      scores.push_back(rows[0] - rows[1]);
    else
      scores.insert(scores.end(), rows.begin(), rows.end());
  }
  for (float& score : scores) score = static_cast<float>(score * form_.temperature);
  return scores;
}

std::optional<std::vector<float>> ArrangementScores::plain(const VerifiedRequest& request,
                                                           Arrangement arrangement) {
  const std::optional<router::Candidate> made = plan(request, arrangement);
  if (!made) return std::nullopt;
  return run(made->plan, std::vector<SegmentKv>(made->plan.segments.size()), request.name);
}

// Computes the blocks that are not kept, in a pass of their own without anything behind them.
void ArrangementScores::fill(const router::Candidate& candidate, const std::vector<std::uint32_t>& blocks,
                             const std::string& who) {
  std::vector<std::uint32_t> missing;
  for (const std::uint32_t s : blocks)
    if (kept_.find(*candidate.blocks[s].name).empty()) missing.push_back(s);
  if (missing.empty()) return;
  Plan made;
  made.segments.assign(candidate.plan.segments.begin(), candidate.plan.segments.begin() + missing.back() + 1);
  std::vector<SegmentKv> kv(made.segments.size());
  for (const std::uint32_t s : blocks)
    if (s < kv.size())
      if (std::vector<std::byte*> pages = kept_.find(*candidate.blocks[s].name); !pages.empty())
        kv[s] = {Source::cached, std::move(pages)};
  for (const std::uint32_t s : missing) {
    const BlockName& name = *candidate.blocks[s].name;
    // A candidate that is there twice has one block.
    if (kept_.find(name).empty()) kv[s] = {Source::compute, kept_.add(name, made.segments[s].tokens.size())};
  }
  run(made, std::move(kv), who);
}

std::vector<ReusedScores> ArrangementScores::reused(const VerifiedRequest& request, Arrangement arrangement) {
  const std::optional<router::Candidate> made = plan(request, arrangement);
  TROUPE_CHECK(made.has_value(), "the request fits");
  if (kept_.bytes() > kept_bytes_max) kept_.clear();
  const std::vector<std::uint32_t> blocks = blocks_of(*made);
  fill(*made, blocks, request.name);
  std::vector<ReusedScores> all;
  for (const BlockChoice& choice : choices_of(made->plan, blocks)) {
    std::vector<SegmentKv> kv(made->plan.segments.size());
    for (const std::uint32_t s : choice.segments) kv[s] = {Source::cached, kept_.find(*made->blocks[s].name)};
    all.push_back({choice.name, run(made->plan, std::move(kv), request.name)});
  }
  return all;
}

std::vector<float> ArrangementScores::plain_logits(const std::vector<Token>& tokens, std::size_t read_at,
                                                   const std::vector<Token>& rows, const std::string& who) {
  const auto positions_max = static_cast<std::size_t>(executor_.limits().positions_max);
  if (tokens.size() > positions_max)
    throw ImportError(who + ": tokens has " + std::to_string(tokens.size()) + " numbers; expected at most " +
                      std::to_string(positions_max) + ", because the model has as many positions");
  Plan plan;
  plan.segments.push_back({SegmentKind::user, tokens, 0, {}});
  Readout readout;
  readout.offset = static_cast<std::uint32_t>(read_at);
  readout.rows = rows;
  readout.what = rows.empty() ? Readout::What::all_rows : Readout::What::rows;
  plan.readouts.push_back(std::move(readout));
  std::string fault = validate(plan, executor_.limits());
  if (fault.empty()) fault = executor_.fault(plan);
  if (!fault.empty()) throw ImportError(who + ": " + fault);
  const kernels::Request request{&plan, {{}}};
  executor_.run({&request, 1}, replies_);
  if (!replies_.at(0).too_large.empty()) throw ImportError(who + ": " + replies_[0].too_large);
  return replies_[0].readouts.at(0);
}

}  // namespace troupe::deploy
