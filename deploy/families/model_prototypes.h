#pragma once
// What stands for tokens of histories (kernels/decoder/prototypes.h), as configured: for routers, which say in their plans
// what is made of it, and for what computes these.
#include <filesystem>
#include <memory>
#include <string>

#include "kernels/decoder/prototypes.h"
#include "router/request/prompt.h"
#include "runtime/settings/config.h"

namespace troupe::deploy {

// Of model.prototypes; null if there is none. Throws LoadError where the file is damaged or of another model, ConfigError
// where the device takes none.
std::shared_ptr<const kernels::Prototypes> open_prototypes(const Config& config, const std::filesystem::path& model,
                                                           const std::string& model_version);

std::shared_ptr<const router::StandIns> stand_ins_of(std::shared_ptr<const kernels::Prototypes> prototypes,
                                                     std::string model_version);

// The model's executor, as configured, with them.
std::unique_ptr<kernels::Executor> make_of_prototypes(const Config& config, std::unique_ptr<kernels::Executor> executor,
                                                      std::shared_ptr<const kernels::Prototypes> prototypes);

}  // namespace troupe::deploy
