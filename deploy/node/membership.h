#pragma once
// Keeps a process in touch with the members of its cluster (runtime/coordination/members.h). Before
// the start, functions read or change the members' document in etcd. While the process serves, a
// thread polls the document and reports changes: links accept new nodes, and a leaving node drains.
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
#include "runtime/coordination/members.h"
#include "runtime/coordination/members_file.h"
#include "runtime/network/cluster.h"

namespace troupe::deploy {

// Opens etcd as set by cluster.coordination and cluster.coordination_…. `on_loss`: called when etcd
// has lost data, as in EtcdOptions. Throws ConfigError.
std::unique_ptr<Coordination> etcd_coordination(
    const ClusterSettings& settings,
    std::function<void(const std::string& what, const std::string& why)> on_loss = {});
// Returns the copy of the members in the data folder. `own` is this process's incarnation; 0 =
// unknown.
MembersFile kept_members(const Config& config, Incarnation own = 0);

// Waits until the Coordination answers, at most `timeout`: a node may start together with its
// etcd. If it has to wait, `on_wait` gets the reason once.
void await_coordination(Coordination& coordination, std::chrono::milliseconds timeout,
                        const std::function<void(const std::string& why)>& on_wait);
// These functions throw std::runtime_error if etcd does not answer or the document is malformed.
ReadMembers read_members(Coordination& coordination);
// Reads the members on a node that has seen `seen` before. If etcd has lost its data, restores
// which node numbers are used. Throws, too, if etcd has given one of these numbers to another node.
ReadMembers read_members(Coordination& coordination, const ClusterMembers& seen);
// Applies `change` (such as with_joined) and returns the resulting members. Throws what `change`
// refuses, too.
ReadMembers change_members(Coordination& coordination,
                           const std::function<MembersChange(ClusterMembers)>& change);

std::vector<Member> members_of(std::span<const ClusterNode> file);
// Checks that a node of the file may start with these members. Throws std::runtime_error.
void validate_start(const Member& own, const ClusterMembers& members);
// Returns all nodes of the cluster except `own`.
std::vector<PeerAddress> peers_of(std::span<const Member> file, const ClusterMembers& members, NodeId own);

// Set of connected nodes. A node without a router cannot serve until a router has connected. After its
// start it awaits all routers that can be reached: in a rolling restart, the node that is restarted next
// may be the only one that a router has besides.
class ConnectedPeers {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds await_time{5};

  ConnectedPeers(bool is_router, std::vector<NodeId> routers)
      : is_router_(is_router), routers_(std::move(routers)) {}
  void start(Clock::time_point now);         // the node begins to connect
  void follow(std::vector<NodeId> routers);  // replaces the known routers
  void meet(NodeId node);
  void lose(NodeId node);
  void miss(NodeId node);  // an attempt to connect failed
  bool has(NodeId node) const;
  std::string obstacle(Clock::time_point now = Clock::now()) const;
  // Returns the router to ask instead of `wanted`: `wanted` itself if this node has a router, else
  // the first connected router that is not leaving.
  NodeId router(NodeId wanted) const;

 private:
  const bool is_router_;
  mutable std::mutex mutex_;
  std::vector<NodeId> routers_;  // guarded by mutex_, like all members below
  std::set<NodeId> connected_, missed_;
  Clock::time_point await_until_;
};

class MembershipWatcher {
 public:
  // `file` lists all nodes of the cluster's file. The Coordination must outlive this object; only
  // its thread uses it until stop(). `kept` stores each new version of the members.
  MembershipWatcher(Coordination& coordination, NodeId own, std::vector<Member> file, ReadMembers known,
                    MembersFile kept = {{}, ""});
  ~MembershipWatcher() { stop(); }

  struct Callbacks {  // called on its thread
    std::function<void(std::vector<PeerAddress>)> on_peers;
    std::function<void()> on_leave;  // once: this node is leaving or is no longer a member
    // the document is malformed or older than a known one
    std::function<void(const std::string& why)> on_fault;
    std::function<void(const std::string& why)> on_not_kept{
        [](const std::string&) {}};  // the copy in the data folder could not be written
    // While this node joins: true if its links to all these peers are up. The node then counts as
    // arrived and others use it. It arrives without them after 10 s.
    std::function<bool(const std::vector<PeerAddress>&)> has_connected;
  };
  void start(Callbacks calls);
  void stop();

  // Revision of the document at which this node began to leave; 0: it is not leaving.
  Revision leaves_since() const { return leaves_since_; }
  // there: current nodes with that role, including this one. staying: those except this one and
  // leaving nodes.
  std::vector<NodeId> there(NodeRole role) const;
  std::vector<NodeId> staying(NodeRole role) const;
  // Publishes what this node, which leaves, still waits for (leave_progress.h). Its thread writes it.
  void publish(std::string progress);
  // Publishes `progress` and removes this node from the members. Called after stop(). Returns "" or the
  // error.
  std::string end(std::string progress);

 private:
  void run(const std::stop_token& ended);
  void poll();
  void take(const CoordinationReply& read);
  void follow();
  void report_arrival();
  void write_progress();
  bool is_member(const ClusterMembers& members) const;

  Coordination& coordination_;
  const NodeId own_;
  const std::vector<Member> file_;
  const MembersFile kept_;
  Callbacks calls_;
  ReadMembers known_;    // used by its thread only
  Revision read_ = 0;    // last revision read; used by its thread only
  bool polled_ = false;  // used by its thread only
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::atomic<Revision> leaves_since_ = 0;
  mutable std::mutex mutex_;
  ClusterMembers seen_;           // copy of known_ for other threads; guarded by mutex_
  std::string progress_;          // to be written; guarded by mutex_
  std::string progress_written_;  // this and the next two: used by its thread only
  Revision progress_revision_ = 0;
  LeaseId progress_lease_ = 0;
  std::condition_variable_any ended_;
  std::jthread thread_;  // last member: destroyed first
};

}  // namespace troupe::deploy
