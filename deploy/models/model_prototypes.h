#pragma once
// Opens the configured prototypes, which stand for tokens of histories
// (kernels/decoder/prototypes.h). Routers use them for plans, inference workers for computing.
#include <filesystem>
#include <memory>
#include <string>

#include "deploy/models/model_families.h"
#include "kernels/decoder/prototypes.h"
#include "runtime/actor/prompt_form.h"
#include "runtime/config/config.h"

namespace troupe::deploy {

// Reads model.prototypes; null if the setting is empty. Throws LoadError if the file is damaged or
// of another model, ConfigError if the device does not support prototypes.
std::shared_ptr<const kernels::Prototypes> open_prototypes(const ModelSettings& settings,
                                                           const std::filesystem::path& model,
                                                           const std::string& model_version);

std::shared_ptr<const PrototypeSet> prototype_set_of(std::shared_ptr<const kernels::Prototypes> prototypes,
                                                     std::string model_version);

// Returns the columns of the prototypes' table if its rows are read through pages of the pool
// (model.tables: mapped); else 0.
std::uint32_t prototype_columns(const ModelSettings& settings, const kernels::Prototypes& prototypes);

// Returns the model's executor with prototypes. If `wrap` is not empty, their rows are read through
// it.
std::unique_ptr<kernels::Executor> make_prototype_executor(
    const Config& config, std::unique_ptr<kernels::Executor> executor,
    std::shared_ptr<const kernels::Prototypes> prototypes, const WrapTable& wrap);

}  // namespace troupe::deploy
