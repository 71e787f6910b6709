// Parses, formats and changes the list of nodes that joined or left the cluster since its file was
// written. These are pure functions; deploy/node/membership.h reads and writes the list, which is
// one key of the coordination service.
#include "runtime/coordination/members.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace troupe {
namespace {

constexpr std::size_t name_bytes_max = 255, text_bytes_max = 1 << 20;

// Takes the next word of a line, up to a space.
std::string_view next_word(std::string_view& line) {
  const std::size_t blank = line.find(' ');
  const std::string_view word = line.substr(0, blank);
  line.remove_prefix(blank == std::string_view::npos ? line.size() : blank + 1);
  return word;
}

std::optional<std::uint32_t> number_in(std::string_view word, std::uint32_t most) {
  std::uint32_t number = 0;
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool whole = fault == std::errc() && end == word.data() + word.size();
  return whole && number > 0 && number <= most ? std::optional(number) : std::nullopt;
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= name_bytes_max &&
         std::ranges::none_of(text, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

const Member* named(std::span<const Member> members, std::string_view name) {
  const auto at = std::ranges::find(members, name, &Member::name);
  return at == members.end() ? nullptr : &*at;
}

// Parses "router,cache_meta"; nullopt if the list is malformed or not in order.
std::optional<std::vector<NodeRole>> roles_in(std::string_view text) {
  std::vector<NodeRole> roles;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const auto role = find_node_role(text.substr(0, comma));
    if (!role || (!roles.empty() && roles.back() >= *role) || comma == text.size() - 1) return std::nullopt;
    roles.push_back(*role);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return roles.empty() ? std::nullopt : std::optional(std::move(roles));
}

std::string roles_text(const std::vector<NodeRole>& roles) {
  std::string text;
  for (const NodeRole role : roles) text += (text.empty() ? "" : ",") + std::string(name_of(role));
  return text;
}

// Applies one line. Returns "" or what is wrong with it.
std::string take_line(std::string_view line, ClusterMembers& members) {
  const std::string_view what = next_word(line);
  const auto node = number_in(next_word(line), 0xffffffff);
  if (!node) return "has no node number, 1 or above";
  if (what == "joined") {
    Member member{.node = *node, .name = {}, .host = std::string(next_word(line))};
    const auto port = number_in(next_word(line), 65'535);
    member.name = line;
    if (!port || !is_word(member.host) || !is_word(member.name)) return "lacks host, port or name";
    member.port = static_cast<std::uint16_t>(*port);
    if (!members.joined.empty() && members.joined.back().node >= *node) return "is not in order of number";
    if (members.find(member.name)) return "repeats a name";
    members.joined.push_back(std::move(member));
    return members.joined.size() > members_max ? "is one too many" : "";
  }
  if (what == "roles") {
    const auto member = std::ranges::find(members.joined, *node, &Member::node);
    auto roles = roles_in(line);
    if (member == members.joined.end() || !roles) return "needs a joined node and its roles in order";
    member->roles = *std::move(roles);
    return "";
  }
  if (!line.empty()) return "has text after the number";
  if (what == "last") {
    members.last = *node;
  } else if (what == "joining" || what == "leaving" || what == "left") {
    std::set<NodeId>& nodes = what == "left"      ? members.left
                              : what == "leaving" ? members.leaving
                                                  : members.joining;
    nodes.insert(*node);
    if (nodes.size() > members_max) return "is one too many";
  } else {
    return "begins with another word than last, joined, roles, joining, leaving or left";
  }
  return "";
}

// Returns true if a node other than `but` keeps the role, not counting nodes that join, leave or
// have left.
bool any_stays(const ClusterMembers& members, std::span<const Member> file, NodeRole role, NodeId but) {
  const auto stays = [&](const Member& member) {
    return member.node != but && member.has(role) && !members.leaving.contains(member.node) &&
           !members.left.contains(member.node) && !members.joining.contains(member.node);
  };
  return std::ranges::any_of(file, stays) || std::ranges::any_of(members.joined, stays);
}

}  // namespace

bool Member::has(NodeRole role) const { return std::ranges::find(roles, role) != roles.end(); }

const Member* ClusterMembers::find(std::string_view name) const { return named(joined, name); }

const Member* ClusterMembers::find(NodeId node) const {
  const auto at = std::ranges::find(joined, node, &Member::node);
  return at == joined.end() ? nullptr : &*at;
}

std::string members_text(const ClusterMembers& members) {
  std::string text = members.last > 0 ? "last " + std::to_string(members.last) + "\n" : "";
  for (const Member& member : members.joined)
    text += "joined " + std::to_string(member.node) + " " + member.host + " " + std::to_string(member.port) +
            " " + member.name + "\n";
  for (const Member& member : members.joined)
    if (member.roles != Member{}.roles)
      text += "roles " + std::to_string(member.node) + " " + roles_text(member.roles) + "\n";
  for (const NodeId node : members.joining) text += "joining " + std::to_string(node) + "\n";
  for (const NodeId node : members.leaving) text += "leaving " + std::to_string(node) + "\n";
  for (const NodeId node : members.left) text += "left " + std::to_string(node) + "\n";
  return text;
}

std::variant<ClusterMembers, std::string> parse_members(std::string_view text) {
  ClusterMembers members;
  if (text.size() > text_bytes_max) return "it has more than " + std::to_string(text_bytes_max) + " bytes";
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return "line " + std::to_string(number) + " has no end";
    if (const std::string fault = take_line(text.substr(0, end), members); !fault.empty())
      return "line " + std::to_string(number) + " " + fault;
    text.remove_prefix(end + 1);
  }
  return members;
}

MembersChange with_joined(ClusterMembers members, std::span<const Member> file, Member wanted) {
  if (!is_word(wanted.name) || !is_word(wanted.host) || wanted.port == 0)
    return "a node that joins needs a name, a host and a port, without blanks";
  std::ranges::sort(wanted.roles);
  if (named(file, wanted.name))
    return "node \"" + wanted.name + "\" is in the cluster's file; expected another name";
  const auto there = std::ranges::find(members.joined, wanted.name, &Member::name);
  if (there != members.joined.end()) {
    if (members.leaving.contains(there->node))
      return "node \"" + wanted.name + "\" is leaving; expected another name, or to wait until it has left";
    if (there->roles != wanted.roles)
      return "node \"" + wanted.name + "\" has already joined as " + roles_text(there->roles) +
             "; expected the same roles, or another name for " + roles_text(wanted.roles);
    wanted.node = there->node;
    *there = std::move(wanted);
    return members;
  }
  if (members.joined.size() >= members_max)
    return std::to_string(members_max) + " nodes have joined; expected fewer";
  for (const Member& node : file) members.last = std::max(members.last, node.node);
  if (members.last >= member_number_max)
    return "node numbers end at " + std::to_string(member_number_max) +
           "; expected lower ones in the cluster's file";
  wanted.node = ++members.last;
  members.joining.insert(wanted.node);
  members.joined.push_back(std::move(wanted));
  return members;
}

ClusterMembers arrived(ClusterMembers members, NodeId node) {
  members.joining.erase(node);
  return members;
}

MembersChange with_leaving(ClusterMembers members, std::span<const Member> file, std::string_view name) {
  const Member* const of_file = named(file, name);
  const Member* const member = of_file ? of_file : members.find(name);
  if (!member) return "there is no node \"" + std::string(name) + "\" in the cluster";
  if (members.left.contains(member->node)) return "node \"" + std::string(name) + "\" has left";
  for (const NodeRole role : member->roles)
    if (!any_stays(members, file, role, member->node))
      return "node \"" + std::string(name) + "\" is the last " + std::string(name_of(role)) +
             "; expected another that stays in the cluster";
  if (members.leaving.size() >= members_max)
    return std::to_string(members_max) + " nodes leave; expected fewer";
  members.leaving.insert(member->node);
  return members;
}

ClusterMembers without(ClusterMembers members, std::span<const Member> file, NodeId node) {
  members.leaving.erase(node);
  members.joining.erase(node);
  std::erase_if(members.joined, [&](const Member& member) { return member.node == node; });
  for (const Member& of_file : file) members.last = std::max(members.last, of_file.node);
  if (std::ranges::count(file, node, &Member::node) > 0) members.left.insert(node);
  return members;
}

std::string find_contradiction(const ClusterMembers& before, const ClusterMembers& now) {
  if (now.last < before.last)
    return "the last node number given is " + std::to_string(now.last) + ", and was " +
           std::to_string(before.last) + " before";
  for (const Member& member : now.joined) {
    if (member.node > before.last) continue;
    const Member* const known = before.find(member.node);
    if (!known || known->name != member.name)
      return "number " + std::to_string(member.node) + " is that of \"" + member.name +
             "\", and was given before" + (known ? " to \"" + known->name + "\"" : "");
  }
  return "";
}

ClusterMembers with_used_numbers(ClusterMembers members, const ClusterMembers& before) {
  members.last = std::max(members.last, before.last);
  return members;
}

std::vector<NodeId> nodes_of(const ClusterMembers& members, std::span<const NodeId> file, NodeRole role) {
  std::vector<NodeId> nodes;
  for (const NodeId node : file)
    if (!members.left.contains(node)) nodes.push_back(node);
  for (const Member& member : members.joined)
    if (member.has(role) && !members.joining.contains(member.node)) nodes.push_back(member.node);
  std::ranges::sort(nodes);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

}  // namespace troupe
