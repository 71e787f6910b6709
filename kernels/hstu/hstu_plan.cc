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
    const std::size_t cut = config_.whole_history() ? 0 : events_ - 1;
    if (cut > 0) add_events(0, cut);
    add_events(cut, events_);
    const auto history = static_cast<std::uint32_t>(plan_.segments.size());
    const Readout last{history - 1, static_cast<std::uint32_t>(plan_.segments.back().tokens.size() - 1)};
    if (reads_next_items(config_)) {
      plan_.readouts.push_back(last);
      plan_.readouts.back().rows = request_.candidates;
    }
    for (const Token candidate : request_.candidates)
      if (config_.tasks > 0) add_candidate(candidate, history);
    plan_.readouts.push_back(last);
    plan_.readouts.back().what = Readout::What::state;
    return std::move(plan_);
  }

 private:
  void add_features(Segment& segment, std::int64_t time, std::int64_t next, std::int64_t action) const {
    if (config_.biased()) segment.features.insert(segment.features.end(), {time, next});
    if (config_.actions > 0) segment.features.push_back(action);
  }

  void add_contexts(Segment& segment, std::vector<Token>& tokens) const {
    std::uint32_t first = config_.vocabulary;
    for (std::size_t k = 0; k < config_.contexts(); first += config_.context_rows[k++]) {
      tokens.push_back(static_cast<Token>(first + request_.contexts[k]));
      add_features(segment, 0, 0, -1);
    }
  }

  void add_events(std::size_t begin, std::size_t end) {
    Segment segment;
    segment.kind = SegmentKind::user;
    segment.start = static_cast<std::int32_t>(begin == 0 ? 0 : config_.contexts() + begin);
    segment.sees = VisibleSegments::all_before(static_cast<std::uint32_t>(plan_.segments.size()));
    std::vector<Token> tokens;
    if (begin == 0) add_contexts(segment, tokens);
    for (std::size_t i = begin; i < end; ++i) {
      tokens.push_back(request_.items[i]);
      add_features(segment, config_.biased() ? request_.times[i] : 0,
                   config_.biased() && i + 1 < events_ ? request_.times[i + 1] : request_.now,
                   config_.actions > 0 ? request_.actions[i] : -1);
    }
    segment.tokens = std::move(tokens);
    plan_.segments.push_back(std::move(segment));
  }

  void add_candidate(Token candidate, std::uint32_t history) {
    const std::uint32_t read = config_.nvidia() ? config_.tasks : 1;
    for (std::uint32_t task = 0; task < read; ++task) {
      plan_.readouts.push_back({static_cast<std::uint32_t>(plan_.segments.size()), 0});
      plan_.readouts.back().what = Readout::What::head;
      plan_.readouts.back().head = task;
    }
    Segment segment;
    segment.kind = SegmentKind::item;
    segment.tokens = {candidate};
    segment.start = static_cast<std::int32_t>(config_.contexts() + events_);
    segment.sees = VisibleSegments::all_before(history);
    add_features(segment, request_.now, request_.now, -1);
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

bool reads_next_items(const HstuConfig& config) {
  return config.kind == HstuLayerKind::research || config.tasks == 0;
}

}  // namespace troupe::kernels
