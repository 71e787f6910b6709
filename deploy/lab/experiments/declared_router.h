#pragma once
// Routers of a simulated cluster that serves a published shape, for which there is no model directory. The
// experiment declares what the model's prompt.json would. Form and configuration are then made by the
// functions that make a node's (deploy/node/prompt_file.h, deploy/node/core_configs.h), so that requests look
// up, and routers precompute, the blocks that a node of this form would.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/actor/prompt_form.h"
#include "runtime/config/config.h"
#include "sim/scenario/scenario.h"

namespace troupe::deploy {

struct DeclaredForm {
  std::vector<std::string> arrangements, interchangeable;  // as in prompt.json
  std::uint32_t system_tokens = 4;
};

// Returns the form of a ranker that reads its scores at a discriminant, with the tokens that simulated worlds
// use. Throws kernels::LoadError.
PromptForm prompt_form_of(const DeclaredForm& declared);

// Sets the scenario's routers (Scenario::declared) and what it has of their settings. The scenario must have
// its hardware. Throws std::invalid_argument for a form or settings that a node refuses.
void declare_router(const DeclaredForm& form, const Config& config, sim::Scenario& scenario);

}  // namespace troupe::deploy
