#include "kernels/cuda/kernels/attend_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

using namespace troupe::kernels::cuda;

namespace {

struct Rows {
  std::vector<AttendGroup> groups;
  std::vector<std::uint32_t> begin, end;

  // Adds a group of segments of these lengths, each causal in itself.
  void add(std::uint32_t context, const std::vector<std::uint32_t>& segments) {
    AttendGroup group{.row_begin = rows(), .key_begin = keys, .context_tokens = context};
    for (const std::uint32_t length : segments) {
      for (std::uint32_t r = 0; r < length; ++r)
        begin.push_back(group.tail_tokens), end.push_back(group.tail_tokens + r + 1);
      group.tail_tokens += length;
    }
    group.row_end = rows();
    keys += context + group.tail_tokens;
    groups.push_back(group);
  }
  std::uint32_t rows() const { return std::uint32_t(begin.size()); }
  AttendPlan plan(const AttendMachine& machine) const {
    AttendPlan plan;
    plan_attention(machine, groups, begin, end, plan);
    return plan;
  }
  std::uint32_t keys = 0;
};

std::vector<std::uint32_t> firsts(const AttendPlan& plan, const AttendItem& item) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t t = item.tile_begin; t < item.tile_end; ++t) out.push_back(plan.key_tiles[t].first);
  return out;
}

// Checks that every vector's visible keys are in exactly one tile of exactly one item, and that
// every row sees all keys of an unmasked tile.
void check_cover(const Rows& rows, const AttendMachine& machine, const AttendPlan& plan) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> seen;  // (row, head) → keys in tiles
  for (const AttendItem& item : plan.items) {
    const AttendGroup& group = *std::find_if(rows.groups.begin(), rows.groups.end(), [&](auto& g) {
      return g.row_begin == item.row_begin && g.row_begin < g.row_end;
    });
    REQUIRE(item.vectors <= plan.tile_vectors);
    for (std::uint32_t v = item.vector_begin; v < item.vector_begin + item.vectors; ++v) {
      const std::uint32_t row = item.row_begin + v / machine.heads;
      auto& count = seen[{row, v % machine.heads}];
      for (std::uint32_t t = item.tile_begin; t < item.tile_end; ++t) {
        const KeyTile& tile = plan.key_tiles[t];
        std::uint32_t visible = 0;
        for (std::uint32_t k = tile.first; k < tile.first + std::uint32_t{tile.count}; ++k)
          visible += k < group.context_tokens || (k - group.context_tokens >= rows.begin[row] &&
                                                  k - group.context_tokens < rows.end[row]);
        if (!tile.masked) REQUIRE(visible == attend_key_tile);
        count += visible;
      }
    }
  }
  for (const AttendGroup& group : rows.groups)
    for (std::uint32_t row = group.row_begin; row < group.row_end; ++row)
      for (std::uint32_t head = 0; head < machine.heads; ++head)
        REQUIRE(seen.at({row, head}) == group.context_tokens + rows.end[row] - rows.begin[row]);
}

}  // namespace

TEST_SUITE("cuda attention plan") {
  TEST_CASE("attention plan: a causal prompt is cut into tiles that stop at the diagonal, longest first") {
    Rows rows;
    rows.add(0, {200});
    const AttendMachine machine{.heads = 1};
    const AttendPlan plan = rows.plan(machine);
    CHECK(plan.tile_vectors == 128);
    REQUIRE(plan.items.size() == 2);
    CHECK(plan.items[0].vector_begin == 128);
    CHECK(firsts(plan, plan.items[0]) == std::vector<std::uint32_t>{0, 64, 128, 192});
    CHECK(firsts(plan, plan.items[1]) == std::vector<std::uint32_t>{0, 64});
    CHECK(plan.merges.empty());
    std::vector<int> masked;
    for (std::uint32_t t = plan.items[0].tile_begin; t < plan.items[0].tile_end; ++t)
      masked.push_back(plan.key_tiles[t].masked);
    CHECK(masked == std::vector<int>{0, 0, 1, 1});
  }

  TEST_CASE("attention plan: candidates load the context and their own keys, not those of other tiles") {
    Rows rows;
    rows.add(128, std::vector<std::uint32_t>(100, 10));
    const AttendMachine machine{.heads = 8};
    const AttendPlan plan = rows.plan(machine);
    check_cover(rows, machine, plan);
    for (const AttendItem& item : plan.items) CHECK(item.tile_end - item.tile_begin == 3);
  }

  TEST_CASE(
      "attention plan: few rows on a long context are split to fill the machine, and their parts are "
      "merged") {
    Rows rows;
    rows.add(6400, {1});
    const AttendMachine machine{.multiprocessors = 20, .kv_heads = 2, .heads = 7};
    const AttendPlan plan = rows.plan(machine);
    CHECK(plan.tile_vectors == 64);
    CHECK(plan.items.size() * 2 >= 20);
    REQUIRE(plan.merges.size() == 1);
    CHECK(plan.merges[0].partial_end == plan.partials);
    CHECK(plan.merges[0].vectors == 7);
    check_cover(rows, machine, plan);
    const auto [most, least] = std::minmax_element(
        plan.items.begin(), plan.items.end(),
        [](auto& a, auto& b) { return a.tile_end - a.tile_begin > b.tile_end - b.tile_begin; });
    CHECK(most->tile_end - most->tile_begin <= least->tile_end - least->tile_begin + 1);
  }

  TEST_CASE("attention plan: a block beyond the number of multiprocessors is split rather than waited for") {
    Rows rows;
    for (int i = 0; i < 9; ++i) rows.add(6400, {1});
    const AttendMachine machine{.multiprocessors = 4, .l2_bytes = 1000};
    const AttendPlan plan = rows.plan(machine);
    CHECK(plan.merges.size() == 9);
    check_cover(rows, machine, plan);
  }

  TEST_CASE("attention plan: a context too short to pay for a second launch stays whole") {
    Rows rows;
    rows.add(500, {1});
    CHECK(rows.plan({.multiprocessors = 132}).merges.empty());
    CHECK(rows.plan({.multiprocessors = 132, .launch_cycles = 0, .block_cycles = 0}).merges.size() == 1);
  }

  TEST_CASE("attention plan: the plan is the cheapest of all choices, by the cost of its items") {
    Rows rows;
    rows.add(1500, std::vector<std::uint32_t>(40, 10));
    rows.add(0, {300});
    rows.add(3000, {1});
    const AttendMachine machine{.multiprocessors = 20, .kv_heads = 2, .heads = 3};
    const AttendPlan plan = rows.plan(machine);
    std::vector<std::uint32_t> of_length(100);
    for (const AttendItem& item : plan.items) ++of_length[item.tile_end - item.tile_begin];
    const AttendTile& tile = plan.tile_vectors == 64 ? machine.small : machine.large;
    CHECK(plan.predicted_cycles == attend_cycles(machine, tile, of_length, plan.partials));
    const auto choices = attend_choices(machine, rows.groups, rows.begin, rows.end);
    CHECK(choices.size() >= 4);
    for (const AttendChoice& choice : choices) CHECK(plan.predicted_cycles <= choice.cycles);
  }

  TEST_CASE("attention plan: a machine without the larger tile uses the smaller") {
    Rows rows;
    rows.add(0, {3000});
    CHECK(rows.plan({}).tile_vectors == 128);
    CHECK(rows.plan({.large = {}}).tile_vectors == 64);
  }

  TEST_CASE(
      "attention plan: on 132 multiprocessors, large tiles are predicted 1.6 times as fast for 1,000 to "
      "2,048 rows") {
    const auto ratio = [](std::uint32_t heads, std::uint32_t kv_heads, std::uint32_t context,
                          const std::vector<std::uint32_t>& segments) {
      Rows rows;
      rows.add(context, segments);
      const AttendMachine machine{.multiprocessors = 132, .kv_heads = kv_heads, .heads = heads / kv_heads};
      const auto choices = attend_choices(machine, rows.groups, rows.begin, rows.end);
      const auto former = std::ranges::find_if(choices, [](const AttendChoice& choice) {
        return choice.tile_vectors == 64 && choice.part_tiles == whole_result;
      });
      REQUIRE(former != choices.end());
      return former->cycles / rows.plan(machine).predicted_cycles;
    };
    CHECK(ratio(16, 8, 0, {2048}) >= 1.6);
    CHECK(ratio(12, 2, 0, {2048}) >= 1.6);
    CHECK(ratio(16, 8, 1500, std::vector<std::uint32_t>(100, 10)) >= 1.6);
  }

  TEST_CASE("attention plan: rows that see nothing have items without keys; no rows have no items") {
    Rows rows;
    rows.add(0, {3});
    rows.end = rows.begin = {0, 0, 0};
    AttendPlan plan = rows.plan({});
    REQUIRE(plan.items.size() == 1);
    CHECK(plan.items[0].tile_begin == plan.items[0].tile_end);
    plan_attention({}, {}, {}, {}, plan);
    CHECK(plan.items.empty());
    CHECK(plan.key_tiles.empty());
  }

  TEST_CASE("attention plan: any mixture of groups is covered, every visible key once") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto up_to = [&](std::uint32_t n) { return std::uint32_t(random() % (n + 1)); };
    for (int round = 0; round < 100; ++round) {
      Rows rows;
      for (std::uint32_t groups = 1 + up_to(4); groups > 0; --groups) {
        std::vector<std::uint32_t> segments(1 + up_to(5));
        for (std::uint32_t& length : segments) length = 1 + up_to(40);
        rows.add(up_to(2) * up_to(300), segments);
      }
      for (std::uint32_t r = 0; r < rows.rows(); ++r)
        if (up_to(9) == 0) rows.begin[r] = rows.end[r] - up_to(rows.end[r]);
      const AttendMachine machine{
          .multiprocessors = 1 + up_to(30), .kv_heads = 1 + up_to(3), .heads = 1 + up_to(7)};
      const AttendPlan plan = rows.plan(machine);
      check_cover(rows, machine, plan);
      REQUIRE(plan.partials * plan.tile_vectors <= partials_max(machine) * 128);
    }
  }
}
