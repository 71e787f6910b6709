// Plans a decoder's forward pass before any number is computed. Computed tokens become rows; rows
// that see the same keys become groups; cached pages and rows become the spans that groups attend
// to.
#include "kernels/decoder/decoder_batch.h"

#include <algorithm>
#include <numeric>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

std::uint32_t size32(const Tokens& tokens) { return static_cast<std::uint32_t>(tokens.size()); }

bool is_page(const std::byte* page) {
  return page != nullptr && reinterpret_cast<std::uintptr_t>(page) % 64 == 0;
}

}  // namespace

BatchPlanner::BatchPlanner(const DecoderConfig& config, const KvLayout& layout)
    : BatchPlanner(plan_limits(config), layout) {}

BatchPlanner::BatchPlanner(const PlanLimits& limits, const KvLayout& layout, std::uint32_t sees_ahead)
    : limits_(limits), layout_(layout), sees_ahead_(sees_ahead) {}

const DecoderBatch& BatchPlanner::plan(std::span<const Request> requests) {
  clear();
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    check(request);
    form_groups(request);
    place_rows(request);
    for (const OpenGroup& group : open_) add_spans(request, group);
    add_readouts(request, i);
    if (!request.plan->repair.reused_spans.empty()) add_repair(request, i);
  }
  number_read_rows();
  return batch_;
}

const DecoderBatch& BatchPlanner::plan_beams(std::span<const BeamRows> levels) {
  clear();
  for (const BeamRows& level : levels) add_beams(level);
  batch_.read.rows.resize(batch_.rows());
  std::iota(batch_.read.rows.begin(), batch_.read.rows.end(), 0);
  assign_groups(batch_, batch_.read);
  return batch_;
}

void BatchPlanner::add_beams(const BeamRows& level) {
  const Plan& plan = *level.request->plan;
  const std::uint32_t segment = plan.search.segment;
  planned_.assign(plan.segments.size(), PlannedSegment());
  note_altered(plan);
  VisibleSegments sees = plan.segments[segment].sees;
  sees.add(segment);
  const OpenGroup group{.context = sees.ranges(),
                        .index = static_cast<std::uint32_t>(batch_.groups.size()),
                        .cut = segment,
                        .cut_tokens = level.seen};
  const std::uint32_t begin = batch_.rows(), end = begin + static_cast<std::uint32_t>(level.tokens.size());
  batch_.groups.push_back({.row_begin = begin, .row_end = end});
  batch_.tokens.insert(batch_.tokens.end(), level.tokens.begin(), level.tokens.end());
  batch_.positions.resize(end, level.position);
  batch_.visible_begin.resize(end);
  batch_.visible_end.resize(end);
  for (std::uint32_t row = begin; row < end; ++row) {
    batch_.visible_begin[row] = level.tree > 0 ? 0 : (row - begin) * level.path;
    batch_.visible_end[row] = level.tree > 0 ? level.tree : (row - begin + 1) * level.path;
  }
  add_spans(*level.request, group);
}

void BatchPlanner::clear() {
  batch_.tokens.clear();
  batch_.positions.clear();
  batch_.features.clear();
  batch_.visible_begin.clear();
  batch_.visible_end.clear();
  batch_.groups.clear();
  batch_.spans.clear();
  batch_.rotation_distances.clear();
  batch_.kept.clear();
  batch_.read.rows.clear();
  batch_.readouts.clear();
  batch_.repairs.clear();
  batch_.reused_spans.clear();
}

void BatchPlanner::check(const Request& request) const {
  TROUPE_CHECK(request.plan != nullptr, "batch: a request must have a plan");
  const std::string fault = validate(*request.plan, limits_);
  TROUPE_CHECK(fault.empty(), fault);
  const auto& segments = request.plan->segments;
  TROUPE_CHECK(request.kv.size() == segments.size(), "batch: a request must have a source for every segment");
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const SegmentKv& kv = request.kv[s];
    const bool full = kv.pages.size() == layout_.pages_for(segments[s].tokens.size());
    TROUPE_CHECK(full || (kv.pages.empty() && kv.source == Source::compute),
                 "batch: pages must hold the whole segment");
    TROUPE_CHECK(std::all_of(kv.pages.begin(), kv.pages.end(), is_page),
                 "batch: pages must be aligned to 64 bytes");
  }
  for (const Readout& readout : request.plan->readouts) {
    TROUPE_CHECK(request.kv[readout.segment].source == Source::compute,
                 "batch: a cached segment must not have a readout");
  }
  check_repair(request);
}

// Checks that reused spans and the segments that see them are computed and not kept: they are
// approximate, and right for this request only.
void BatchPlanner::check_repair(const Request& request) const {
  const auto& segments = request.plan->segments;
  for (const Repair::ReusedSpan& reused : request.plan->repair.reused_spans) {
    const SegmentKv& kv = request.kv[reused.segment];
    TROUPE_CHECK(kv.source == Source::compute && kv.pages.empty(),
                 "batch: a reused span must be computed and not kept");
    for (std::uint32_t s = reused.segment + 1; s < segments.size(); ++s)
      TROUPE_CHECK(request.kv[s].source == Source::compute || !segments[s].sees.contains(reused.segment),
                   "batch: a segment that sees a reused span must be computed");
  }
}

void BatchPlanner::note_altered(const Plan& plan) {
  omitted_.clear();
  for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
    const Segment& segment = plan.segments[s];
    if (segment.shift != 0) {
      planned_[s].rotation = rotation_of(segment.shift);
      planned_[s].altered = true;
    }
    if (segment.replaces.segment == ReplacedTokens::none) continue;
    omitted_.push_back({segment.replaces.segment, segment.replaces.offset, size32(segment.tokens), s});
    planned_[s].altered = planned_[segment.replaces.segment].altered = true;
  }
  std::sort(omitted_.begin(), omitted_.end());
}

std::uint32_t BatchPlanner::rotation_of(std::int32_t shift) {
  const auto at = std::find(batch_.rotation_distances.begin(), batch_.rotation_distances.end(), shift);
  const auto rotation = static_cast<std::uint32_t>(at - batch_.rotation_distances.begin()) + 1;
  if (at == batch_.rotation_distances.end()) batch_.rotation_distances.push_back(shift);
  return rotation;
}

namespace {

// Returns true if both segments are computed and see the same.
bool are_siblings(const Request& request, std::uint32_t a, std::uint32_t b) {
  const auto& segments = request.plan->segments;
  return request.kv[a].source != Source::cached && request.kv[b].source != Source::cached &&
         segments[a].sees == segments[b].sees;
}

}  // namespace

void BatchPlanner::form_groups(const Request& request) {
  const Plan& plan = *request.plan;
  planned_.assign(plan.segments.size(), PlannedSegment());
  open_.clear();
  note_altered(plan);
  for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
    if (request.kv[s].source == Source::cached) continue;
    // Several segments that see the same stay together: only one of them could continue the group before
    // them.
    const bool has_sibling = (s > 0 && are_siblings(request, s - 1, s)) ||
                             (s + 1 < plan.segments.size() && are_siblings(request, s, s + 1));
    std::uint32_t g = 0;
    while (g < open_.size() && (!join(plan, s, g) || (has_sibling && planned_[s].first_seen != s))) ++g;
    if (g == open_.size()) {
      open_.push_back({.context = plan.segments[s].sees.ranges(), .first = s, .last = none});
      planned_[s].first_seen = s;
    }
    OpenGroup& group = open_[g];
    planned_[s].group = g;
    planned_[s].previous = group.last;
    planned_[s].run = group.last != none && group.last + 1 == s ? planned_[group.last].run : s;
    group.last = s;
    group.rows += size32(plan.segments[s].tokens);
  }
}

// Returns true if `segment` sees the group's context and, beyond that, exactly the last few (or
// none) of its members. Segments before the first member can only be context, since that member
// sees exactly the context. A range takes one step, however many members it has.
bool BatchPlanner::join(const Plan& plan, std::uint32_t segment, std::uint32_t group) {
  const OpenGroup& open = open_[group];
  const std::span<const VisibleSegments::Range> sees = plan.segments[segment].sees.ranges();
  if (sees.size() < open.context.size()) return false;
  std::size_t members = 0;  // the first range with any
  for (; members < open.context.size(); ++members) {
    const VisibleSegments::Range seen = sees[members], context = open.context[members];
    if (seen.begin != context.begin || std::min(seen.end, open.first) != context.end) return false;
  }
  if (members < sees.size() && sees[members].begin < open.first) return false;
  if (members > 0 && sees[members - 1].end > open.first) --members;

  std::uint32_t member = open.last, first_seen = segment;
  for (std::size_t i = sees.size(); i-- > members;) {
    const std::uint32_t begin = std::max(sees[i].begin, open.first);
    if (member == none || sees[i].end != member + 1 || begin < planned_[member].run) return false;
    first_seen = begin;
    member = begin > planned_[member].run ? begin - 1 : planned_[begin].previous;
  }
  if (sees_altered(group, first_seen)) return false;
  planned_[segment].first_seen = first_seen;
  return true;
}

bool BatchPlanner::sees_altered(std::uint32_t group, std::uint32_t first_seen) const {
  for (std::uint32_t m = open_[group].last; m != none && m >= first_seen; m = planned_[m].previous)
    if (planned_[m].altered) return true;
  return false;
}

// Assigns rows to every computed segment: group after group, segments in plan order.
void BatchPlanner::place_rows(const Request& request) {
  const Plan& plan = *request.plan;
  std::uint32_t row = batch_.rows();
  for (OpenGroup& group : open_) {
    group.index = static_cast<std::uint32_t>(batch_.groups.size());
    batch_.groups.push_back({.row_begin = row, .row_end = row + group.rows});
    group.next_row = row;
    row += group.rows;
  }
  batch_.tokens.resize(row);
  batch_.positions.resize(row);
  batch_.features.resize(std::size_t{row} * limits_.features);
  batch_.visible_begin.resize(row);
  batch_.visible_end.resize(row);
  for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
    if (request.kv[s].source == Source::cached) continue;
    const std::uint32_t tokens = size32(plan.segments[s].tokens);
    PlannedSegment& planned = planned_[s];
    planned.row = open_[planned.group].next_row;
    open_[planned.group].next_row += tokens;
    fill_rows(plan.segments[s], planned);
    if (!request.kv[s].pages.empty()) batch_.kept.push_back({planned.row, tokens, request.kv[s].pages});
  }
}

void BatchPlanner::fill_rows(const Segment& segment, const PlannedSegment& planned) {
  const OpenGroup& group = open_[planned.group];
  const std::uint32_t end = group.next_row, tail = batch_.groups[group.index].row_begin;
  const std::uint32_t seen_from = planned_[planned.first_seen].row - tail;
  for (std::uint32_t row = planned.row, i = 0; row < end; ++row, ++i) {
    batch_.tokens[row] = segment.tokens[i];
    batch_.positions[row] = static_cast<std::uint32_t>(segment.start) + i;
    batch_.visible_begin[row] = seen_from;
    batch_.visible_end[row] = (batch_.positions[row] < sees_ahead_ ? end : row + 1) - tail;
  }
  std::copy(
      segment.features.begin(), segment.features.end(),
      batch_.features.begin() + static_cast<std::ptrdiff_t>(planned.row * std::size_t{limits_.features}));
}

void BatchPlanner::add_spans(const Request& request, const OpenGroup& group) {
  RowGroup& out = batch_.groups[group.index];
  out.span_begin = static_cast<std::uint32_t>(batch_.spans.size());
  for (const VisibleSegments::Range range : group.context)
    for (std::uint32_t seen = range.begin; seen < range.end; ++seen) add_segment(request, seen, group);
  out.span_end = static_cast<std::uint32_t>(batch_.spans.size());
}

// Adds all tokens of a segment, except those whose replacements the group sees.
void BatchPlanner::add_segment(const Request& request, std::uint32_t segment, const OpenGroup& group) {
  const auto seen = [&](std::uint32_t other) {
    return std::any_of(group.context.begin(), group.context.end(), [&](VisibleSegments::Range range) {
      return range.begin <= other && other < range.end;
    });
  };
  const std::size_t first_span = batch_.groups[group.index].span_begin;
  const std::uint32_t end =
      segment == group.cut ? group.cut_tokens : size32(request.plan->segments[segment].tokens);
  std::uint32_t begin = 0;
  for (auto out = std::lower_bound(omitted_.begin(), omitted_.end(), OmittedTokens{segment});
       out != omitted_.end() && out->segment == segment; ++out) {
    if (!seen(out->by)) continue;
    add_tokens(request, segment, begin, std::min(out->offset, end), first_span, planned_[segment].rotation);
    begin = out->offset + out->tokens;
  }
  add_tokens(request, segment, begin, end, first_span, planned_[segment].rotation);
}

void BatchPlanner::add_tokens(const Request& request, std::uint32_t segment, std::uint32_t begin,
                              std::uint32_t end, std::size_t first_span, std::uint32_t rotation) {
  const SegmentKv& kv = request.kv[segment];
  if (kv.source == Source::compute) {
    if (begin < end)
      add_own_rows({.row = planned_[segment].row + begin, .tokens = end - begin, .rotation = rotation},
                   first_span);
    return;
  }
  while (begin < end) {
    const std::uint32_t slot = begin % layout_.page_tokens;
    const std::uint32_t tokens = std::min(end - begin, layout_.page_tokens - slot);
    const Segment& from = request.plan->segments[segment];
    batch_.spans.push_back({kv.pages[begin / layout_.page_tokens], 0, tokens, slot, rotation,
                            static_cast<std::uint32_t>(from.start) + begin,
                            from.features.data() + std::size_t{begin} * limits_.features});
    begin += tokens;
  }
}

// Merges neighbouring rows into one span: attention is fast on long runs.
void BatchPlanner::add_own_rows(const ContextSpan& rows, std::size_t first_span) {
  if (batch_.spans.size() > first_span) {
    ContextSpan& last = batch_.spans.back();
    if (last.page == nullptr && last.rotation == rows.rotation && last.row + last.tokens == rows.row) {
      last.tokens += rows.tokens;
      return;
    }
  }
  batch_.spans.push_back(rows);
}

void BatchPlanner::add_repair(const Request& request, std::uint32_t index) {
  const Plan& plan = *request.plan;
  const auto first = static_cast<std::uint32_t>(batch_.reused_spans.size());
  for (const Repair::ReusedSpan& reused : plan.repair.reused_spans) {
    const Segment &segment = plan.segments[reused.segment], &block = plan.segments[reused.block];
    const std::int32_t shift = segment.start - block.start;
    const std::size_t begin = batch_.spans.size();
    add_tokens(request, reused.block, 0, size32(block.tokens), begin, shift == 0 ? 0 : rotation_of(shift));
    batch_.reused_spans.push_back({planned_[reused.segment].row, size32(segment.tokens),
                                   static_cast<std::uint32_t>(begin),
                                   static_cast<std::uint32_t>(batch_.spans.size()), reused.budget});
  }
  batch_.repairs.push_back(
      {&plan.repair, index, first, static_cast<std::uint32_t>(batch_.reused_spans.size())});
  if (plan.repair.attention == 0) return;
  for (std::uint32_t s = plan.repair.attending; s < plan.segments.size(); ++s) {
    if (request.kv[s].source == Source::cached) continue;
    std::uint32_t& measured_from = batch_.groups[open_[planned_[s].group].index].measured_from;
    measured_from = std::min(measured_from, planned_[s].row);
  }
}

// Stores the row of the pass in `read_row`; number_read_rows turns it into an index.
void BatchPlanner::add_readouts(const Request& request, std::uint32_t index) {
  const auto& readouts = request.plan->readouts;
  for (std::uint32_t i = 0; i < readouts.size(); ++i) {
    const std::uint32_t row = planned_[readouts[i].segment].row + readouts[i].offset;
    batch_.read.rows.push_back(row);
    const bool all = readouts[i].what == Readout::What::all_rows;
    if (all && all_rows_.empty()) {
      all_rows_.resize(static_cast<std::size_t>(limits_.vocabulary));
      std::iota(all_rows_.begin(), all_rows_.end(), 0);
    }
    batch_.readouts.push_back(
        {index, i, row, all ? all_rows_ : readouts[i].rows, readouts[i].what, readouts[i].head});
  }
}

void BatchPlanner::number_read_rows() {
  std::vector<std::uint32_t>& rows = batch_.read.rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  assign_groups(batch_, batch_.read);
  for (BatchReadout& readout : batch_.readouts) readout.read_row = batch_.read.index_of(readout.read_row);
}

std::uint32_t RowSet::index_of(std::uint32_t row) const {
  return static_cast<std::uint32_t>(std::lower_bound(rows.begin(), rows.end(), row) - rows.begin());
}

void assign_groups(const DecoderBatch& batch, RowSet& set) {
  set.groups.clear();
  set.begin.clear();
  set.end.clear();
  for (const RowGroup& group : batch.groups)
    set.groups.push_back({set.index_of(group.row_begin), set.index_of(group.row_end)});
  for (const std::uint32_t row : set.rows) {
    set.begin.push_back(batch.visible_begin[row]);
    set.end.push_back(batch.visible_end[row]);
  }
}

std::size_t end_of_alike(std::span<const BatchReadout> readouts, std::size_t first) {
  const auto reads_rows = [](const BatchReadout& readout) {
    return readout.what != Readout::What::state && readout.what != Readout::What::head;
  };
  std::size_t end = first + 1;
  if (!reads_rows(readouts[first])) return end;
  while (end < readouts.size() && reads_rows(readouts[end]) &&
         std::ranges::equal(readouts[end].vocabulary_rows, readouts[first].vocabulary_rows))
    ++end;
  return end;
}

}  // namespace troupe::kernels
