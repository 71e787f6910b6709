#include "kernels/cuda/engine/decoder.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/thread_clock.h"
#include "kernels/cuda/engine/decoder_pass.h"
#include "kernels/cuda/engine/pass_graphs.h"
#include "kernels/decoder/decoder_batch.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::size_t page_alignment = 64;

PassBounds bounds_of(const CudaDecoderOptions& options) {
  return {options.rows_max, options.keys_max, options.logits_max, options.plan_bytes_max};
}

// Pages for keys and values that do not outlive their pass.
struct Scratch {
  DeviceMemory memory;
  std::vector<std::byte*> pages;

  Scratch(const KvLayout& layout, std::uint32_t tokens) {
    const std::size_t stride = (layout.page_bytes() + page_alignment - 1) / page_alignment * page_alignment;
    memory = DeviceMemory(layout.pages_for(tokens) * stride);
    for (std::size_t p = 0; p < layout.pages_for(tokens); ++p) pages.push_back(memory.data() + p * stride);
  }
};

class CudaDecoder final : public Decoder {
 public:
  CudaDecoder(std::shared_ptr<const DeviceWeights> weights, const CudaDecoderOptions& options)
      : weights_(std::move(weights)),
        options_(options),
        layout_(kv_layout(weights_->config, options.page_tokens, options.kv)),
        machine_(attend_machine(layout_, weights_->config.heads, device_properties(options.device))),
        scratch_(layout_, options.rows_max),
        batches_(weights_->config, layout_),
        plans_(layout_, machine_, bounds_of(options), scratch_.pages),
        pass_(weights_, layout_, machine_, bounds_of(options)),
        staging_(options.plan_bytes_max),
        logits_(options.logits_max * sizeof(float)),
        graphs_(options.graphs_max) {}

  const DecoderConfig& config() const override { return weights_->config; }
  const KvLayout& layout() const override { return layout_; }
  using Decoder::forward;
  void forward(std::span<const Request> requests, std::vector<Logits>& logits) override;
  void measure(ForwardTimes* times) override { times_ = times; }
  std::unique_ptr<Decoder> share(std::uint32_t) const override {
    use_device(options_.device);
    return std::make_unique<CudaDecoder>(weights_, options_);
  }

 private:
  PassShape plan(const DecoderBatch& batch);
  void run(const PassShape& shape);
  void end_what_runs();
  void hand_out(const DecoderBatch& batch, std::vector<Logits>& logits) const;

  const std::shared_ptr<const DeviceWeights> weights_;
  const CudaDecoderOptions options_;
  const KvLayout layout_;
  const AttendMachine machine_;
  const Scratch scratch_;
  BatchPlanner batches_;
  PassPlanner plans_;
  DecoderPass pass_;
  const PageLockedMemory staging_, logits_;  // of the pass at hand
  PassGraphs graphs_;
  PartMarks marks_;
  ForwardTimes* times_ = nullptr;
  Stream stream_;
};

void CudaDecoder::forward(std::span<const Request> requests, std::vector<Logits>& logits) {
  use_device(options_.device);
  const double begin = thread_cpu_seconds();
  const DecoderBatch& batch = batches_.plan(requests);
  logits.resize(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i)
    logits[i].readouts.resize(requests[i].plan->readouts.size());
  if (batch.rows() == 0) return;
  const PassShape shape = plan(batch);
  if (times_ != nullptr) times_->planning += thread_cpu_seconds() - begin;
  try {
    run(shape);
  } catch (...) {
    end_what_runs();
    throw;
  }
  if (times_ != nullptr) marks_.add_to(*times_);
  hand_out(batch, logits);
}

// Leaves the packed pass in the staging memory.
PassShape CudaDecoder::plan(const DecoderBatch& batch) {
  if (const std::string fault = plans_.plan(batch); !fault.empty()) throw PassRefused(fault);
  const PassShape shape = shape_of(batch, plans_.result());
  pack(batch, plans_.result(), shape, staging_.data());
  return shape;
}

// One upload, the launches, one download.
void CudaDecoder::run(const PassShape& shape) {
  const PassPlan& plan = plans_.result();
  stream_.upload(pass_.plan(), staging_.data(), packed_bytes(shape, plan));
  if (times_ != nullptr)
    pass_.enqueue(shape, stream_, &marks_);
  else
    graphs_.run(shape, stream_, [&] { pass_.enqueue(shape, stream_, nullptr); });
  if (plan.logits > 0) stream_.download(logits_.data(), pass_.logits(), plan.logits * sizeof(float));
  stream_.synchronize();
}

// The next pass writes where commands of this one may still read.
void CudaDecoder::end_what_runs() {
  try {
    stream_.synchronize();
  } catch (const DeviceError&) {  // of the same failure, which the caller hears of already
  }
}

void CudaDecoder::hand_out(const DecoderBatch& batch, std::vector<Logits>& logits) const {
  for (std::size_t i = 0; i < batch.readouts.size(); ++i) {
    const BatchReadout& readout = batch.readouts[i];
    const float* const first = logits_.as<float>() + plans_.result().logits_at[i];
    logits[readout.request].readouts[readout.index].assign(first, first + readout.vocabulary_rows.size());
  }
}

}  // namespace

std::string cuda_decoder_fault(const DecoderConfig& config, const CudaDecoderOptions& options) {
  const auto not_eights = [](const char* what, std::uint32_t found) {
    return std::string(what) + " " + std::to_string(found) + "; on a GPU expected a multiple of 8";
  };
  if (options.page_tokens == 0) return "page_tokens 0; expected at least 1";
  if (options.rows_max == 0 || options.logits_max == 0 || options.plan_bytes_max == 0)
    return "a bound of passes is 0; expected at least 1";
  if (options.keys_max > attend_keys_max)
    return "keys_max " + std::to_string(options.keys_max) + "; expected at most " +
           std::to_string(attend_keys_max);
  if (config.hidden % 8 != 0) return not_eights("hidden", config.hidden);
  if (config.intermediate % 8 != 0) return not_eights("intermediate", config.intermediate);
  return attend_fault(kv_layout(config, options.page_tokens, options.kv), config.heads);
}

std::unique_ptr<Decoder> make_cuda_decoder(DecoderModel model, const CudaDecoderOptions& options) {
  const std::string fault = cuda_decoder_fault(model.config, options);
  TROUPE_CHECK(fault.empty(), fault);
  use_device(options.device);
  return std::make_unique<CudaDecoder>(upload_weights(std::move(model), options.weights), options);
}

}  // namespace troupe::kernels::cuda
