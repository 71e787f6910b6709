// Runs HSTU, which ranks over a user's history of items, on a device. The host finds the time
// buckets of the attention bias once per pass and uploads them with the plan.
#include "kernels/cuda/engine/hstu.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/thread_clock.h"
#include "kernels/cuda/engine/cuda_hstu.h"
#include "kernels/cuda/engine/weight_uploader.h"
#include "kernels/cuda/kernels/decoder_kernels.h"
#include "kernels/executor/passes.h"

namespace troupe::kernels::cuda {
namespace {

// Allocates as many rows as a pass may have.
DeviceMemory hstu_rows(const CudaRankerOptions& options, std::size_t width, std::size_t number_bytes) {
  return DeviceMemory(std::size_t{rounded_rows(options.rows_max)} * width * number_bytes);
}

PassBounds hstu_bounds(const CudaRankerOptions& options, const HstuConfig& config) {
  return {options.rows_max, options.keys_max, options.logits_max, options.plan_bytes_max, config.hidden};
}

std::vector<float> item_scales(const Matrix& items, const HstuConfig& c) {
  std::vector<float> scales;
  for (std::size_t item = 0; item < c.vocabulary; ++item) {
    double squares = 0;
    for (std::size_t i = 0; i < c.hidden; ++i)
      squares += double{items.values[item * c.hidden + i]} * items.values[item * c.hidden + i];
    scales.push_back(static_cast<float>(1 / (std::max(std::sqrt(squares), c.l2_epsilon) * c.temperature)));
  }
  return scales;
}

std::vector<float> padded(std::vector<float> values) {
  values.resize(padded_outputs(static_cast<std::uint32_t>(values.size())));
  return values;
}

}  // namespace

std::shared_ptr<const DeviceHstu> upload_hstu(HstuModel model, RowFormat format) {
  const HstuConfig& c = model.config;
  HstuWeights& weights = model.weights;
  TROUPE_CHECK(weights.layers.size() == c.layers,
               "the weights have as many layers as the configuration says");
  TROUPE_CHECK(weights.items.rows == c.vocabulary && weights.items.columns == c.hidden,
               "one row of features per item");
  std::vector<DeviceMemory> memory;
  WeightUploader up(format, memory);
  std::vector<DeviceHstuLayer> layers;
  for (HstuLayer& layer : weights.layers)
    layers.push_back({up.halves(std::move(layer.uvqk)), up.halves(std::move(layer.output)),
                      up.floats(layer.uvqk_bias), up.floats(layer.output_bias),
                      up.floats(layer.position_weight), up.floats(layer.time_weight),
                      up.floats(layer.input_norm), up.floats(layer.input_norm_bias),
                      up.floats(layer.output_norm), up.floats(layer.output_norm_bias)});
  DeviceHstu on{c, TimeBuckets(c.bucket_divisor, c.time_buckets), item_scales(weights.items, c),
                std::move(layers)};
  on.items = up.floats(weights.items.values), on.positions = up.floats(weights.positions.values);
  if (c.tasks > 0) {
    on.fc1 = up.halves(std::move(weights.fc1)), on.fc2 = up.padded(std::move(weights.fc2));
    on.fc1_bias = up.floats(weights.fc1_bias), on.fc2_bias = up.floats(padded(weights.fc2_bias));
  }
  on.memory = std::move(memory);
  return std::make_shared<const DeviceHstu>(std::move(on));
}

CudaHstu::CudaHstu(std::shared_ptr<const DeviceHstu> weights, const CudaRankerOptions& options)
    : weights_(std::move(weights)),
      c_(weights_->config),
      options_(options),
      layout_(kv_layout(c_, options.page_tokens, options.kv)),
      pages_(page_layout(layout_)),
      machine_(attend_machine(layout_, c_.heads, device_properties(options.device), AttendPath::by_device,
                              ScorePolicy::silu)),
      scratch_(layout_, options.rows_max),
      batches_(plan_limits(c_), layout_, c_.context_tokens),
      plans_(layout_, machine_, hstu_bounds(options, c_), scratch_.all()),
      bias_(c_, weights_->buckets),
      product_(make_product(half_of(options.rows()))),
      plan_(options.plan_bytes_max),
      state_(hstu_rows(options, c_.hidden, 4)),
      read_state_(hstu_rows(options, c_.hidden, 4)),
      uvqk_(hstu_rows(options, 4 * c_.width(), 4)),
      mixed_(hstu_rows(options, c_.width(), 4)),
      inner_(hstu_rows(options, std::max(c_.head_hidden, c_.hidden), 4)),
      task_logits_(hstu_rows(options, padded_outputs(c_.tasks), 4)),
      logits_(options.logits_max * sizeof(float)),
      queries_(hstu_rows(options, c_.width() * options.query_parts(), 2)),
      read_queries_(hstu_rows(options, c_.width() * options.query_parts(), 2)),
      normed_(hstu_rows(
          options, std::max({c_.hidden, output_inputs(), c_.head_hidden}) * parts_of(options.rows()), 2)),
      partials_(attend_partial_bytes(layout_, partials_max(machine_),
                                     std::max(machine_.small.vectors, machine_.large.vectors))),
      staging_(options.plan_bytes_max),
      host_logits_(options.logits_max * sizeof(float)),
      host_tasks_(std::size_t{rounded_rows(options.rows_max)} * padded_outputs(c_.tasks) * sizeof(float)) {}

std::unique_ptr<Executor> CudaHstu::share(std::uint32_t) const {
  use_device(options_.device);
  return std::make_unique<CudaHstu>(weights_, options_);
}

void CudaHstu::run(std::span<const Request> requests, std::vector<Reply>& replies) {
  use_device(options_.device);
  start_replies(requests, replies);
  run_in_passes(requests, replies, [this](auto some, auto answers) { return run_pass(some, answers); });
}

// Returns which bound is exceeded; then nothing was launched. Empty if none is.
std::string CudaHstu::run_pass(std::span<const Request> requests, std::span<Reply> replies) {
  const double begin = thread_cpu_seconds();
  for (std::size_t i = 0; i < requests.size(); ++i)
    replies[i].readouts.resize(requests[i].plan->readouts.size());
  if (std::string beyond = plan(requests); !beyond.empty()) return beyond;
  if (batch_->rows() == 0) return "";
  if (times_ != nullptr) times_->planning += thread_cpu_seconds() - begin;
  run_enqueued(stream_, times_, marks_, [this] { enqueue(); });
  distribute_replies(replies);
  return "";
}

std::string CudaHstu::plan(std::span<const Request> requests) {
  batch_ = &batches_.plan(requests);
  if (batch_->rows() == 0) return "";
  if (std::string beyond = plans_.plan(*batch_); !beyond.empty()) return beyond;
  if (std::string beyond = bias_.note(*batch_, std::size_t{2} * (c_.time_buckets + 1)); !beyond.empty())
    return beyond;
  shape_ = shape_of(*batch_, plans_.result());
  pack(*batch_, plans_.result(), shape_, staging_.data());
  packed_ = packed_pass(shape_, plan_.data());
  list_bias();
  return "";
}

// Lists the bias's key positions and steps. A row's steps end with one that no key reaches.
void CudaHstu::list_bias() {
  key_positions_.clear(), steps_.clear(), row_steps_.clear(), read_steps_.clear();
  for (const HstuBias::Group& group : bias_.groups())
    key_positions_.insert(key_positions_.end(), group.key_positions.begin(), group.key_positions.end());
  TROUPE_CHECK(key_positions_.size() == plans_.result().keys.size(), "every key has a position");
  const HstuBias::Rows& rows = bias_.rows();
  for (std::size_t row = 0; row < rows.step_begin.size(); ++row) {
    const bool as_before = row > 0 && rows.step_begin[row] == rows.step_begin[row - 1];
    row_steps_.push_back(as_before ? row_steps_.back() : size32(steps_));
    if (as_before) continue;
    steps_.insert(steps_.end(), bias_.steps().begin() + rows.step_begin[row],
                  bias_.steps().begin() + rows.step_end[row]);
    steps_.push_back({~0u, 0});
  }
  if (!row_steps_.empty())
    for (const std::uint32_t row : batch_->read.rows) read_steps_.push_back(row_steps_[row]);
  upload_.begin();
  key_positions_at_ = upload_.put(key_positions_);
  row_steps_at_ = upload_.put(row_steps_, shape_.rows);
  read_positions_at_ = upload_.put(bias_.read_rows().positions, shape_.read_rows);
  read_steps_at_ = upload_.put(read_steps_, shape_.read_rows);
  steps_at_ = upload_.put(steps_);
}

void CudaHstu::enqueue() {
  stream_.upload(plan_.data(), staging_.data(), packed_bytes(shape_, plans_.result()));
  upload_.send(stream_);
  sum_rows({.tables = {weights_->items, weights_->positions},
            .numbers = {packed_.tokens, packed_.positions},
            .scale = std::sqrt(static_cast<float>(c_.hidden)),
            .rows = shape_.rows,
            .width = c_.hidden,
            .out = state_.as<float>()},
           stream_);
  clear_tokens(layout_, reinterpret_cast<std::byte**>(packed_.heap), packed_.cleared, stream_);
  ended(&PassTimes::embedding);
  const AttendRows rows = all_rows();
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
    make_heads(layer, rows);
    if (layer + 1 == c_.layers) break;
    attend(layer, rows);
    add_output(layer, rows);
  }
  if (shape_.read_rows == 0) return;
  // In the last layer, rows without a readout end after their keys and values.
  const AttendRows some = read_rows();
  gather_rows({.rows = packed_.read_rows,
               .count = shape_.read_rows,
               .width = c_.hidden,
               .query_width = c_.width() * options_.query_parts(),
               .states = rows.state,
               .queries = rows.queries,
               .states_out = some.state,
               .queries_out = some.queries},
              stream_);
  ended(&PassTimes::elementwise);
  attend(c_.layers - 1, some);
  add_output(c_.layers - 1, some);
  read(some);
}

AttendPass CudaHstu::attend_pass(const AttendShape& shape, const AttendItem* items,
                                 const AttendMerge* merges) const {
  const std::size_t keys =
      keys_in_heap(plans_.result()) / sizeof(std::byte*);  // items count their keys from here
  return {.addresses = reinterpret_cast<const std::byte* const*>(packed_.heap),
          .items = items,
          .key_tiles = reinterpret_cast<const KeyTile*>(packed_.heap),
          .merges = merges,
          .partials = partials_.as<float>(),
          .item_count = shape.items,
          .merge_count = shape.merges,
          .tile_vectors = shape.tile_vectors,
          .bias = {.key_positions = upload_.at<std::int32_t>(key_positions_at_) - keys,
                   .steps = upload_.at<BucketStep>(steps_at_)}};
}

CudaHstu::AttendRows CudaHstu::all_rows() const {
  AttendRows rows{shape_.rows, attend_pass(shape_.attend, packed_.items, packed_.merges), state_.as<float>(),
                  queries_.as<std::uint16_t>()};
  rows.pass.visible_begin = packed_.visible_begin, rows.pass.visible_end = packed_.visible_end;
  rows.pass.bias.row_positions = reinterpret_cast<const std::int32_t*>(packed_.positions);
  rows.pass.bias.row_steps = upload_.at<std::uint32_t>(row_steps_at_);
  return rows;
}

CudaHstu::AttendRows CudaHstu::read_rows() const {
  AttendRows rows{shape_.read_rows, attend_pass(shape_.attend_read, packed_.read_items, packed_.read_merges),
                  read_state_.as<float>(), read_queries_.as<std::uint16_t>(), packed_.read_rows};
  rows.pass.visible_begin = packed_.read_begin, rows.pass.visible_end = packed_.read_end;
  rows.pass.bias.row_positions = upload_.at<std::int32_t>(read_positions_at_);
  rows.pass.bias.row_steps = upload_.at<std::uint32_t>(read_steps_at_);
  return rows;
}

RowTransform CudaHstu::to_product(std::uint32_t rows, std::uint32_t inputs) const {
  return {.epsilon = static_cast<float>(c_.epsilon),
          .rows = rows,
          .width = inputs,
          .format = options_.rows(),
          .out = normed_.as<std::uint16_t>(),
          .inputs = inputs};
}

void CudaHstu::multiply(std::uint32_t rows, std::uint32_t inputs, std::uint32_t outputs, ProductOut out,
                        const std::uint16_t* weight, const float* bias, float* to) {
  ended(&PassTimes::elementwise);
  product_->run({rows, inputs * parts_of(options_.rows()), outputs, out, bias != nullptr},
                {normed_.as<std::uint16_t>(), weight, bias, to}, stream_);
  ended(&PassTimes::linear);
}

// Computes gates, values, queries and keys, side by side.
void CudaHstu::make_heads(std::uint32_t layer, const AttendRows& rows) {
  const DeviceHstuLayer& weights = weights_->layers[layer];
  const std::uint32_t width = c_.width();
  RowTransform normed = to_product(rows.count, c_.hidden);
  normed.in = rows.state, normed.in_stride = c_.hidden;
  normed.norm = RowNorm::moments, normed.weight = weights.input_norm, normed.bias = weights.input_norm_bias;
  transform_rows(normed, stream_);
  multiply(rows.count, c_.hidden, 4 * width, ProductOut::f32, weights.uvqk, weights.uvqk_bias,
           uvqk_.as<float>());
  cuda::make_heads(layout_,
                   {.qkv = uvqk_.as<float>(),
                    .stride = 4 * width,
                    .query_at = 2 * width,
                    .key_at = 3 * width,
                    .value_at = width,
                    .silu = !c_.production(),
                    .gates = uvqk_.as<float>(),
                    .slots = packed_.slots,
                    .queries = rows.queries,
                    .queries_as_keys = true,
                    .rows = rows.count,
                    .heads = c_.heads,
                    .layer = layer},
                   stream_);
  ended(&PassTimes::keys_values);
}

void CudaHstu::attend(std::uint32_t layer, const AttendRows& rows) {
  const DeviceHstuLayer& weights = weights_->layers[layer];
  AttendLayer of_layer{.queries = rows.queries,
                       .query_stride = c_.width() * options_.query_parts(),
                       .out_stride = c_.width(),
                       .layer = layer,
                       .heads = 1,
                       .scale = static_cast<float>(c_.scale),
                       .queries_as_keys = true,
                       .out_f32 = mixed_.as<float>(),
                       .softening = ScorePolicy::silu,
                       .factor = static_cast<float>(1 / c_.normaliser)};
  if (!c_.production())
    of_layer.by_distance = weights.position_weight + (c_.positions - 1),
    of_layer.by_bucket = weights.time_weight;
  cuda::attend(layout_, rows.pass, of_layer, stream_);
  ended(&PassTimes::attention);
}

// Adds the output projection to the states. Its input is the normed, gated heads; in the production
// layer it is the gates, the heads and their product.
void CudaHstu::add_output(std::uint32_t layer, const AttendRows& rows) {
  const DeviceHstuLayer& weights = weights_->layers[layer];
  const std::uint32_t width = c_.width();
  RowTransform gated = to_product(rows.count, output_inputs());
  gated.in = mixed_.as<float>(), gated.in_stride = width, gated.width = width;
  if (c_.production()) {
    RowTransform plain = gated;
    plain.column = width;
    transform_rows(plain, stream_);
    gated.column = 2 * width;
  }
  gated.norm = RowNorm::moments, gated.weight = weights.output_norm, gated.bias = weights.output_norm_bias;
  gated.gate = RowGate::times, gated.gates = uvqk_.as<float>(), gated.gate_stride = 4 * width;
  gated.gate_rows = rows.gate_rows;
  transform_rows(gated, stream_);
  if (c_.production()) put_gates(rows);
  multiply(rows.count, output_inputs(), c_.hidden, ProductOut::add_f32, weights.output, weights.output_bias,
           rows.state);
}

// Writes the gates, the first third of the production layer's projection input.
void CudaHstu::put_gates(const AttendRows& rows) {
  RowTransform gates = to_product(rows.count, output_inputs());
  gates.in = uvqk_.as<float>(), gates.in_stride = 4 * c_.width(), gates.width = c_.width();
  gates.in_rows = rows.gate_rows;
  transform_rows(gates, stream_);
}

void CudaHstu::read(const AttendRows& rows) {
  if (c_.tasks > 0) read_tasks(rows);
  RowTransform unit = to_product(rows.count, c_.hidden);
  unit.in = rows.state, unit.in_stride = c_.hidden, unit.norm = RowNorm::length;
  unit.epsilon = static_cast<float>(c_.state_epsilon());
  unit.out_f32 = inner_.as<float>(), unit.out_stride = c_.hidden;
  transform_rows(unit, stream_);
  read_out_f32({.blocks = packed_.readouts,
                .count = shape_.readouts,
                .width = c_.hidden,
                .lists = reinterpret_cast<const std::uint32_t*>(packed_.heap),
                .states = inner_.as<float>(),
                .out = logits_.as<float>()},
               weights_->items, stream_);
  const PassPlan& plan = plans_.result();
  if (plan.logits > 0) stream_.download(host_logits_.data(), logits_.data(), plan.logits * sizeof(float));
  for (std::size_t i = 0; i < batch_->readouts.size(); ++i)
    if (batch_->readouts[i].what == Readout::What::state)
      stream_.download(host_logits_.as<float>() + plan.logits_at[i],
                       rows.state + std::size_t{batch_->readouts[i].read_row} * c_.hidden,
                       c_.hidden * sizeof(float));
  ended(&PassTimes::readout);
}

void CudaHstu::read_tasks(const AttendRows& rows) {
  RowTransform normed = to_product(rows.count, c_.hidden);
  normed.in = rows.state, normed.in_stride = c_.hidden, normed.norm = RowNorm::moments;
  transform_rows(normed, stream_);
  multiply(rows.count, c_.hidden, c_.head_hidden, ProductOut::f32, weights_->fc1, weights_->fc1_bias,
           inner_.as<float>());
  RowTransform inner = to_product(rows.count, c_.head_hidden);
  inner.in = inner_.as<float>(), inner.in_stride = c_.head_hidden, inner.silu = true;
  transform_rows(inner, stream_);
  multiply(rows.count, c_.head_hidden, padded_outputs(c_.tasks), ProductOut::f32, weights_->fc2,
           weights_->fc2_bias, task_logits_.as<float>());
  stream_.download(host_tasks_.data(), task_logits_.data(),
                   std::size_t{rows.count} * padded_outputs(c_.tasks) * sizeof(float));
}

void CudaHstu::distribute_replies(std::span<Reply> replies) const {
  for (std::size_t i = 0; i < batch_->readouts.size(); ++i) {
    const BatchReadout& readout = batch_->readouts[i];
    std::vector<float>& out = replies[readout.request].readouts[readout.index];
    const float* const first = host_logits_.as<float>() + plans_.result().logits_at[i];
    if (readout.what == Readout::What::head) {
      out.assign(
          1,
          host_tasks_.as<float>()[std::size_t{readout.read_row} * padded_outputs(c_.tasks) + readout.head]);
    } else if (readout.what == Readout::What::state) {
      out.assign(first, first + c_.hidden);
    } else {
      out.assign(first, first + readout.vocabulary_rows.size());
      for (std::size_t k = 0; k < out.size(); ++k)
        out[k] *= weights_->item_scales[static_cast<std::size_t>(readout.vocabulary_rows[k])];
    }
  }
}

namespace {

// Returns the first member of the configuration for which there are no kernels.
std::string published_fault(const HstuConfig& config) {
  if (config.nvidia()) return "layer \"nvidia\"; on a GPU expected \"stu\", or none";
  if (config.value_dim > 0)
    return "linear_dim " + std::to_string(config.value_dim) + "; on a GPU expected attention_dim, " +
           std::to_string(config.head_dim);
  if (config.softmax) return "attention_activation \"softmax\"; on a GPU expected \"silu\"";
  if (!config.projections_silu) return "linear_activation \"none\"; on a GPU expected \"silu\"";
  if (config.concat) return "concat_ua true; on a GPU expected false in this layer";
  if (config.actions > 0) return "action_embedding; on a GPU expected none";
  if (config.output_norm != HstuOutputNorm::l2) return "output_norm \"layer_norm\"; on a GPU expected \"l2\"";
  if (!config.item_l2) return "item_norm \"none\"; on a GPU expected \"l2\"";
  return "";
}

}  // namespace

std::string cuda_hstu_fault(const HstuConfig& config, const CudaRankerOptions& options) {
  if (std::string fault = bounds_fault(options); !fault.empty()) return fault;
  if (options.keys_max > attend_keys_max)
    return "keys_max " + std::to_string(options.keys_max) + "; expected at most " +
           std::to_string(attend_keys_max);
  if (std::string fault = published_fault(config); !fault.empty()) return fault;
  if (std::string fault = multiple_of_8_fault("hidden_size", config.hidden); !fault.empty()) return fault;
  if (std::string fault = multiple_of_8_fault("task_head.hidden", config.head_hidden); !fault.empty())
    return fault;
  if (config.window > 0)
    return "max_attention_length " + std::to_string(config.window) +
           "; on a GPU expected 0, for all of the history";
  return attend_fault(kv_layout(config, options.page_tokens, options.kv), config.heads);
}

std::unique_ptr<Executor> make_cuda_hstu(HstuModel model, const CudaRankerOptions& options) {
  const std::string fault = cuda_hstu_fault(model.config, options);
  TROUPE_CHECK(fault.empty(), fault);
  use_device(options.device);
  return std::make_unique<CudaHstu>(upload_hstu(std::move(model), options.rows()), options);
}

}  // namespace troupe::kernels::cuda
