#pragma once
// Declares the executor of HSTU, which ranks over a user's history, on a device.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/device/product.h"
#include "kernels/cuda/engine/decoder_pass.h"
#include "kernels/cuda/engine/hstu.h"
#include "kernels/cuda/engine/pass_plan.h"
#include "kernels/cuda/engine/scratch_pages.h"
#include "kernels/cuda/engine/upload_buffer.h"
#include "kernels/cuda/kernels/attend.h"
#include "kernels/cuda/kernels/rows.h"
#include "kernels/decoder/decoder_batch.h"
#include "kernels/hstu/pair_bias.h"

namespace troupe::kernels::cuda {

// Device pointers of a layer; null if the model lacks the tensor.
struct DeviceHstuLayer {
  const std::uint16_t *uvqk = nullptr, *output = nullptr;
  const float *uvqk_bias = nullptr, *output_bias = nullptr;
  const float *position_weight = nullptr, *time_weight = nullptr;
  const float *input_norm = nullptr, *input_norm_bias = nullptr;
  const float *output_norm = nullptr, *output_norm_bias = nullptr;
};

// Weights on the device, uploaded once and shared by all executors, which do not change them.
struct DeviceHstu {
  HstuConfig config;
  TimeBuckets buckets;
  std::vector<float> item_scales;  // on the host: 1 / (norm of an item's row * temperature)
  std::vector<DeviceHstuLayer> layers;
  const float *items = nullptr, *positions = nullptr;
  const std::uint16_t *fc1 = nullptr, *fc2 = nullptr;  // fc2 is padded with zero rows to a multiple of 8
  const float *fc1_bias = nullptr, *fc2_bias = nullptr;
  std::vector<DeviceMemory> memory;  // owns the memory of all pointers above
};
std::shared_ptr<const DeviceHstu> upload_hstu(HstuModel model, RowFormat format);

class CudaHstu final : public Executor {
 public:
  CudaHstu(std::shared_ptr<const DeviceHstu> weights, const CudaRankerOptions& options);

  PlanLimits limits() const override { return plan_limits(c_); }
  const PageLayout& layout() const override { return pages_; }
  using Executor::run;
  void run(std::span<const Request> requests, std::vector<Reply>& replies) override;
  void measure(PassTimes* times) override { times_ = times; }
  std::unique_ptr<Executor> share(std::uint32_t) const override;

 private:
  // Rows of the current pass that attend: all rows or those with a readout, with their part of the
  // bias.
  struct AttendRows {
    std::uint32_t count = 0;
    AttendPass pass;
    float* state = nullptr;
    std::uint16_t* queries = nullptr;
    const std::uint32_t* gate_rows = nullptr;  // null: the rows themselves
  };

  std::string run_pass(std::span<const Request> requests, std::span<Reply> replies);
  std::string plan(std::span<const Request> requests);
  void list_bias();
  void enqueue();
  AttendRows all_rows() const;
  AttendRows read_rows() const;
  AttendPass attend_pass(const AttendShape& shape, const AttendItem* items, const AttendMerge* merges) const;
  void make_heads(std::uint32_t layer, const AttendRows& rows);
  void attend(std::uint32_t layer, const AttendRows& rows);
  void add_output(std::uint32_t layer, const AttendRows& rows);
  void put_gates(const AttendRows& rows);
  void read(const AttendRows& rows);
  void read_tasks(const AttendRows& rows);
  void distribute_replies(std::span<Reply> replies) const;
  RowTransform to_product(std::uint32_t rows, std::uint32_t inputs) const;
  void multiply(std::uint32_t rows, std::uint32_t inputs, std::uint32_t outputs, ProductOut out,
                const std::uint16_t* weight, const float* bias, float* to);
  void ended(double PassTimes::*part) {
    if (times_ != nullptr) marks_.end(stream_, part);
  }
  std::uint32_t output_inputs() const { return c_.production() ? 3 * c_.width() : c_.width(); }

  const std::shared_ptr<const DeviceHstu> weights_;
  const HstuConfig& c_;
  const CudaRankerOptions options_;
  const KvLayout layout_;
  const PageLayout pages_;
  const AttendMachine machine_;
  const ScratchPages scratch_;
  BatchPlanner batches_;
  PassPlanner plans_;
  HstuBias bias_;
  const std::unique_ptr<Product> product_;
  const DeviceMemory plan_;
  const DeviceMemory state_, read_state_, uvqk_, mixed_, inner_, task_logits_, logits_;  // float32
  const DeviceMemory queries_, read_queries_, normed_;                                   // 16 bits
  const DeviceMemory partials_;
  const PageLockedMemory staging_, host_logits_, host_tasks_;
  UploadBuffer upload_;
  PartTimers marks_;
  PassTimes* times_ = nullptr;
  Stream stream_;

  // The current pass.
  const DecoderBatch* batch_ = nullptr;
  PassShape shape_;
  PackedPass packed_;
  std::size_t key_positions_at_ = 0, row_steps_at_ = 0, read_positions_at_ = 0, read_steps_at_ = 0,
              steps_at_ = 0;
  std::vector<std::int32_t> key_positions_;
  std::vector<BucketStep> steps_;
  std::vector<std::uint32_t> row_steps_, read_steps_;
};

}  // namespace troupe::kernels::cuda
