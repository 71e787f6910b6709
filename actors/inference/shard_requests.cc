// Asks the KV-cache worker for shards of embedding tables, each from the node that owns it.
#include "actors/inference/shard_requests.h"

#include <algorithm>
#include <utility>

#include "kernels/base/hash.h"
#include "runtime/actor/block_name.h"
#include "runtime/actor/table_shard.h"

namespace troupe::actors {

ShardRequests::ShardRequests(const InferenceConfig& config) : config_(config) {
  if (!config.shard_owners.empty()) owners_.emplace(config.shard_owners);
}

// Returns the owner by rendezvous hashing, the same on all nodes that know the same workers.
NodeId ShardRequests::owner_of(const TableShard& shard) const {
  return owners_->nodes()[owners_->owner(hash_of(shard.table) ^ spread(shard.shard))];
}

AcquireBlocks ShardRequests::request(Serial serial, std::span<const TableShard> shards, bool ahead) const {
  AcquireBlocks ask{serial, config_.block_wait.us};
  ask.may_evict = !ahead;
  for (const TableShard& shard : shards) {
    const NodeId owner = owner_of(shard);
    ask.wants.push_back({block_of(shard), SegmentKind::item, "table", config_.page_tokens,
                         owner == config_.node ? 0 : owner});
  }
  return ask;
}

std::vector<GrantedShard> granted_shards(const std::vector<TableShard>& shards,
                                         std::vector<BlockGrant> grants) {
  std::vector<GrantedShard> granted;
  for (std::size_t i = 0; i < std::min(shards.size(), grants.size()); ++i)
    granted.push_back({shards[i], std::move(grants[i])});
  return granted;
}

}  // namespace troupe::actors
