// Charges simulated processors for work outside the model's batches, such as parsing and planning.
// Simulated times then include this work, as on a real host.
#include "sim/cluster/host_charge.h"

#include <algorithm>
#include <utility>

namespace troupe::sim {
namespace {

using placement::HostComponent;
using placement::HostUnits;

constexpr double mebibyte = 1 << 20;

std::size_t candidates_of(const Plan& plan) {
  return static_cast<std::size_t>(std::ranges::count(plan.segments, SegmentKind::item, &Segment::kind));
}

std::size_t named(const std::vector<SegmentBlock>& blocks) {
  return static_cast<std::size_t>(
      std::ranges::count_if(blocks, [](const SegmentBlock& block) { return block.name.has_value(); }));
}

}  // namespace

double HostCharge::charge(HostComponent component, const HostUnits& units) {
  const double us = dot(work_[component], units);
  used_us_[static_cast<std::size_t>(component)] += us;
  return us;
}

// Cost of a request's arrival: HTTP server, features, the router's own part, and what no component counts.
double HostCharge::of_request(std::size_t candidates) {
  const HostUnits units{1, static_cast<double>(candidates), 0, 0};
  units_ += units;
  double us = 0;
  for (const HostComponent component : {HostComponent::server, HostComponent::feature_port,
                                        HostComponent::router, HostComponent::host, HostComponent::rest})
    us += charge(component, units);
  return us;
}

double HostCharge::of_blocks(HostComponent component, std::size_t blocks) {
  return charge(component, {1, 0, static_cast<double>(blocks), 0});
}

double HostCharge::of_plan(const Execute& plan) {
  const auto blocks = static_cast<double>(named(plan.blocks));
  if (plan.priority == Priority::serving) units_.blocks += blocks;
  double us =
      charge(HostComponent::inference_worker, {1, static_cast<double>(candidates_of(plan.plan)), blocks, 0});
  for (const HostComponent component : {HostComponent::router, HostComponent::host, HostComponent::rest})
    us += charge(component, {0, 0, blocks, 0});
  return us;
}

double HostCharge::of_kept(NodeId node, const JobResult& result) {
  const bool is_batch = std::holds_alternative<BatchDone>(result);
  if (!is_batch && !std::holds_alternative<Refusal>(result)) return 0;
  const double kept = std::exchange(kept_[node], 0);
  const HostUnits units{.kept = is_batch ? kept : 0};
  double us = 0;
  for (const HostComponent component :
       {HostComponent::router, HostComponent::cache_meta, HostComponent::kv_worker,
        HostComponent::inference_worker, HostComponent::host})
    us += charge(component, units);
  return us;
}

Duration HostCharge::step(NodeId node, const Event& event) {
  const auto* received = std::get_if<Received>(&event);
  if (const auto* done = std::get_if<JobDone>(&event)) rest_us_ += of_kept(node, done->result);
  if (!received) return whole_us();
  if (const auto* rank = std::get_if<RankRequest>(&received->message))
    rest_us_ += of_request(rank->candidates.size());
  else if (std::holds_alternative<GenerateRequest>(received->message))
    rest_us_ += of_request(0);
  else if (const auto* lookup = std::get_if<LookupBlocks>(&received->message))
    rest_us_ += of_blocks(HostComponent::cache_meta, lookup->blocks.size());
  else if (const auto* acquire = std::get_if<AcquireBlocks>(&received->message))
    rest_us_ += of_blocks(HostComponent::kv_worker, acquire->wants.size());
  else if (const auto* plan = std::get_if<Execute>(&received->message))
    rest_us_ += of_plan(*plan);
  return whole_us();
}

Duration HostCharge::whole_us() {
  const auto whole = static_cast<std::int64_t>(rest_us_);
  rest_us_ -= static_cast<double>(whole);
  return {whole};
}

Duration HostCharge::batch(NodeId node, const RunBatch& batch, Duration still) {
  HostUnits units{.cold = placement::cold_cache_share(static_cast<double>(still.us))};
  for (const auto& pointer : batch.requests) {
    const BatchRequest& request = *pointer;
    units.requests += 1;
    units.parts += static_cast<double>(candidates_of(request.plan));
    for (std::size_t s = 0; s < request.kv.size(); ++s) {
      const BatchSegmentKv& kv = request.kv[s];
      if (kv.grant == Grant::none) continue;
      units.blocks += 1;
      units.kept += kv.grant == Grant::write;
      const bool summed = kv.grant == Grant::write || kv.check;
      if (summed)
        units.mebibytes +=
            static_cast<double>(request.plan.segments[s].tokens.size()) * token_bytes_ / mebibyte;
    }
  }
  units_.mebibytes += units.mebibytes;
  units_.kept += units.kept;
  units_.cold += units.cold;
  kept_[node] += units.kept;
  double us = 0;
  for (const HostComponent component :
       {HostComponent::executor_port, HostComponent::checksums, HostComponent::passes})
    us += charge(component, units);
  us += charge(HostComponent::rest, {0, 0, 0, units.mebibytes, units.kept, units.cold});
  return {static_cast<std::int64_t>(us + 0.5)};
}

}  // namespace troupe::sim
