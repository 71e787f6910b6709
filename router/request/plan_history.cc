// The prompt of models whose tokens are items (kernels/hstu/hstu.h). It has no frame: the user's events one after the other,
// and behind them each candidate, which sees all events and itself; the model's tasks are read there.
//   history: blocks of PromptForm::history_part events as long as another event follows them, the other events but the last, the
//            last event, and the candidates, all at the position after the history
// Where events have times, a token's features are its own time and that of the event after it; the last event's and the
// candidates' is the request's. So only the last event and the candidates depend on the request's time, and a
// history that grows keeps all its whole blocks.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "router/request/plans.h"

namespace troupe::router {
namespace {

class HistoryWriter {
 public:
  explicit HistoryWriter(const RankPrompt& prompt) : prompt_(prompt), events_(prompt.history.size()) {
    made_.name = "history";
    const auto times = std::ranges::find(prompt.features, "timestamps", &Feature::name);
    if (times != prompt.features.end()) times_ = times->values;
    TROUPE_CHECK(!timed_ || times_.size() == events_, "every event has a time");
    if (now_ == 0 && !times_.empty()) now_ = times_.back();
  }

  Candidate write() && {
    const std::size_t last = events_ > 0 ? events_ - 1 : 0;
    for (std::size_t begin = 0; begin < last; begin += part_)
      add_events(begin, std::min(last, begin + part_), true);
    if (events_ > 0) add_events(last, events_, false);
    for (const ItemView& item : prompt_.items) add_candidate(item);
    return std::move(made_);
  }

 private:
  std::uint32_t count() const { return static_cast<std::uint32_t>(made_.plan.segments.size()); }

  void add_events(std::size_t begin, std::size_t end, bool reused) {
    Segment segment{.kind = SegmentKind::user,
                    .tokens = prompt_.history.part(begin, end - begin),
                    .start = static_cast<std::int32_t>(begin),
                    .sees = Sees::all_before(count())};
    for (std::size_t i = begin; timed_ && i < end; ++i) {
      segment.features.push_back(times_[i]);
      segment.features.push_back(i + 1 < events_ ? times_[i + 1] : now_);
    }
    made_.blocks.emplace_back();
    if (reused && prompt_.names != nullptr) {
      made_.blocks.back() = {
          prompt_.names->events(prompt_.tenant, segment.tokens, segment.features, segment.start, before_),
          user_key(prompt_.tenant, prompt_.user), 0};
      before_.push_back(*made_.blocks.back().name);
    }
    made_.plan.segments.push_back(std::move(segment));
    history_ = count();
  }

  void add_candidate(const ItemView& item) {
    add_task_readouts(prompt_.form, count(), made_.plan);
    Segment segment{.kind = SegmentKind::item,
                    .tokens = prompt_.tokens_of(item),
                    .start = static_cast<std::int32_t>(events_),
                    .sees = Sees::all_before(history_)};
    if (timed_) segment.features = {now_, now_};
    made_.plan.segments.push_back(std::move(segment));
    made_.blocks.emplace_back();
  }

  const RankPrompt& prompt_;
  const std::size_t events_;
  const std::size_t part_ = prompt_.form.history_part > 0 ? prompt_.form.history_part : SIZE_MAX / 2;
  const bool timed_ = prompt_.form.token_features > 0;  // also of a user without events
  std::int64_t now_ = prompt_.now;
  std::span<const std::int64_t> times_;
  std::uint32_t history_ = 0;  // segments of it
  std::vector<BlockName> before_;
  Candidate made_;
};

}  // namespace

Candidate history_plan(const RankPrompt& prompt) { return HistoryWriter(prompt).write(); }

}  // namespace troupe::router
