#pragma once
// The inference worker's device. It runs batches of plans on a model's executors, which read and
// write key-value pages of the node's arena, in place or through copies on a device
// (pass_pages_port.h). A malformed request, or one whose pages are wrong, fails alone.
//
// Cached pages are verified against their checksum before use, and computed again if they do not
// match (promise 2). Blocks in flight that fail to arrive are computed again, too. Pages of the
// arena may be larger than the model's own, if they are shared with other models. The port holds
// several models of one page layout at a time, each with its assets of the catalogs that plans
// name. It loads and drops models while batches of others run.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "actors/inference/model_assets_port.h"
#include "actors/inference/pass_pages_port.h"
#include "actors/inference/row_cache_port.h"
#include "actors/inference/table_shards_port.h"
#include "kernels/executor/executor.h"
#include "runtime/actor/ports.h"
#include "runtime/pool/page_arena.h"

namespace troupe::actors {

// A model version's executor and assets.
struct LoadedModel {
  std::unique_ptr<kernels::Executor> executor;
  MakeAssets make_assets;  // none: the model needs only the paths that its searches may return

  LoadedModel(std::unique_ptr<kernels::Executor> with_executor, MakeAssets with_assets = {})
      : executor(std::move(with_executor)), make_assets(std::move(with_assets)) {}
};

class ComputePort final : public Port {
 public:
  // Throws kernels::LoadError or std::bad_alloc. Called on an executor thread.
  using Loader = std::function<LoadedModel(const std::string& model_version)>;
  // Called once, after the executors exist: pages get the memory that they left.
  using MakePages = std::function<std::unique_ptr<PassPages>(PageArena& arena, std::uint32_t slots)>;

  // `slots` is the number of concurrent batches. There is one executor per slot and model, all over
  // the model's packed weights. `arena` outlives the port. Without a loader the port keeps the
  // first model. `find_catalog` is called on executor threads, for models that need assets. `rows`
  // caches the rows of embedding tables that are not in memory; executors read through it. `shards`
  // serves tables that are spread over nodes' memory, behind `rows`.
  ComputePort(LoadedModel model, std::string model_version, PageArena& arena, std::uint32_t slots,
              const MakePages& make_pages, Loader loader = {}, FindCatalog find_catalog = {},
              std::shared_ptr<RowCache> rows = {}, std::shared_ptr<TableShards> shards = {});
  // Uses the arena's own pages.
  ComputePort(LoadedModel model, std::string model_version, PageArena& arena, std::uint32_t slots,
              bool verify_on_read, Loader loader = {}, FindCatalog find_catalog = {});

  // Executor slots that the host must provide. There is one more than `slots` for a batch beside
  // large ones. With a loader, or with rows to refill, there is another one, so that neither makes
  // a batch wait.
  std::uint32_t slots() const { return slots_; }
  bool waits_by_layer() const {
    return find("")->executors.front()->waits_by_layer();
  }  // while the first model is loaded

  // Thread-safe; one call at a time per slot.
  JobResult run(const Job& job, std::uint32_t slot) override;
  // Runs a ChangeRowPages at once; nullopt for any other job.
  std::optional<JobResult> run_now(const Job& job) override;

 private:
  struct Work;
  struct Model {                                                // freed when the last user drops its pointer
    std::vector<std::unique_ptr<kernels::Executor>> executors;  // [lane]
    ModelAssets assets;
  };

  std::shared_ptr<Model> make_model(LoadedModel loaded) const;
  std::shared_ptr<Model> find(const std::string& model_version) const;
  JobResult load(const std::string& model_version);
  JobResult drop(const std::string& model_version);
  BatchDone run_batch(const RunBatch& batch, std::uint32_t slot) const;
  void run_models(const RunBatch& batch, std::uint32_t slot, BatchDone& done) const;
  RowsRefilled refill(const RefillRows& work) const;
  RowTotals row_totals() const;
  void run_model(const RunBatch& batch, std::span<const std::size_t> requests, Model& model,
                 std::uint32_t slot, BatchDone& done) const;
  std::optional<Refusal> prepare(const BatchRequest& request, const kernels::Executor& executor,
                                 ModelAssets& assets, std::size_t index, Work& work) const;
  std::string validate_pages(const BatchRequest& request) const;
  void clear_tails(std::span<const PassBlocks> requests) const;
  void await_all(Work& work, std::size_t first, const kernels::Executor& executor) const;
  std::vector<kernels::Reply> compute(Work& work, std::size_t first, std::size_t count,
                                      kernels::Executor& executor) const;
  std::size_t run_pass(Work& work, std::size_t first, kernels::Executor& executor, std::uint32_t slot,
                       BatchDone& done) const;

  const std::string first_version_;
  const kernels::PageLayout layout_;
  PageArena& arena_;
  const std::uint32_t slots_;
  const Loader loader_;
  const FindCatalog find_catalog_;
  const std::shared_ptr<RowCache> rows_;
  const std::shared_ptr<TableShards> shards_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Model>> models_;  // guarded by mutex_
  std::unique_ptr<PassPages> pages_;
};

}  // namespace troupe::actors
