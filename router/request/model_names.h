#pragma once
// Keeps the block names of the models that requests are pinned to at present: the current model,
// the next one, and the model of requests pinned earlier.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "router/request/block_names.h"

namespace troupe::router {

class ModelNames {
 public:
  // Both must outlive this object. `names`: of the model to which the block names stored with the
  // catalog's items belong.
  ModelNames(const PromptForm& form, const NameContext& names) : form_(form), own_(names) {}

  const BlockNames& of(const std::string& model_version) {
    const auto at = std::ranges::find_if(
        kept_, [&](const auto& names) { return names->model_version() == model_version; });
    if (at != kept_.end()) return **at;
    if (kept_.size() == kept_max) kept_.erase(kept_.begin());
    kept_.push_back(std::make_unique<const BlockNames>(form_, NameContext{model_version, own_.layout_version},
                                                       model_version == own_.model_version));
    return *kept_.back();
  }

 private:
  static constexpr std::size_t kept_max = 3;

  const PromptForm& form_;
  const NameContext& own_;
  std::vector<std::unique_ptr<const BlockNames>> kept_;  // the oldest first
};

}  // namespace troupe::router
