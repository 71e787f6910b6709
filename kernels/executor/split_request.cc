// Cuts a request that is too large for one forward pass into parts that run one after the other.
// Later parts read from pages what earlier parts left there.
#include "kernels/executor/split_request.h"

#include <utility>

namespace troupe::kernels {
namespace {

class RequestSplitter {
 public:
  RequestSplitter(const Request& request, std::size_t tokens_max)
      : plan_(*request.plan),
        kv_(request.kv),
        tokens_max_(tokens_max),
        taken_(kv_.size()),
        read_(plan_.readouts.size()) {}

  std::vector<RequestPart> cut() {
    std::vector<std::uint8_t> goals(kv_.size());
    for (std::size_t s = 0; s < kv_.size(); ++s)
      goals[s] = kv_[s].source == Source::compute && !kv_[s].pages.empty();
    for (const Readout& readout : plan_.readouts) goals[readout.segment] = 1;
    for (std::uint32_t s = 0; s < kv_.size(); ++s)
      if (goals[s]) add_goal(s);
    end_part();
    return std::move(parts_);
  }

 private:
  void add_goal(std::uint32_t segment) {
    const std::vector<std::uint8_t> before = taken_;
    const bool first = tokens_ == 0;
    take(segment);
    if (tokens_ <= tokens_max_ || first) return;
    taken_ = before;
    end_part();
    take(segment);
  }

  // Adds a segment and all that it needs to this part.
  void take(std::uint32_t segment) {
    if (taken_[segment]) return;
    taken_[segment] = 1;
    if (kv_[segment].source == Source::cached) return;
    tokens_ += plan_.segments[segment].tokens.size();
    for (const std::uint32_t seen : plan_.segments[segment].sees) take(seen);
  }

  // Ends this part. Segments that it leaves in pages are cached for later parts.
  void end_part() {
    if (tokens_ == 0) return;
    RequestPart& part = parts_.emplace_back();
    std::vector<std::uint32_t> place(kv_.size(), ReplacedTokens::none);
    for (std::uint32_t s = 0; s < kv_.size(); ++s) {
      if (!taken_[s]) continue;
      place[s] = static_cast<std::uint32_t>(part.plan.segments.size());
      part.plan.segments.push_back(moved(s, place));
      part.kv.push_back(kv_[s]);
      if (!kv_[s].pages.empty()) kv_[s].source = Source::cached;
    }
    for (std::uint32_t r = 0; r < plan_.readouts.size(); ++r) {
      const std::uint32_t segment = plan_.readouts[r].segment;
      if (!taken_[segment] || std::exchange(read_[r], 1)) continue;
      part.plan.readouts.push_back(plan_.readouts[r]);
      part.plan.readouts.back().segment = place[segment];
      part.readouts.push_back(r);
    }
    taken_.assign(kv_.size(), 0);
    tokens_ = 0;
  }

  Segment moved(std::uint32_t segment, const std::vector<std::uint32_t>& place) const {
    Segment to = plan_.segments[segment];
    to.sees = {};
    if (kv_[segment].source == Source::compute)
      for (const std::uint32_t seen : plan_.segments[segment].sees) to.sees.add(place[seen]);
    if (to.replaces.segment != ReplacedTokens::none) to.replaces.segment = place[to.replaces.segment];
    return to;
  }

  const Plan& plan_;
  std::vector<SegmentKv> kv_;
  const std::size_t tokens_max_;
  std::vector<std::uint8_t> taken_, read_;
  std::size_t tokens_ = 0;
  std::vector<RequestPart> parts_;
};

}  // namespace

std::vector<RequestPart> split_request(const Request& request, std::size_t tokens_max) {
  return RequestSplitter(request, tokens_max).cut();
}

}  // namespace troupe::kernels
