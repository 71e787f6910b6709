// Reports corrupt blocks and removes them, wherever they were found: by a reader, by the scrubber,
// by a pull or by the tier.
#include "actors/kv_worker/corrupt_blocks.h"

#include "runtime/actor/block_name.h"

namespace troupe::actors {

void CorruptBlocks::report(const BlockName& name, std::string where, Effects& effects) {
  ++blocks_;
  effects.count(Metric::blocks_corrupt);
  effects.log(LogLevel::error, "block_corrupt", {{"block", to_hex(name)}, {"where", std::move(where)}});
}

void CorruptBlocks::report_stored(const std::vector<BlockName>& names, Effects& effects) {
  blocks_ += names.size();
  effects.count(Metric::blocks_corrupt, static_cast<double>(names.size()));
  effects.log(LogLevel::error, "block_corrupt",
              {{"where", "store"}, {"blocks", names.size()}, {"first", to_hex(names.front())}});
}

void CorruptBlocks::quarantine(const PoolBlock& block, Effects& effects) {
  const BlockName name = block.name;
  report(name, "memory", effects);
  pool_.remove(name, block.generation);
  if (tier_.stored().find(name)) tier_.erase({name}, serials_.next(), effects);
}

}  // namespace troupe::actors
