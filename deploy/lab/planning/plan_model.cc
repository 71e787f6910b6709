// Asks a model's description which item blocks its policy looks up, and how large they are.
#include "deploy/lab/planning/plan_model.h"

#include <algorithm>
#include <stdexcept>

#include "deploy/lab/planning/served_catalog.h"
#include "deploy/node/core_configs.h"
#include "router/request/item_block.h"

namespace troupe::deploy {

PlanModel read_plan_model(const Config& config, const std::filesystem::path& data) {
  ServedModel model;
  Config unplaced = config;
  unplaced.pool.placement = "any";  // the plan in use may be for other nodes
  describe_without_weights(unplaced, model);
  const router::RouterConfig router = router_config(model, NodeRoles{});
  const PromptForm& form = model.prompt;
  const router::ItemBlockKind kind = router::item_block_kind(router.policy, form, router.limits.approximate);
  PlanModel plan{
      .directory = config.model.directory,
      .policy = router.policy.name(),
      .shape = model.facts.shape,
      .event_tokens = static_cast<std::uint32_t>(form.event.size()),
      .page_tokens = config.pool.page_tokens,
      .page_bytes = model.facts.layout.page_bytes(),
      .pool_pages = static_cast<std::uint32_t>(pages_of(config.pool, model.facts.layout.page_bytes()))};
  if (kind == router::ItemBlockKind::none)
    throw std::invalid_argument(plan.directory + ": under router.policy " + plan.policy +
                                ", requests to this model look up no blocks of "
                                "items, so there is nothing to place: " +
                                no_item_blocks +
                                ". Expected a form with item_first among "
                                "the arrangements that serve "
                                "by default, a policy such as blocks+30, or router.approximate above 0");
  plan.mark_tokens = static_cast<std::uint32_t>(form.item.size());
  plan.movable = kind == router::ItemBlockKind::movable;
  std::vector<Item> items = served_catalog(model, data);
  plan.item_pages = model_item_blocks(model, items).pages;
  for (Item& item : items) {
    item.tokens = router::item_block_tokens(kind, form, item.tokens);
    plan.catalog.numbers.emplace(item.id, static_cast<placement::ItemNumber>(plan.catalog.ids.size()));
    plan.catalog.ids.push_back(std::move(item.id));
    plan.catalog.tokens.push_back(static_cast<std::uint32_t>(std::max<std::size_t>(item.tokens.size(), 1)));
  }
  return plan;
}

}  // namespace troupe::deploy
