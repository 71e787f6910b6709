#pragma once
// The executor of SASRec on the CPU. It shares passes with HSTU (cpu/engine/item_executor.h); the layer is
// its own.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/engine/item_executor.h"
#include "kernels/cpu/products/linear.h"
#include "kernels/operations/attend.h"
#include "kernels/sasrec/sasrec.h"

namespace troupe::kernels {

struct SasrecKernels {
  const Gates* gates;
  Attend* attend;
  const ProductVersion* product;
  ItemKernels items;
};

struct PackedSasrecLayer {
  Linear query, keys_values, output, fc1, fc2;
};

// Packed weights, immutable, shared by every executor of the process.
struct PackedSasrec {
  SasrecConfig config;
  PackedItems items;
  Matrix positions;
  std::vector<PackedSasrecLayer> layers;
};
PackedSasrec pack_sasrec(SasrecModel model, const Linear::Form& form);

// For tests: takes its kernels and teams explicitly.
std::unique_ptr<Executor> make_cpu_sasrec(SasrecModel model, const DecoderOptions& options,
                                          const SasrecKernels& kernels, Teams teams);

class CpuSasrec final : public ItemExecutor {
 public:
  CpuSasrec(std::shared_ptr<const PackedSasrec> weights, SharedTeams shared, std::uint32_t executor,
            const DecoderOptions& options, const SasrecKernels& kernels);

  PlanLimits limits() const override { return model_.limits; }
  std::string fault(const Plan& plan) const override { return plan_fault(c_, plan); }
  std::unique_ptr<Executor> share(std::uint32_t executor) const override {
    return std::make_unique<CpuSasrec>(weights_, shared_, executor, options_, kernels_);
  }

 private:
  std::string plan_rows(std::span<const Request> requests) override;
  void run_layers(Team::Pass& pass) override;
  void run_rows(Team::Pass& pass, std::uint32_t layer);
  void embed(Rows rows, ItemWorkspace& w);
  void make_keys_values(const PackedSasrecLayer& layer, Rows rows, ItemWorkspace& w);
  void make_queries(const PackedSasrecLayer& layer, Rows rows, ItemWorkspace& w);
  void attend_part(const AttentionPart& part, std::uint32_t layer, ItemWorkspace& w);
  void finish_layer(const PackedSasrecLayer& layer, Rows rows, ItemWorkspace& w);
  void norm_rows(Rows rows, ItemWorkspace& w);

  const std::shared_ptr<const PackedSasrec> weights_;
  const SasrecConfig& c_;
  const SasrecKernels kernels_;
};

}  // namespace troupe::kernels
