#pragma once
// Cache-meta answers one question per request (BAT §5.1, "read"): which of these blocks exist and where, how
// hot is this user, and how hot is the coldest user who would have to make room. It learns from KV-cache
// workers what comes and goes. All of it is soft state: an empty cache-meta answers "miss" and learns again.
// Every cache-meta follows every worker and answers anybody; the one that leads (leadership.h) also relays
// what changes workers.
//
// Hotness is the sliding-window frequency of BAT §5.3. A cached user's place in the order of hotness is
// refreshed when it is used, when it is read as one of the coldest, and by a timer a few at a time, so that
// an estimate decays without anyone waiting for it.
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
#include "runtime/actor/deafness.h"
#include "runtime/actor/seat.h"
#include "runtime/coordination/member_watch.h"

namespace troupe::actors {

struct CacheMetaConfig {
  NodeId node = 1;
  Incarnation incarnation = 1;
  std::vector<NodeId> kv_nodes{
      1};                     // where KV-cache workers run, of the cluster's file; nobody else is believed
  ReadMembers members;        // who had joined and left when this process began
  Duration members_every{0};  // that is read anew so often; 0: it stays
  std::vector<NodeId> routers{1};            // of the file; they and the workers hear who leads
  Seats seats;                               // where routers of several models are
  bool joined = false;                       // it is not in the file that others read
  std::size_t index_blocks_max = 4'000'000;  // a block counts once on each node that holds it
  std::size_t holders_max = 4;               // named of one block in an answer; at most 255
  std::size_t coldest_max = 256;             // user blocks named in one answer
  std::uint32_t refresh_per_read = 16;       // coldest users whose frequency is taken anew for one answer
  std::uint32_t refresh_per_timer = 256;
  Duration refresh{100'000};  // between two refresh timers
  Duration heartbeat{200'000};
  Duration leader_lease{1'000'000};
  Duration inventory_retry{400'000};
  Duration silent_keep{30'000'000};  // how long the blocks of a silent worker are kept
  placement::PopularityConfig user_popularity;
  placement::PopularityConfig item_popularity;
  std::size_t returns_max = 200'000;  // user blocks of which it is followed how often they are wanted
};

class CacheMetaCore final : public Core {
 public:
  explicit CacheMetaCore(CacheMetaConfig config);
  void step(Instant now, const Event& event, Effects& effects) override;

  bool leads(Instant now) const { return leadership_.leads(now); }
  std::uint64_t token() const { return leadership_.token(); }
  std::size_t syncing() const { return workers_.syncing(); }  // workers whose inventory is being learned
  const BlockIndex& index() const { return index_; }
  std::string check_bounds() const;  // "" or what is wrong

 private:
  void on_message(Instant now, const Received& received, Effects& effects);
  void warm_users(Instant now, Effects& effects);
  void on_worker(Instant now, const Received& received, Effects& effects);
  void on_timer(Instant now, std::uint64_t timer, Effects& effects);
  void on_heartbeat(Instant now, Effects& effects);
  void on_lookup(Instant now, Address from, const LookupBlocks& lookup, Effects& effects);
  void on_forget(Instant now, Address from, Forget forget, Effects& effects);
  void on_refresh(Instant now, Effects& effects);
  void beat(Instant now, Effects& effects);
  void find_uses(Instant now, const LookupBlocks& lookup, BlocksFound& found);
  double user_uses(Instant now, const LookupBlocks& lookup, const AskedBlock& block, bool held, double items);
  void count_access(Instant now, const LookupBlocks& lookup);
  std::vector<FollowedWorkers::Room> rooms_for(std::span<const NodeId> nodes) const;
  double find_item_uses(Instant now, const LookupBlocks& lookup, BlocksFound& found) const;
  void find_coldest(Instant now, const LookupBlocks& lookup, std::uint32_t tokens, BlocksFound& found);
  void name_coldest(std::span<const NodeId> home, std::uint32_t tokens, std::uint64_t free_tokens,
                    BlocksFound& found) const;
  void refresh_coldest(std::span<const NodeId> home, Instant now);
  void refresh(const std::string& user, Instant now);
  void count_sizes(Effects& effects) const;
  void on_done(Instant now, const Done& done, Effects& effects);
  StatusReply status(RequestId id, Instant now) const;
  std::string hottest_items(Instant now) const;

  CacheMetaConfig config_;
  BlockIndex index_;
  Deafness deafness_;
  MemberWatch members_;
  FollowedWorkers workers_;
  Leadership leadership_;
  std::uint64_t members_job_;                 // the last; Leadership's are below
  placement::Popularity<std::string> users_;  // by key
  placement::Popularity<BlockName, BlockNameHash> items_;
  placement::ReturnRate returns_;  // by name of user block
  bool counts_ = false;            // since then, if accesses were counted
  Instant counting_since_;
  std::string refreshed_;  // user who was refreshed last by the timer
  std::uint64_t lookups_ = 0;
};

}  // namespace troupe::actors
