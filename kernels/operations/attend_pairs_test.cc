// Tests attention over keys and values in bf16 whose task allows the version with AVX512_BF16 to round
// queries and weights. Every version is tested with such tasks; the others must ignore the permission.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/base/float_formats.h"
#include "kernels/operations/attend.h"

using namespace troupe::kernels;

namespace {
namespace attend_pairs_test {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  std::uint32_t heads = 1, head_dim = 16;
  std::vector<std::uint32_t> context, segments;  // tokens of each run; rows of each causal segment
  std::uint32_t gap = 0;                         // NaN numbers between tokens
  KvFormat format = KvFormat::bf16;
};

struct Case {
  Case(const Shape& shape, unsigned seed) : random(seed) {
    for (const std::uint32_t tokens : shape.context) context.push_back(run(tokens, shape));
    for (const std::uint32_t length : shape.segments) {
      const auto first = static_cast<std::uint32_t>(begin.size());
      for (std::uint32_t r = 0; r < length; ++r) begin.push_back(first), end.push_back(first + r + 1);
    }
    const auto rows = static_cast<std::uint32_t>(begin.size());
    tail.push_back(run(rows, shape));
    const std::size_t width = std::size_t{shape.heads} * shape.head_dim;
    for (std::size_t i = 0; i < rows * width; ++i) queries.push_back(normal(random));
    out.assign(queries.size(), kNan);
    task = {.queries = queries.data(),
            .out = out.data(),
            .query_stride = width,
            .out_stride = width,
            .rows = rows,
            .heads = shape.heads,
            .head_dim = shape.head_dim,
            .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
            .context = context,
            .tail = tail,
            .tail_begin = begin,
            .tail_end = end,
            .may_round = true};
  }
  Case(const Case&) = delete;

  KvRun run(std::uint32_t tokens, const Shape& s) {
    const std::uint32_t stride = s.head_dim + s.gap;
    const auto numbers = [&] {
      std::vector<std::uint16_t>& stored = memory.emplace_back();
      for (std::size_t i = 0; i < std::size_t{tokens} * stride; ++i) {
        const float value = i % stride < s.head_dim ? normal(random) : kNan;
        stored.push_back(s.format == KvFormat::f16 ? to_f16(value) : to_bf16(value));
      }
      stored.resize(stored.empty() ? 0 : stored.size() - s.gap);
      stored.shrink_to_fit();
      return stored.data();
    };
    const void* const keys = numbers();
    return {keys, numbers(), tokens, stride, s.format};
  }

  // Rotates a run by one random angle per pair of columns.
  void rotate(KvRun& run) {
    for (std::vector<float>* angles : {&cosines, &sines}) angles->resize(task.head_dim / 2);
    for (std::uint32_t i = 0; i < task.head_dim / 2; ++i) {
      const float angle = static_cast<float>(random() % 6283) / 1000;
      cosines[i] = std::cos(angle), sines[i] = std::sin(angle);
    }
    run.cosines = cosines.data(), run.sines = sines.data();
  }

  std::vector<float> result(Attend* attend) {
    std::fill(out.begin(), out.end(), kNan);
    attend(task, scratch);
    return out;
  }

  std::mt19937 random;
  std::normal_distribution<float> normal;
  std::vector<std::vector<std::uint16_t>> memory;
  std::vector<KvRun> context, tail;
  std::vector<std::uint32_t> begin, end;
  std::vector<float> queries, out, cosines, sines;
  AttendScratch scratch;
  AttendTask task;
};

std::uint16_t& number(const void* numbers, const KvRun& run, std::size_t token, std::size_t column) {
  return const_cast<std::uint16_t*>(static_cast<const std::uint16_t*>(numbers))[token * run.stride + column];
}

template <class Take>
void for_each_token(const Case& c, Take take) {
  for (const auto* runs : {&c.context, &c.tail})
    for (const KvRun& run : *runs)
      for (std::uint32_t t = 0; t < run.tokens; ++t) take(run, t);
}

// How far a rounded output of one query may be from the reference. Rounding to bf16 changes a number by
// at most u = 2^-8 of itself, uniformly, in standard deviations by u/sqrt(3). A score is a sum of
// products whose query, and whose key if it is rotated, is rounded: six deviations of it are
// 6 · u/sqrt(3) · sqrt(Σ (q k)²) · scale, for a rotated key sqrt(2) times that with the size of both
// numbers that a rotation mixes. That is the relative error of the key's weight (to first order, and
// half as much again covers the rest), which is rounded once more. A mean whose weights are off by a
// share moves by at most twice this share of the largest value.
double tolerance(const Case& c, std::size_t row, std::size_t head) {
  constexpr double u = 0x1p-8;
  const std::uint32_t d = c.task.head_dim;
  const float* const query = c.task.queries + row * c.task.query_stride + head * d;
  double largest_walk = 0, largest_value = 0;
  for_each_token(c, [&](const KvRun& run, std::uint32_t t) {
    double squares = 0;
    for (std::uint32_t i = 0; i < d; ++i) {
      double key = std::abs(from_bf16(number(run.keys, run, t, i)));
      if (run.cosines != nullptr)
        key = std::sqrt(2.0) * std::hypot(key, from_bf16(number(run.keys, run, t, (i + d / 2) % d)));
      squares += double{query[i]} * query[i] * key * key;
      largest_value = std::max<double>(largest_value, std::abs(from_bf16(number(run.values, run, t, i))));
    }
    largest_walk = std::max(largest_walk, std::sqrt(squares) * c.task.scale);
  });
  return 2 * largest_value * (1.5 * 6 / std::sqrt(3.0) * u * largest_walk + u);
}

void check_against_reference(const AttendVersion& version, Case& c) {
  const std::vector<float> want = c.result(&attend_reference), got = c.result(version.run);
  double worst = 0;  // as a share of the tolerance
  for (std::size_t row = 0; row < c.task.rows; ++row)
    for (std::size_t head = 0; head < c.task.heads; ++head) {
      const double bound = tolerance(c, row, head);
      for (std::size_t i = 0; i < c.task.head_dim; ++i) {
        const std::size_t at = row * c.task.out_stride + head * c.task.head_dim + i;
        const double share = std::abs(double{got[at]} - want[at]) / bound;
        worst = std::isnan(share) ? INFINITY : std::max(worst, share);
      }
    }
  CHECK(worst <= 1);
}

template <class Check>
void for_every_version(Check check) {
  for (const AttendVersion& version : attend_versions()) {
    if (!version.usable) continue;
    const std::string name(version.name);
    CAPTURE(name);
    check(version);
  }
}

bool pairs(const AttendVersion& version) { return version.name == "avx512_bf16"; }

TEST_CASE("attend in pairs: head sizes, rows and keys around the tiles agree with the reference") {
  for_every_version([](const AttendVersion& version) {
    for (const std::uint32_t d : {2, 4, 6, 14, 16, 18, 30, 32, 34, 48, 64, 80, 128, 256})
      for (const std::uint32_t rows : {1, 5, 8, 12, 13, 25, 97}) {
        CAPTURE(d);
        CAPTURE(rows);
        Case c({.heads = 2, .head_dim = d, .context = {37, 4}, .segments = {rows, 3}, .gap = d % 3},
               d + rows);
        check_against_reference(version, c);
      }
    for (const std::uint32_t keys : {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 65, 1000}) {
      CAPTURE(keys);
      Case c({.heads = 3, .head_dim = 24, .context = {keys}, .segments = {40}}, keys);
      check_against_reference(version, c);
    }
    Case blocks({.heads = 4, .head_dim = 64, .context = {300}, .segments = {90, 80}}, 1);
    check_against_reference(version, blocks);
  });
}

TEST_CASE("attend in pairs: a key that has all the weight gives its own value, within float32") {
  for_every_version([](const AttendVersion& version) {
    for (const std::uint32_t d : {16, 20, 64})
      for (const std::uint32_t rows : {20u, 600u}) {
        CAPTURE(d);
        Case c({.head_dim = d, .context = {40, 27}, .segments = {rows}}, d);
        std::fill(c.begin.begin(), c.begin.end(), 0u);
        std::fill(c.end.begin(), c.end.end(), 0u);
        c.task.scale = 1;
        std::vector<std::vector<float>> values;
        std::size_t number_of_key = 0;
        for_each_token(c, [&](const KvRun& run, std::uint32_t t) {
          if (&run == &c.tail[0]) return;
          std::vector<float>& value = values.emplace_back();
          for (std::uint32_t i = 0; i < d; ++i) {  // the key's number in binary
            number(run.keys, run, t, i) = to_bf16(number_of_key >> (i % 7) & 1 ? 1 : -1);
            value.push_back(from_bf16(number(run.values, run, t, i)));
          }
          ++number_of_key;
        });
        for (std::uint32_t r = 0; r < rows; ++r)
          for (std::uint32_t i = 0; i < d; ++i)
            c.queries[r * d + i] = r * 7 % 67 >> (i % 7) & 1 ? 100.0f : -100.0f;
        const std::vector<float> got = c.result(version.run);
        for (std::uint32_t r = 0; r < rows; ++r)
          for (std::uint32_t i = 0; i < d; ++i)
            REQUIRE(got[r * d + i] == doctest::Approx(values[r * 7 % 67][i]).epsilon(1e-6));
      }
  });
}

TEST_CASE("attend in pairs: rotated keys and masked tails agree with the reference") {
  for_every_version([](const AttendVersion& version) {
    for (const std::uint32_t rows : {6u, 40u, 700u}) {
      CAPTURE(rows);
      Case rotated({.head_dim = 32, .context = {45, 20}, .segments = {rows}}, rows);
      rotated.rotate(rotated.context[0]);
      check_against_reference(version, rotated);
      Case masked({.heads = 2, .head_dim = 24, .context = {11}, .segments = {rows}}, rows);
      std::fill(masked.begin.begin(), masked.begin.end(), 0u);
      std::fill(masked.end.begin(), masked.end.end(), rows);
      const std::size_t stride = (rows + attend_mask_tokens - 1) / attend_mask_tokens * attend_mask_tokens;
      std::vector<float> mask(rows * stride);
      for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t t = 0; t < rows; ++t) mask[r * stride + t] = t == r || masked.random() % 5 == 0;
      masked.task.mask = mask.data(), masked.task.mask_stride = stride;
      check_against_reference(version, masked);
    }
  });
}

TEST_CASE("attend in pairs: a row is the same, within float32, whatever rows are beside it") {
  for_every_version([](const AttendVersion& version) {
    for (const bool rotated : {false, true}) {
      CAPTURE(rotated);
      Case c({.head_dim = 32, .context = {300, 20}, .segments = {30}}, 8);
      if (rotated) c.rotate(c.context[0]);
      const std::vector<float> together = c.result(version.run);
      const AttendTask all = c.task;
      double worst = 0;
      for (std::uint32_t first = 0; first < 30; first += 3) {  // keys of so few rows stay in place
        c.task = all;
        c.task.queries += first * 32, c.task.rows = 3;
        c.task.tail_begin = all.tail_begin.subspan(first, 3),
        c.task.tail_end = all.tail_end.subspan(first, 3);
        const std::vector<float> some = c.result(version.run);
        for (std::size_t i = 0; i < 3 * 32; ++i)
          worst = std::max(worst, std::abs(double{some[i]} - together[first * 32 + i]));
      }
      // A score on the edge of two weights in bf16 may fall on either side: one of 320 keys moves by 2^-8.
      CHECK(worst < 1e-5 + 4 * 0x1p-8 / 30);
    }
  });
}

TEST_CASE("attend in pairs: infinity or NaN spoils exactly the rows that see it") {
  for_every_version([](const AttendVersion& version) {
    for (const float bad : {kNan, INFINITY, -INFINITY})
      for (const bool in_key : {true, false})
        for (const std::uint32_t d : {32, 20})
          for (const std::uint32_t token : {80, 81, 82, 83}) {
            CAPTURE(bad);
            CAPTURE(in_key);
            CAPTURE(d);
            CAPTURE(token);
            Case c({.head_dim = d, .context = {19}, .segments = std::vector<std::uint32_t>(40, 4)}, 5);
            const std::vector<float> sound = c.result(&attend_reference);
            std::vector<double> bounds;
            for (std::uint32_t r = 0; r < c.task.rows; ++r) bounds.push_back(tolerance(c, r, 0));
            number(in_key ? c.tail[0].keys : c.tail[0].values, c.tail[0], token, d / 2) = to_bf16(bad);
            const std::vector<float> got = c.result(version.run);
            for (std::uint32_t r = 0; r < c.task.rows; ++r) {
              bool finite = true;
              double worst = 0;
              for (std::size_t i = r * std::size_t{d}; i < (r + 1) * std::size_t{d}; ++i) {
                finite = finite && std::isfinite(got[i]);
                worst = std::max(worst, std::abs(double{got[i]} - sound[i]));
              }
              const bool seen = c.begin[r] <= token && token < c.end[r];
              REQUIRE(finite == !seen);
              if (!seen) REQUIRE(worst <= bounds[r]);
            }
          }
  });
}

TEST_CASE("attend in pairs: rounding needs the task's permission, bf16 numbers and an even head size") {
  for_every_version([](const AttendVersion& version) {
    const auto rounds = [&](const Shape& shape) {
      Case c(shape, 3);
      const std::vector<float> rounded = c.result(version.run);
      c.task.may_round = false;
      return rounded != c.result(version.run);
    };
    CHECK(rounds({.head_dim = 32, .context = {50}, .segments = {30}}) == pairs(version));
    CHECK_FALSE(rounds({.head_dim = 31, .context = {50}, .segments = {30}}));
    CHECK_FALSE(rounds({.head_dim = 32, .context = {50}, .segments = {30}, .format = KvFormat::f16}));
  });
}

}  // namespace attend_pairs_test
}  // namespace
