#pragma once
// Declares the executor of Climber, which ranks for several tasks, on a device.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/climber/climber_batch.h"
#include "kernels/cuda/device/product.h"
#include "kernels/cuda/engine/climber.h"
#include "kernels/cuda/engine/climber_plan.h"
#include "kernels/cuda/engine/decoder_pass.h"
#include "kernels/cuda/engine/scratch_pages.h"
#include "kernels/cuda/kernels/rows.h"

namespace troupe::kernels::cuda {

// Device pointers of an affine layer: [outputs][inputs], with outputs padded by zeros to a multiple
// of 8 where needed.
struct DeviceAffine {
  const std::uint16_t* weight = nullptr;
  const float* bias = nullptr;
  std::uint32_t inputs = 0, outputs = 0;  // `outputs` includes the padding
};
struct DeviceNorm {
  const float *weight = nullptr, *bias = nullptr;
};
struct DeviceClimberLayer {
  DeviceNorm attention_norm, ffn_norm;
  DeviceAffine qkv, output, fc1, fc2;
};
struct DeviceClimberTower {
  std::vector<DeviceClimberLayer> layers;
  DeviceNorm final_norm;
};

// Weights on the device, uploaded once and shared by all executors, which do not change them.
struct DeviceClimber {
  ClimberConfig config;
  // `positions` has one tower after the other.
  const float *items = nullptr, *actions = nullptr, *positions = nullptr;
  const float* scales = nullptr;  // 1 / temperature: [tower][scenario][layer][head]
  std::vector<DeviceClimberTower> towers;
  DeviceAffine fusion, experts, gates;  // layers with the same input are stacked into one product
  std::vector<std::pair<DeviceAffine, DeviceAffine>> tasks;
  std::vector<DeviceMemory> memory;  // owns the memory of all pointers above
};
std::shared_ptr<const DeviceClimber> upload_climber(ClimberModel model, RowFormat format);

class CudaClimber final : public Executor {
 public:
  CudaClimber(std::shared_ptr<const DeviceClimber> weights, const CudaRankerOptions& options);

  PlanLimits limits() const override { return plan_limits(c_); }
  std::string fault(const Plan& plan) const override { return validate(plan, c_); }
  const PageLayout& layout() const override { return pages_; }
  using Executor::run;
  void run(std::span<const Request> requests, std::vector<Reply>& replies) override;
  void measure(PassTimes* times) override { times_ = times; }
  std::unique_ptr<Executor> share(std::uint32_t) const override;

 private:
  std::string run_pass(std::span<const Request> requests, std::span<Reply> replies);
  void enqueue();
  void make_heads(std::uint32_t layer);
  void attend(std::uint32_t layer);
  void finish_layer(std::uint32_t layer, const DeviceClimberTower& tower, std::uint32_t begin,
                    std::uint32_t end);
  void score();
  void score_task(std::uint32_t task);
  RowTransform rows_from(const float* in, std::uint32_t width, std::uint32_t rows) const;
  void norm(const DeviceNorm& norm, RowTransform task);
  // Multiplies the rows that transform_rows wrote to `normed_`.
  void multiply(const DeviceAffine& affine, std::uint32_t rows, ProductOut out, float* to);
  float* state(std::uint32_t row) const { return state_.as<float>() + std::size_t{row} * c_.hidden; }
  bool is_last(std::uint32_t layer) const { return layer + 1 == c_.layers; }
  void ended(double PassTimes::*part) {
    if (times_ != nullptr) marks_.end(stream_, part);
  }

  const std::shared_ptr<const DeviceClimber> weights_;
  const ClimberConfig& c_;
  const CudaRankerOptions options_;
  const KvLayout layout_;
  const PageLayout pages_;
  const AttendMachine machine_;
  const ScratchPages scratch_;
  ClimberPlanner batches_;
  ClimberPassPlan plan_;
  const std::unique_ptr<Product> product_;
  const DeviceMemory state_, qkv_, mixed_, inner_;                // float32, by row
  const DeviceMemory ends_, fused_, opinions_, shares_, logits_;  // float32, by candidate
  const DeviceMemory queries_, normed_;                           // 16 bits
  const DeviceMemory partials_;
  const PageLockedMemory host_logits_;
  PartTimers marks_;
  PassTimes* times_ = nullptr;
  Stream stream_;
  const ClimberBatch* batch_ = nullptr;  // the current pass
};

}  // namespace troupe::kernels::cuda
