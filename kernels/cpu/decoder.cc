// The decoder on the CPU. One forward pass runs all computed tokens of all requests through the layers as the
// rows of one matrix; BatchPlanner says beforehand which rows belong together, LayerKv holds their keys and
// values. After the last layer's keys and values are written, only rows with a readout go on: a ranking
// request has one.
#include "kernels/cpu/cpu_decoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/decoder_batch.h"
#include "kernels/cpu/decoder_buffer.h"
#include "kernels/cpu/decoder_kv.h"
#include "kernels/cpu/decoder_readout.h"
#include "kernels/cpu/decoder_rope.h"
#include "kernels/cpu/decoder_weights.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t ffn_rows =
    256;  // rows that go through the feed-forward part at once, so that it stays in cache

class CpuDecoder final : public Decoder {
 public:
  CpuDecoder(std::shared_ptr<const PackedDecoder> weights, const DecoderOptions& options,
             const VectorKernels& vector_kernels)
      : weights_(std::move(weights)),
        c_(weights_->config),
        options_(options),
        layout_(kv_layout(c_, options.page_tokens)),
        vector_kernels_(vector_kernels),
        planner_(c_, layout_),
        kv_(layout_),
        rope_(rope_frequencies(c_)) {}

  const DecoderConfig& config() const override { return c_; }
  const KvLayout& layout() const override { return layout_; }
  using Decoder::forward;
  void forward(std::span<const Request> requests, std::vector<Logits>& logits) override;
  void measure(ForwardTimes* times) override { times_ = times; }
  std::unique_ptr<Decoder> share() const override {
    return std::make_unique<CpuDecoder>(weights_, options_, vector_kernels_);
  }

 private:
  void reserve();
  void embed();
  void run_layer(std::uint32_t index);
  void project_qkv(const PackedLayer& layer);
  void keep_read_rows();
  void attend_group(const RowGroup& group, std::uint32_t layer, bool read_rows_only);
  void add_feed_forward(const PackedLayer& layer);
  void norm(const float* in, const std::vector<float>& weight, std::size_t rows);
  void read(std::span<const Request> requests, std::vector<Logits>& logits);

  std::size_t q_width() const { return std::size_t{c_.heads} * c_.head_dim; }
  std::size_t kv_width() const { return std::size_t{c_.kv_heads} * c_.head_dim; }
  std::size_t qkv_width() const { return q_width() + 2 * kv_width(); }

  const std::shared_ptr<const PackedDecoder> weights_;
  const DecoderConfig& c_;
  const DecoderOptions options_;
  const KvLayout layout_;
  const VectorKernels vector_kernels_;
  const Elementwise& ops_ = *vector_kernels_.elementwise;
  BatchPlanner planner_;
  LayerKv kv_;
  RopeTable rope_;

  ForwardTimes* times_ = nullptr;

  // The pass at hand.
  const DecoderBatch* batch_ = nullptr;
  std::size_t rows_ = 0;  // rows that still take part: all, then those with a readout
  FloatBuffer state_, normed_, qkv_, mixed_, sum_;  // [rows] × hidden, hidden, qkv_width, q_width, hidden
  FloatBuffer gate_up_, activated_;                 // [ffn_rows] × 2*intermediate, intermediate
  std::vector<KvRun> context_;
  AttendScratch attend_scratch_;
};

void CpuDecoder::forward(std::span<const Request> requests, std::vector<Logits>& logits) {
  batch_ = &planner_.plan(requests);
  rows_ = batch_->rows();
  reserve();
  embed();
  rope_.gather(batch_->positions);
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) run_layer(layer);
  read(requests, logits);
}

void CpuDecoder::reserve() {
  state_.reserve(rows_ * c_.hidden);
  normed_.reserve(rows_ * c_.hidden);
  qkv_.reserve(rows_ * qkv_width());
  mixed_.reserve(rows_ * q_width());
  sum_.reserve(rows_ * c_.hidden);
  const std::size_t at_once = std::min(rows_, ffn_rows);
  gate_up_.reserve(at_once * 2 * c_.intermediate);
  activated_.reserve(at_once * c_.intermediate);
  kv_.reserve(batch_->rows());
}

void CpuDecoder::embed() {
  float* out = state_.data();
  for (const Token token : batch_->tokens) {
    out =
        std::copy_n(&weights_->embedding.values[static_cast<std::size_t>(token) * c_.hidden], c_.hidden, out);
  }
}

void CpuDecoder::run_layer(std::uint32_t index) {
  const PackedLayer& layer = weights_->layers[index];
  project_qkv(layer);
  kv_.store(qkv_.data() + q_width(), qkv_.data() + q_width() + kv_width(), qkv_width());
  for (const KeptSegment& segment : batch_->kept) kv_.keep(segment, index);
  const bool last = index + 1 == c_.layers;
  if (last) keep_read_rows();
  for (const RowGroup& group : batch_->groups) attend_group(group, index, last);
  layer.o.run(mixed_.data(), sum_.data(), rows_);
  ops_.add_rows(sum_.data(), c_.hidden, state_.data(), c_.hidden, rows_, c_.hidden);
  add_feed_forward(layer);
}

// Queries, keys and values of every row side by side; queries and keys are normed (Qwen3) and rotated in
// place.
void CpuDecoder::project_qkv(const PackedLayer& layer) {
  norm(state_.data(), layer.input_norm, rows_);
  layer.qkv.run(normed_.data(), qkv_.data(), rows_);
  const std::size_t stride = qkv_width(), rotated_heads = c_.heads + c_.kv_heads;
  for (std::size_t head = 0; c_.qk_norm && head < rotated_heads; ++head) {
    const std::vector<float>& weight = head < c_.heads ? layer.q_norm : layer.k_norm;
    float* at = qkv_.data() + head * c_.head_dim;
    ops_.rms_norm(at, stride, weight.data(), static_cast<float>(c_.rms_epsilon), at, stride, rows_,
                  c_.head_dim);
  }
  ops_.rope(qkv_.data(), stride, rows_, rotated_heads, c_.head_dim, rope_.cosines(), rope_.sines());
}

// Moves the rows with a readout to the front; the others end here. Only their queries are needed from now on.
void CpuDecoder::keep_read_rows() {
  const std::vector<std::uint32_t>& read_rows = batch_->read_rows;
  for (std::size_t to = 0; to < read_rows.size(); ++to) {
    const std::size_t from = read_rows[to];
    if (from == to) continue;
    std::copy_n(state_.data() + from * c_.hidden, c_.hidden, state_.data() + to * c_.hidden);
    std::copy_n(qkv_.data() + from * qkv_width(), q_width(), qkv_.data() + to * qkv_width());
  }
  rows_ = read_rows.size();
}

void CpuDecoder::attend_group(const RowGroup& group, std::uint32_t layer, bool read_rows_only) {
  const std::size_t begin = read_rows_only ? group.read_begin : group.row_begin;
  const std::size_t rows = (read_rows_only ? group.read_end : group.row_end) - begin;
  if (rows == 0) return;
  const auto interval = [&](const std::vector<std::uint32_t>& all) {
    return std::span(all).subspan(begin, rows);
  };
  AttendTask task;
  task.query_stride = qkv_width();
  task.out_stride = q_width();
  task.rows = static_cast<std::uint32_t>(rows);
  task.heads = c_.heads / c_.kv_heads;
  task.head_dim = c_.head_dim;
  task.scale = 1 / std::sqrt(static_cast<float>(c_.head_dim));
  task.tail_begin = interval(read_rows_only ? batch_->read_begin : batch_->visible_begin);
  task.tail_end = interval(read_rows_only ? batch_->read_end : batch_->visible_end);
  const auto spans = std::span(batch_->spans).subspan(group.span_begin, group.span_end - group.span_begin);
  for (std::uint32_t head = 0; head < c_.kv_heads; ++head) {
    kv_.resolve(spans, layer, head, context_);
    const KvRun tail = kv_.rows(head, group.row_begin, group.row_end - group.row_begin);
    const std::size_t first_query = std::size_t{head} * task.heads * c_.head_dim;
    task.queries = qkv_.data() + begin * task.query_stride + first_query;
    task.out = mixed_.data() + begin * task.out_stride + first_query;
    task.context = context_;
    task.tail = std::span(&tail, 1);
    vector_kernels_.attend(task, attend_scratch_);
  }
}

void CpuDecoder::add_feed_forward(const PackedLayer& layer) {
  norm(state_.data(), layer.post_attention_norm, rows_);
  for (std::size_t row = 0; row < rows_; row += ffn_rows) {
    const std::size_t count = std::min(ffn_rows, rows_ - row);
    layer.gate_up.run(normed_.data() + row * c_.hidden, gate_up_.data(), count);
    ops_.swiglu(gate_up_.data(), 2 * c_.intermediate, activated_.data(), c_.intermediate, count,
                c_.intermediate);
    layer.down.run(activated_.data(), sum_.data(), count);
    ops_.add_rows(sum_.data(), c_.hidden, state_.data() + row * c_.hidden, c_.hidden, count, c_.hidden);
  }
}

// normed = RMSNorm(in), dense rows of hidden features.
void CpuDecoder::norm(const float* in, const std::vector<float>& weight, std::size_t rows) {
  ops_.rms_norm(in, c_.hidden, weight.data(), static_cast<float>(c_.rms_epsilon), normed_.data(), c_.hidden,
                rows, c_.hidden);
}

void CpuDecoder::read(std::span<const Request> requests, std::vector<Logits>& logits) {
  logits.resize(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    logits[i].readouts.resize(requests[i].plan->readouts.size());
  }
  norm(state_.data(), weights_->final_norm, rows_);
  for (const BatchReadout& readout : batch_->readouts) {
    std::vector<float>& out = logits[readout.request].readouts[readout.index];
    out.resize(readout.vocabulary_rows.size());
    dot_rows(normed_.data() + readout.read_row * std::size_t{c_.hidden}, weights_->output_rows(),
             readout.vocabulary_rows, out.data());
  }
}

}  // namespace

std::unique_ptr<Decoder> make_cpu_decoder(DecoderModel model, const DecoderOptions& options,
                                          const VectorKernels& vector_kernels) {
  TROUPE_CHECK(options.page_tokens > 0, "a page holds at least one token");
  return std::make_unique<CpuDecoder>(std::make_shared<const PackedDecoder>(pack_decoder(std::move(model))),
                                      options, vector_kernels);
}

std::unique_ptr<Decoder> make_cpu_decoder(DecoderModel model, const DecoderOptions& options) {
  return make_cpu_decoder(std::move(model), options, {&elementwise(), &attend});
}

}  // namespace troupe::kernels
