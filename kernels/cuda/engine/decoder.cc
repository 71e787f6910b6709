// Runs forward passes of a decoder on a device: one upload, the launches, one download of the
// logits. The launches of a known shape are replayed from a recording.
#include "kernels/cuda/engine/decoder.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/thread_clock.h"
#include "kernels/cuda/engine/cuda_decoder.h"
#include "kernels/executor/passes.h"

namespace troupe::kernels::cuda {
namespace {

PassBounds bounds_of(const CudaDecoderOptions& options, const DecoderConfig& config) {
  return {options.rows_max, options.keys_max, options.logits_max, options.plan_bytes_max, config.hidden};
}

// Returns the bounds of search levels; empty if there are no searches.
LevelBounds level_bounds_of(const CudaDecoderOptions& options) {
  if (options.search_tokens_max == 0) return {};
  return {options.rows_max, options.logits_max, options.search_logits_max};
}

}  // namespace

CudaDecoder::CudaDecoder(std::shared_ptr<const DeviceWeights> weights, const CudaDecoderOptions& options)
    : weights_(std::move(weights)),
      options_(options),
      layout_(kv_layout(weights_->config, options.page_tokens, options.kv)),
      pages_(page_layout(layout_)),
      machine_(attend_machine(layout_, weights_->config.heads, device_properties(options.device))),
      scratch_(layout_, options.rows_max),
      search_scratch_(layout_, options.search_tokens_max),
      batches_(weights_->config, layout_),
      plans_(layout_, machine_, bounds_of(options, weights_->config), scratch_.all()),
      pass_(weights_, layout_, machine_, bounds_of(options, weights_->config)),
      repairs_(weights_, layout_, machine_),
      levels_(weights_, level_bounds_of(options), options.graphs_max),
      staging_(options.plan_bytes_max),
      logits_(options.logits_max * sizeof(float)),
      graphs_(options.graphs_max) {}

PlanLimits CudaDecoder::limits() const {
  PlanLimits limits = plan_limits(weights_->config);
  limits.width_max = options_.search_tokens_max == 0 ? 0 : std::min(limits.width_max, options_.rows_max);
  return limits;
}

std::unique_ptr<Executor> CudaDecoder::share(std::uint32_t) const {
  use_device(options_.device);
  return std::make_unique<CudaDecoder>(weights_, options_);
}

void CudaDecoder::run(std::span<const Request> requests, std::vector<Reply>& replies) {
  use_device(options_.device);
  start_replies(requests, replies);
  const bool searches =
      std::ranges::any_of(requests, [](const Request& request) { return request.plan->search.width > 0; });
  if (searches) return run_with_searches(requests, replies);
  run_in_passes(requests, replies, [this](std::span<const Request> some, std::span<Reply> answers) {
    return run_pass(some, answers);
  });
}

// Returns which bound is exceeded; then nothing was launched. Empty if none is.
std::string CudaDecoder::run_pass(std::span<const Request> requests, std::span<Reply> replies) {
  const double begin = thread_cpu_seconds();
  const DecoderBatch& batch = batches_.plan(requests);
  for (std::size_t i = 0; i < requests.size(); ++i)
    replies[i].readouts.resize(requests[i].plan->readouts.size());
  if (batch.rows() == 0) return "";
  if (std::string fault = plans_.plan(batch); !fault.empty()) return fault;
  const PassShape shape = shape_of(batch, plans_.result());
  pack(batch, plans_.result(), shape, staging_.data());
  if (times_ != nullptr) times_->planning += thread_cpu_seconds() - begin;
  launch([&] {
    enqueue_pass(batch, shape);
    enqueue_downloads(batch);
  });
  distribute_replies(batch, replies);
  for (std::size_t r = 0; r < batch.repairs.size(); ++r)
    repairs_.list_chosen(r, replies[batch.repairs[r].request].chosen);
  return "";
}

// Enqueues the upload and the launches. A pass with a repair chooses rows on its way, so it is not
// recorded.
void CudaDecoder::enqueue_pass(const DecoderBatch& batch, const PassShape& shape) {
  stream_.upload(pass_.plan(), staging_.data(), packed_bytes(shape, plans_.result()));
  if (!batch.repairs.empty())
    repairs_.run(pass_, pass_.call(shape, stream_, times_ != nullptr ? &marks_ : nullptr), batch, plans_);
  else if (times_ != nullptr)
    pass_.enqueue(shape, stream_, &marks_);
  else
    graphs_.run(shape, stream_, [&] { pass_.enqueue(shape, stream_, nullptr); });
}

void CudaDecoder::enqueue_downloads(const DecoderBatch& batch) {
  const PassPlan& plan = plans_.result();
  if (plan.logits > 0) stream_.download(logits_.data(), pass_.logits(), plan.logits * sizeof(float));
  const std::size_t hidden = weights_->config.hidden;
  for (std::size_t i = 0; i < batch.readouts.size(); ++i)
    if (batch.readouts[i].what == Readout::What::state)
      stream_.download(logits_.as<float>() + plan.logits_at[i],
                       pass_.states() + batch.readouts[i].read_row * hidden, hidden * sizeof(float));
}

void CudaDecoder::distribute_replies(const DecoderBatch& batch, std::span<Reply> replies) const {
  for (std::size_t i = 0; i < batch.readouts.size(); ++i) {
    const BatchReadout& readout = batch.readouts[i];
    const float* const first = logits_.as<float>() + plans_.result().logits_at[i];
    const bool state = readout.what == Readout::What::state;
    const std::size_t count = state ? weights_->config.hidden : readout.vocabulary_rows.size();
    replies[readout.request].readouts[readout.index].assign(first, first + count);
  }
}

std::uint32_t search_logits_min(const DecoderConfig& config) { return padded_vocabulary(config.vocabulary); }

std::string cuda_decoder_fault(const DecoderConfig& config, const CudaDecoderOptions& options) {
  const auto not_eights = [](const char* what, std::uint32_t found) {
    return std::string(what) + " " + std::to_string(found) + "; on a GPU expected a multiple of 8";
  };
  if (options.page_tokens == 0) return "page_tokens 0; expected at least 1";
  if (options.rows_max == 0 || options.logits_max == 0 || options.plan_bytes_max == 0)
    return "a bound of passes is 0; expected at least 1";
  if (options.search_tokens_max > 0 && options.search_logits_max < search_logits_min(config))
    return "search_logits_max " + std::to_string(options.search_logits_max) + "; expected at least " +
           std::to_string(search_logits_min(config));
  if (options.keys_max > attend_keys_max)
    return "keys_max " + std::to_string(options.keys_max) + "; expected at most " +
           std::to_string(attend_keys_max);
  if (config.hidden % 8 != 0) return not_eights("hidden", config.hidden);
  if (config.intermediate % 8 != 0) return not_eights("intermediate", config.intermediate);
  if (options.kv == KvFormat::f32) return "keys and values in f32; on a GPU expected bf16 or f16";
  return attend_fault(kv_layout(config, options.page_tokens, options.kv), config.heads);
}

std::unique_ptr<Executor> make_cuda_decoder(DecoderModel model, const CudaDecoderOptions& options) {
  const std::string fault = cuda_decoder_fault(model.config, options);
  TROUPE_CHECK(fault.empty(), fault);
  use_device(options.device);
  return std::make_unique<CudaDecoder>(upload_weights(std::move(model), options.weights), options);
}

}  // namespace troupe::kernels::cuda
