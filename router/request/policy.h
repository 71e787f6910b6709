#pragma once
// Which plan a request gets: the named policies of BAT §6 (`larger` is its cache-agnostic baseline of §6.3),
// and the planner (planner.h). A policy names the plans that it considers, a rule that chooses among them,
// and what making room for its blocks may displace. The papers' rules are pure functions of sizes and
// hotness, so that a policy can be tested against its paper with numbers; the planner's depends on the node,
// and is made there.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/request/plans.h"

namespace troupe::router {

struct Hotness {
  double user_frequency = 0;  // f_u: uses of this user in the sliding window, this one included
  double coldest_frequency =
      0;  // min f_p over the cached user blocks C_u of the user's home; 0 while there are none
};

// What a rule goes by.
struct Situation {
  std::uint64_t user_tokens = 0, item_tokens = 0;
  std::optional<Hotness> hotness;  // absent if the index did not answer in time
};

enum class Displacement : std::uint8_t {
  lru,            // by the KV-cache worker alone, each area for itself
  coldest_users,  // the coldest users make room for a user (BAT §5.3)
  hotter          // both areas are one, and items stay only if they are wanted more often than what must go
};

struct PolicyKind {
  std::string_view name;
  std::vector<std::string_view> plans;  // that it considers, in the table of plans
  std::vector<std::string_view> approximate_plans =
      {};  // likewise, where a request may be answered approximately
  std::string_view (*rule)(const Situation&) = nullptr;  // the name of one of those; null: the first
  bool reuses = true;                                    // false: nothing is reused, nothing kept
  bool weighs = false;  // chooses by what each node holds, once that is known
  bool at_home =
      false;  // users' blocks are made and used at the user's home, so that the nodes are one even pool
  Displacement displacement = Displacement::lru;
};

// A row of the table of policies, and how reused blocks are repaired: "item" or, where its plans allow it,
// "item+25" (per cent of the tokens, the first of each block). Approximate plans choose tokens in other ways,
// too, and correct the others: "blocks+30:tail:mean:layer2" (repair_choice.h), each part behind the per cent
// by itself or not at all. A policy that considers approximate plans beside others repairs those only:
// "planner+40:tail:mean", or without a word as was measured to keep most.
class Policy {
 public:
  const PolicyKind* operator->() const { return kind_; }
  const RepairChoice& repair() const;
  // Of one of its plans.
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
Policy policy(std::string_view name);  // that there is
std::string policy_names();            // "recompute, user, item, larger, bat or planner"

}  // namespace troupe::router
