// Loads, finds and drops the models of an inference worker's device.
#include "actors/inference/loaded_models_port.h"

#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/errors.h"

namespace troupe::actors {
namespace {

Refusal cannot_load(RefusalKind kind, const char* code, const std::string& model_version, std::string what,
                    const char* expected) {
  return {kind, code, std::move(what), "model " + model_version, expected};
}

// Returns true if the operating system will not answer otherwise until somebody changes the file.
bool is_lasting(const std::error_code& error) {
  for (const std::errc lasting :
       {std::errc::no_such_file_or_directory, std::errc::filename_too_long, std::errc::not_a_directory,
        std::errc::is_a_directory, std::errc::too_many_symbolic_link_levels, std::errc::permission_denied,
        std::errc::operation_not_permitted, std::errc::invalid_argument, std::errc::file_too_large})
    if (error == lasting) return true;
  return false;
}

std::string layout_text(const kernels::PageLayout& layout) {
  return "pages of " + std::to_string(layout.page_tokens) + " tokens hold " + layout.content;
}

}  // namespace

LoadedModels::LoadedModels(LoadedModel first, std::string first_version, std::uint32_t slots,
                           LoadVersion load_version, FindCatalog find_catalog)
    : first_version_(std::move(first_version)),
      layout_(first.executor->layout()),
      slots_(slots),
      load_version_(std::move(load_version)),
      find_catalog_(std::move(find_catalog)) {
  models_[first_version_] = make_model(std::move(first));
}

std::shared_ptr<LoadedModels::Model> LoadedModels::make_model(LoadedModel loaded) const {
  const std::shared_ptr<Model> model(new Model{{}, {std::move(loaded.make_assets), find_catalog_}});
  model->executors.resize(1);
  for (std::uint32_t slot = 1; slot < slots_; ++slot)
    model->executors.push_back(loaded.executor->share(slot));
  model->executors.front() = std::move(loaded.executor);
  return model;
}

std::shared_ptr<LoadedModels::Model> LoadedModels::find(const std::string& model_version) const {
  const std::lock_guard lock(mutex_);
  const auto at = models_.find(model_version.empty() ? first_version_ : model_version);
  return at == models_.end() ? nullptr : at->second;
}

JobResult LoadedModels::load(const std::string& model_version) try {
  if (find(model_version)) return ModelChanged{};
  if (!load_version_)
    return cannot_load(RefusalKind::unsupported, "models_fixed", model_version,
                       "this worker cannot change its models", "the model that was loaded at the start");
  LoadedModel loaded = load_version_(model_version);
  TROUPE_CHECK(loaded.executor != nullptr, "a loader returns an executor or throws");
  if (loaded.executor->layout() != layout_)
    return cannot_load(
        RefusalKind::unprocessable, "other_layout", model_version,
        "the model's " + layout_text(loaded.executor->layout()) + "; the pool's " + layout_text(layout_),
        "a model whose blocks fit the pages of the pool");
  auto model = make_model(std::move(loaded));
  const std::lock_guard lock(mutex_);
  models_.emplace(model_version, std::move(model));
  return ModelChanged{};
} catch (const kernels::LoadError& error) {
  return cannot_load(RefusalKind::unprocessable, "bad_model", model_version, error.what(),
                     "a model directory that can be read");
} catch (const std::bad_alloc&) {
  return cannot_load(RefusalKind::unavailable, "no_memory", model_version,
                     "there is not enough memory for this model",
                     "enough memory for two models during a change");
} catch (const std::system_error& error) {
  const bool lasts = is_lasting(error.code());
  return cannot_load(lasts ? RefusalKind::unprocessable : RefusalKind::unavailable,
                     lasts ? "bad_model" : "load_failed", model_version, error.what(),
                     "a model directory that can be read");
} catch (const std::exception& error) {
  return cannot_load(RefusalKind::unavailable, "load_failed", model_version, error.what(),
                     "a model that can be loaded");
}

JobResult LoadedModels::drop(const std::string& model_version) {
  std::shared_ptr<Model> last;  // freed without the lock
  const std::lock_guard lock(mutex_);
  const auto node = models_.extract(model_version);
  if (!node.empty()) last = std::move(node.mapped());
  return ModelChanged{};
}

}  // namespace troupe::actors
