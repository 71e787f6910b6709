// Runs batches of plans on the executors of the loaded models, for the inference worker's core,
// which itself does no slow work. It verifies cached pages before use, computes bad ones again, and
// loads and drops models meanwhile.
#include "actors/inference/compute_port.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "actors/inference/in_flight_reads_port.h"
#include "runtime/profiling/cpu_components.h"

namespace troupe::actors {

// The valid requests of one model, in order.
struct ComputePort::Work {
  std::vector<kernels::Request> requests;
  std::vector<PassBlocks> blocks;
  std::vector<InFlightReads> in_flight;
  std::vector<std::size_t> index;  // in the batch
};

namespace {

Refusal bad_plan(std::string what) {
  return {RefusalKind::unprocessable, "bad_plan", std::move(what), "plan", "a plan that the model allows"};
}

Refusal too_many_pages(const PassBlocks& blocks) {
  std::size_t pages = 0;
  for (const PassBlock& block : blocks) pages += block.kv->pages.size();
  return {RefusalKind::unprocessable, "too_large",
          "the plan's blocks take " + std::to_string(pages) + " pages", "pool.device_bytes",
          "blocks that fit into the device's part of the pool at one time"};
}

Refusal too_large(std::string what) {
  return {RefusalKind::unprocessable, "too_large", std::move(what), "inference worker's device",
          "a plan that fits into one pass (on a CPU: inference.memory_max)"};
}

// Ends the use of a pass's pages, however the pass ends.
struct PagesGuard {
  PassPages& pages;
  const std::uint32_t slot;
  bool failed = false;

  ~PagesGuard() { pages.end(slot, failed); }
};

// Sets the source and the pages of each of the request's blocks.
void place(PassBlocks& blocks, kernels::Request& request) {
  for (PassBlock& block : blocks) {
    kernels::SegmentKv& kv = request.kv[block.segment];
    const bool cached = block.kv->grant == Grant::read && !block.corrupt;
    kv.source = cached ? kernels::Source::cached : kernels::Source::compute;
    kv.pages = std::move(block.pages);
    block.pages.clear();
  }
}

void collect(const PassBlocks& blocks, kernels::Reply& computed, std::size_t segments, BatchReply& reply) {
  reply.readouts.reserve(computed.readouts.size());
  for (const std::vector<float>& row : computed.readouts)
    reply.readouts.push_back({{row.begin(), row.end()}});
  reply.beams = std::move(computed.beams);
  reply.checksums.resize(segments);
  for (const PassBlock& block : blocks) {
    if (block.kv->grant == Grant::write) reply.checksums[block.segment] = block.checksum;
    if (block.corrupt) reply.corrupt.push_back(block.segment);
  }
}

Refusal not_loaded(const std::string& model_version) {
  return {RefusalKind::unavailable, "wrong_model", "model " + model_version + " is not loaded",
          "inference worker's device", "a model that was loaded before"};
}

Refusal not_here(const std::string& catalog_version) {
  return {RefusalKind::unavailable, "wrong_catalog", "catalog " + catalog_version + " is not here",
          "inference worker's device",
          "a version that the store of profiles and items has now, or that requests hold"};
}

Refusal no_assets(const std::string& catalog_version, const std::exception& error) {
  return {RefusalKind::unavailable, "load_failed", "for catalog " + catalog_version + ": " + error.what(),
          "inference worker's device", "a catalog that the model can use"};
}

}  // namespace

ComputePort::ComputePort(Options options)
    : arena_(options.arena),
      slots_(options.slots + 1 + (options.loader || options.rows ? 1 : 0)),
      models_(std::move(options.model), std::move(options.model_version), slots_, std::move(options.loader),
              std::move(options.find_catalog)),
      rows_(std::move(options.rows)),
      shards_(std::move(options.shards)),
      pages_(options.make_pages(arena_, slots_)) {}

ComputePort::MakePages ComputePort::arena_pages(bool verify_on_read) {
  return [verify_on_read](PageArena& arena, std::uint32_t) {
    return std::make_unique<ArenaPages>(arena, verify_on_read);
  };
}

JobResult ComputePort::run(const Job& job, std::uint32_t slot) {
  try {
    if (std::optional<JobResult> done = run_now(job))
      return std::move(*done);  // for a host that does not call run_now
    if (const auto* batch = std::get_if<RunBatch>(&job)) return run_batch(*batch, slot);
    if (const auto* wanted = std::get_if<LoadModel>(&job)) return models_.load(wanted->model_version);
    if (const auto* old = std::get_if<DropModel>(&job)) return models_.drop(old->model_version);
    if (const auto* ahead = std::get_if<RefillRows>(&job); ahead && rows_) return refill(*ahead);
    if (const auto* own = std::get_if<FillShards>(&job); own && shards_) return shards_->fill(*own);
    return Refusal{RefusalKind::internal, "wrong_job", "not for this device", "inference worker",
                   "RunBatch, LoadModel or DropModel"};
  } catch (const std::exception& error) {
    return Refusal{RefusalKind::unavailable, "device_failed", error.what(), "inference worker",
                   "a batch that fits this device"};
  }
}

std::optional<JobResult> ComputePort::run_now(const Job& job) {
  const auto* change = std::get_if<ChangeRowPages>(&job);
  if (!change || !rows_) return std::nullopt;
  RowPages changed = rows_->change(*change);
  changed.rows = row_totals();
  return changed;
}

RowsRefilled ComputePort::refill(const RefillRows& work) const {
  rows_->refill(work);
  return {row_totals()};
}

RowTotals ComputePort::row_totals() const {
  RowTotals totals;
  if (rows_) totals = rows_->totals();
  if (shards_) shards_->add_to(totals);
  return totals;
}

// ---- batches ----

BatchDone ComputePort::run_batch(const RunBatch& batch, std::uint32_t slot) const {
  const auto begin = std::chrono::steady_clock::now();
  BatchDone done;
  done.replies.resize(batch.requests.size());
  TableShards::BatchShards lent(shards_.get(), batch);
  try {
    run_models(batch, slot, done);
  } catch (MissingShards& elsewhere) {
    done = {};
    done.away = std::move(elsewhere.shards);
  }
  done.shards = lent.take_outcomes();
  done.rows = row_totals();
  done.compute_us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
  return done;
}

void ComputePort::run_models(const RunBatch& batch, std::uint32_t slot, BatchDone& done) const {
  std::map<std::string, std::vector<std::size_t>> by_model;
  for (std::size_t i = 0; i < batch.requests.size(); ++i)
    by_model[batch.requests[i]->model_version].push_back(i);
  for (const auto& [model_version, requests] : by_model) {
    if (const auto model = models_.find(model_version)) {
      run_model(batch, requests, *model, slot, done);
    } else {
      for (const std::size_t i : requests) done.replies[i].refusal = not_loaded(model_version);
    }
  }
}

void ComputePort::run_model(const RunBatch& batch, std::span<const std::size_t> requests,
                            LoadedModels::Model& model, std::uint32_t slot, BatchDone& done) const {
  Work work;
  kernels::Executor& executor = *model.executors.at(slot);
  for (const std::size_t i : requests)
    done.replies[i].refusal = prepare(batch, i, executor, model.assets, work);
  for (std::size_t next = 0; next < work.requests.size();) next += run_pass(work, next, executor, slot, done);
}

// The kernels read the plan where it is.
std::optional<Refusal> ComputePort::prepare(const RunBatch& batch, std::size_t index,
                                            const kernels::Executor& executor, ModelAssets& assets,
                                            Work& work) const {
  const BatchRequest& request = *batch.requests[index];
  const kernels::PlanLimits limits = executor.limits();
  std::string fault = kernels::validate(request.plan, limits);
  if (fault.empty()) fault = executor.fault(request.plan);
  if (fault.empty()) fault = validate_pages(request);
  if (!fault.empty()) return bad_plan(std::move(fault));
  kernels::Request asked{&request.plan, std::vector<kernels::SegmentKv>(request.kv.size())};
  if (!request.catalog_version.empty() && assets.needed(request.plan)) try {
      asked.assets = assets.of(request.catalog_version);
      if (!asked.assets) return not_here(request.catalog_version);
    } catch (const std::exception& error) {
      return no_assets(request.catalog_version, error);
    }
  if (request.plan.search.width > 0 && request.plan.search.allowed.empty()) {
    if (request.plan.search.wants_index() && !asked.paths()) return not_here(request.catalog_version);
    fault = kernels::validate(request.plan, asked.paths().get(), limits);
    if (!fault.empty()) return bad_plan(std::move(fault));
  }
  PassBlocks& blocks = work.blocks.emplace_back();
  blocks.reserve(request.kv.size());
  for (std::uint32_t i = 0; i < request.kv.size(); ++i)
    if (request.kv[i].grant != Grant::none) blocks.push_back({&request.kv[i], i, {}});
  work.in_flight.emplace_back(arena_.arrivals(), request, batch.in_flight_us);
  work.requests.push_back(std::move(asked));
  work.index.push_back(index);
  return std::nullopt;
}

std::string ComputePort::validate_pages(const BatchRequest& request) const {
  if (request.kv.size() != request.plan.segments.size())
    return "kv has " + std::to_string(request.kv.size()) + " entries; expected one per segment, " +
           std::to_string(request.plan.segments.size());
  for (const Segment& segment : request.plan.segments)
    if (segment.shift != 0 || segment.replaces.segment != kernels::ReplacedTokens::none)
      return "a segment has a shift or replaces another; expected none";
  for (const kernels::Repair::ReusedSpan& place : request.plan.repair.reused_spans) {
    if (request.kv[place.segment].grant != Grant::none)
      return "segment " + std::to_string(place.segment) + " is approximate and has pages; expected none";
    if (place.of_prototypes && request.kv[place.block].grant != Grant::none)
      return "segment " + std::to_string(place.block) + " is made of prototypes and has pages; expected none";
    for (std::size_t s = place.segment + 1; s < request.kv.size(); ++s)
      if (request.kv[s].grant != Grant::none && request.plan.segments[s].sees.contains(place.segment))
        return "segment " + std::to_string(s) + " sees an approximate one and has pages; expected none";
  }
  for (const Readout& r : request.plan.readouts)
    if (request.kv[r.segment].grant == Grant::read)
      return "segment " + std::to_string(r.segment) + " is reused and read out; expected a computed segment";
  for (std::size_t i = 0; i < request.kv.size(); ++i) {
    const BatchSegmentKv& kv = request.kv[i];
    if (kv.grant == Grant::none) continue;
    bool fits = kv.pages.size() == models_.layout().pages_for(request.plan.segments[i].tokens.size());
    for (const std::uint32_t page : kv.pages) fits = fits && page < arena_.pages();
    if (!fits) return "segment " + std::to_string(i) + " has pages that do not hold its tokens";
  }
  return "";
}

// Clears the part of the arena's pages that the model's smaller pages do not use. Another model's
// block may have been there, and checksums cover whole pages.
void ComputePort::clear_tails(std::span<const PassBlocks> requests) const {
  if (models_.layout().page_bytes() >= arena_.page_bytes()) return;
  for (const PassBlocks& blocks : requests)
    for (const PassBlock& block : blocks)
      if (block.kv->grant == Grant::write)
        for (const std::uint32_t page : block.kv->pages)
          std::memset(arena_.page(page) + models_.layout().page_bytes(), 0,
                      arena_.page_bytes() - models_.layout().page_bytes());
}

// An executor that does not wait by layer begins when all blocks have arrived and are right.
void ComputePort::await_all(Work& work, std::size_t first, const kernels::Executor& executor) const {
  for (std::size_t i = first; !executor.waits_by_layer() && i < work.requests.size(); ++i)
    if (work.in_flight[i].any()) work.in_flight[i].settle(work.blocks[i], work.requests[i]);
}

// Runs again without missing blocks if one failed: other requests may have computed from wrong or
// absent bytes.
std::vector<kernels::Reply> ComputePort::compute(Work& work, std::size_t first, std::size_t count,
                                                 kernels::Executor& executor) const {
  const CpuScope kernels(CpuComponent::kernels);
  const auto requests = std::span(work.requests).subspan(first, count);
  const bool by_layer = executor.waits_by_layer();
  for (std::size_t i = 0; i < count; ++i)
    if (by_layer && work.in_flight[first + i].any()) requests[i].in_flight = &work.in_flight[first + i];
  std::vector<kernels::Reply> replies;
  bool in_vain = false;
  try {
    executor.run(requests, replies);
  } catch (const kernels::PagesNotArrived&) {
    in_vain = true;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (requests[i].in_flight != nullptr &&
        !work.in_flight[first + i].settle(work.blocks[first + i], requests[i]))
      in_vain = true;
  if (in_vain) executor.run(requests, replies);
  return replies;
}

// Runs as many requests from `first` on as pages can be had for. Returns how many have their reply.
std::size_t ComputePort::run_pass(Work& work, std::size_t first, kernels::Executor& executor,
                                  std::uint32_t slot, BatchDone& done) const {
  await_all(work, first, executor);
  PagesGuard hold{*pages_, slot};
  const auto blocks = std::span(work.blocks).subspan(first);
  const std::size_t count = pages_->begin(blocks, slot, done.device);
  if (count == 0) {
    done.replies[work.index[first]].refusal = too_many_pages(blocks.front());
    return 1;
  }
  const auto requests = std::span(work.requests).subspan(first, count);
  for (std::size_t i = 0; i < count; ++i) place(blocks[i], requests[i]);
  hold.failed = true;  // until the pass has succeeded
  std::vector<kernels::Reply> computed = compute(work, first, count, executor);
  for (std::size_t i = 0; i < count; ++i)
    if (!computed[i].too_large.empty()) blocks[i].clear();  // nothing was written for them
  clear_tails(blocks.first(count));
  pages_->keep(blocks.first(count), slot, done.device);
  hold.failed = false;
  for (std::size_t i = 0; i < count; ++i) {
    BatchReply& reply = done.replies[work.index[first + i]];
    const InFlightReads& in_flight = work.in_flight[first + i];
    done.in_flight_us += in_flight.in_flight_us();
    done.waited_us += in_flight.waited_us();
    reply.missed = in_flight.missed();
    if (computed[i].too_large.empty())
      collect(blocks[i], computed[i], requests[i].kv.size(), reply);
    else
      reply.refusal = too_large(std::move(computed[i].too_large));
  }
  return count;
}

}  // namespace troupe::actors
