#include "kernels/cpu/engine/item_scores.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

namespace troupe::kernels {
namespace {

TEST_CASE("item scores: a factor divides by the length of the compared columns, and by the temperature") {
  ItemScores scores{.columns = 2, .item_epsilon = 0.5, .temperature = 0.25};
  const float item[] = {3, 4, 100}, zeros[] = {0, 0, 100};
  CHECK(scores.factor_of(item) == doctest::Approx(1 / (5 * 0.25)));
  CHECK(scores.factor_of(zeros) == doctest::Approx(1 / (0.5 * 0.25)));
  scores.unit_items = false;
  CHECK(scores.factor_of(item) == 4);
}

TEST_CASE("item scores: a state is normed up to the compared columns, in place too") {
  ItemScores scores{.columns = 2, .state_epsilon = 10};
  float state[] = {3, 4, 100}, normed[] = {0, 0, 7};
  scores.norm_state(gates(), state, normed);
  CHECK(normed[0] == doctest::Approx(0.3));  // the length is at least the epsilon
  scores.state_epsilon = 1e-6;
  scores.norm_state(gates(), state, normed);
  CHECK(normed[1] == doctest::Approx(0.8));
  CHECK(normed[2] == 7);
  scores.unit_states = false;
  scores.norm_state(gates(), state, state);
  CHECK(state[0] == doctest::Approx(-1));
  CHECK(state[1] == doctest::Approx(1));
  CHECK(state[2] == 100);
}

struct ZeroTable final : EmbeddingTable {
  std::uint32_t rows() const override { return 3; }
  std::uint32_t columns() const override { return 2; }
  void fetch(std::span<const Token> rows, float* out) override { std::fill_n(out, 2 * rows.size(), 0.0f); }
};

TEST_CASE("item scores: items in memory have a factor each, and those of a table are computed when read") {
  const ItemScores scores{.columns = 2, .item_epsilon = 1};
  const PackedItems whole = pack_items({3, 2, {0, 0, 3, 4, 6, 8}}, nullptr, scores);
  REQUIRE(whole.factors.size() == 3);
  CHECK(whole.factors[0] == 1);
  CHECK(whole.factors[1] == doctest::Approx(0.2));
  CHECK(whole.factors[2] == doctest::Approx(0.1));
  CHECK(whole.where() == ItemRows::in_memory);
  const PackedItems apart = pack_items({3, 2, {}}, std::make_shared<ZeroTable>(), scores);
  CHECK(apart.factors.empty());
  CHECK(apart.where() == ItemRows::apart);
}

}  // namespace
}  // namespace troupe::kernels
