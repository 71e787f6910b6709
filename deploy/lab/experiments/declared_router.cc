// Describes a model that has no directory by its form alone, and derives the routers of a simulated cluster
// from it like those of a node.
#include "deploy/lab/experiments/declared_router.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "deploy/node/core_configs.h"
#include "deploy/node/prompt_file.h"
#include "kernels/base/check.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

// Returns limits within which a form is read; the simulated cluster sets its own.
kernels::PlanLimits form_limits() { return {.vocabulary = 5'000, .positions_max = 8'192}; }

}  // namespace

PromptForm prompt_form_of(const DeclaredForm& declared) {
  json system = json::array();
  for (std::uint32_t i = 0; i < declared.system_tokens; ++i) system.push_back(i % 4 + 1);
  json form;
  form["system"] = std::move(system);
  form["user"] = json::array({5, 6});
  form["instruction"] = json::array({7, 8});
  form["discriminant"] = json::array({9});
  form["arrangements"] = declared.arrangements;
  if (!declared.interchangeable.empty()) form["interchangeable"] = declared.interchangeable;
  return parse_prompt_form(form.dump(), "the declared form", form_limits());
}

void declare_router(const DeclaredForm& form, const Config& config, sim::Scenario& scenario) {
  TROUPE_CHECK(scenario.hardware, "a declared model has a shape");
  ServedModel model;
  model.config = config;
  model.facts.limits = form_limits();
  model.facts.shape = scenario.hardware->shape;
  model.facts.layout.page_tokens = scenario.page_tokens;
  model.facts.layout.bytes =
      static_cast<std::size_t>(scenario.hardware->shape.kv_token_bytes() * scenario.page_tokens);
  try {
    model.prompt = prompt_form_of(form);
    scenario.declared = std::make_shared<const router::RouterConfig>(router_config(model, NodeRoles{}));
  } catch (const std::runtime_error& error) {
    throw std::invalid_argument(error.what());
  }
  const router::RouterConfig& router = *scenario.declared;
  scenario.policy = router.policy;
  scenario.approximate = router.limits.approximate;
  scenario.deadline = router.budget;
  scenario.heartbeat = router.heartbeat;
  scenario.precompute = router.precompute.blocks != router::ItemBlockKind::none;
}

}  // namespace troupe::deploy
