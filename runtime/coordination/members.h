#pragma once
// Who is in a cluster beside the nodes of its file: nodes that have joined since, who is about to leave, and
// who has left. One key of the Coordination, changed by compare-and-set; its revision is the epoch of the
// membership. Node numbers are never given twice, so whatever is said of a number is said of one node. Of the
// file's nodes only what has become of them stands here.
//
//   last 7
//   joined 6 10.0.0.6 5006 w6
//   joined 7 10.0.0.7 5006 front-7
//   roles 7 router,cache_meta            who has no such line is a worker
//   joining 6
//   leaving 6
//   left 2
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
inline constexpr NodeId member_number_max = 65'535;  // what addresses of several models have room for
inline constexpr std::size_t members_max =
    1'000;  // that have joined and are there, and of the file's that left or leave

struct Member {
  NodeId node = 0;
  std::string name, host;  // of a certificate; where the others reach it
  std::uint16_t port = 0;
  std::vector<NodeRole> roles{NodeRole::worker};  // each once, in order
  bool has(NodeRole role) const;
  bool operator==(const Member&) const = default;
};

struct Members {
  NodeId last = 0;             // the highest number that was given; 0: none was yet
  std::vector<Member> joined;  // by number
  // Of those: links let them in, and nobody asks them yet. What belongs to them would be computed anew if
  // they were asked before their links to all others stand.
  std::set<NodeId> joining;
  std::set<NodeId> leaving;  // of the file's nodes and of those that joined
  std::set<NodeId> left;     // of the file's nodes; of others nothing is left
  bool operator==(const Members&) const = default;

  const Member* find(std::string_view name) const;  // of those that joined
  const Member* find(NodeId node) const;
};

struct ReadMembers {
  Members members;
  Revision revision = 0;  // 0: nobody has joined or left yet
};

std::string members_text(const Members& members);
// Nothing: it is no such text, or has more than `members_max` of a kind.
std::variant<Members, std::string> parse_members(std::string_view text);  // or what is wrong, with its line

// What a change makes of the members, or why it is refused. `file`: the nodes of the cluster's file.
using MembersChange = std::variant<Members, std::string>;
// With a number of its own, the one that it has if it is there already, maybe elsewhere, with the same roles.
MembersChange with_joined(Members members, std::span<const Member> file, Member wanted);
Members arrived(Members members, NodeId node);  // it does not join any more, but has
// Others stay for each of its roles.
MembersChange with_leaving(Members members, std::span<const Member> file, std::string_view name);
Members without(Members members, std::span<const Member> file, NodeId node);  // it is gone

// What was seen before of numbers never changes: which were given, and to whom. Why `now` cannot be later
// than it, or "". So it is with an etcd that has lost its data.
std::string find_step_back(const Members& before, const Members& now);
// That the numbers given before are spent is all that may be told again by one node: who is there is for
// others to say.
Members with_numbers_spent(Members members, const Members& before);

// With that role, by number: those of the file that have not left, and those that have joined. `file`: who
// has it there.
std::vector<NodeId> nodes_of(const Members& members, std::span<const NodeId> file,
                             NodeRole role = NodeRole::worker);

}  // namespace troupe
