#pragma once
// What stands for tokens of histories (kernels/decoder/prototypes.h), as configured: for routers, which say
// in their plans what is made of it, and for what computes these.
#include <filesystem>
#include <memory>
#include <string>

#include "deploy/models/families.h"
#include "kernels/decoder/prototypes.h"
#include "runtime/actor/prompt_form.h"
#include "runtime/config/config.h"

namespace troupe::deploy {

// Of model.prototypes; null if there is none. Throws LoadError where the file is damaged or of another model,
// ConfigError where the device takes none.
std::shared_ptr<const kernels::Prototypes> open_prototypes(const Config& config,
                                                           const std::filesystem::path& model,
                                                           const std::string& model_version);

std::shared_ptr<const StandIns> stand_ins_of(std::shared_ptr<const kernels::Prototypes> prototypes,
                                             std::string model_version);

// Columns of the table whose rows they are, where they are read through pages of the pool (model.tables:
// mapped); else 0.
std::uint32_t prototype_columns(const Config& config, const kernels::Prototypes& prototypes);

// The model's executor, as configured, with them; through `wrap`, if there is one, where their rows are read
// through pages.
std::unique_ptr<kernels::Executor> make_of_prototypes(const Config& config,
                                                      std::unique_ptr<kernels::Executor> executor,
                                                      std::shared_ptr<const kernels::Prototypes> prototypes,
                                                      const WrapTable& wrap);

}  // namespace troupe::deploy
