#pragma once
// Cache-meta answers one lookup per request (BAT §5.1, "read"): which of these blocks exist and
// where, how hot this user is, and how hot the coldest of the users is whose blocks would be
// evicted. KV-cache workers report which blocks they add and remove. All of this is soft state: an
// empty cache-meta answers "miss" and learns again. Every cache-meta follows every worker and
// answers any node. The leader (leadership.h) also relays `Forget` messages to the workers.
//
// Hotness is the sliding-window frequency of BAT §5.3. It decays with time, so the order of cached
// users by hotness goes out of date. A user is ranked again when used or when named among the
// coldest, and a timer ranks a few more at a time. So no request waits for a full sort.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "actors/cache_meta/block_index.h"
#include "actors/cache_meta/followed_workers.h"
#include "actors/cache_meta/leadership.h"
#include "placement/popularity/popularity.h"
#include "placement/popularity/return_rate.h"
#include "runtime/actor/core.h"
#include "runtime/actor/model_actor_ids.h"
#include "runtime/actor/stall_detector.h"
#include "runtime/coordination/member_watch.h"

namespace troupe::actors {

struct CacheMetaConfig {
  NodeId node = 1;
  Incarnation incarnation = 1;
  // Nodes with a KV-cache worker, from the cluster's file. Messages of other nodes are not
  // accepted.
  std::vector<NodeId> kv_nodes{1};
  ReadMembers members;        // nodes that had joined or left when this process began
  Duration members_every{0};  // interval at which the members are read again; 0 = never
  // From the cluster's file; routers and workers get LeaderBeat.
  std::vector<NodeId> routers{1};
  ModelActorIds actor_ids;  // where routers of several models are
  bool has_worker = false;  // this process also has the worker of its node
  bool joined = false;      // true if this node is missing in the cluster file that others read
  // Maximum number of holdings. A block counts once for each node that holds it.
  std::size_t index_blocks_max = 4'000'000;
  std::size_t holders_max = 4;          // holders named per block in an answer; at most 255
  std::size_t coldest_max = 256;        // user blocks named in one answer
  std::uint32_t refresh_per_read = 16;  // coldest users whose frequency is refreshed for one answer
  std::uint32_t refresh_per_timer = 256;
  Duration refresh{100'000};  // between two refresh timers
  Duration heartbeat{200'000};
  Duration leader_lease{1'000'000};
  Duration inventory_retry{400'000};
  Duration silent_keep{30'000'000};  // how long the blocks of a silent worker are kept
  placement::PopularityConfig user_popularity;
  placement::PopularityConfig item_popularity;
  std::size_t returns_max = 200'000;  // user blocks whose reuse is tracked
};

class CacheMetaCore final : public Core {
 public:
  explicit CacheMetaCore(CacheMetaConfig config);
  void step(Instant now, Event&& event, Effects& effects) override;

  bool leads(Instant now) const { return leadership_.leads(now); }
  std::uint64_t token() const { return leadership_.token(); }
  // Number of workers whose inventory is being read part by part, as after a gap in their reports.
  std::size_t syncing() const { return workers_.syncing(); }
  const BlockIndex& index() const { return index_; }
  std::string check_bounds() const;  // "" or the violated bound

 private:
  void on_message(Instant now, Address from, Message&& message, Effects& effects);
  void warm_users(Instant now, Effects& effects);
  void on_worker(Instant now, NodeId node, Message&& message, Effects& effects);
  void note_changes(Instant now, NodeId node, const CacheChanges& changes);
  void on_timer(Instant now, std::uint64_t timer, Effects& effects);
  void on_heartbeat(Instant now, Effects& effects);
  void on_lookup(Instant now, Address from, const LookupBlocks& lookup, Effects& effects);
  void on_forget(Instant now, Address from, Forget&& forget, Effects& effects);
  void on_refresh(Instant now, Effects& effects);
  void beat(Instant now, Effects& effects);
  void find_uses(Instant now, const LookupBlocks& lookup, BlocksFound& found);
  double user_uses(Instant now, const LookupBlocks& lookup, const BlockQuery& block, bool held);
  void count_access(Instant now, const LookupBlocks& lookup);
  void find_item_uses(Instant now, const LookupBlocks& lookup, BlocksFound& found) const;
  void find_coldest(Instant now, const LookupBlocks& lookup, std::uint32_t tokens, BlocksFound& found);
  void name_coldest(std::span<const NodeId> home, std::uint32_t tokens, std::uint64_t free_tokens,
                    BlocksFound& found) const;
  void refresh_coldest(std::span<const NodeId> home, Instant now);
  void refresh(const std::string& user, Instant now);
  void count_sizes(Effects& effects) const;
  void on_done(Instant now, const JobDone& done, Effects& effects);
  StatusReply status(RequestId id, Instant now) const;
  std::string hottest_items(Instant now) const;

  CacheMetaConfig config_;
  BlockIndex index_;
  StallDetector stall_;
  MemberWatch members_;
  FollowedWorkers workers_;
  Leadership leadership_;
  std::uint64_t members_job_;  // latest job of MemberWatch; jobs of Leadership have lower numbers
  placement::Popularity<std::string> users_;  // by user key
  placement::Popularity<BlockName, BlockNameHash> items_;
  placement::ReturnRate returns_;  // by name of user block
  // Item blocks that were evicted lately, up to a bound, and the mean of their uses in the window.
  double evicted_ = 0, evicted_uses_ = 0;
  bool counts_ = false;  // true once an access was counted, at `counting_since_`
  Instant counting_since_;
  std::string refreshed_;  // user refreshed last by the timer
  std::uint64_t lookups_ = 0;
};

}  // namespace troupe::actors
