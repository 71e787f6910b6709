#include "kernels/cuda/kernels/level_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/testing/device_test.h"

using namespace troupe::kernels;
using cuda::LevelRow;
using cuda::LogitSelection;

namespace {

constexpr float poison = std::numeric_limits<float>::quiet_NaN();

// A level's logits, with unused memory behind each row, and the results.
struct Level {
  std::uint32_t vocabulary, stride;
  std::vector<std::vector<float>> rows;
  std::vector<LevelRow> asked;
  std::vector<std::uint32_t> lists;
  std::uint32_t out = 0;
  std::vector<ExponentialSum> sums;
  std::vector<float> logits;
  std::vector<std::uint32_t> tokens;

  explicit Level(std::uint32_t vocabulary) : vocabulary(vocabulary), stride((vocabulary + 7) / 8 * 8) {}
  void add(std::vector<float> row, std::vector<std::uint32_t> listed) {
    const auto list = static_cast<std::uint32_t>(lists.size()),
               count = static_cast<std::uint32_t>(listed.size());
    lists.insert(lists.end(), listed.begin(), listed.end());
    asked.push_back({list, count, out, LogitSelection::listed});
    out += count;
    rows.push_back(std::move(row));
  }
  void add(std::vector<float> row, std::uint32_t largest) {
    asked.push_back({0, largest, out, LogitSelection::largest});
    out += largest;
    rows.push_back(std::move(row));
  }
  void run() {
    std::vector<float> all;
    for (const std::vector<float>& row : rows) {
      all.insert(all.end(), row.begin(), row.end());
      all.resize(all.size() + stride - vocabulary, poison);
    }
    cuda::Stream stream;
    const cuda::DeviceCopy<float> logits_on(all), logits_out(std::vector<float>(out, poison));
    const cuda::DeviceCopy<LevelRow> asked_on(asked);
    const cuda::DeviceCopy<std::uint32_t> lists_on(lists),
        tokens_out(std::vector<std::uint32_t>(out, 0xffffffff));
    const cuda::DeviceCopy<ExponentialSum> sums_out(
        std::vector<ExponentialSum>(rows.size(), {poison, poison}));
    cuda::read_level({logits_on.get(), vocabulary, stride, static_cast<std::uint32_t>(rows.size()),
                      asked_on.get(), lists_on.get(), sums_out.get(), logits_out.get(), tokens_out.get()},
                     stream);
    sums = sums_out.host(stream), logits = logits_out.host(stream), tokens = tokens_out.host(stream);
  }
};

std::vector<std::uint32_t> largest_of(const std::vector<float>& row, std::uint32_t count) {
  std::vector<std::uint32_t> tokens(row.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  std::ranges::stable_sort(tokens, [&](std::uint32_t a, std::uint32_t b) { return row[a] > row[b]; });
  tokens.resize(count);
  std::ranges::sort(tokens);
  return tokens;
}

}  // namespace

TEST_SUITE("cuda level rows") {
  TEST_CASE("level rows: sums, listed logits and the largest equal the definition, at any size, with ties") {
    if (!cuda::have_device()) return;
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (const std::uint32_t vocabulary : {1u, 2u, 31u, 32u, 97u, 255u, 256u, 257u, 1000u, 4099u}) {
      CAPTURE(vocabulary);
      Level level(vocabulary);
      for (int r = 0; r < 7; ++r) {
        std::vector<float> row(vocabulary);
        std::normal_distribution<float> normal(-20, r == 4 ? 1e30f : 5);
        for (float& logit : row) logit = r % 3 == 0 ? static_cast<float>(random() % 5) - 2 : normal(random);
        if (r == 0) row[random() % vocabulary] = -0.0f;
        const std::uint32_t some = r == 1 ? 0 : r == 2 ? vocabulary : 1 + random() % vocabulary;
        if (r % 2 == 0) {
          level.add(row, some);
          continue;
        }
        std::vector<std::uint32_t> listed(some);
        for (std::uint32_t& token : listed) token = static_cast<std::uint32_t>(random() % vocabulary);
        level.add(row, listed);
      }
      level.run();
      for (std::size_t r = 0; r < level.rows.size(); ++r) {
        CAPTURE(r);
        const LevelRow& asked = level.asked[r];
        const std::vector<float>& row = level.rows[r];
        const double want = sum_exponentials_reference(row.data(), row.size()).log();
        REQUIRE(std::abs(level.sums[r].log() - want) <= 1e-5 + 1e-7 * std::abs(want));
        const std::vector<std::uint32_t> largest = largest_of(row, asked.count);
        for (std::uint32_t i = 0; i < asked.count; ++i) {
          const bool listed = asked.asked == LogitSelection::listed;
          const std::uint32_t token = listed ? level.lists[asked.list + i] : largest[i];
          REQUIRE(level.logits[asked.out + i] == row[token]);
          REQUIRE(level.tokens[asked.out + i] == (listed ? 0xffffffff : token));
        }
      }
    }
  }

  TEST_CASE("level rows: among zeros of either sign the lowest tokens are the largest, as on the host") {
    if (!cuda::have_device()) return;
    std::vector<float> row(300, -1);
    row[7] = row[290] = -0.0f;
    row[8] = row[9] = row[280] = 0;
    Level level(300);
    for (const std::uint32_t count : {1u, 2u, 4u, 5u}) level.add(row, count);
    level.run();
    CHECK(level.tokens == std::vector<std::uint32_t>{7, 7, 8, 7, 8, 9, 280, 7, 8, 9, 280, 290});
  }

  TEST_CASE("level rows: a row with a logit that is not finite has no sum, and the others have theirs") {
    if (!cuda::have_device()) return;
    for (const float bad : {INFINITY, -INFINITY, poison}) {
      Level level(300);
      for (const std::size_t at : {0u, 150u, 299u}) {
        std::vector<float> row(300, 1);
        level.add(row, std::vector<std::uint32_t>{5});
        row[at] = bad;
        level.add(row, std::vector<std::uint32_t>{5});
        level.add(row, 7u);
      }
      level.run();
      for (std::size_t r = 0; r < level.sums.size(); ++r)
        CHECK(std::isfinite(level.sums[r].log()) == (r % 3 == 0));
    }
  }
}
