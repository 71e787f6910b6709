#pragma once
// The served model for which `troupe-lab plan --model` plans: its shape, and what the block of each item
// takes in the pool.
#include <cstdint>
#include <filesystem>
#include <string>

#include "deploy/lab/planning/plan_input.h"
#include "placement/cost/cost_model.h"
#include "placement/split/item_area.h"
#include "runtime/config/config.h"

namespace troupe::deploy {

struct PlanModel {
  std::string directory, policy;
  placement::ModelShape shape;
  PlanCatalog
      catalog;  // its tokens are those of the blocks that the policy looks up (router/request/item_block.h)
  std::uint32_t event_tokens = 0;  // of the form, before each event of a history
  std::uint32_t mark_tokens = 0;   // of the form, before each item in its block
  bool movable = false;            // the blocks are repaired where they are reused
  std::uint32_t page_tokens = 0;
  std::uint64_t page_bytes = 0;
  std::uint32_t pool_pages = 0;     // of pool.memory
  placement::ItemPages item_pages;  // of the catalog's blocks, and of those that all requests use

  std::uint64_t block_bytes(std::uint32_t tokens) const {  // whole pages
    return (tokens + page_tokens - 1) / page_tokens * page_bytes;
  }
};

// `data`: folder of the catalog; "" = the catalog in node.data_dir. Throws what a node throws for its
// configuration, model and catalog; std::invalid_argument if the policy looks up no blocks of items, so that
// there is nothing to place.
PlanModel read_plan_model(const Config& config, const std::filesystem::path& data);

}  // namespace troupe::deploy
