#pragma once
// Cache-meta answers one question per request (BAT §5.1, "read"): which of these blocks exist and where, how
// hot is this user, and how hot is the coldest user who would have to make room. It learns from KV-cache
// workers what comes and goes. All of it is soft state: an empty cache-meta answers "miss" and learns again.
//
// Hotness is the sliding-window frequency of BAT §5.3. A cached user's place in the order of hotness is
// refreshed when it is used, when it is read as one of the coldest, and by a timer a few at a time, so that
// an estimate decays without anyone waiting for it.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/cache_meta/block_index.h"
#include "placement/popularity.h"
#include "runtime/core.h"

namespace troupe::actors {

struct CacheMetaConfig {
  NodeId node = 1;
  std::vector<NodeId> kv_nodes{1};  // where KV-cache workers run; nobody else is believed
  std::size_t index_blocks_max = 4'000'000;
  std::size_t coldest_max = 256;        // user blocks named in one answer
  std::uint32_t refresh_per_read = 16;  // coldest users whose frequency is taken anew for one answer
  std::uint32_t refresh_per_timer = 256;
  Duration refresh{100'000};  // between two refresh timers
  placement::PopularityConfig user_popularity;
  placement::PopularityConfig item_popularity;
};

class CacheMetaCore final : public Core {
 public:
  explicit CacheMetaCore(CacheMetaConfig config);
  void step(Instant now, const Event& event, Effects& effects) override;

 private:
  void on_message(Instant now, const Received& received, Effects& effects);
  void on_worker(Instant now, const Received& received, Effects& effects);
  void on_lookup(Instant now, Address from, const LookupBlocks& lookup, Effects& effects);
  void on_forget(const Forget& forget, Effects& effects);
  void on_refresh(Instant now, Effects& effects);
  void count_access(Instant now, const LookupBlocks& lookup);
  void find_coldest(Instant now, const LookupBlocks& lookup, BlocksFound& found);
  void refresh(const std::string& user, Instant now);
  void count_sizes(Effects& effects) const;
  StatusReply status(RequestId id, Instant now) const;
  std::string hottest_items(Instant now) const;
  bool is_worker(Address address) const;

  CacheMetaConfig config_;
  BlockIndex index_;
  placement::Popularity users_, items_;  // by user key; by block name's bytes
  std::map<NodeId, UserArea> areas_;     // as last reported
  std::string refreshed_;                // user who was refreshed last by the timer
  std::uint64_t lookups_ = 0;
};

}  // namespace troupe::actors
