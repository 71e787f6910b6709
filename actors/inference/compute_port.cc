#include "actors/inference/compute_port.h"

#include <chrono>
#include <exception>

namespace troupe::actors {

struct ComputePort::Prepared {
  kernels::Plan plan;
  kernels::Request request;
};

namespace {

kernels::Plan to_plan(const BatchRequest& request) {
  kernels::Plan plan;
  plan.segments.reserve(request.segments.size());
  for (const PlannedSegment& s : request.segments)
    plan.segments.push_back({static_cast<kernels::SegmentKind>(s.kind), s.tokens, s.start, s.sees});
  for (const PlannedReadout& r : request.readouts) plan.readouts.push_back({r.segment, r.offset, r.rows});
  return plan;
}

Refusal bad_plan(std::string what) {
  return {422, "bad_plan", std::move(what), "plan", "a plan that the model allows"};
}

}  // namespace

ComputePort::ComputePort(std::unique_ptr<kernels::Decoder> decoder, PageArena& arena, std::uint32_t lanes,
                         bool verify_on_read)
    : arena_(arena), verify_on_read_(verify_on_read) {
  for (std::uint32_t lane = 1; lane < lanes; ++lane) executors_.push_back(decoder->share(lane));
  executors_.push_back(std::move(decoder));
}

JobResult ComputePort::run(const Job& job, std::uint32_t lane) {
  const auto* batch = std::get_if<RunBatch>(&job);
  if (!batch) return Refusal{500, "wrong_job", "not a batch", "inference worker", "RunBatch"};
  try {
    return run_batch(*batch, *executors_.at(lane));
  } catch (const std::exception& error) {
    return Refusal{503, "device_failed", error.what(), "inference worker", "a batch that fits this device"};
  }
}

BatchDone ComputePort::run_batch(const RunBatch& batch, kernels::Decoder& decoder) {
  const auto begin = std::chrono::steady_clock::now();
  BatchDone done;
  done.replies.resize(batch.requests.size());
  std::vector<Prepared> prepared(batch.requests.size());
  std::vector<kernels::Request> sound;
  std::vector<std::size_t> index;
  for (std::size_t i = 0; i < batch.requests.size(); ++i) {
    prepare(batch.requests[i], prepared[i], done.replies[i]);
    if (done.replies[i].refusal) continue;
    prepared[i].request.plan = &prepared[i].plan;
    sound.push_back(std::move(prepared[i].request));
    index.push_back(i);
  }
  std::vector<kernels::Logits> logits;
  if (!sound.empty()) logits = decoder.forward(sound);
  for (std::size_t n = 0; n < index.size(); ++n)
    collect(batch.requests[index[n]], logits[n], done.replies[index[n]]);
  done.compute_us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
  return done;
}

void ComputePort::prepare(const BatchRequest& request, Prepared& prepared, BatchReply& reply) const {
  prepared.plan = to_plan(request);
  const kernels::DecoderConfig& config = executors_.front()->config();
  std::string fault = kernels::find_fault(prepared.plan, {static_cast<std::int32_t>(config.vocabulary),
                                                          static_cast<std::int32_t>(config.positions_max)});
  if (fault.empty() && request.kv.size() != request.segments.size())
    fault = "kv has " + std::to_string(request.kv.size()) + " entries; expected one per segment, " +
            std::to_string(request.segments.size());
  if (fault.empty())
    for (const PlannedReadout& r : request.readouts)
      if (request.kv[r.segment].grant == Grant::read)
        fault =
            "segment " + std::to_string(r.segment) + " is reused and read out; expected a computed segment";
  if (!fault.empty()) {
    reply.refusal = bad_plan(std::move(fault));
    return;
  }
  prepare_pages(request, prepared, reply);
}

void ComputePort::prepare_pages(const BatchRequest& request, Prepared& prepared, BatchReply& reply) const {
  const kernels::KvLayout& layout = executors_.front()->layout();
  prepared.request.kv.resize(request.segments.size());
  for (std::size_t i = 0; i < request.kv.size(); ++i) {
    const BatchSegmentKv& from = request.kv[i];
    kernels::SegmentKv& to = prepared.request.kv[i];
    if (from.grant == Grant::none) continue;
    bool fits = from.pages.size() == layout.pages_for(request.segments[i].tokens.size());
    for (std::uint32_t page : from.pages) fits = fits && page < arena_.pages();
    if (!fits) {
      reply.refusal = bad_plan("segment " + std::to_string(i) + " has pages that do not hold its tokens");
      return;
    }
    if (from.grant == Grant::read && verify_on_read_ && checksum_pages(arena_, from.pages) != from.checksum) {
      reply.corrupt.push_back(static_cast<std::uint32_t>(i));
      continue;
    }
    to.source = from.grant == Grant::read ? kernels::Source::cached : kernels::Source::compute;
    for (std::uint32_t page : from.pages) to.pages.push_back(arena_.page(page));
  }
}

void ComputePort::collect(const BatchRequest& request, const kernels::Logits& logits,
                          BatchReply& reply) const {
  for (const std::vector<float>& row : logits.readouts) reply.readouts.push_back({{row.begin(), row.end()}});
  reply.checksums.resize(request.segments.size());
  for (std::size_t i = 0; i < request.kv.size(); ++i)
    if (request.kv[i].grant == Grant::write) reply.checksums[i] = checksum_pages(arena_, request.kv[i].pages);
}

}  // namespace troupe::actors
