#pragma once
// The inference worker's device: runs batches of plans on a model's executors, reading and writing key-value
// pages of the node's arena, in place or by copies on a device (pass_pages_port.h). A request that is wrong,
// or whose pages are, fails alone; cached pages are checked against their checksum before use and computed
// again if they do not match (promise 2); so are blocks that come from other nodes while a pass runs, and do
// not come. Pages of the arena may be larger than the models' own: then they are other models', too. It holds
// several models at a time, all of one page layout, each with what it computes with of the catalogs that
// plans name, and changes them while batches of others run.
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

// What serves a model version.
struct LoadedModel {
  std::unique_ptr<kernels::Executor> executor;
  MakeAssets make_assets;  // none: it needs what its searches may return

  LoadedModel(std::unique_ptr<kernels::Executor> with_executor, MakeAssets with_assets = {})
      : executor(std::move(with_executor)), make_assets(std::move(with_assets)) {}
};

class ComputePort final : public Port {
 public:
  // Throws kernels::LoadError or std::bad_alloc. Called on a lane's thread.
  using Loader = std::function<LoadedModel(const std::string& model_version)>;
  // Called once, when the executors are there: what memory they left is for pages.
  using MakePages = std::function<std::unique_ptr<PassPages>(PageArena& arena, std::uint32_t lanes)>;

  // `lanes`: batches at a time. One executor per lane and model, all over the model's packed weights. `arena`
  // outlives the port. Without a loader the port keeps the one model. `find_catalog` is called on lanes'
  // threads, for models that need something of catalogs. `rows`: of those whose embedding tables are not in
  // memory, through which their executors read them; `shards`: of those that are spread over nodes' memory,
  // behind `rows`.
  ComputePort(LoadedModel model, std::string model_version, PageArena& arena, std::uint32_t lanes,
              const MakePages& make_pages, Loader loader = {}, FindCatalog find_catalog = {},
              std::shared_ptr<RowCache> rows = {}, std::shared_ptr<TableShards> shards = {});
  // On the arena's own pages.
  ComputePort(LoadedModel model, std::string model_version, PageArena& arena, std::uint32_t lanes,
              bool verify_on_read, Loader loader = {}, FindCatalog find_catalog = {});

  // That its host has to give it: one more than there are batches at a time, for what goes beside large ones,
  // and with a loader, or rows that are refilled, another, so that neither keeps a batch waiting.
  std::uint32_t lanes() const { return lanes_; }
  bool waits_by_layer() const {
    return find("")->executors.front()->waits_by_layer();
  }  // while the first model is here

  // Thread-safe, one call at a time per lane.
  JobResult run(const Job& job, std::uint32_t lane) override;
  // Pages for rows come and go by their numbers.
  std::optional<JobResult> run_now(const Job& job) override;

 private:
  struct Work;
  struct Model {                                                // in use as long as somebody has its pointer
    std::vector<std::unique_ptr<kernels::Executor>> executors;  // [lane]
    ModelAssets assets;
  };

  std::shared_ptr<Model> make_model(LoadedModel loaded) const;
  std::shared_ptr<Model> find(const std::string& model_version) const;
  JobResult load(const std::string& model_version);
  JobResult drop(const std::string& model_version);
  BatchDone run_batch(const RunBatch& batch, std::uint32_t lane) const;
  void run_models(const RunBatch& batch, std::uint32_t lane, BatchDone& done) const;
  RowsRefilled refill(const RefillRows& work) const;
  RowTotals row_totals() const;
  void run_model(const RunBatch& batch, std::span<const std::size_t> requests, Model& model,
                 std::uint32_t lane, BatchDone& done) const;
  std::optional<Refusal> prepare(const BatchRequest& request, const kernels::Executor& executor,
                                 ModelAssets& assets, std::size_t index, Work& work) const;
  std::string pages_fault(const BatchRequest& request) const;
  void clear_tails(std::span<const PassBlocks> requests) const;
  void await_all(Work& work, std::size_t first, const kernels::Executor& executor) const;
  std::vector<kernels::Reply> compute(Work& work, std::size_t first, std::size_t count,
                                      kernels::Executor& executor) const;
  std::size_t run_pass(Work& work, std::size_t first, kernels::Executor& executor, std::uint32_t lane,
                       BatchDone& done) const;

  const std::string first_version_;
  const kernels::PageLayout layout_;
  PageArena& arena_;
  const std::uint32_t lanes_;
  const Loader loader_;
  const FindCatalog find_catalog_;
  const std::shared_ptr<RowCache> rows_;
  const std::shared_ptr<TableShards> shards_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Model>> models_;  // guarded by mutex_
  std::unique_ptr<PassPages> pages_;
};

}  // namespace troupe::actors
