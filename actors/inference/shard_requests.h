#pragma once
// Requests for shards of embedding tables that are spread over nodes' memory. Each shard has an
// owner, which keeps it as its own block; other nodes pull it from there.
#include <optional>
#include <span>
#include <vector>

#include "actors/inference/inference_config.h"
#include "actors/inference/task.h"
#include "placement/assignment/shards.h"
#include "runtime/actor/core.h"

namespace troupe::actors {

class ShardRequests {
 public:
  explicit ShardRequests(const InferenceConfig& config);

  bool any() const { return owners_.has_value(); }  // false: no table is spread
  bool is_own(const TableShard& shard) const { return owner_of(shard) == config_.node; }
  // Returns the request for these shards; `serial` is its id. Shards acquired ahead of need take
  // free pages only.
  AcquireBlocks request(Serial serial, std::span<const TableShard> shards, bool ahead) const;

 private:
  NodeId owner_of(const TableShard& shard) const;

  const InferenceConfig& config_;
  std::optional<placement::Shards> owners_;
};

// Pairs shards with their grants; a shard without one is left out.
std::vector<GrantedShard> granted_shards(const std::vector<TableShard>& shards,
                                         std::vector<BlockGrant> grants);

}  // namespace troupe::actors
