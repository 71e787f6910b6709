// Enqueues all launches of one decoder pass on the device, layer by layer. They depend only on the
// pass's shape, so that one recording serves all passes of that shape.
#include "kernels/cuda/engine/decoder_pass.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.h"
#include "kernels/cuda/kernels/rotate_tokens.h"

namespace troupe::kernels::cuda {

void PartTimers::begin(Stream& stream) {
  used_ = 0;
  parts_.clear();
  stream.record(next());
}

void PartTimers::end(Stream& stream, double PassTimes::*part) {
  stream.record(next());
  parts_.push_back(part);
}

void PartTimers::add_to(PassTimes& times) const {
  for (std::size_t i = 0; i < parts_.size(); ++i)
    times.*parts_[i] += events_[i + 1]->seconds_since(*events_[i]);
}

Event& PartTimers::next() {
  if (used_ == events_.size()) events_.push_back(std::make_unique<Event>());
  return *events_[used_++];
}

namespace {

void end_all(Stream& stream) {
  try {
    stream.synchronize();
  } catch (const DeviceError&) {  // the same failure that the caller already gets
  }
}

// Allocates rows of `width` numbers each.
DeviceMemory rows_of(const PassBounds& bounds, std::uint32_t width, std::size_t number_bytes) {
  return DeviceMemory(std::size_t{rounded_rows(bounds.rows)} * width * number_bytes);
}

}  // namespace

void run_enqueued(Stream& stream, PassTimes* times, PartTimers& marks, const std::function<void()>& enqueue) {
  try {
    if (times != nullptr) marks.begin(stream);
    enqueue();
    stream.synchronize();
  } catch (...) {
    end_all(stream);
    throw;
  }
  if (times != nullptr) marks.add_to(*times);
}

DecoderPass::DecoderPass(std::shared_ptr<const DeviceWeights> weights, const KvLayout& layout,
                         const AttendMachine& machine, const PassBounds& bounds)
    : weights_(std::move(weights)),
      c_(weights_->config),
      layout_(layout),
      product_(make_product(weights_->half)),
      plan_(bounds.plan_bytes),
      logits_(bounds.logits * sizeof(float)),
      state_(rows_of(bounds, c_.hidden, 4)),
      qkv_(rows_of(bounds, qkv_width(), 4)),
      read_state_(rows_of(bounds, c_.hidden, 4)),
      normed_(rows_of(bounds, c_.hidden, 2)),
      queries_(rows_of(bounds, q_width(), 2)),
      read_queries_(rows_of(bounds, q_width(), 2)),
      mixed_(rows_of(bounds, q_width(), 2)),
      gate_up_(rows_of(bounds, 2 * c_.intermediate, 2)),
      activated_(rows_of(bounds, c_.intermediate, 2)),
      partials_(attend_partial_bytes(layout, partials_max(machine),
                                     std::max(machine.small.vectors, machine.large.vectors))) {}

void DecoderPass::enqueue(const PassShape& shape, Stream& stream, PartTimers* marks) {
  const PassCall call = this->call(shape, stream, marks);
  const PassRows rows = begin(call);
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
    make_heads(call, rows, layer);
    if (layer + 1 < c_.layers) finish_layer(call, rows, layer, attend(call, rows, layer));
  }
  if (shape.read_rows == 0) return;
  // In the last layer, rows without a readout end after their keys and values.
  const PassRows read = read_rows(call);
  pick(call, rows, rows.queries, call.plan.read_rows, read);
  finish_layer(call, read, c_.layers - 1, attend(call, read, c_.layers - 1));
  read_out(call, read);
}

PassRows DecoderPass::begin(const PassCall& call) {
  const PackedPass& plan = call.plan;
  auto* const state = state_.as<float>();
  embed(weights_->half, weights_->embedding, plan.tokens, call.shape.rows, c_.hidden, state, call.stream);
  call.ended(&PassTimes::embedding);
  clear_tokens(layout_, reinterpret_cast<std::byte**>(plan.heap), plan.cleared, call.stream);
  return {.count = call.shape.rows,
          .shape = call.shape.attend,
          .addresses = reinterpret_cast<const std::byte* const*>(plan.heap),
          .items = plan.items,
          .merges = plan.merges,
          .key_tiles = reinterpret_cast<const KeyTile*>(plan.heap),
          .visible_begin = plan.visible_begin,
          .visible_end = plan.visible_end,
          .positions = plan.positions,
          .slots = plan.slots,
          .state = state,
          .queries = queries_.as<std::uint16_t>()};
}

PassRows DecoderPass::read_rows(const PassCall& call) const {
  const PackedPass& plan = call.plan;
  return {.count = call.shape.read_rows,
          .shape = call.shape.attend_read,
          .addresses = reinterpret_cast<const std::byte* const*>(plan.heap),
          .items = plan.read_items,
          .merges = plan.read_merges,
          .key_tiles = reinterpret_cast<const KeyTile*>(plan.heap),
          .visible_begin = plan.read_begin,
          .visible_end = plan.read_end,
          .state = read_state_.as<float>(),
          .queries = read_queries_.as<std::uint16_t>()};
}

void DecoderPass::make_heads(const PassCall& call, const PassRows& rows, std::uint32_t layer) {
  const DeviceLayer& weights = weights_->layers[layer];
  norm(call, rows.state, weights.input_norm, rows.count);
  multiply(call, {rows.count, c_.hidden, qkv_width(), ProductOut::f32, weights.qkv_bias != nullptr},
           {normed_.as<std::uint16_t>(), weights.qkv, weights.qkv_bias, qkv_.data()});
  cuda::make_heads(layout_,
                   {.qkv = qkv_.as<float>(),
                    .stride = qkv_width(),
                    .key_at = q_width(),
                    .value_at = q_width() + c_.kv_heads * c_.head_dim,
                    .q_norm = weights.q_norm,
                    .k_norm = weights.k_norm,
                    .epsilon = static_cast<float>(c_.rms_epsilon),
                    .rotations = weights_->rotations,
                    .positions = rows.positions,
                    .slots = rows.slots,
                    .queries = rows.queries,
                    .queries_as_keys = true,
                    .rows = rows.count,
                    .heads = c_.heads,
                    .layer = layer},
                   call.stream);
  if (call.shape.rotates_keys)
    rotate_tokens(layout_, {call.plan.rotated, call.plan.heap, weights_->rotations, layer}, call.stream);
  call.ended(&PassTimes::keys_values);
}

void DecoderPass::pick(const PassCall& call, const PassRows& from, const std::uint16_t* carried,
                       const std::uint32_t* numbers, const PassRows& to) {
  gather_rows({.rows = numbers,
               .count = to.count,
               .width = c_.hidden,
               .query_width = q_width(),
               .states = from.state,
               .queries = carried,
               .states_out = to.state,
               .queries_out = to.queries},
              call.stream);
  call.ended(&PassTimes::elementwise);
}

void DecoderPass::point_at_read_buffers(PassRows& rows) const {
  const bool first = rows.state == state_.as<float>();
  rows.state = (first ? read_state_ : state_).as<float>();
  rows.queries = (first ? read_queries_ : queries_).as<std::uint16_t>();
}

AttendPass DecoderPass::attend_pass(const PassRows& rows) const {
  return {.addresses = rows.addresses,
          .items = rows.items,
          .key_tiles = rows.key_tiles,
          .merges = rows.merges,
          .visible_begin = rows.visible_begin,
          .visible_end = rows.visible_end,
          .partials = partials_.as<float>(),
          .item_count = rows.shape.items,
          .merge_count = rows.shape.merges,
          .tile_vectors = rows.shape.tile_vectors};
}

AttendLayer DecoderPass::attend_layer(const PassRows& rows, std::uint32_t layer) const {
  return {.queries = rows.queries,
          .out = mixed_.as<std::uint16_t>(),
          .query_stride = q_width(),
          .out_stride = q_width(),
          .layer = layer,
          .heads = c_.heads / c_.kv_heads,
          .out_format = weights_->half,
          .scale = 1 / std::sqrt(static_cast<float>(c_.head_dim)),
          .queries_as_keys = true};
}

const std::uint16_t* DecoderPass::attend(const PassCall& call, const PassRows& rows, std::uint32_t layer,
                                         float* stats) {
  AttendLayer of_layer = attend_layer(rows, layer);
  of_layer.stats = stats;
  cuda::attend(layout_, attend_pass(rows), of_layer, call.stream);
  call.ended(&PassTimes::attention);
  return mixed_.as<std::uint16_t>();
}

// Adds attention's output projection and the feed-forward network to the states.
void DecoderPass::finish_layer(const PassCall& call, const PassRows& rows, std::uint32_t layer,
                               const std::uint16_t* mixed) {
  const DeviceLayer& weights = weights_->layers[layer];
  multiply(call, {rows.count, q_width(), c_.hidden, ProductOut::add_f32, weights.o_bias != nullptr},
           {mixed, weights.o, weights.o_bias, rows.state});
  norm(call, rows.state, weights.post_attention_norm, rows.count);
  multiply(call, {rows.count, c_.hidden, 2 * c_.intermediate, ProductOut::half},
           {normed_.as<std::uint16_t>(), weights.gate_up, nullptr, gate_up_.data()});
  swiglu_half(weights_->half, gate_up_.as<std::uint16_t>(), rows.count, c_.intermediate,
              activated_.as<std::uint16_t>(), call.stream);
  call.ended(&PassTimes::elementwise);
  multiply(call, {rows.count, c_.intermediate, c_.hidden, ProductOut::add_f32},
           {activated_.as<std::uint16_t>(), weights.down, nullptr, rows.state});
}

// Writes the final states to the buffer that `states` returns.
void DecoderPass::read_out(const PassCall& call, const PassRows& rows) {
  auto* const states = read_state_.as<float>();
  rms_norm(rows.state, weights_->final_norm, static_cast<float>(c_.rms_epsilon), rows.count, c_.hidden,
           states, call.stream);
  call.ended(&PassTimes::elementwise);
  cuda::read_out(weights_->half,
                 {.blocks = call.plan.readouts,
                  .count = call.shape.readouts,
                  .width = c_.hidden,
                  .lists = reinterpret_cast<const std::uint32_t*>(call.plan.heap),
                  .output = weights_->output,
                  .states = states,
                  .out = logits_.as<float>()},
                 call.stream);
  call.ended(&PassTimes::readout);
}

void DecoderPass::norm(const PassCall& call, const float* state, const float* weight, std::uint32_t rows) {
  rms_norm_half(weights_->half, state, weight, static_cast<float>(c_.rms_epsilon), rows, c_.hidden,
                normed_.as<std::uint16_t>(), call.stream);
  call.ended(&PassTimes::elementwise);
}

void DecoderPass::multiply(const PassCall& call, const ProductShape& shape, const ProductOperands& operands) {
  if (shape.rows > 0) product_->run(shape, operands, call.stream);
  call.ended(&PassTimes::linear);
}

}  // namespace troupe::kernels::cuda
