#pragma once
// Changes to a cluster's nodes beyond those of its file: nodes that have joined, that are about to
// leave, and that have left. They are one key of the Coordination, changed by compare-and-set; its
// revision is the epoch of the membership. Node numbers are never reused, so everything said about
// a number concerns one node. For the file's nodes only changes are recorded:
//
//   last 7
//   joined 6 10.0.0.6 5006 w6
//   joined 7 10.0.0.7 5006 front-7
//   roles 7 router,cache_meta
//   joining 6
//   leaving 6
//   left 2
//
// A joined node without a roles line is a worker.
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/actor/coordination.h"
#include "runtime/actor/core.h"
#include "runtime/config/node_role.h"

namespace troupe {

inline constexpr std::string_view members_key = "members";
inline constexpr NodeId member_number_max = 65'535;  // limit set by addresses of several models
inline constexpr std::size_t members_max =
    1'000;  // bound on joined nodes, and on the file's nodes that left or leave

struct Member {
  NodeId node = 0;
  std::string name, host;  // name: in the certificate; host: where others reach it
  std::uint16_t port = 0;
  std::vector<NodeRole> roles{NodeRole::worker};  // each once, in order
  bool has(NodeRole role) const;
  bool operator==(const Member&) const = default;
};

struct ClusterMembers {
  NodeId last = 0;             // highest number given so far; 0 = none
  std::vector<Member> joined;  // in order of number
  // Joined nodes that are connecting: links accept them, but no requests go to them yet. Otherwise
  // the blocks they own would be recomputed by nodes they have no link to yet.
  std::set<NodeId> joining;
  std::set<NodeId> leaving;  // nodes of the file, and joined nodes
  std::set<NodeId> left;     // nodes of the file; others are removed entirely
  bool operator==(const ClusterMembers&) const = default;

  const Member* find(std::string_view name) const;  // among the joined nodes
  const Member* find(NodeId node) const;
};

struct ReadMembers {
  ClusterMembers members;
  Revision revision = 0;  // 0: nobody has joined or left yet
};

std::string members_text(const ClusterMembers& members);
// Parses a members text with at most `members_max` entries of a kind.
// or what is wrong, with its line
std::variant<ClusterMembers, std::string> parse_members(std::string_view text);

// Result of a change: the new members, or why it is refused. `file`: the nodes of the cluster's
// file.
using MembersChange = std::variant<ClusterMembers, std::string>;
// Adds a node with a new number. A node of the same name and roles keeps its number and gets the
// new address.
MembersChange with_joined(ClusterMembers members, std::span<const Member> file, Member wanted);
ClusterMembers arrived(ClusterMembers members, NodeId node);  // marks a joining node as reachable
// Refuses unless another node stays for each of its roles.
MembersChange with_leaving(ClusterMembers members, std::span<const Member> file, std::string_view name);
// Removes a node that has ended.
ClusterMembers without(ClusterMembers members, std::span<const Member> file, NodeId node);

// Returns why `now` cannot follow `before`, or "". Numbers given, and to whom, never change, except
// in an etcd that has lost its data.
std::string find_contradiction(const ClusterMembers& before, const ClusterMembers& now);
// Marks the node numbers given in `before` as used. A single node may restore only this; the
// membership itself comes from the others.
ClusterMembers with_used_numbers(ClusterMembers members, const ClusterMembers& before);

// Returns the nodes with this role in order of number: the file's that have not left, and those
// that have joined. `file`: the file's nodes with this role.
std::vector<NodeId> nodes_of(const ClusterMembers& members, std::span<const NodeId> file,
                             NodeRole role = NodeRole::worker);

}  // namespace troupe
