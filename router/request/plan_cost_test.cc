#include "router/request/plan_cost.h"

#include <doctest/doctest.h>

#include <memory>

#include "router/request/plans.h"

namespace troupe::router {
namespace plan_cost_test {

const PromptForm form{{1, 2, 3, 4}, {}, {7, 8}, {5}, 4'096, 1'000};
const BlockNames names(form, {"m", "l"});

// A user with this many tokens, and ten items of five tokens each.
struct Request {
  explicit Request(std::size_t user_tokens) : history(user_tokens, 6) {
    for (int i = 0; i < 10; ++i)
      items.push_back({"item " + std::to_string(i), "", std::vector<Token>(5, i), 9, {}});
  }
  Candidate plan(std::string_view name) const {
    const std::vector<ItemView> seen = views(items);
    return find_plan(name)->build(
        {.form = form, .names = &names, .user = "u", .history = history, .items = seen});
  }
  Tokens history;
  std::vector<Item> items;
};

// The index's answer: nodes that hold the user's block, and nodes that hold each of the ten items'
// blocks.
HeldBlocks held(std::vector<NodeId> user, std::vector<NodeId> item) {
  BlocksFound found{.holders = user};
  found.counts.push_back(static_cast<std::uint8_t>(user.size()));
  for (int i = 0; i < 10; ++i) {
    found.counts.push_back(static_cast<std::uint8_t>(item.size()));
    found.holders.insert(found.holders.end(), item.begin(), item.end());
  }
  found.uses.assign(11, 0);
  found.uses[0] = 3;
  found.uses[1] = 4;
  return *HeldBlocks::of(std::move(found), 11, 0.25);
}

// The same for the plan `blocks`, whose user block comes after the items' blocks.
HeldBlocks held_by_blocks(const std::vector<NodeId>& user, const std::vector<NodeId>& item) {
  BlocksFound found;
  for (int i = 0; i < 11; ++i) {
    const std::vector<NodeId>& holders = i < 10 ? item : user;
    found.counts.push_back(static_cast<std::uint8_t>(holders.size()));
    found.holders.insert(found.holders.end(), holders.begin(), holders.end());
    found.uses.push_back(i == 0 ? 4 : i == 10 ? 3 : 0);
  }
  return *HeldBlocks::of(std::move(found), 11, 0.25);
}

double tokens(const placement::Work& work) { return work.operations; }

constexpr double tail = 3;  // instruction and discriminant are always computed

TEST_CASE("plan cost: without reuse all plans cost the same") {
  const Request request(100);
  const PlanCost user({}, request.plan("user"), 0), item({}, request.plan("item"), 1);
  CHECK(tokens(user.nothing_held()) == 4 + 100 + 50 + tail);
  CHECK(tokens(item.nothing_held()) == 4 + 100 + 50 + tail);
  const placement::UnitCosts pairs{.pair_operations = 0.001};
  CHECK(tokens(PlanCost(pairs, request.plan("user"), 0).nothing_held()) ==
        doctest::Approx(tokens(PlanCost(pairs, request.plan("item"), 0).nothing_held())));
  const double own = 4 * 2.5 + 100 * (4 + 50.5) + 50 * (104 + 3.0);  // system, user, items
  const double last = 2 * (154 + 1.5) + 157;
  CHECK(tokens(PlanCost(pairs, request.plan("user"), 0).nothing_held()) ==
        doctest::Approx(157 + 0.001 * (own + last)));
}

TEST_CASE(
    "plan cost: held blocks cost nothing, remote ones their share, and a plan reuses only its own "
    "blocks") {
  const Request request(100);
  const PlanCost user({}, request.plan("user"), 0), item({}, request.plan("item"), 1);
  CHECK(user.asked() == 1);
  CHECK(item.asked() == 10);
  CHECK(tokens(user.at(1, held({1}, {2}))) == 50 + tail);
  CHECK(tokens(user.at(2, held({1}, {2}))) == 25 + 50 + tail);
  CHECK(tokens(item.at(2, held({1}, {2}))) == 100 + tail);
  CHECK(tokens(item.at(1, held({1}, {2}))) == 100 + 12.5 + tail);
  CHECK(tokens(item.at(1, held({1}, {}))) == 150 + tail);
  CHECK(tokens(item.all_held()) == 100 + tail);
}

TEST_CASE("plan cost: reused tokens are still read") {
  const placement::UnitCosts costs{.token_bytes = 2, .pass_bytes = 7};
  const PlanCost item(costs, Request(100).plan("item"), 1);
  CHECK(item.at(2, held({}, {2})).bytes == 7 + 2 * (4 + 50));
  CHECK(item.at(2, held({}, {})).bytes == 7 + 2 * 4);
  CHECK(item.at(2, held({}, {})).passes == 1);
}

// Prototypes for all tokens at the first positions.
class FirstTokens final : public PrototypeSet {
 public:
  bool has_prototype(Token, std::uint32_t position) const override { return position < 44; }
  const std::string& checksum() const override { return model_; }
  const std::string& model_version() const override { return model_; }

 private:
  const std::string model_ = "m";
};

TEST_CASE("plan cost: prototypes are read, written and read again, and what they do not cover is computed") {
  PromptForm with = form;
  with.prototype_set = std::make_shared<FirstTokens>();
  const Tokens history(100, 6);
  const std::vector<std::uint32_t> events{100};
  const Candidate made = find_plan("prototypes")
                             ->build({.form = with,
                                      .names = &names,
                                      .user = "u",
                                      .history = history,
                                      .events = events,
                                      .repair = {.share = 0.3, .by = RepairChoice::By::tail}});
  const placement::UnitCosts costs{.token_bytes = 2, .pass_bytes = 7};
  const PlanCost cost(costs, made, 0);
  CHECK(cost.asked() == 0);
  // 40 tokens have a prototype, of which 12 are computed; system, 60 other tokens, the end.
  CHECK(cost.all_held().operations == 12 + 60 + tail);
  CHECK(cost.all_held().bytes == 7 + 2 * (4 + 3 * 40 + 28));
}

TEST_CASE("plan cost: uses are the mean over the blocks of a kind that no node keeps") {
  const Request request(100);
  const PlanCost user({}, request.plan("user"), 0), item({}, request.plan("item"), 1);
  CHECK(user.uses(SegmentKind::user, held({}, {})) == 3);
  CHECK(user.uses(SegmentKind::user, held({1}, {})) == 0);
  CHECK(user.uses(SegmentKind::item, held({}, {})) == 0);
  CHECK(item.uses(SegmentKind::item, held({}, {})) == doctest::Approx(0.4));
  CHECK(item.uses(SegmentKind::item, held({}, {1})) == 0);
  CHECK(item.uses(SegmentKind::user, held({}, {})) == 0);
}

TEST_CASE("plan cost: blocks of users and of items are told apart in a plan that has both") {
  const PlanCost both({}, Request(100).plan("blocks"), 0);
  REQUIRE(both.asked() == 11);
  CHECK(both.uses(SegmentKind::user, held_by_blocks({}, {})) == 3);
  CHECK(both.uses(SegmentKind::user, held_by_blocks({1}, {})) == 0);
  CHECK(both.uses(SegmentKind::item, held_by_blocks({}, {})) == doctest::Approx(0.4));
  CHECK(both.uses(SegmentKind::item, held_by_blocks({}, {1})) == 0);
  // With all blocks of one kind there, those of the other count as they are.
  const double all = tokens(both.all_held());
  const auto with = [&](SegmentKind kind, const HeldBlocks& now) {
    return tokens(both.with_held(kind, 1, now));
  };
  CHECK(with(SegmentKind::user, held_by_blocks({}, {})) == all + 50);
  CHECK(with(SegmentKind::user, held_by_blocks({}, {1})) == all);
  CHECK(with(SegmentKind::item, held_by_blocks({}, {})) == all + 100);
  CHECK(with(SegmentKind::item, held_by_blocks({2}, {})) == all + 25);
}

}  // namespace plan_cost_test
}  // namespace troupe::router
