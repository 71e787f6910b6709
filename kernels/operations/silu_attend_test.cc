#include "kernels/operations/silu_attend.h"

#include <doctest/doctest.h>

#include <cmath>
#include <deque>
#include <random>

#include "kernels/base/float_formats.h"

using namespace troupe::kernels;

namespace {
namespace silu_attend_test {

struct SiluShape {
  std::uint32_t head_dim = 16, rows = 5;
  std::vector<std::uint32_t> context;  // tokens of each run
  bool biased = true, windowed = false;
  KvFormat format = KvFormat::f32;
  std::uint32_t value_dim = 0;  // 0: head_dim
  bool ends = false;            // rows see the context up to a key of their own
};

// A task on its own memory; outputs start as NaN.
struct SiluCase {
  SiluCase(const SiluShape& shape, unsigned seed) : random(seed) {
    const std::uint32_t stride = std::max(shape.head_dim, shape.value_dim) + 3;
    std::uint32_t seen = 0;
    for (const std::uint32_t tokens : shape.context) context.push_back(run(shape, tokens)), seen += tokens;
    tail.push_back(run(shape, shape.rows));
    queries = fresh(shape.rows * stride);
    out.assign(shape.rows * stride, NAN);
    for (std::uint32_t r = 0; r < shape.rows; ++r) {
      begin.push_back(shape.windowed ? r / 2 : 0);
      end.push_back(r + 1);
      if (shape.windowed && seen > 0) context_begin.push_back(random() % seen);
      if (!shape.ends) continue;
      const std::uint32_t least = context_begin.empty() ? 0 : context_begin.back();
      context_end.push_back(least + random() % (seen - least + 1));
    }
    weights = fresh(4096);
    buckets = fresh(9);
    std::int32_t position = 0;
    for (std::uint32_t k = 0; k < seen + shape.rows; ++k)
      key_positions.push_back(random() % 40 == 0 ? position : position++);
    for (std::uint32_t r = 0; r < shape.rows; ++r) {
      row_positions.push_back(key_positions[seen + r]);
      step_begin.push_back(static_cast<std::uint32_t>(steps.size()));
      for (std::uint32_t key = 0; key < seen + shape.rows; key += 1 + random() % (r % 2 == 0 ? 5 : 300))
        steps.push_back({key, static_cast<std::uint32_t>(random() % 9)});
      step_end.push_back(static_cast<std::uint32_t>(steps.size()));
    }
    task.queries = queries.data(), task.out = out.data();
    task.query_stride = task.out_stride = stride;
    task.rows = shape.rows, task.head_dim = shape.head_dim, task.value_dim = shape.value_dim;
    task.scale = 0.7f, task.factor = 1 / 64.0f;
    task.context = context, task.tail = tail;
    task.context_begin = context_begin, task.context_end = context_end;
    task.tail_begin = begin, task.tail_end = end;
    if (shape.biased)
      task.bias = {weights.data() + 2048, buckets, row_positions, key_positions, steps, step_begin, step_end};
  }
  SiluCase(const SiluCase&) = delete;

  std::vector<float> fresh(std::size_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    return values;
  }
  KvRun run(const SiluShape& shape, std::uint32_t tokens) {
    const auto store = [&](std::uint32_t numbers) -> const void* {
      floats.push_back(fresh(std::size_t{tokens} * numbers));
      if (shape.format == KvFormat::f32) return floats.back().data();
      std::vector<std::uint16_t>& stored = halves.emplace_back();
      for (const float x : floats.back())
        stored.push_back(shape.format == KvFormat::f16 ? to_f16(x) : to_bf16(x));
      return stored.data();
    };
    const void* const keys = store(shape.head_dim);
    const void* const values = store(shape.value_dim > 0 ? shape.value_dim : shape.head_dim);
    KvRun run{keys, values, tokens, shape.head_dim, shape.format};
    run.value_stride = shape.value_dim;
    return run;
  }

  std::mt19937 random;
  std::deque<std::vector<float>> floats;
  std::deque<std::vector<std::uint16_t>> halves;
  std::vector<KvRun> context, tail;
  std::vector<std::uint32_t> context_begin, context_end, begin, end, step_begin, step_end;
  std::vector<std::int32_t> row_positions, key_positions;
  std::vector<BucketStep> steps;
  std::vector<float> queries, out, weights, buckets;
  SiluAttendTask task;
};

// Returns the largest difference of a version from the reference; infinite where one of them is
// NaN.
double difference(SiluCase& of, SiluAttend* version) {
  AttendScratch scratch;
  silu_attend_reference(of.task, scratch);
  std::vector<float> wanted = of.out;
  of.out.assign(of.out.size(), NAN);
  version(of.task, scratch);
  double most = 0;
  for (std::size_t r = 0; r < of.task.rows; ++r)
    for (std::size_t i = 0; i < of.task.numbers_of_value(); ++i) {
      const std::size_t at = r * of.task.out_stride + i;
      const double off = std::abs(double{of.out[at]} - wanted[at]);
      if (!(off <= most)) most = std::isnan(off) ? INFINITY : off;
    }
  return most;
}

// Largest difference of a version from the reference as a share of what rounding to bf16 explains.
// Rounding changes a number by at most u = 2^-8 of itself, uniformly: by u/sqrt(3) in standard
// deviations. Queries are rounded, so a score is off by u/sqrt(3) · scale · sqrt(Σ (q k)²), and its SiLU
// by at most 1.1 of that, which is rounded once more. Errors of different keys add up as a random walk;
// eight deviations are allowed, and 2e-5 for float32.
double share_of_rounding(SiluCase& of, SiluAttend* version) {
  AttendScratch scratch;
  silu_attend_reference(of.task, scratch);
  const std::vector<float> wanted = of.out;
  version(of.task, scratch);
  std::vector<std::vector<float>> keys, values;
  for (const auto* runs : {&of.context, &of.tail})
    for (const KvRun& run : *runs)
      for (std::uint32_t t = 0; t < run.tokens; ++t) {
        const auto row = [](const void* numbers, std::size_t first, std::size_t count) {
          std::vector<float> wide;
          for (std::size_t i = 0; i < count; ++i)
            wide.push_back(from_bf16(static_cast<const std::uint16_t*>(numbers)[first + i]));
          return wide;
        };
        keys.push_back(row(run.keys, std::size_t{t} * run.stride, of.task.head_dim));
        values.push_back(
            row(run.values, std::size_t{t} * run.stride_of_values(), of.task.numbers_of_value()));
      }
  constexpr double u = 0x1p-8;
  double worst = 0;
  for (std::size_t r = 0; r < of.task.rows; ++r) {
    std::vector<double> variance(of.task.numbers_of_value());
    for (std::size_t k = 0; k < keys.size(); ++k) {
      double squares = 0, score = of.task.bias.by_distance != nullptr ? 10 : 0;  // bounds its bias
      for (std::size_t i = 0; i < of.task.head_dim; ++i) {
        const double product =
            double{of.task.scale} * of.task.queries[r * of.task.query_stride + i] * keys[k][i];
        squares += product * product, score += product;
      }
      const double of_weight = (1.1 * 1.1 * squares + score * score) * u * u / 3;
      for (std::size_t i = 0; i < variance.size(); ++i)
        variance[i] += of_weight * values[k][i] * values[k][i];
    }
    for (std::size_t i = 0; i < variance.size(); ++i) {
      const std::size_t at = r * of.task.out_stride + i;
      const double off = std::abs(double{of.out[at]} - wanted[at]);
      const double share = off / (8 * of.task.factor * std::sqrt(variance[i]) + 2e-5);
      worst = std::isnan(share) ? INFINITY : std::max(worst, share);
    }
  }
  return worst;
}

template <class Check>
void every_version(Check check) {
  for (const SiluAttendVersion& version : silu_attend_versions())
    if (version.usable) {
      CAPTURE(version.name);
      check(version.run);
    }
}

}  // namespace silu_attend_test
}  // namespace

TEST_SUITE("attention by silu") {
  using namespace silu_attend_test;

  TEST_CASE(
      "silu attend: every version agrees with the reference at every kind of size, with and without bias and "
      "window") {
    const unsigned seed = std::random_device()();
    CAPTURE(seed);
    unsigned round = seed;
    const std::vector<std::uint32_t> contexts[] = {{}, {1}, {31, 2}, {64}, {100, 33, 7}};
    for (const std::uint32_t head_dim : {1u, 16u, 33u, 128u})
      for (const std::uint32_t rows : {1u, 2u, 4u, 5u, 12u, 33u, 150u})
        for (const auto& context : contexts)
          for (const bool biased : {true, false}) {
            const SiluShape shape{head_dim,         rows,
                                  context,          biased,
                                  ++round % 3 == 0, round % 4 == 0 ? KvFormat::f16 : KvFormat::f32};
            CAPTURE(head_dim);
            CAPTURE(rows);
            SiluCase tried(shape, round);
            every_version([&](SiluAttend* version) { CHECK(difference(tried, version) < 2e-4); });
          }
  }

  TEST_CASE("silu attend: rows that see the context up to different keys agree with the reference") {
    unsigned round = 0;
    const std::vector<std::uint32_t> contexts[] = {{1}, {31, 2}, {64}, {100, 33, 7}};
    for (const std::uint32_t rows : {1u, 3u, 14u, 150u})
      for (const auto& context : contexts)
        for (const bool windowed : {false, true}) {
          const KvFormat format = ++round % 3 == 0 ? KvFormat::bf16 : KvFormat::f32;
          SiluCase tried({16, rows, context, round % 2 == 0, windowed, format, 0, true}, round);
          CAPTURE(rows);
          CAPTURE(windowed);
          every_version([&](SiluAttend* version) { CHECK(difference(tried, version) < 2e-4); });
        }
  }

  TEST_CASE("silu attend: a key behind the context that a row sees has no effect on it, whatever it is") {
    SiluShape shape{.head_dim = 16, .rows = 14, .context = {70}, .ends = true};
    SiluCase tried(shape, 5);
    for (std::size_t r = 0; r < 14; ++r) tried.context_end[r] = r < 2 ? 60 + r : 70;
    float* const keys = tried.floats[0].data();
    keys[65 * 16] = INFINITY;
    every_version([&](SiluAttend* version) {
      AttendScratch scratch;
      version(tried.task, scratch);
      const auto is_finite = [&](std::size_t row) {
        return std::isfinite(tried.out[row * tried.task.out_stride]);
      };
      CHECK(is_finite(0));
      CHECK(is_finite(1));
      CHECK_FALSE(is_finite(2));
    });
  }

  TEST_CASE("silu attend: with bf16 allowed, every version is within its rounding, and only one rounds") {
    unsigned round = 0;
    for (const std::uint32_t head_dim : {2u, 16u, 25u, 34u, 128u})
      for (const std::uint32_t rows : {1u, 5u, 33u, 150u, 300u})
        for (const std::uint32_t value_dim : {0u, 20u}) {
          CAPTURE(head_dim);
          CAPTURE(rows);
          SiluCase tried({.head_dim = head_dim,
                          .rows = rows,
                          .context = {31, 2},
                          .biased = ++round % 2 == 0,
                          .windowed = round % 3 == 0,
                          .format = KvFormat::bf16,
                          .value_dim = value_dim},
                         round);
          tried.task.may_round = true;
          for (const SiluAttendVersion& version : silu_attend_versions()) {
            if (!version.usable) continue;
            CAPTURE(version.name);
            CHECK(share_of_rounding(tried, version.run) <= 1);
            const bool rounds = version.name == "avx512_bf16" && rows > 4 && head_dim % 2 == 0;
            if (rows > 4) CHECK((difference(tried, version.run) > 2e-5) == rounds);
          }
        }
  }

  TEST_CASE("silu attend: values may have another size than keys") {
    unsigned round = 0;
    for (const std::uint32_t head_dim : {1u, 16u, 25u, 128u})
      for (const std::uint32_t value_dim : {1u, 16u, 50u, 256u})
        for (const std::uint32_t rows : {1u, 4u, 5u, 33u, 300u}) {
          const SiluShape shape{.head_dim = head_dim,
                                .rows = rows,
                                .context = {31, 2},
                                .biased = ++round % 2 == 0,
                                .format = round % 3 == 0 ? KvFormat::bf16 : KvFormat::f32,
                                .value_dim = value_dim};
          CAPTURE(head_dim);
          CAPTURE(value_dim);
          CAPTURE(rows);
          SiluCase tried(shape, round);
          every_version([&](SiluAttend* version) { CHECK(difference(tried, version) < 2e-4); });
        }
  }

  TEST_CASE("silu attend: the SiLU of a large score is the score, and of a very negative one zero") {
    for (const float size : {-200.0f, 200.0f}) {
      SiluCase tried({.head_dim = 16, .rows = 20, .biased = true}, 5);
      tried.buckets.assign(9, size);
      every_version(
          [&](SiluAttend* version) { CHECK(difference(tried, version) < (size > 0 ? 1e-2 : 1e-5)); });
    }
  }

  TEST_CASE("silu attend: an infinity reaches exactly the rows that see it") {
    for (const float bad : {INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN()})
      for (const std::size_t where : {0, 1}) {  // in a key, in a value
        SiluCase tried({.head_dim = 16, .rows = 30, .context = {40}}, 6);
        tried.floats[2 + where][16 * 17 + 3] = bad;  // of the tail's token 17
        every_version([&](SiluAttend* version) {
          AttendScratch scratch;
          version(tried.task, scratch);
          for (std::size_t r = 0; r < 30; ++r) {
            bool finite = true;
            for (std::size_t i = 0; i < 16; ++i) finite = finite && std::isfinite(tried.out[r * 19 + i]);
            CHECK(finite == (r < 17));
          }
        });
      }
  }
}
