#include "kernels/cuda/engine/decoder_pass.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.h"
#include "kernels/cuda/kernels/turn_tokens.h"

namespace troupe::kernels::cuda {

void PartMarks::begin(Stream& stream) {
  used_ = 0;
  parts_.clear();
  stream.record(next());
}

void PartMarks::end(Stream& stream, double PassTimes::*part) {
  stream.record(next());
  parts_.push_back(part);
}

void PartMarks::add_to(PassTimes& times) const {
  for (std::size_t i = 0; i < parts_.size(); ++i)
    times.*parts_[i] += events_[i + 1]->seconds_since(*events_[i]);
}

Event& PartMarks::next() {
  if (used_ == events_.size()) events_.push_back(std::make_unique<Event>());
  return *events_[used_++];
}

namespace {

// Memory for rows of so many numbers.
DeviceMemory rows_of(const PassBounds& bounds, std::uint32_t width, std::size_t number_bytes) {
  return DeviceMemory(std::size_t{rounded_rows(bounds.rows)} * width * number_bytes);
}

}  // namespace

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

void DecoderPass::enqueue(const PassShape& shape, Stream& stream, PartMarks* marks) {
  const Call call{shape, packed_pass(shape, plan_.data()), stream, marks};
  auto* const state = state_.as<float>();
  embed(weights_->half, weights_->embedding, call.plan.tokens, shape.rows, c_.hidden, state, stream);
  call.ended(&PassTimes::embedding);
  clear_tokens(layout_, reinterpret_cast<std::byte**>(call.plan.heap), call.plan.cleared, stream);
  for (std::uint32_t layer = 0; layer < c_.layers; ++layer) {
    make_heads(call, layer);
    if (layer + 1 == c_.layers) break;
    attend(call, layer, false);
    add_feed_forward(call, weights_->layers[layer], state, shape.rows);
  }
  if (shape.read_rows == 0) return;
  pick_read_rows(call);
  attend(call, c_.layers - 1, true);
  add_feed_forward(call, weights_->layers.back(), read_state_.as<float>(), shape.read_rows);
  read_out(call);
}

// Of all rows, in every layer.
void DecoderPass::make_heads(const Call& call, std::uint32_t layer) {
  const DeviceLayer& weights = weights_->layers[layer];
  norm(call, state_.as<float>(), weights.input_norm, call.shape.rows);
  multiply(call, {call.shape.rows, c_.hidden, qkv_width(), ProductOut::f32, weights.qkv_bias != nullptr},
           {normed_.as<std::uint16_t>(), weights.qkv, weights.qkv_bias, qkv_.data()});
  cuda::make_heads(layout_,
                   {.qkv = qkv_.as<float>(),
                    .q_norm = weights.q_norm,
                    .k_norm = weights.k_norm,
                    .epsilon = static_cast<float>(c_.rms_epsilon),
                    .rotations = weights_->rotations,
                    .positions = call.plan.positions,
                    .slots = call.plan.slots,
                    .queries = queries_.as<std::uint16_t>(),
                    .rows = call.shape.rows,
                    .heads = c_.heads,
                    .layer = layer},
                   call.stream);
  if (call.shape.turns)
    turn_tokens(layout_, {call.plan.turned, call.plan.heap, weights_->rotations, layer}, call.stream);
  call.ended(&PassTimes::keys_values);
}

// The others end with their keys and values in the last layer.
void DecoderPass::pick_read_rows(const Call& call) {
  pick_rows({.rows = call.plan.read_rows,
             .count = call.shape.read_rows,
             .width = c_.hidden,
             .query_width = q_width(),
             .states = state_.as<float>(),
             .queries = queries_.as<std::uint16_t>(),
             .states_out = read_state_.as<float>(),
             .queries_out = read_queries_.as<std::uint16_t>()},
            call.stream);
  call.ended(&PassTimes::elementwise);
}

// Attention and its output projection, added to the states.
void DecoderPass::attend(const Call& call, std::uint32_t layer, bool read) {
  const PackedPass& plan = call.plan;
  const AttendShape& shape = read ? call.shape.attend_read : call.shape.attend;
  const std::uint32_t rows = read ? call.shape.read_rows : call.shape.rows;
  const AttendPass pass{.addresses = reinterpret_cast<const std::byte* const*>(plan.heap),
                        .items = read ? plan.read_items : plan.items,
                        .key_tiles = reinterpret_cast<const KeyTile*>(plan.heap),
                        .merges = read ? plan.read_merges : plan.merges,
                        .visible_begin = read ? plan.read_begin : plan.visible_begin,
                        .visible_end = read ? plan.read_end : plan.visible_end,
                        .partials = partials_.as<float>(),
                        .item_count = shape.items,
                        .merge_count = shape.merges,
                        .tile_vectors = shape.tile_vectors};
  cuda::attend(layout_, pass,
               {.queries = (read ? read_queries_ : queries_).as<std::uint16_t>(),
                .out = mixed_.as<std::uint16_t>(),
                .query_stride = q_width(),
                .out_stride = q_width(),
                .layer = layer,
                .heads = c_.heads / c_.kv_heads,
                .out_format = weights_->half,
                .scale = 1 / std::sqrt(static_cast<float>(c_.head_dim))},
               call.stream);
  call.ended(&PassTimes::attention);
  const DeviceLayer& weights = weights_->layers[layer];
  multiply(call, {rows, q_width(), c_.hidden, ProductOut::add_f32, weights.o_bias != nullptr},
           {mixed_.as<std::uint16_t>(), weights.o, weights.o_bias, (read ? read_state_ : state_).data()});
}

void DecoderPass::add_feed_forward(const Call& call, const DeviceLayer& layer, float* state,
                                   std::uint32_t rows) {
  norm(call, state, layer.post_attention_norm, rows);
  multiply(call, {rows, c_.hidden, 2 * c_.intermediate, ProductOut::half},
           {normed_.as<std::uint16_t>(), layer.gate_up, nullptr, gate_up_.data()});
  swiglu_half(weights_->half, gate_up_.as<std::uint16_t>(), rows, c_.intermediate,
              activated_.as<std::uint16_t>(), call.stream);
  call.ended(&PassTimes::elementwise);
  multiply(call, {rows, c_.intermediate, c_.hidden, ProductOut::add_f32},
           {activated_.as<std::uint16_t>(), layer.down, nullptr, state});
}

void DecoderPass::read_out(const Call& call) {
  auto* const states = read_state_.as<float>();
  rms_norm(states, weights_->final_norm, static_cast<float>(c_.rms_epsilon), call.shape.read_rows, c_.hidden,
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

void DecoderPass::norm(const Call& call, const float* state, const float* weight, std::uint32_t rows) {
  rms_norm_half(weights_->half, state, weight, static_cast<float>(c_.rms_epsilon), rows, c_.hidden,
                normed_.as<std::uint16_t>(), call.stream);
  call.ended(&PassTimes::elementwise);
}

void DecoderPass::multiply(const Call& call, const ProductShape& shape, const ProductOperands& operands) {
  product_->run(shape, operands, call.stream);
  call.ended(&PassTimes::linear);
}

}  // namespace troupe::kernels::cuda
