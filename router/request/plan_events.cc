// Builds prompts of models whose tokens are items: without a frame, in parts of the user's events.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "router/request/plans.h"
#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace {

constexpr std::int64_t in_all_towers = -1;

// Builds the prompt of models whose tokens are items (kernels/hstu/hstu.h). It has no frame: the
// user's events one after the other, then the candidates. Each candidate sees all events and
// itself, and the model's tasks are read there. A model of next items has no candidates in its prompt: their
// rows are read at the last event.
//
//   history: blocks of PromptForm::history_part events as long as another event follows them, then the
//            other events but the last, the last event, and the candidates, all at the position after the
//            history; or the whole history as one segment
//
// If events have times, a token's features are its own time and the time of the event after it; for
// the last event and the candidates that is the request's time. Only those depend on the request's
// time, and a growing history keeps all its whole blocks. If the model reads actions, an event's action
// follows; a candidate's is -1. A whole history that has times depends on the request's and is not a block.
class HistoryWriter {
 public:
  explicit HistoryWriter(const RankPrompt& prompt) : prompt_(prompt), events_(prompt.history.size()) {
    made_.name = "history";
    const auto times = std::ranges::find(prompt.features, "timestamps", &Feature::name);
    if (times != prompt.features.end()) times_ = times->values;
    const auto actions = std::ranges::find(prompt.features, "actions", &Feature::name);
    if (actions != prompt.features.end()) actions_ = actions->values;
    TROUPE_CHECK(!timed_ || times_.size() == events_, "every event has a time");
    TROUPE_CHECK(!acted_ || actions_.size() == events_, "every event has an action");
    if (now_ == 0 && !times_.empty()) now_ = times_.back();
  }

  Candidate write() && {
    const bool whole = prompt_.form.whole_history;
    const std::size_t last = whole || events_ == 0 ? 0 : events_ - 1;
    for (std::size_t begin = 0; begin < last; begin += part_)
      add_events(begin, std::min(last, begin + part_), true);
    if (events_ > 0) add_events(last, events_, whole && !timed_ && !prompt_.form.next_items);
    if (prompt_.form.next_items) {
      read_next_items();
    } else {
      for (const ItemView& item : prompt_.items) add_candidate(item);
    }
    return std::move(made_);
  }

 private:
  std::uint32_t count() const { return static_cast<std::uint32_t>(made_.plan.segments.size()); }

  void add_events(std::size_t begin, std::size_t end, bool reused) {
    Segment segment{.kind = SegmentKind::user,
                    .tokens = prompt_.history.part(begin, end - begin),
                    .start = static_cast<std::int32_t>(begin),
                    .sees = VisibleSegments::all_before(count())};
    for (std::size_t i = begin; i < end; ++i) {
      if (timed_) segment.features.push_back(times_[i]);
      if (timed_) segment.features.push_back(i + 1 < events_ ? times_[i + 1] : now_);
      if (acted_) segment.features.push_back(actions_[i]);
    }
    made_.blocks.emplace_back();
    if (reused && prompt_.names != nullptr) {
      made_.blocks.back() = {
          prompt_.names->events(prompt_.tenant, segment.tokens, segment.features, segment.start, before_),
          owner_of_user(prompt_.tenant, prompt_.user), 0};
      before_.push_back(*made_.blocks.back().name);
    }
    made_.plan.segments.push_back(std::move(segment));
    history_ = count();
  }

  void read_next_items() {
    TROUPE_CHECK(events_ > 0, "a model of next items reads a history of at least one event");
    const auto last = static_cast<std::uint32_t>(made_.plan.segments.back().tokens.size() - 1);
    Readout readout{.segment = history_ - 1, .offset = last};
    for (const ItemView& item : prompt_.items) readout.rows.push_back(item.tokens.front());
    made_.plan.readouts.push_back(std::move(readout));
  }

  void add_candidate(const ItemView& item) {
    add_task_readouts(prompt_.form, count(), made_.plan);
    Segment segment{.kind = SegmentKind::item,
                    .tokens = prompt_.tokens_of(item),
                    .start = static_cast<std::int32_t>(events_),
                    .sees = VisibleSegments::all_before(history_)};
    if (timed_) segment.features = {now_, now_};
    if (acted_) segment.features.push_back(-1);
    made_.plan.segments.push_back(std::move(segment));
    made_.blocks.emplace_back();
  }

  const RankPrompt& prompt_;
  const std::size_t events_;
  const std::size_t part_ = prompt_.form.history_part > 0 ? prompt_.form.history_part : SIZE_MAX / 2;
  const bool timed_ = prompt_.form.token_features > 1;  // true also for a user without events
  const bool acted_ = prompt_.form.token_features % 2 == 1;
  std::int64_t now_ = prompt_.now;
  std::span<const std::int64_t> times_, actions_;
  std::uint32_t history_ = 0;  // segments of the history
  std::vector<BlockName> before_;
  Candidate made_;
};

// Builds the prompt of models that read a history of items with actions in several towers
// (kernels/climber/climber.h). It has no frame:
//
//   towers: for each tower, blocks of PromptForm::history_part of its events and a remainder, each after
//           those before it in its tower; then the candidates, which see the events of all towers;
//           the model's tasks are read there, task by task
//
// A token's features are its action, its tower and the request's scenario. A candidate has no
// action and is in all towers. Blocks therefore belong to one tower and one scenario. A tower that
// is not full keeps its whole blocks when it grows. In a full tower a new event drops the oldest
// one, so all positions change and no block is found again.
class TowersWriter {
 public:
  explicit TowersWriter(const RankPrompt& prompt) : prompt_(prompt) {
    made_.name = "towers";
    const auto actions = std::ranges::find(prompt.features, "actions", &Feature::name);
    if (actions != prompt.features.end()) actions_ = actions->values;
    TROUPE_CHECK(actions_.size() == prompt.history.size(), "every event has an action");
  }

  Candidate write() && {
    for (std::size_t tower = 0; tower < prompt_.form.towers.size(); ++tower) add_tower(tower);
    const VisibleSegments events = VisibleSegments::all_before(count());
    for (const ItemView& item : prompt_.items) add_candidate(item, events);
    return std::move(made_);
  }

 private:
  std::uint32_t count() const { return static_cast<std::uint32_t>(made_.plan.segments.size()); }

  void add_tower(std::size_t tower) {
    const std::vector<std::uint32_t> events = tower_events(prompt_.form.towers[tower], actions_);
    const std::uint32_t first = count();
    std::vector<BlockName> before;
    for (std::size_t begin = 0; begin < events.size(); begin += part_)
      add_events(std::span(events).subspan(begin, std::min(part_, events.size() - begin)), begin, tower,
                 first, before);
  }

  void add_events(std::span<const std::uint32_t> events, std::size_t begin, std::size_t tower,
                  std::uint32_t first, std::vector<BlockName>& before) {
    Segment segment{.kind = SegmentKind::user, .start = static_cast<std::int32_t>(begin)};
    segment.sees.add({first, count()});
    std::vector<Token> tokens;
    for (const std::uint32_t event : events) {
      tokens.push_back(prompt_.history[event]);
      segment.features.insert(segment.features.end(),
                              {actions_[event], static_cast<std::int64_t>(tower), prompt_.scenario});
    }
    segment.tokens = std::move(tokens);
    made_.blocks.emplace_back();
    if (prompt_.names != nullptr) {
      made_.blocks.back() = {
          prompt_.names->events(prompt_.tenant, segment.tokens, segment.features, segment.start, before),
          owner_of_user(prompt_.tenant, prompt_.user), 0};
      before.push_back(*made_.blocks.back().name);
    }
    made_.plan.segments.push_back(std::move(segment));
  }

  void add_candidate(const ItemView& item, const VisibleSegments& events) {
    add_task_readouts(prompt_.form, count(), made_.plan);
    Segment segment{.kind = SegmentKind::item, .tokens = prompt_.tokens_of(item), .sees = events};
    segment.features = {0, in_all_towers, prompt_.scenario};
    made_.plan.segments.push_back(std::move(segment));
    made_.blocks.emplace_back();
  }

  const RankPrompt& prompt_;
  const std::size_t part_ = prompt_.form.history_part > 0 ? prompt_.form.history_part : SIZE_MAX / 2;
  std::span<const std::int64_t> actions_;
  Candidate made_;
};

}  // namespace

Candidate history_plan(const RankPrompt& prompt) { return HistoryWriter(prompt).write(); }

Candidate history_search_plan(const RankPrompt& prompt, Search search) {
  Candidate made = HistoryWriter(prompt).write();
  made.plan.readouts.clear();
  search.segment = static_cast<std::uint32_t>(made.plan.segments.size() - 1);
  made.plan.search = std::move(search);
  return made;
}

Candidate towers_plan(const RankPrompt& prompt) { return TowersWriter(prompt).write(); }

}  // namespace troupe::router
