// Sizes the item area for the fullest node of a placement, with the rule of pool.item_share: auto.
#include "deploy/lab/planning/plan_item_area.h"

#include <algorithm>
#include <cmath>

#include "deploy/reports/table.h"

namespace troupe::deploy {
namespace {

constexpr double steps = 10'000;  // a recommended share has four digits

}  // namespace

PlanItemArea plan_item_area(const PlannedPlacement& planned, const PlanPool& pool) {
  const std::uint64_t bytes = planned.node_bytes.empty() ? 0 : *std::ranges::max_element(planned.node_bytes);
  placement::ItemPages blocks = pool.item_blocks;
  blocks.items = (bytes + pool.page_bytes - 1) / pool.page_bytes;
  PlanItemArea area{
      .pages = placement::wanted_pages(blocks),
      .auto_pages = placement::item_area_pages(placement::wanted_pages(pool.item_blocks), pool.pages)};
  area.share = std::ceil(steps * static_cast<double>(area.pages) / std::max(1U, pool.pages)) / steps;
  return area;
}

std::string item_area_text(const PlannedPlacement& planned, const std::optional<PlanPool>& pool) {
  if (!pool) return "";
  const PlanItemArea area = plan_item_area(planned, *pool);
  std::string text = "pool.item_share for " + planned.name + ": ";
  if (area.share > 1)
    text += "none, because pool.memory is too small";
  else
    text += area.is_auto() ? std::string("auto") : fixed(area.share, 4);
  return text + " (" + std::to_string(area.pages) + " of " + std::to_string(pool->pages) +
         " pages, with a reserve; auto: " + std::to_string(area.auto_pages) + ")\n";
}

nlohmann::json item_area_figures(const PlannedPlacement& planned, const std::optional<PlanPool>& pool) {
  if (!pool) return {{"item_share", "auto"}};
  const PlanItemArea area = plan_item_area(planned, *pool);
  nlohmann::json figures{
      {"pool_pages", pool->pages}, {"item_pages", area.pages}, {"item_pages_auto", area.auto_pages}};
  if (area.is_auto())
    figures["item_share"] = "auto";
  else if (area.share <= 1)
    figures["item_share"] = area.share;
  else
    figures["item_share"] = nullptr;
  return figures;
}

}  // namespace troupe::deploy
