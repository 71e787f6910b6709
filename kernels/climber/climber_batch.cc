// Validates and lays out passes of Climber, before any number is computed. Each tower (a sub-model
// that reads a part of the history) gets rows, groups of rows and the keys that they see. Also
// turns a Climber request into a plan.
#include "kernels/climber/climber_batch.h"

#include <algorithm>
#include <string>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

std::int64_t feature(const Segment& segment, std::size_t token, ClimberFeature which) {
  return segment.features[token * climber_features + static_cast<std::size_t>(which)];
}
std::int64_t tower_of(const Segment& segment) { return feature(segment, 0, ClimberFeature::tower); }
std::int64_t scenario_of(const Segment& segment) { return feature(segment, 0, ClimberFeature::scenario); }
bool is_candidate(const Segment& segment) { return tower_of(segment) == climber_candidate; }

std::string at(std::size_t index, const std::string& member) {
  return "segments[" + std::to_string(index) + "]" + member;
}
std::string outside(const std::string& where, std::int64_t found, std::int64_t least, std::int64_t end) {
  return where + " is " + std::to_string(found) + "; expected from " + std::to_string(least) + " to below " +
         std::to_string(end);
}

std::string features_fault(const Segment& segment, std::size_t index, const ClimberConfig& config) {
  const auto towers = static_cast<std::int64_t>(config.towers.size());
  for (std::size_t t = 0; t < segment.tokens.size(); ++t) {
    const std::string token = at(index, ".features of token ") + std::to_string(t);
    const std::int64_t action = feature(segment, t, ClimberFeature::action);
    const std::int64_t tower = feature(segment, t, ClimberFeature::tower);
    const std::int64_t scenario = feature(segment, t, ClimberFeature::scenario);
    if (action < 0 || action >= config.actions) return outside(token + ": action", action, 0, config.actions);
    if (tower < climber_candidate || tower >= towers)
      return outside(token + ": tower", tower, climber_candidate, towers);
    if (scenario < 0 || scenario >= config.scenarios)
      return outside(token + ": scenario", scenario, 0, config.scenarios);
    if (tower != tower_of(segment) || scenario != scenario_of(segment))
      return token + ": another tower or scenario than the first token's; expected one of each in a segment";
  }
  return "";
}

// Checks the position of a segment whose features are sound.
std::string position_fault(const Plan& plan, std::size_t index, const ClimberConfig& config) {
  const Segment& segment = plan.segments[index];
  const bool candidate = is_candidate(segment);
  if (candidate && (segment.tokens.size() != 1 || feature(segment, 0, ClimberFeature::action) != 0))
    return at(index, "") + " is a candidate; expected one token with action 0";
  for (const std::uint32_t seen : segment.sees) {
    const Segment& other = plan.segments[seen];
    if (is_candidate(other) || (!candidate && tower_of(other) != tower_of(segment)) ||
        scenario_of(other) != scenario_of(segment))
      return at(index, ".sees") + " has " + std::to_string(seen) +
             "; expected histories of the same scenario, and those of a history of its own tower";
  }
  for (std::size_t k = 0; k < config.towers.size(); ++k) {
    std::int64_t behind = 0;  // events before it in this tower
    for (const std::uint32_t seen : segment.sees)
      if (tower_of(plan.segments[seen]) == static_cast<std::int64_t>(k))
        behind += static_cast<std::int64_t>(plan.segments[seen].tokens.size());
    const bool own = tower_of(segment) == static_cast<std::int64_t>(k);
    if (own)
      behind =
          std::max<std::int64_t>(behind, segment.start) + static_cast<std::int64_t>(segment.tokens.size());
    if (behind > config.towers[k].positions)
      return at(index, "") + " needs " + std::to_string(behind) + " events of tower " + std::to_string(k) +
             "; expected at most " + std::to_string(config.towers[k].positions);
  }
  return "";
}

}  // namespace

PlanLimits plan_limits(const ClimberConfig& config) {
  std::uint32_t longest = 0;
  for (const ClimberTower& tower : config.towers) longest = std::max(longest, tower.positions);
  return {.vocabulary = static_cast<std::int32_t>(config.items + 1),
          .positions_max = static_cast<std::int32_t>(longest + 1),
          .features = climber_features,
          .heads = static_cast<std::uint32_t>(config.tasks.size()),
          .moves = false};
}

std::string validate(const Plan& plan, const ClimberConfig& config) {
  for (std::size_t i = 0; i < plan.segments.size(); ++i) {
    std::string fault = features_fault(plan.segments[i], i, config);
    if (fault.empty()) fault = position_fault(plan, i, config);
    if (!fault.empty()) return fault;
  }
  for (std::size_t i = 0; i < plan.readouts.size(); ++i) {
    const Readout& readout = plan.readouts[i];
    if (readout.what != Readout::What::head || !is_candidate(plan.segments[readout.segment]))
      return "readouts[" + std::to_string(i) + "] reads something else; expected a head of a candidate";
  }
  return "";
}

Plan climber_plan(const ClimberConfig& config, const ClimberRequest& request) {
  TROUPE_CHECK(request.items.size() == request.actions.size(), "climber: expected an action for each event");
  Plan plan;
  for (std::size_t k = 0; k < config.towers.size(); ++k) {
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < request.items.size(); ++i)
      if (config.towers[k].strategy == ClimberStrategy::recent || request.actions[i] >= liked_action_min)
        chosen.push_back(i);
    const std::size_t first =
        chosen.size() - std::min<std::size_t>(chosen.size(), config.towers[k].positions);
    std::vector<Token> tokens;
    Segment segment;
    for (const std::size_t i : std::span(chosen).subspan(first)) {
      tokens.push_back(request.items[i]);
      segment.features.insert(segment.features.end(),
                              {request.actions[i], static_cast<std::int64_t>(k), request.scenario});
    }
    if (tokens.empty()) continue;
    segment.tokens = std::move(tokens);
    plan.segments.push_back(std::move(segment));
  }
  const VisibleSegments histories =
      VisibleSegments::all_before(static_cast<std::uint32_t>(plan.segments.size()));
  for (const Token candidate : request.candidates) {
    const auto index = static_cast<std::uint32_t>(plan.segments.size());
    Segment segment{SegmentKind::item, {candidate}, 0, histories};
    segment.features = {0, climber_candidate, request.scenario};
    plan.segments.push_back(std::move(segment));
    for (std::uint32_t task = 0; task < config.tasks.size(); ++task)
      plan.readouts.push_back({.segment = index, .what = Readout::What::head, .head = task});
  }
  return plan;
}

void ClimberPlanner::check(const Request& request) const {
  const Plan& plan = *request.plan;
  const std::string fault = validate(plan, plan_limits(config_));
  TROUPE_CHECK(fault.empty() && validate(plan, config_).empty(), "climber: expected a sound plan");
  TROUPE_CHECK(request.kv.size() == plan.segments.size(), "climber: expected one source per segment");
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    const SegmentKv& kv = request.kv[s];
    TROUPE_CHECK(kv.source == Source::compute || !is_candidate(plan.segments[s]),
                 "climber: a candidate must be computed");
    const bool none = kv.source == Source::compute && kv.pages.empty();
    TROUPE_CHECK(none || kv.pages.size() == layout_.pages_for(plan.segments[s].tokens.size()),
                 "climber: expected pages for the whole segment");
  }
}

const ClimberBatch& ClimberPlanner::plan(std::span<const Request> requests) {
  batch_.tokens.clear(), batch_.actions.clear(), batch_.positions.clear();
  batch_.visible_begin.clear(), batch_.visible_end.clear();
  batch_.groups.clear(), batch_.spans.clear(), batch_.kept.clear(), batch_.unread.clear();
  batch_.towers.assign(config_.towers.size(), {});
  batch_.candidates = 0;
  place_.clear();
  for (const Request& request : requests) {
    check(request);
    for (const Segment& segment : request.plan->segments)
      place_.push_back(is_candidate(segment) ? batch_.candidates++ : 0);
    note_unread_pages(request);
  }
  for (std::uint32_t tower = 0; tower < config_.towers.size(); ++tower) {
    batch_.towers[tower].begin = batch_.rows();
    add_histories(requests, tower);
    batch_.towers[tower].candidates = batch_.rows();
    std::size_t first_segment = 0;
    for (const Request& request : requests) {
      add_candidates(request, first_segment, tower);
      first_segment += request.plan->segments.size();
    }
    batch_.towers[tower].end = batch_.rows();
  }
  add_readouts(requests);
  return batch_;
}

void ClimberPlanner::note_unread_pages(const Request& request) {
  for (std::size_t s = 0; s < request.kv.size(); ++s)
    if (is_candidate(request.plan->segments[s]))
      batch_.unread.insert(batch_.unread.end(), request.kv[s].pages.begin(), request.kv[s].pages.end());
}

void ClimberPlanner::add_row(Token token, std::int64_t action, std::uint32_t position, std::uint32_t from,
                             std::uint32_t to) {
  batch_.tokens.push_back(token);
  batch_.actions.push_back(static_cast<std::uint32_t>(action));
  batch_.positions.push_back(position);
  batch_.visible_begin.push_back(from);
  batch_.visible_end.push_back(to);
}

// Appends the spans of a tower that a segment sees. Returns how many tokens they have.
std::uint32_t ClimberPlanner::add_context(const Request& request, std::size_t first_segment,
                                          const VisibleSegments& sees, std::uint32_t tower) {
  std::uint32_t seen_tokens = 0;
  for (const std::uint32_t seen : sees) {
    const Segment& segment = request.plan->segments[seen];
    if (tower_of(segment) != static_cast<std::int64_t>(tower)) continue;
    const auto tokens = static_cast<std::uint32_t>(segment.tokens.size());
    seen_tokens += tokens;
    if (request.kv[seen].source == Source::compute) {
      batch_.spans.push_back({.row = place_[first_segment + seen], .tokens = tokens});
      continue;
    }
    for (std::uint32_t done = 0; done < tokens; done += layout_.page_tokens)
      batch_.spans.push_back({.page = request.kv[seen].pages[done / layout_.page_tokens],
                              .tokens = std::min(layout_.page_tokens, tokens - done)});
  }
  return seen_tokens;
}

void ClimberPlanner::add_histories(std::span<const Request> requests, std::uint32_t tower) {
  std::size_t first_segment = 0;
  for (const Request& request : requests) {
    const std::vector<Segment>& segments = request.plan->segments;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const Segment& segment = segments[s];
      if (tower_of(segment) != static_cast<std::int64_t>(tower) || request.kv[s].source == Source::cached)
        continue;
      ClimberGroup group{.tower = tower, .scenario = static_cast<std::uint32_t>(scenario_of(segment))};
      group.span_begin = static_cast<std::uint32_t>(batch_.spans.size());
      add_context(request, first_segment, segment.sees, tower);
      group.span_end = static_cast<std::uint32_t>(batch_.spans.size());
      group.row_begin = place_[first_segment + s] = batch_.rows();
      for (std::uint32_t t = 0; t < segment.tokens.size(); ++t)
        add_row(segment.tokens[t], feature(segment, t, ClimberFeature::action),
                static_cast<std::uint32_t>(segment.start) + t, 0, t + 1);
      group.row_end = batch_.rows();
      batch_.groups.push_back(group);
      if (!request.kv[s].pages.empty())
        batch_.kept.push_back({group.row_begin, group.row_end - group.row_begin, request.kv[s].pages});
    }
    first_segment += segments.size();
  }
}

// Puts consecutive candidates that see the same into one group.
void ClimberPlanner::add_candidates(const Request& request, std::size_t first_segment, std::uint32_t tower) {
  const std::vector<Segment>& segments = request.plan->segments;
  const Segment* before = nullptr;
  std::uint32_t position = 0;
  for (const Segment& segment : segments) {
    if (!is_candidate(segment)) continue;
    if (before == nullptr || !(before->sees == segment.sees) ||
        scenario_of(*before) != scenario_of(segment)) {
      ClimberGroup group{
          .tower = tower, .scenario = static_cast<std::uint32_t>(scenario_of(segment)), .candidates = true};
      group.row_begin = batch_.rows();
      group.span_begin = static_cast<std::uint32_t>(batch_.spans.size());
      position = add_context(request, first_segment, segment.sees, tower);
      group.span_end = static_cast<std::uint32_t>(batch_.spans.size());
      batch_.groups.push_back(group);
    }
    before = &segment;
    const std::uint32_t own = batch_.rows() - batch_.groups.back().row_begin;
    add_row(segment.tokens[0], 0, position, own, own + 1);
    batch_.groups.back().row_end = batch_.rows();
  }
}

void ClimberPlanner::add_readouts(std::span<const Request> requests) {
  batch_.readouts.clear();
  std::size_t first_segment = 0;
  for (std::uint32_t r = 0; r < requests.size(); ++r) {
    const Plan& plan = *requests[r].plan;
    for (std::uint32_t i = 0; i < plan.readouts.size(); ++i)
      batch_.readouts.push_back(
          {r, i, place_[first_segment + plan.readouts[i].segment], plan.readouts[i].head});
    first_segment += plan.segments.size();
  }
}

}  // namespace troupe::kernels
