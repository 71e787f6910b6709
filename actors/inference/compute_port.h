#pragma once
// The inference worker's device. It runs batches of plans on a model's executors, which read and
// write key-value pages of the node's arena, in place or through copies on a device
// (pass_pages_port.h). A malformed request, or one whose pages are wrong, fails alone.
//
// Cached pages are verified against their checksum before use, and computed again if they do not
// match (promise 2). Blocks in flight that fail to arrive are computed again, too. Pages of the
// arena may be larger than the model's own, if they are shared with other models. Models are loaded
// and dropped while batches of others run (loaded_models_port.h).
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/inference/loaded_models_port.h"
#include "actors/inference/pass_pages_port.h"
#include "actors/inference/row_cache_port.h"
#include "actors/inference/table_shards_port.h"
#include "kernels/executor/executor.h"
#include "runtime/actor/ports.h"
#include "runtime/pool/page_arena.h"

namespace troupe::actors {

class ComputePort final : public Port {
 public:
  using Loader = LoadVersion;
  // Called once, after the executors exist: pages get the memory that they left.
  using MakePages = std::function<std::unique_ptr<PassPages>(PageArena& arena, std::uint32_t slots)>;

  struct Options {
    LoadedModel model;
    std::string model_version;
    PageArena& arena;         // outlives the port
    std::uint32_t slots = 1;  // concurrent batches; each model has one executor per slot
    MakePages make_pages;
    Loader loader = {};             // none: the port keeps the first model
    FindCatalog find_catalog = {};  // called on executor threads, for models that need assets
    // Caches the rows of embedding tables that are not in memory; executors read through it.
    std::shared_ptr<RowCache> rows = {};
    // Serves tables that are spread over nodes' memory, behind `rows`.
    std::shared_ptr<TableShards> shards = {};
  };
  explicit ComputePort(Options options);
  // Returns a maker of pages for engines that read and write the arena in place. With
  // `verify_on_read` all cached pages are verified, not only those whose grant asks for it.
  static MakePages arena_pages(bool verify_on_read);

  // Executor slots that the host must provide. There is one more than `slots` for a batch beside
  // large ones. With a loader, or with rows to refill, there is another one, so that neither makes
  // a batch wait.
  std::uint32_t slots() const { return slots_; }
  // Called while the first model is loaded.
  bool waits_by_layer() const { return models_.find("")->executors.front()->waits_by_layer(); }

  // Thread-safe; one call at a time per slot.
  JobResult run(const Job& job, std::uint32_t slot) override;
  // Runs a ChangeRowPages at once; nullopt for any other job.
  std::optional<JobResult> run_now(const Job& job) override;

 private:
  struct Work;
  BatchDone run_batch(const RunBatch& batch, std::uint32_t slot) const;
  void run_models(const RunBatch& batch, std::uint32_t slot, BatchDone& done) const;
  RowsRefilled refill(const RefillRows& work) const;
  RowTotals row_totals() const;
  void run_model(const RunBatch& batch, std::span<const std::size_t> requests, LoadedModels::Model& model,
                 std::uint32_t slot, BatchDone& done) const;
  std::optional<Refusal> prepare(const RunBatch& batch, std::size_t index, const kernels::Executor& executor,
                                 ModelAssets& assets, Work& work) const;
  std::string validate_pages(const BatchRequest& request) const;
  void clear_tails(std::span<const PassBlocks> requests) const;
  void await_all(Work& work, std::size_t first, const kernels::Executor& executor) const;
  std::vector<kernels::Reply> compute(Work& work, std::size_t first, std::size_t count,
                                      kernels::Executor& executor) const;
  std::size_t run_pass(Work& work, std::size_t first, kernels::Executor& executor, std::uint32_t slot,
                       BatchDone& done) const;

  PageArena& arena_;
  const std::uint32_t slots_;
  LoadedModels models_;
  const std::shared_ptr<RowCache> rows_;
  const std::shared_ptr<TableShards> shards_;
  const std::unique_ptr<PassPages> pages_;
};

}  // namespace troupe::actors
