#pragma once
// Reports to the cache-metas every change of the KV-cache worker's ready blocks and the free pages
// of its areas. A cache-meta that has missed something reads the inventory, a part at a time. The
// changes of one step form one message. They are numbered, so that a receiver notices a gap.
#include <cstdint>
#include <utility>
#include <vector>

#include "actors/kv_worker/kv_worker_config.h"
#include "runtime/actor/core.h"
#include "runtime/actor/subscribers.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

class IndexReports {
 public:
  IndexReports(const KvWorkerConfig& config, PagePool& pool);

  // Returns true if the sender is a cache-meta that gets the reports. One that joined the cluster
  // later subscribes by asking for the inventory or by saying that it leads.
  bool hear(Address from, const Message& message);
  void lose(NodeId node) { metas_.lose(node); }
  const std::vector<NodeId>& cache_metas() const { return metas_.nodes(); }

  void start(Instant now, Effects& effects);
  void on_timer(Instant now, Effects& effects);  // the heartbeat
  void on_inventory(Address from, const InventoryRequest& request, Effects& effects) const;
  void note_added(const PoolBlock& block);     // in this step
  void note_refused(const BlockName& name);    // a user block that got no pages in this step
  void report(Instant now, Effects& effects);  // at the end of a step

 private:
  AreaCapacity capacity_of(std::size_t area) const;
  bool has_new_capacities() const;
  CacheChanges take_changes(Effects& effects);
  void count_pages(Effects& effects);

  const KvWorkerConfig& config_;
  PagePool& pool_;
  Subscribers metas_;
  std::vector<BlockEntry> added_;   // blocks added in this step
  std::vector<BlockName> refused_;  // user blocks refused in this step
  std::uint64_t sequence_ = 0;      // of the last changes sent
  std::vector<AreaCapacity> sent_areas_;
  Instant sent_at_;
  bool beat_due_ = false;
  // Per area, size and used pages as of the last metrics update.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> counted_pages_;
};

}  // namespace troupe::actors
