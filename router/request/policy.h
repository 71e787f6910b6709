#pragma once
// Policies choose the plan of a request: the named policies of BAT §6 (`larger` is its
// cache-agnostic baseline of §6.3), and the planner (planner.h). A policy names the plans that it
// considers, a rule that chooses among them, and what its blocks may displace. Which of its plans a
// request gets also depends on the arrangements that the model's form declares (allowed_plans.h). The papers'
// rules are pure functions of sizes and hotness, so a policy can be tested against its paper's numbers. The
// planner's choice depends on the node and is made when the node is known.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/request/plans.h"

namespace troupe::router {

struct Hotness {
  double user_frequency = 0;  // f_u: uses of this user in the sliding window, including this one
  double coldest_frequency =
      0;  // min f_p over the cached user blocks C_u of the user's home; 0 while there are none
};

// Inputs of a rule.
struct Situation {
  std::uint64_t user_tokens = 0, item_tokens = 0;
  std::optional<Hotness> hotness;  // nullopt if the index did not answer in time
};

enum class Displacement : std::uint8_t {
  lru,            // each area evicts its own least recently used blocks
  coldest_users,  // the coldest users are evicted for a user's block (BAT §5.3)
  hotter  // both areas are one, and items stay only if they are used more often than what would be evicted
};

struct PolicyKind {
  std::string_view name;
  // Considered plans, by name in the table of plans; empty = the exact plans of all arrangements that
  // may serve the request.
  std::vector<std::string_view> plans = {};
  // Considered as well if the request allows an approximate answer, and their arrangement; a plan of
  // prototypes only where the model has some.
  std::vector<std::string_view> approximate_plans = {};
  // returns the name of one of those plans; null = the first
  std::string_view (*rule)(const Situation&) = nullptr;
  bool reuses = true;   // false = nothing is reused or kept
  bool weighs = false;  // chooses by what each node holds, once that is known
  // makes and uses user blocks at the user's home, so that the nodes form one evenly loaded pool
  bool at_home = false;
  Displacement displacement = Displacement::lru;
};

// A policy is a row of the table and a repair of reused blocks. The name is "item" or, if one of its plans
// has blocks of items, "item+25": per cent of their tokens that are computed, the first of each block.
// Tokens can be chosen in other ways and the others corrected: "blocks+30:tail:mean:layer2"
// (repair_choice.h has all parts), where each part after the per cent is optional. "bat+25" repairs where its
// rule takes the plan "item". A policy that considers approximate plans beside others repairs only those:
// "planner+40:tail:mean"; without a repair in the name it uses the one that measured best.
class Policy {
 public:
  const PolicyKind* operator->() const { return kind_; }
  const PolicyKind& kind() const { return *kind_; }
  const RepairChoice& repair() const;
  // Returns the repair for one of its plans.
  RepairChoice repair_of(const PlanKind& plan) const;
  std::string name() const;
  bool operator==(const Policy&) const = default;

 private:
  friend std::optional<Policy> find_policy(std::string_view name);
  Policy(const PolicyKind* kind, const RepairChoice& repair) : kind_(kind), repair_(repair) {}

  const PolicyKind* kind_;
  RepairChoice repair_;
};

std::span<const PolicyKind> policy_kinds();
std::optional<Policy> find_policy(std::string_view name);
// Names what is wrong with a policy's name; `what` is empty if no policy has it, otherwise for example
// `, whose repair has "best"`.
struct PolicyFault {
  std::string what, expected;
};
// Requires that no policy is found by the name.
PolicyFault policy_fault(std::string_view name);
// Returns for example `"best"; expected recompute, user, …`. Cuts a long name.
std::string policy_fault_text(std::string_view name);
Policy policy(std::string_view name);  // requires that the policy exists
std::string policy_names();            // "recompute, user, item, larger, bat or planner"

}  // namespace troupe::router
