#pragma once
// The models that an inference worker's device has loaded: for each model its executors, one per
// executor slot, and its assets of the catalogs that plans name. All models have one page layout.
// Models are loaded and dropped while batches of others run.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/inference/model_assets_port.h"
#include "kernels/executor/executor.h"
#include "runtime/actor/ports.h"

namespace troupe::actors {

// A model version's executor and assets.
struct LoadedModel {
  std::unique_ptr<kernels::Executor> executor;
  MakeAssets make_assets;  // none: the model needs only the paths that its searches may return

  LoadedModel(std::unique_ptr<kernels::Executor> with_executor, MakeAssets with_assets = {})
      : executor(std::move(with_executor)), make_assets(std::move(with_assets)) {}
};
// Throws kernels::LoadError or std::bad_alloc. Called on an executor thread.
using LoadVersion = std::function<LoadedModel(const std::string& model_version)>;

// Thread-safe.
class LoadedModels {
 public:
  struct Model {                                                // freed when the last user drops its pointer
    std::vector<std::unique_ptr<kernels::Executor>> executors;  // [slot]
    ModelAssets assets;
  };

  // `first` is loaded from the start, and has the layout of all. Without `load_version` the models
  // are fixed.
  LoadedModels(LoadedModel first, std::string first_version, std::uint32_t slots, LoadVersion load_version,
               FindCatalog find_catalog);

  const kernels::PageLayout& layout() const { return layout_; }
  // Returns null if the model is not loaded. "" is the first model.
  std::shared_ptr<Model> find(const std::string& model_version) const;
  JobResult load(const std::string& model_version);
  JobResult drop(const std::string& model_version);

 private:
  std::shared_ptr<Model> make_model(LoadedModel loaded) const;

  const std::string first_version_;
  const kernels::PageLayout layout_;
  const std::uint32_t slots_;
  const LoadVersion load_version_;
  const FindCatalog find_catalog_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Model>> models_;  // guarded by mutex_
};

}  // namespace troupe::actors
