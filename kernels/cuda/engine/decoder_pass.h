#pragma once
// Runs the layer loop on the device: enqueues all launches of a pass of one shape. Everything that
// differs between passes of a shape is in the packed plan, so one recording of the launches serves
// them all. Rows that pad a shape compute numbers that nobody reads.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/device/product.h"
#include "kernels/cuda/engine/device_weights.h"
#include "kernels/cuda/engine/pass_plan.h"
#include "kernels/cuda/kernels/attend.h"
#include "kernels/decoder/decoder.h"

namespace troupe::kernels::cuda {

// Measures how long the parts of a pass take on the device.
class PartTimers {
 public:
  void begin(Stream& stream);
  // Assigns the commands enqueued since the last mark to this part.
  void end(Stream& stream, double PassTimes::*part);
  // Adds the measured times; the stream must have been synchronized.
  void add_to(PassTimes& times) const;

 private:
  Event& next();

  std::vector<std::unique_ptr<Event>> events_;
  std::vector<double PassTimes::*> parts_;
  std::size_t used_ = 0;
};

// Rows that take part in a layer and what they attend to; pointers are device addresses.
struct PassRows {
  std::uint32_t count = 0;
  AttendShape shape;
  const std::byte* const* addresses = nullptr;
  const AttendItem* items = nullptr;
  const AttendMerge* merges = nullptr;
  const KeyTile* key_tiles = nullptr;
  const std::uint32_t *visible_begin = nullptr, *visible_end = nullptr;
  const std::uint32_t* positions = nullptr;  // positions of rows that produce keys and values
  std::byte* const* slots = nullptr;
  float* state = nullptr;
  std::uint16_t* queries = nullptr;
};

// The arguments of one pass.
struct PassCall {
  const PassShape& shape;
  const PackedPass plan;
  Stream& stream;
  PartTimers* marks;

  void ended(double PassTimes::*part) const {
    if (marks != nullptr) marks->end(stream, part);
  }
};

// Runs the enqueued commands of a pass, waits for them and adds their times to `times`, if it is not
// null. If that fails, waits for what was launched before it throws: the next pass writes where
// commands of this one may still read.
void run_enqueued(Stream& stream, PassTimes* times, PartTimers& marks, const std::function<void()>& enqueue);

class DecoderPass {
 public:
  // Allocates all buffers.
  DecoderPass(std::shared_ptr<const DeviceWeights> weights, const KvLayout& layout,
              const AttendMachine& machine, const PassBounds& bounds);

  std::byte* plan() const { return plan_.data(); }  // destination of the packed pass
  const float* logits() const { return logits_.as<float>(); }
  // Final states of the pass's read rows: float32, dense.
  float* states() const { return read_state_.as<float>(); }
  // Buffers that a level's readout uses between passes: products, and memory for rounded rows.
  Product& product() const { return *product_; }
  std::uint16_t* rounded() const { return normed_.as<std::uint16_t>(); }
  // Enqueues a pass. `marks` must have begun, or is null.
  void enqueue(const PassShape& shape, Stream& stream, PartTimers* marks);

  // The steps of a pass, for callers that choose the continuing rows during the pass
  // (device_repairs.h).
  PassCall call(const PassShape& shape, Stream& stream, PartTimers* marks) const {
    return {shape, packed_pass(shape, plan_.data()), stream, marks};
  }
  PassRows begin(const PassCall& call);  // all rows
  PassRows read_rows(const PassCall& call) const;
  void make_heads(const PassCall& call, const PassRows& rows, std::uint32_t layer);
  // Copies the rows `numbers` of `from` to the states and queries of `to`. `carried` moves along
  // with the states and has the width of queries.
  void pick(const PassCall& call, const PassRows& from, const std::uint16_t* carried,
            const std::uint32_t* numbers, const PassRows& to);
  // Points `rows` at buffers into which its rows may be picked.
  void point_at_read_buffers(PassRows& rows) const;
  // Runs attention; `stats` as in AttendLayer. Returns the mixed heads.
  const std::uint16_t* attend(const PassCall& call, const PassRows& rows, std::uint32_t layer,
                              float* stats = nullptr);
  AttendPass attend_pass(const PassRows& rows) const;
  AttendLayer attend_layer(const PassRows& rows, std::uint32_t layer) const;
  // Runs the remaining steps of a layer after attention.
  void finish_layer(const PassCall& call, const PassRows& rows, std::uint32_t layer,
                    const std::uint16_t* mixed);
  // Reads out the given rows, wherever they are stored.
  void read_out(const PassCall& call, const PassRows& rows);

 private:
  void norm(const PassCall& call, const float* state, const float* weight, std::uint32_t rows);
  void multiply(const PassCall& call, const ProductShape& shape, const ProductOperands& operands);

  std::uint32_t q_width() const { return c_.heads * c_.head_dim; }
  std::uint32_t qkv_width() const { return (c_.heads + 2 * c_.kv_heads) * c_.head_dim; }

  const std::shared_ptr<const DeviceWeights> weights_;
  const DecoderConfig& c_;
  const KvLayout layout_;
  const std::unique_ptr<Product> product_;
  const DeviceMemory plan_, logits_;
  // Float32, dense rows: the residual stream; queries, keys and values; the states of read rows.
  const DeviceMemory state_, qkv_, read_state_;
  // 16 bits.
  const DeviceMemory normed_, queries_, read_queries_, mixed_, gate_up_, activated_;
  const DeviceMemory partials_;
};

}  // namespace troupe::kernels::cuda
