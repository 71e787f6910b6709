// Tracks a beam search across a decoder's passes: what is computed before it, its next rows, and
// where its paths' tokens were computed.
#include "kernels/decoder/search_progress.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

VisibleSegments seen_by_paths(const Plan& plan) {
  VisibleSegments seen = plan.segments[plan.search.segment].sees;
  seen.add(plan.search.segment);
  return seen;
}

}  // namespace

void PathRows::begin(std::uint32_t width, std::uint32_t steps) {
  width_ = width;
  levels_ = levels(steps);
  level_ = 0;
  rows_.resize(std::size_t{levels_} * width);
  before_.resize(rows_.size());
}

void PathRows::follow(std::span<const std::uint32_t> parents) {
  TROUPE_CHECK(keeps() && parents.size() <= width_,
               "path rows: expected a level that the search keeps, and at most `width` parents");
  std::swap(rows_, before_);
  for (std::uint32_t level = 0; level < level_; ++level)
    for (std::size_t r = 0; r < parents.size(); ++r)
      rows_[level * width_ + r] = before_[level * width_ + parents[r]];
  std::ranges::copy(parents, rows_.begin() + static_cast<std::ptrdiff_t>(level_ * width_));
  ++level_;
}

std::size_t missing_pages(const Request& request, const PageLayout& layout) {
  std::size_t pages = 0;
  for (const std::uint32_t s : seen_by_paths(*request.plan))
    if (request.kv[s].pages.empty()) pages += layout.pages_for(request.plan->segments[s].tokens.size());
  return pages;
}

std::uint32_t steps_of(const Request& request) {
  const Search& search = request.plan->search;
  if (const auto paths = request.paths()) return paths->depth();
  if (search.allowed.empty()) return search.steps;
  return static_cast<std::uint32_t>(std::ranges::max(search.allowed, {}, &Tokens::size).size());
}

void SearchProgress::begin(std::size_t number, const Request& asked, const PlanLimits& limits,
                           const PageLayout& layout, PageRun pages, SelectBest* select, Request& begun) {
  const Plan& plan = *asked.plan;
  const std::string fault = validate(plan, limits);
  TROUPE_CHECK(fault.empty(), fault);
  request = number;
  for (const std::uint32_t s : seen_by_paths(plan)) {
    if (!begun.kv[s].pages.empty()) continue;
    begun.kv[s].pages.resize(layout.pages_for(plan.segments[s].tokens.size()));
    for (std::byte*& at : begun.kv[s].pages) at = std::exchange(pages.first, pages.first + pages.stride);
  }

  const std::uint32_t segment = plan.search.segment;
  const Segment& last = plan.segments[segment];
  const auto tokens = static_cast<std::uint32_t>(last.tokens.size());
  before = plan;
  before.search = {};
  state.clear();
  if (begun.kv[segment].source == Source::compute)
    before.readouts.push_back({segment, tokens - 1, {}, Readout::What::state});
  begun.plan = &before;
  prompt = begun;
  prompt.plan = &plan;
  for (SegmentKv& kv : prompt.kv) kv.source = Source::cached;
  end = static_cast<std::uint32_t>(last.start + last.shift) + tokens;
  failed = false;
  search.begin(plan.search, asked.paths(), static_cast<std::uint32_t>(limits.vocabulary), select);
  TROUPE_CHECK(end + search.steps() <= static_cast<std::uint32_t>(limits.positions_max) + 1,
               "search: expected paths that end inside the model's positions");
}

void SearchProgress::take_state(Reply& answer) {
  if (before.readouts.size() == prompt.plan->readouts.size()) return;
  state = std::move(answer.readouts.back());
  answer.readouts.pop_back();
}

void SearchProgress::finish(std::vector<Beam>& beams) const {
  if (failed)
    beams.assign(1, {{}, std::numeric_limits<double>::quiet_NaN()});
  else
    search.finish(beams);
}

BeamRows SearchProgress::last_token() const {
  const auto before_it = static_cast<std::uint32_t>(segment_tokens().size()) - 1;
  return {&prompt, {segment_tokens().data() + before_it, 1}, end - 1, before_it, 1};
}

BeamRows SearchProgress::level_rows(std::uint32_t path, std::uint32_t first, std::uint32_t rows) const {
  const auto seen = static_cast<std::uint32_t>(segment_tokens().size());
  return {&prompt, search.tokens().subspan(first, rows), end + path - 1, seen, path};
}

}  // namespace troupe::kernels
