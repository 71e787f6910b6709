// Runs Climber, which ranks for several tasks, on a device. The rows of all towers (sub-models that
// each read a part of the history) share one attention launch per layer.
#include "kernels/cuda/engine/climber.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/thread_clock.h"
#include "kernels/cuda/engine/cuda_climber.h"
#include "kernels/cuda/engine/pass_plan.h"
#include "kernels/cuda/engine/weight_uploader.h"
#include "kernels/cuda/kernels/decoder_kernels.h"
#include "kernels/executor/passes.h"

namespace troupe::kernels::cuda {
namespace {

// A task's logit and padding: outputs of products are multiples of 8.
constexpr std::uint32_t logit_stride = 8;

std::uint32_t rows_of(const CudaRankerOptions& options) {
  return (options.rows_max + climber_row_step - 1) / climber_row_step * climber_row_step;
}
DeviceMemory row_floats(const CudaRankerOptions& options, std::size_t width) {
  return DeviceMemory(rows_of(options) * width * sizeof(float));
}
// Returns the maximum number of candidates; a candidate is a row of every tower.
std::uint32_t candidates_max(const CudaRankerOptions& options, const ClimberConfig& config) {
  return rows_of(options) / static_cast<std::uint32_t>(config.towers.size());
}

struct ClimberUploader {
  WeightUploader up;

  DeviceAffine affine(Affine affine) {
    const std::uint32_t outputs = padded_outputs(affine.weight.rows), inputs = affine.weight.columns;
    affine.bias.resize(outputs);
    return {up.padded(std::move(affine.weight)), up.floats(affine.bias), inputs, outputs};
  }
  // Uploads layers with the same input, stacked one below the other.
  template <class Layers, class Of>
  DeviceAffine stacked(Layers& layers, Of of) {
    Affine all;
    for (auto& layer : layers) {
      Affine& one = of(layer);
      all.weight.columns = one.weight.columns, all.weight.rows += one.weight.rows;
      all.weight.values.insert(all.weight.values.end(), one.weight.values.begin(), one.weight.values.end());
      all.bias.insert(all.bias.end(), one.bias.begin(), one.bias.end());
    }
    return affine(std::move(all));
  }
  DeviceNorm norm(const NormWeights& weights) { return {up.floats(weights.weight), up.floats(weights.bias)}; }
  DeviceClimberTower tower(ClimberTowerWeights weights) {
    DeviceClimberTower tower;
    for (ClimberLayerWeights& layer : weights.layers)
      tower.layers.push_back({norm(layer.attention_norm), norm(layer.ffn_norm), affine(std::move(layer.qkv)),
                              affine(std::move(layer.output)), affine(std::move(layer.fc1)),
                              affine(std::move(layer.fc2))});
    tower.final_norm = norm(weights.final_norm);
    return tower;
  }
};

}  // namespace

std::shared_ptr<const DeviceClimber> upload_climber(ClimberModel model, RowFormat format) {
  ClimberWeights& w = model.weights;
  auto on = std::make_shared<DeviceClimber>();
  ClimberUploader up{WeightUploader(format, on->memory)};
  std::vector<float> scales, positions;
  for (const double temperature : climber_temperatures(model.config, w))
    scales.push_back(static_cast<float>(1 / temperature));
  for (const ClimberTowerWeights& tower : w.towers)
    positions.insert(positions.end(), tower.positions.values.begin(), tower.positions.values.end());
  on->scales = up.up.floats(scales), on->positions = up.up.floats(positions);
  on->items = up.up.floats(w.items.values), on->actions = up.up.floats(w.actions.values);
  for (ClimberTowerWeights& tower : w.towers) on->towers.push_back(up.tower(std::move(tower)));
  on->fusion = up.affine(std::move(w.fusion_gate));
  on->experts = up.stacked(w.experts, [](Affine& expert) -> Affine& { return expert; });
  on->gates = up.stacked(w.tasks, [](ClimberTaskWeights& task) -> Affine& { return task.gate; });
  for (ClimberTaskWeights& task : w.tasks)
    on->tasks.emplace_back(up.affine(std::move(task.fc1)), up.affine(std::move(task.fc2)));
  on->config = std::move(model.config);
  return on;
}

CudaClimber::CudaClimber(std::shared_ptr<const DeviceClimber> weights, const CudaRankerOptions& options)
    : weights_(std::move(weights)),
      c_(weights_->config),
      options_(options),
      layout_(kv_layout(c_, options.page_tokens, options.kv)),
      pages_(page_layout(layout_)),
      machine_(attend_machine(layout_, c_.heads, device_properties(options.device))),
      scratch_(layout_, rows_of(options)),
      batches_(c_, layout_),
      plan_(c_, layout_, machine_, {rows_of(options), options.keys_max}, scratch_.all()),
      product_(make_product(half_of(options.rows()))),
      state_(row_floats(options, c_.hidden)),
      qkv_(row_floats(options, 3 * c_.hidden)),
      mixed_(row_floats(options, c_.hidden)),
      inner_(row_floats(options, std::max(c_.intermediate, c_.head_size))),
      ends_(candidates_max(options, c_) * std::size_t{c_.fused()} * sizeof(float)),
      fused_(ends_.size_bytes()),
      opinions_(candidates_max(options, c_) * std::size_t{weights_->experts.outputs} * sizeof(float)),
      shares_(candidates_max(options, c_) * std::size_t{weights_->gates.outputs} * sizeof(float)),
      logits_(candidates_max(options, c_) * c_.tasks.size() * logit_stride * sizeof(float)),
      queries_(rows_of(options) * std::size_t{c_.hidden} * options.query_parts() * 2),
      normed_(
          std::max({rows_of(options) * std::size_t{std::max(c_.hidden, c_.intermediate)},
                    candidates_max(options, c_) * std::size_t{c_.fused()},
                    candidates_max(options, c_) * c_.tasks.size() * std::max(c_.expert_size, c_.head_size)}) *
          parts_of(options.rows()) * 2),
      partials_(attend_partial_bytes(layout_, partials_max(machine_),
                                     std::max(machine_.small.vectors, machine_.large.vectors))),
      host_logits_(logits_.size_bytes()) {}

std::unique_ptr<Executor> CudaClimber::share(std::uint32_t) const {
  use_device(options_.device);
  return std::make_unique<CudaClimber>(weights_, options_);
}

void CudaClimber::run(std::span<const Request> requests, std::vector<Reply>& replies) {
  use_device(options_.device);
  start_replies(requests, replies);
  run_in_passes(requests, replies, [this](auto some, auto answers) { return run_pass(some, answers); });
}

// Returns which bound is exceeded; then nothing was launched. Empty if none is.
std::string CudaClimber::run_pass(std::span<const Request> requests, std::span<Reply> replies) {
  const double begin = thread_cpu_seconds();
  for (std::size_t i = 0; i < requests.size(); ++i)
    replies[i].readouts.resize(requests[i].plan->readouts.size());
  batch_ = &batches_.plan(requests);
  if (batch_->rows() == 0) return "";
  if (std::string beyond = plan_.plan(*batch_); !beyond.empty()) return beyond;
  if (times_ != nullptr) times_->planning += thread_cpu_seconds() - begin;
  run_enqueued(stream_, times_, marks_, [this] { enqueue(); });
  for (const ClimberReadout& readout : batch_->readouts)
    replies[readout.request].readouts[readout.index].assign(
        1, host_logits_.as<float>()[(std::size_t{readout.task} * plan_.candidates() + readout.candidate) *
                                    logit_stride]);
  return "";
}

void CudaClimber::enqueue() {
  plan_.send(stream_);
  for (std::byte* page : batch_->unread) stream_.clear(page, layout_.page_bytes());
  sum_rows({.tables = {weights_->items, weights_->actions, weights_->positions},
            .numbers = {plan_.tokens(), plan_.actions(), plan_.positions()},
            .rows = plan_.rows(),
            .width = c_.hidden,
            .out = state_.as<float>()},
           stream_);
  clear_tokens(layout_, plan_.cleared(), plan_.cleared_count(), stream_);
  ended(&PassTimes::embedding);
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
    make_heads(layer);
    attend(layer);
    for (std::size_t k = 0; k < plan_.towers().size(); ++k) {
      const ClimberTowerRows& rows = plan_.towers()[k];
      finish_layer(layer, weights_->towers[k], is_last(layer) ? rows.candidates : rows.begin, rows.end);
    }
  }
  if (batch_->candidates > 0) score();
}

RowTransform CudaClimber::rows_from(const float* in, std::uint32_t width, std::uint32_t rows) const {
  return {.in = in,
          .in_stride = width,
          .epsilon = static_cast<float>(c_.norm_epsilon),
          .rows = rows,
          .width = width,
          .format = options_.rows(),
          .out = normed_.as<std::uint16_t>(),
          .inputs = width};
}

void CudaClimber::norm(const DeviceNorm& norm, RowTransform task) {
  task.norm = RowNorm::moments, task.weight = norm.weight, task.bias = norm.bias;
  transform_rows(task, stream_);
}

void CudaClimber::multiply(const DeviceAffine& affine, std::uint32_t rows, ProductOut out, float* to) {
  ended(&PassTimes::elementwise);
  product_->run({rows, affine.inputs * parts_of(options_.rows()), affine.outputs, out, true},
                {normed_.as<std::uint16_t>(), affine.weight, affine.bias, to}, stream_);
  ended(&PassTimes::linear);
}

// Computes queries divided by their temperatures, keys and values, for all rows in every layer.
void CudaClimber::make_heads(std::uint32_t layer) {
  for (std::size_t k = 0; k < plan_.towers().size(); ++k) {
    const ClimberTowerRows& rows = plan_.towers()[k];
    if (rows.begin == rows.end) continue;
    const DeviceClimberLayer& weights = weights_->towers[k].layers[layer];
    norm(weights.attention_norm, rows_from(state(rows.begin), c_.hidden, rows.end - rows.begin));
    multiply(weights.qkv, rows.end - rows.begin, ProductOut::f32,
             qkv_.as<float>() + std::size_t{rows.begin} * 3 * c_.hidden);
  }
  cuda::make_heads(layout_,
                   {.qkv = qkv_.as<float>(),
                    .stride = 3 * c_.hidden,
                    .key_at = c_.hidden,
                    .value_at = 2 * c_.hidden,
                    .scales = weights_->scales + std::size_t{layer} * c_.heads,
                    .scale_rows = plan_.scale_rows(),
                    .slots = plan_.slots(),
                    .queries = queries_.as<std::uint16_t>(),
                    .queries_as_keys = true,
                    .rows = plan_.rows(),
                    .heads = c_.heads,
                    .layer = layer},
                   stream_);
  ended(&PassTimes::keys_values);
}

void CudaClimber::attend(std::uint32_t layer) {
  AttendPass pass = plan_.attention(is_last(layer));
  pass.partials = partials_.as<float>();
  cuda::attend(layout_, pass,
               {.queries = queries_.as<std::uint16_t>(),
                .query_stride = c_.hidden * options_.query_parts(),
                .out_stride = c_.hidden,
                .layer = layer,
                .heads = 1,
                .queries_as_keys = true,
                .out_f32 = mixed_.as<float>()},
               stream_);
  ended(&PassTimes::attention);
}

// Runs the steps of a layer after attention for rows [begin, end) of a tower.
void CudaClimber::finish_layer(std::uint32_t layer, const DeviceClimberTower& tower, std::uint32_t begin,
                               std::uint32_t end) {
  if (begin == end) return;
  const DeviceClimberLayer& weights = tower.layers[layer];
  const std::uint32_t rows = end - begin;
  transform_rows(rows_from(mixed_.as<float>() + std::size_t{begin} * c_.hidden, c_.hidden, rows), stream_);
  multiply(weights.output, rows, ProductOut::add_f32, state(begin));
  norm(weights.ffn_norm, rows_from(state(begin), c_.hidden, rows));
  multiply(weights.fc1, rows, ProductOut::f32, inner_.as<float>());
  RowTransform inner = rows_from(inner_.as<float>(), c_.intermediate, rows);
  inner.silu = true;
  transform_rows(inner, stream_);
  multiply(weights.fc2, rows, ProductOut::add_f32, state(begin));
}

// Computes fusion, experts and task heads of all candidates.
void CudaClimber::score() {
  const std::uint32_t candidates = plan_.candidates(), fused = c_.fused();
  for (std::uint32_t k = 0; k < plan_.towers().size(); ++k) {
    RowTransform end = rows_from(state(plan_.towers()[k].candidates), c_.hidden, candidates);
    end.out_f32 = ends_.as<float>() + std::size_t{k} * c_.hidden, end.out_stride = fused;
    norm(weights_->towers[k].final_norm, end);
  }
  transform_rows(rows_from(ends_.as<float>(), fused, candidates), stream_);
  multiply(weights_->fusion, candidates, ProductOut::f32, fused_.as<float>());
  RowTransform gated = rows_from(ends_.as<float>(), fused, candidates);
  gated.gate = RowGate::sigmoid, gated.gates = fused_.as<float>(), gated.gate_stride = fused;
  transform_rows(gated, stream_);
  multiply(weights_->experts, candidates, ProductOut::f32, opinions_.as<float>());
  multiply(weights_->gates, candidates, ProductOut::f32, shares_.as<float>());
  for (std::uint32_t task = 0; task < c_.tasks.size(); ++task) score_task(task);
  stream_.download(host_logits_.data(), logits_.data(),
                   std::size_t{candidates} * c_.tasks.size() * logit_stride * sizeof(float));
  ended(&PassTimes::readout);
}

void CudaClimber::score_task(std::uint32_t task) {
  const std::uint32_t candidates = plan_.candidates();
  const auto& [fc1, fc2] = weights_->tasks[task];
  mix_experts({.opinions = opinions_.as<float>(),
               .opinion_stride = weights_->experts.outputs,
               .gates = shares_.as<float>() + std::size_t{task} * c_.experts,
               .gate_stride = weights_->gates.outputs,
               .rows = candidates,
               .experts = c_.experts,
               .size = c_.expert_size,
               .format = options_.rows(),
               .out = normed_.as<std::uint16_t>()},
              stream_);
  multiply(fc1, candidates, ProductOut::f32, inner_.as<float>());
  RowTransform inner = rows_from(inner_.as<float>(), c_.head_size, candidates);
  inner.silu = true;
  transform_rows(inner, stream_);
  multiply(fc2, candidates, ProductOut::f32,
           logits_.as<float>() + std::size_t{task} * candidates * logit_stride);
}

std::string cuda_climber_fault(const ClimberConfig& config, const CudaRankerOptions& options) {
  if (std::string fault = bounds_fault(options); !fault.empty()) return fault;
  if (options.keys_max > attend_keys_max)
    return "keys_max " + std::to_string(options.keys_max) + "; expected at most " +
           std::to_string(attend_keys_max);
  for (const auto& [what, found] : {std::pair{"hidden_size", config.hidden},
                                    {"intermediate_size", config.intermediate},
                                    {"expert_size", config.expert_size},
                                    {"tower_size", config.head_size}})
    if (std::string fault = multiple_of_8_fault(what, found); !fault.empty()) return fault;
  return attend_fault(kv_layout(config, options.page_tokens, options.kv), config.heads);
}

std::unique_ptr<Executor> make_cuda_climber(ClimberModel model, const CudaRankerOptions& options) {
  const std::string fault = cuda_climber_fault(model.config, options);
  TROUPE_CHECK(fault.empty(), fault);
  use_device(options.device);
  return std::make_unique<CudaClimber>(upload_climber(std::move(model), options.rows()), options);
}

}  // namespace troupe::kernels::cuda
