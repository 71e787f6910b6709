// Builds the plan of an HSTU request: the history as segments, each candidate behind it, and
// everything that the model can answer as readouts.
#include "kernels/hstu/hstu_plan.h"

#include <utility>

namespace troupe::kernels {
namespace {

class HstuPlanWriter {
 public:
  HstuPlanWriter(const HstuConfig& config, const HstuRequest& request)
      : config_(config), request_(request), events_(request.items.size()) {}

  Plan write() && {
    const std::size_t cut = config_.context_tokens > 0 ? 0 : events_ - 1;
    if (cut > 0) add_events(0, cut);
    add_events(cut, events_);
    const auto history = static_cast<std::uint32_t>(plan_.segments.size());
    const Readout last{history - 1, static_cast<std::uint32_t>(plan_.segments.back().tokens.size() - 1)};
    if (!config_.production) {
      plan_.readouts.push_back(last);
      plan_.readouts.back().rows = request_.candidates;
    }
    for (const Token candidate : request_.candidates) add_candidate(candidate, history);
    plan_.readouts.push_back(last);
    plan_.readouts.back().what = Readout::What::state;
    return std::move(plan_);
  }

 private:
  void add_events(std::size_t begin, std::size_t end) {
    Segment segment;
    segment.kind = SegmentKind::user;
    segment.tokens = std::vector<Token>(request_.items.begin() + static_cast<std::ptrdiff_t>(begin),
                                        request_.items.begin() + static_cast<std::ptrdiff_t>(end));
    segment.start = static_cast<std::int32_t>(begin);
    segment.sees = VisibleSegments::all_before(static_cast<std::uint32_t>(plan_.segments.size()));
    for (std::size_t i = begin; config_.features() > 0 && i < end; ++i) {
      segment.features.push_back(request_.times[i]);
      segment.features.push_back(i + 1 < events_ ? request_.times[i + 1] : request_.now);
    }
    plan_.segments.push_back(std::move(segment));
  }

  void add_candidate(Token candidate, std::uint32_t history) {
    if (config_.tasks > 0) {
      plan_.readouts.push_back({static_cast<std::uint32_t>(plan_.segments.size()), 0});
      plan_.readouts.back().what = Readout::What::head;
    }
    Segment segment;
    segment.kind = SegmentKind::item;
    segment.tokens = {candidate};
    segment.start = static_cast<std::int32_t>(events_);
    segment.sees = VisibleSegments::all_before(history);
    if (config_.features() > 0) segment.features = {request_.now, request_.now};
    plan_.segments.push_back(std::move(segment));
  }

  const HstuConfig& config_;
  const HstuRequest& request_;
  const std::size_t events_;
  Plan plan_;
};

}  // namespace

Plan hstu_plan(const HstuConfig& config, const HstuRequest& request) {
  return HstuPlanWriter(config, request).write();
}

}  // namespace troupe::kernels
