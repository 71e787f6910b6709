#pragma once
// The layer loop on the device: enqueues all launches of a pass of one shape. What differs between passes of
// a shape lies in the packed plan; so the same launches, recorded, serve them all. Rows that fill up a shape
// compute numbers that nobody reads.
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/device/product.h"
#include "kernels/cuda/engine/device_weights.h"
#include "kernels/cuda/engine/pass_plan.h"
#include "kernels/cuda/kernels/attend.h"
#include "kernels/decoder/decoder.h"

namespace troupe::kernels::cuda {

// How long the parts of a pass took on the device.
class PartMarks {
 public:
  void begin(Stream& stream);
  // What was enqueued since the last mark belongs to this part.
  void end(Stream& stream, double PassTimes::*part);
  // Adds up; the stream was waited for.
  void add_to(PassTimes& times) const;

 private:
  Event& next();

  std::vector<std::unique_ptr<Event>> events_;
  std::vector<double PassTimes::*> parts_;
  std::size_t used_ = 0;
};

class DecoderPass {
 public:
  // Allocates everything.
  DecoderPass(std::shared_ptr<const DeviceWeights> weights, const KvLayout& layout,
              const AttendMachine& machine, const PassBounds& bounds);

  std::byte* plan() const { return plan_.data(); }  // where the packed pass goes
  const float* logits() const { return logits_.as<float>(); }
  // Final states of the pass's read rows, in float32, dense.
  float* states() const { return read_state_.as<float>(); }
  // What a level's readout computes with between passes: products, and room for rounded rows.
  Product& product() const { return *product_; }
  std::uint16_t* rounded() const { return normed_.as<std::uint16_t>(); }
  // `marks`, which have begun, may be null.
  void enqueue(const PassShape& shape, Stream& stream, PartMarks* marks);

 private:
  // Of one call.
  struct Call {
    const PassShape& shape;
    const PackedPass plan;
    Stream& stream;
    PartMarks* marks;

    void ended(double PassTimes::*part) const {
      if (marks != nullptr) marks->end(stream, part);
    }
  };

  void make_heads(const Call& call, std::uint32_t layer);
  void pick_read_rows(const Call& call);
  void attend(const Call& call, std::uint32_t layer, bool read);
  void add_feed_forward(const Call& call, const DeviceLayer& layer, float* state, std::uint32_t rows);
  void read_out(const Call& call);
  void norm(const Call& call, const float* state, const float* weight, std::uint32_t rows);
  void multiply(const Call& call, const ProductShape& shape, const ProductOperands& operands);

  std::uint32_t q_width() const { return c_.heads * c_.head_dim; }
  std::uint32_t qkv_width() const { return (c_.heads + 2 * c_.kv_heads) * c_.head_dim; }

  const std::shared_ptr<const DeviceWeights> weights_;
  const DecoderConfig& c_;
  const KvLayout layout_;
  const std::unique_ptr<Product> product_;
  const DeviceMemory plan_, logits_;
  // Float32, dense rows: the residual stream, queries with keys and values; of read rows.
  const DeviceMemory state_, qkv_, read_state_;
  // 16 bits.
  const DeviceMemory normed_, queries_, read_queries_, mixed_, gate_up_, activated_;
  const DeviceMemory partials_;
};

}  // namespace troupe::kernels::cuda
