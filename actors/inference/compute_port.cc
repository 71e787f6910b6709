#include "actors/inference/compute_port.h"

#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "kernels/check.h"
#include "kernels/errors.h"

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

Refusal not_loaded(const std::string& model_version) {
  return {503, "wrong_model", "model " + model_version + " is not loaded", "inference worker's device",
          "a model that was loaded before"};
}

Refusal cannot_load(std::uint16_t status, const char* code, const std::string& model_version,
                    std::string what, const char* expected) {
  return {status, code, std::move(what), "model " + model_version, expected};
}

// How the pages of two models differ; "" if they are alike.
std::string difference(const kernels::KvLayout& model, const kernels::KvLayout& pool) {
  std::string all;
  const auto compare = [&all](const char* what, const std::string& here, const std::string& there) {
    if (here == there) return;
    all += (all.empty() ? "" : "; ") + std::string(what) + " is " + here + ", the pool's is " + there;
  };
  compare("layers", std::to_string(model.layers), std::to_string(pool.layers));
  compare("kv_heads", std::to_string(model.kv_heads), std::to_string(pool.kv_heads));
  compare("head_dim", std::to_string(model.head_dim), std::to_string(pool.head_dim));
  compare("page_tokens", std::to_string(model.page_tokens), std::to_string(pool.page_tokens));
  compare("format", std::string(format_name(model.format)), std::string(format_name(pool.format)));
  return all;
}

}  // namespace

ComputePort::ComputePort(std::unique_ptr<kernels::Decoder> decoder, std::string model_version,
                         PageArena& arena, std::uint32_t lanes, bool verify_on_read, Loader loader)
    : first_version_(std::move(model_version)),
      layout_(decoder->layout()),
      arena_(arena),
      lanes_(lanes + (loader ? 1 : 0)),
      verify_on_read_(verify_on_read),
      loader_(std::move(loader)) {
  models_[first_version_] = executors_of(std::move(decoder));
}

std::shared_ptr<ComputePort::Executors> ComputePort::executors_of(
    std::unique_ptr<kernels::Decoder> decoder) const {
  auto executors = std::make_shared<Executors>(1);
  for (std::uint32_t lane = 1; lane < lanes_; ++lane) executors->push_back(decoder->share(lane));
  executors->front() = std::move(decoder);
  return executors;
}

JobResult ComputePort::run(const Job& job, std::uint32_t lane) {
  try {
    if (const auto* batch = std::get_if<RunBatch>(&job)) return run_batch(*batch, lane);
    if (const auto* wanted = std::get_if<LoadModel>(&job)) return load(wanted->model_version);
    if (const auto* old = std::get_if<DropModel>(&job)) return drop(old->model_version);
    return Refusal{500, "wrong_job", "not for this device", "inference worker",
                   "RunBatch, LoadModel or DropModel"};
  } catch (const std::exception& error) {
    return Refusal{503, "device_failed", error.what(), "inference worker", "a batch that fits this device"};
  }
}

// ---- models ----

std::shared_ptr<ComputePort::Executors> ComputePort::find(const std::string& model_version) const {
  const std::lock_guard lock(mutex_);
  const auto at = models_.find(model_version.empty() ? first_version_ : model_version);
  return at == models_.end() ? nullptr : at->second;
}

JobResult ComputePort::load(const std::string& model_version) try {
  if (find(model_version)) return ModelChanged{};
  if (!loader_)
    return cannot_load(501, "models_fixed", model_version, "models cannot be changed here",
                       "the model that was loaded at the start");
  std::unique_ptr<kernels::Decoder> decoder = loader_(model_version);
  TROUPE_CHECK(decoder != nullptr, "a loader gives a decoder or throws");
  const std::string fault = difference(decoder->layout(), layout_);
  if (!fault.empty())
    return cannot_load(422, "other_layout", model_version, "the model's pages differ: " + fault,
                       "a model whose keys and values fit the pages of the pool");
  auto executors = executors_of(std::move(decoder));
  const std::lock_guard lock(mutex_);
  models_.emplace(model_version, std::move(executors));
  return ModelChanged{};
} catch (const kernels::LoadError& error) {
  return cannot_load(422, "bad_model", model_version, error.what(), "a model directory that can be read");
} catch (const std::bad_alloc&) {
  return cannot_load(503, "no_memory", model_version, "there is no memory for this model",
                     "memory for two models while one takes the other's place");
} catch (const std::exception& error) {
  return cannot_load(503, "load_failed", model_version, error.what(), "a model that can be loaded");
}

JobResult ComputePort::drop(const std::string& model_version) {
  std::shared_ptr<Executors> last;  // freed without the lock
  const std::lock_guard lock(mutex_);
  const auto node = models_.extract(model_version);
  if (!node.empty()) last = std::move(node.mapped());
  return ModelChanged{};
}

// ---- batches ----

BatchDone ComputePort::run_batch(const RunBatch& batch, std::uint32_t lane) const {
  const auto begin = std::chrono::steady_clock::now();
  BatchDone done;
  done.replies.resize(batch.requests.size());
  std::map<std::string, std::vector<std::size_t>> by_model;
  for (std::size_t i = 0; i < batch.requests.size(); ++i)
    by_model[batch.requests[i].model_version].push_back(i);
  for (const auto& [model_version, requests] : by_model) {
    if (const auto executors = find(model_version)) {
      run_model(batch, requests, *executors->at(lane), done);
    } else {
      for (const std::size_t i : requests) done.replies[i].refusal = not_loaded(model_version);
    }
  }
  done.compute_us =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
  return done;
}

void ComputePort::run_model(const RunBatch& batch, std::span<const std::size_t> requests,
                            kernels::Decoder& decoder, BatchDone& done) const {
  std::vector<Prepared> prepared(requests.size());
  std::vector<kernels::Request> sound;
  std::vector<std::size_t> index;
  for (std::size_t n = 0; n < requests.size(); ++n) {
    const std::size_t i = requests[n];
    prepare(batch.requests[i], decoder.config(), prepared[n], done.replies[i]);
    if (done.replies[i].refusal) continue;
    prepared[n].request.plan = &prepared[n].plan;
    sound.push_back(std::move(prepared[n].request));
    index.push_back(i);
  }
  std::vector<kernels::Logits> logits;
  if (!sound.empty()) logits = decoder.forward(sound);
  for (std::size_t n = 0; n < index.size(); ++n)
    collect(batch.requests[index[n]], logits[n], done.replies[index[n]]);
}

void ComputePort::prepare(const BatchRequest& request, const kernels::DecoderConfig& config,
                          Prepared& prepared, BatchReply& reply) const {
  prepared.plan = to_plan(request);
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
  prepared.request.kv.resize(request.segments.size());
  for (std::size_t i = 0; i < request.kv.size(); ++i) {
    const BatchSegmentKv& from = request.kv[i];
    kernels::SegmentKv& to = prepared.request.kv[i];
    if (from.grant == Grant::none) continue;
    bool fits = from.pages.size() == layout_.pages_for(request.segments[i].tokens.size());
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
