// The prompt of models that read a history of items with actions in several towers (kernels/climber/climber.h). It has no frame:
//   towers: for each tower blocks of PromptForm::history_part of its events and a rest, each behind those before it in its tower;
//           then the candidates, which see the events of all towers; the model's tasks are read there, task by task
// A token's features are its action, its tower and the request's scenario; a candidate has no action, and is in all towers.
// So blocks are of one tower and one scenario, and a tower that has not all the events that it may keeps its whole ones when
// it grows. Where the oldest event goes as a new one comes, all positions change, and no block is found again.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "router/request/plans.h"

namespace troupe::router {
namespace {

constexpr std::int64_t in_all_towers = -1;

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
    const Sees events = Sees::all_before(count());
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
      add_events(std::span(events).subspan(begin, std::min(part_, events.size() - begin)), begin, tower, first, before);
  }

  void add_events(std::span<const std::uint32_t> events, std::size_t begin, std::size_t tower, std::uint32_t first,
                  std::vector<BlockName>& before) {
    Segment segment{.kind = SegmentKind::user, .start = static_cast<std::int32_t>(begin)};
    segment.sees.add({first, count()});
    std::vector<Token> tokens;
    for (const std::uint32_t event : events) {
      tokens.push_back(prompt_.history[event]);
      segment.features.insert(segment.features.end(), {actions_[event], static_cast<std::int64_t>(tower), prompt_.scenario});
    }
    segment.tokens = std::move(tokens);
    made_.blocks.emplace_back();
    if (prompt_.names != nullptr) {
      made_.blocks.back() = {
          prompt_.names->events(prompt_.tenant, segment.tokens, segment.features, segment.start, before),
          user_key(prompt_.tenant, prompt_.user), 0};
      before.push_back(*made_.blocks.back().name);
    }
    made_.plan.segments.push_back(std::move(segment));
  }

  void add_candidate(const ItemView& item, const Sees& events) {
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

Candidate towers_plan(const RankPrompt& prompt) { return TowersWriter(prompt).write(); }

}  // namespace troupe::router
