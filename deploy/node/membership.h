#pragma once
// How a process takes part in the membership of its cluster (runtime/coordination/members.h): before it
// starts, reading or changing the document in etcd; while it serves, a thread that reads it again and again
// and tells what has changed, so that links let in who has come, and a node that is to leave hears of it.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/coordination/kept_members.h"
#include "runtime/coordination/members.h"
#include "runtime/network/cluster.h"

namespace troupe::deploy {

// As cluster.coordination and its companions say. Throws ConfigError.
std::unique_ptr<Coordination> etcd_coordination(const Config& config);
// In its data folder. `own`: of this process.
KeptMembers kept_members(const Config& config, Incarnation own = 0);

// Until it answers, or for so long: a node may start beside its etcd. `on_wait` hears why, once.
void await_coordination(Coordination& coordination, std::chrono::milliseconds patience,
                        const std::function<void(const std::string& why)>& on_wait);
// Throw std::runtime_error: etcd cannot be asked, or what is there makes no sense.
ReadMembers read_members(Coordination& coordination);
// By a node that has seen these members before. An etcd that has lost its data hears again which numbers are
// spent; throws, too, if it has given one of them to another meanwhile.
ReadMembers read_members(Coordination& coordination, const Members& seen);
// `change` as with_joined is; what it refuses is thrown, too. What is there then.
ReadMembers change_members(Coordination& coordination, const std::function<MembersChange(Members)>& change);

std::vector<Member> members_of(std::span<const ClusterNode> file);
// Whether a node of the file may begin, as the members are. Throws std::runtime_error.
void check_own(const Member& own, const Members& members);
// All that are in the cluster, but for the node itself.
std::vector<PeerAddress> peers_of(std::span<const Member> file, const Members& members, NodeId own);

// Which nodes are connected. A node that has no router of its own is of no use while none has let it in.
class Peers {
 public:
  Peers(bool is_router, std::vector<NodeId> routers) : is_router_(is_router), routers_(std::move(routers)) {}
  void follow(std::vector<NodeId> routers);  // others are there from now on
  void meet(NodeId node);
  void lose(NodeId node);
  bool has(NodeId node) const;
  std::string obstacle() const;
  // Whom a door asks instead of that router, if it is of another process: the first that is connected and
  // does not leave.
  NodeId router(NodeId wanted) const;

 private:
  const bool is_router_;
  mutable std::mutex mutex_;
  std::vector<NodeId> routers_;  // guarded by mutex_, as all below
  std::set<NodeId> met_;
};

class Membership {
 public:
  // `file`: all nodes of the cluster's file. The Coordination outlives it, and is asked by its thread alone
  // until stop(). `kept`: what it hears goes there.
  Membership(Coordination& coordination, NodeId own, std::vector<Member> file, ReadMembers known,
             KeptMembers kept = {{}, ""});
  ~Membership() { stop(); }

  struct Calls {  // on its thread
    std::function<void(std::vector<PeerAddress>)> on_peers;
    std::function<void()> on_leave;  // once: this node is to leave, or is no member any more
    std::function<void(const std::string& why)> on_fault;  // what is there makes no sense
    std::function<void(const std::string& why)> on_not_kept{
        [](const std::string&) {}};  // what is known, in the data folder
    // While this node joins: whether its links to all of these stand. Others ask it from then on, or after a
    // while without.
    std::function<bool(const std::vector<PeerAddress>&)> has_met;
  };
  void start(Calls calls);
  void stop();

  // The revision of the document when this node was to leave; 0: it is not.
  Revision leaves_since() const { return leaves_since_; }
  // With that role, who is there, this one too; and who is there for longer than this one.
  std::vector<NodeId> there(NodeRole role) const;
  std::vector<NodeId> staying(NodeRole role) const;
  // After stop(). Takes this node out; "" or what is wrong.
  std::string end();

 private:
  void run(const std::stop_token& ended);
  void look();
  void take(const Coordinated& read);
  void follow();
  void see_to_arrival();
  bool is_member(const Members& members) const;

  Coordination& coordination_;
  const NodeId own_;
  const std::vector<Member> file_;
  const KeptMembers kept_;
  Calls calls_;
  ReadMembers known_;    // of its thread
  Revision read_ = 0;    // the last; of its thread
  bool looked_ = false;  // of its thread
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::atomic<Revision> leaves_since_ = 0;
  mutable std::mutex mutex_;
  Members seen_;  // as known_, for others
  std::condition_variable_any ended_;
  std::jthread thread_;  // last: it goes first
};

}  // namespace troupe::deploy
