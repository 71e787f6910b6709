// Explains a ranking from the plan that was sent and from what the worker reused of it.
#include "router/request/explanation.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/block_name.h"

namespace troupe::router {
namespace {

constexpr std::size_t no_candidate = SIZE_MAX;

// Returns the span that each block of the repair fills, by segment; null = the segment is no such block.
std::vector<const kernels::Repair::ReusedSpan*> spans_of_blocks(const Plan& plan) {
  std::vector<const kernels::Repair::ReusedSpan*> spans(plan.segments.size());
  for (const auto& span : plan.repair.reused_spans) spans.at(span.block) = &span;
  return spans;
}

bool has_tokens_of(const Segment& segment, const ItemView& item) {
  return !item.tokens.empty() && !std::ranges::search(segment.tokens, item.tokens).empty();
}

// Returns the index of each segment's candidate. Every plan has its candidates in the request's order,
// so candidates with equal tokens are told apart although their blocks have one name.
std::vector<std::size_t> candidates_of(const ExplainedRun& run) {
  const std::vector<Segment>& segments = run.sent.plan.segments;
  const auto spans = spans_of_blocks(run.sent.plan);
  std::vector<std::size_t> of(segments.size(), no_candidate);
  std::size_t next = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].kind != SegmentKind::item || spans[i]) continue;
    if (const std::uint32_t replaced = segments[i].replaces.segment; replaced < i) {
      of[i] = of[replaced];
      continue;
    }
    while (next < run.items.size() && !has_tokens_of(segments[i], run.items[next])) ++next;
    if (next < run.items.size()) of[i] = next++;
  }
  for (std::size_t i = 0; i < segments.size(); ++i)
    if (spans[i]) of[i] = of.at(spans[i]->segment);
  return of;
}

ExplainedSegment explained(const Segment& segment) {
  ExplainedSegment made{.kind = segment.kind, .tokens = segment.tokens.copy()};
  made.features = segment.features;
  made.start = segment.start + segment.shift;
  made.computed_at = segment.start;
  const auto sees = segment.sees.ranges();
  made.sees.assign(sees.begin(), sees.end());
  if (segment.replaces.segment != kernels::ReplacedTokens::none) {
    const auto tokens = static_cast<std::uint32_t>(segment.tokens.size());
    made.replaces = {{segment.replaces.segment, segment.replaces.offset, segment.replaces.offset + tokens}};
  }
  return made;
}

// A block that was reused is taken for pulled if the index named another node for it, since the router
// asks for a pull only where the worker lacks the block.
void set_source(const SegmentBlock& block, bool reused, ExplainedSegment& segment) {
  segment.source = !reused ? "computed" : block.at != 0 ? "pulled" : "cached";
  if (reused) segment.node = block.at;
  if (block.name) segment.block = to_hex(*block.name);
}

std::vector<ExplainedSegment> segments_of(const ExplainedRun& run) {
  const Plan& plan = run.sent.plan;
  const std::vector<std::size_t> candidates = candidates_of(run);
  std::vector<ExplainedSegment> segments;
  segments.reserve(plan.segments.size());
  for (std::size_t i = 0; i < plan.segments.size(); ++i) {
    segments.push_back(explained(plan.segments[i]));
    set_source(run.sent.blocks.at(i), i < run.reused.size() && run.reused[i] != 0, segments.back());
    if (candidates[i] != no_candidate) segments.back().item = run.items[candidates[i]].id;
  }
  for (const auto& span : plan.repair.reused_spans) {
    segments.at(span.segment).source = "filled";
    segments.at(span.segment).filled_by = {span.block};
    if (span.of_prototypes) segments.at(span.block).source = "prototypes";
  }
  return segments;
}

// Adds where the values of one readout belong. Readouts are in the order of the candidates, and each
// candidate has its tasks one after the other.
void add_scores(const ExplainedRun& run, const Readout& readout, std::vector<ExplainedScore>& scores) {
  const std::size_t tasks = run.form.tasks_read();
  const auto add = [&](std::vector<Token> rows) {
    const std::size_t value = scores.size();
    if (value / tasks >= run.items.size()) return;
    ExplainedScore score{.item = std::string(run.items[value / tasks].id)};
    if (!run.form.tasks.empty()) score.task = run.form.tasks[value % tasks];
    score.segment = readout.segment;
    score.offset = readout.offset;
    score.rows = std::move(rows);
    score.head = readout.head;
    scores.push_back(std::move(score));
  };
  if (readout.what == Readout::What::head) return add({});
  if (run.form.scores_each()) return add(readout.rows);
  for (const Token row : readout.rows) add({row});
}

// Counts the kept events that no tower reads.
std::size_t unread_by_towers(const PromptForm& form, const FittedHistory& history) {
  const auto actions = std::ranges::find(history.features, "actions", &Feature::name);
  if (actions == history.features.end()) return history.events.size();
  std::vector<bool> read(history.events.size());
  for (const Tower& tower : form.towers)
    for (const std::uint32_t event : tower_events(tower, actions->values)) read.at(event) = true;
  return static_cast<std::size_t>(std::ranges::count(read, false));
}

std::string cut_of(const ExplainedRun& run) {
  const std::size_t kept = run.history.events.size(), all = kept + run.history.cut;
  const std::string of_all = " of the " + std::to_string(all) + " events of the history";
  if (!run.form.towers.empty()) {
    const std::size_t unread = run.history.cut + unread_by_towers(run.form, run.history);
    return unread == 0 ? "" : std::to_string(unread) + of_all + ", which no tower reads";
  }
  if (run.history.cut == 0) return "";
  const std::string oldest = "the oldest " + std::to_string(run.history.cut) + of_all;
  if (run.form.events_max > 0 && kept >= run.form.events_max)
    return oldest + ": the form reads the newest " + std::to_string(run.form.events_max);
  return oldest + ": the model has " + std::to_string(run.form.positions_max) + " positions";
}

}  // namespace

Explanation explain(const ExplainedRun& run) {
  Explanation explanation{.segments = segments_of(run)};
  for (const Readout& readout : run.sent.plan.readouts) add_scores(run, readout, explanation.scores);
  explanation.positions_max = run.form.positions_max;
  explanation.cut = cut_of(run);
  return explanation;
}

}  // namespace troupe::router
