#include "kernels/operations/attend.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/base/float_formats.h"

using namespace troupe::kernels;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  std::uint32_t heads = 1, head_dim = 16;
  std::vector<std::uint32_t> context, segments;  // tokens of each context run; rows of each causal segment
  std::uint32_t tail_run = 1000;                 // tokens of a tail run
  std::size_t gap = 0;                           // unused numbers between tokens and between rows, all NaN
  KvFormat format = KvFormat::f32;
};

constexpr KvFormat kFormats[] = {KvFormat::f32, KvFormat::f16, KvFormat::bf16};

std::uint16_t round_to(KvFormat format, float x) { return format == KvFormat::f16 ? to_f16(x) : to_bf16(x); }

// Number i of a run's keys or values, and its replacement.
float number(const void* numbers, KvFormat format, std::size_t i) {
  if (format == KvFormat::f32) return static_cast<const float*>(numbers)[i];
  const std::uint16_t stored = static_cast<const std::uint16_t*>(numbers)[i];
  return format == KvFormat::f16 ? from_f16(stored) : from_bf16(stored);
}
void set_number(const void* numbers, KvFormat format, std::size_t i, float x) {
  if (format == KvFormat::f32)
    const_cast<float*>(static_cast<const float*>(numbers))[i] = x;
  else
    const_cast<std::uint16_t*>(static_cast<const std::uint16_t*>(numbers))[i] = round_to(format, x);
}

// A task on its own memory: every run is one exact allocation, so that the sanitizer sees reads past it.
struct Case {
  Case(const Shape& shape, unsigned seed) : random(seed) {
    const std::size_t d = shape.head_dim, row = shape.heads * d;
    for (std::uint32_t tokens : shape.context) context.push_back(add_run(tokens, shape));
    for (std::uint32_t length : shape.segments) {
      const std::uint32_t first = rows();
      for (std::uint32_t r = 0; r < length; ++r) begin.push_back(first), end.push_back(first + r + 1);
    }
    for (std::uint32_t t = 0; t < rows(); t += shape.tail_run)
      tail.push_back(add_run(std::min(shape.tail_run, rows() - t), shape));
    queries = fresh(rows(), row, shape.gap);
    out.assign(queries.size(), kNan);
    task = {queries.data(), out.data(),  row + shape.gap, row + shape.gap,
            rows(),         shape.heads, shape.head_dim,  1 / std::sqrt(float(d)),
            context,        tail,        begin,           end};
  }
  Case(const Case&) = delete;

  std::uint32_t rows() const { return std::uint32_t(begin.size()); }

  // `count` rows of `width` normal values, NaN in the gaps.
  std::vector<float> fresh(std::size_t count, std::size_t width, std::size_t gap) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count == 0 ? 0 : (count - 1) * (width + gap) + width, kNan);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (i % (width + gap) < width) values[i] = normal(random);
    return values;
  }

  const void* store(std::vector<float> numbers, KvFormat format) {
    if (format == KvFormat::f32) return floats.emplace_back(std::move(numbers)).data();
    std::vector<std::uint16_t>& stored = halves.emplace_back();
    for (const float x : numbers) stored.push_back(round_to(format, x));
    stored.shrink_to_fit();
    return stored.data();
  }

  KvRun add_run(std::uint32_t tokens, const Shape& s) {
    const void* keys = store(fresh(tokens, s.head_dim, s.gap), s.format);
    const void* values = store(fresh(tokens, s.head_dim, s.gap), s.format);
    return {keys, values, tokens, std::uint32_t(s.head_dim + s.gap), s.format};
  }

  // Rotates a run by one random angle per pair.
  void rotation(KvRun& run) {
    std::vector<float> cosines, sines;
    for (std::uint32_t pair = 0; pair < task.head_dim / 2; ++pair) {
      const float angle = float(random() % 10'000) / 1'000;
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
    run.cosines = floats.emplace_back(std::move(cosines)).data();
    run.sines = floats.emplace_back(std::move(sines)).data();
  }

  // Overwrites token t of a run list through `change(t, key, value)`.
  template <class Change>
  void change_tokens(const std::vector<KvRun>& runs, Change change) {
    std::size_t token = 0;
    std::vector<float> key(task.head_dim), value(task.head_dim);
    for (const KvRun& run : runs)
      for (std::size_t t = 0; t < run.tokens; ++t, ++token) {
        for (std::uint32_t i = 0; i < task.head_dim; ++i) {
          key[i] = number(run.keys, run.format, t * run.stride + i);
          value[i] = number(run.values, run.format, t * run.stride + i);
        }
        change(token, key.data(), value.data());
        for (std::uint32_t i = 0; i < task.head_dim; ++i) {
          set_number(run.keys, run.format, t * run.stride + i, key[i]);
          set_number(run.values, run.format, t * run.stride + i, value[i]);
        }
      }
  }

  std::mt19937 random;
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<std::uint16_t>> halves;
  std::vector<KvRun> context, tail;
  std::vector<std::uint32_t> begin, end;
  std::vector<float> queries, out;
  AttendTask task;
};

// Returns a bound of number i of a key, before and after rotation.
double key_magnitude(const KvRun& run, std::uint32_t t, std::uint32_t i, std::uint32_t head_dim) {
  const auto stored = [&](std::uint32_t n) {
    return std::abs(double(number(run.keys, run.format, std::size_t{t} * run.stride + n)));
  };
  return run.cosines == nullptr ? stored(i) : stored(i) + stored((i + head_dim / 2) % head_dim);
}

// How far float32 may be from the reference for one query. With unit roundoff u, errors of sums of n terms
// grow as sqrt(n) u (Higham and Mary 2019; 6 standard deviations here): the score is a sum of head_dim
// products, its error is the relative error of the weight, the exponential adds 5 u, and the weighted sum is
// over `keys` terms of at most the largest value.
double tolerance(const Case& c, std::uint32_t row, std::uint32_t head) {
  const double u = std::ldexp(1.0, -24), d = c.task.head_dim;
  const float* query = c.task.queries + row * c.task.query_stride + head * c.task.head_dim;
  double largest_product = 0, largest_value = 0, keys = 0;
  for (const auto* runs : {&c.context, &c.tail})
    for (const KvRun& run : *runs)
      for (std::uint32_t t = 0; t < run.tokens; ++t, ++keys) {
        double product = 0;
        for (std::uint32_t i = 0; i < c.task.head_dim; ++i) {
          const std::size_t at = std::size_t{t} * run.stride + i;
          product += std::abs(double(query[i])) * key_magnitude(run, t, i, c.task.head_dim);
          largest_value = std::max(largest_value, std::abs(double(number(run.values, run.format, at))));
        }
        largest_product = std::max(largest_product, product * c.task.scale);
      }
  const double weight_error = 6 * std::sqrt(d + 4) * u * largest_product + 5 * u;
  return largest_value * (2 * weight_error + 6 * std::sqrt(keys + 8) * u);
}

// Runs `version` and the reference and compares every value; the outputs start as NaN.
void check_against_reference(const AttendVersion& version, Case& c, AttendScratch& scratch) {
  std::fill(c.out.begin(), c.out.end(), kNan);
  attend_reference(c.task, scratch);
  const std::vector<float> want = c.out;
  std::fill(c.out.begin(), c.out.end(), kNan);
  version.run(c.task, scratch);
  double worst = 0;  // as a share of the tolerance
  for (std::uint32_t row = 0; row < c.rows(); ++row)
    for (std::uint32_t head = 0; head < c.task.heads; ++head) {
      const double bound = tolerance(c, row, head);
      const std::size_t at = row * c.task.out_stride + head * c.task.head_dim;
      for (std::size_t i = at; i < at + c.task.head_dim; ++i)
        if (const double share = std::abs(double(c.out[i]) - want[i]) / bound; !(share <= worst))
          worst = std::isnan(share) ? INFINITY : share;
    }
  CHECK(worst <= 1);
  const std::size_t width = std::size_t{c.task.heads} * c.task.head_dim;
  for (std::size_t i = 0; i < want.size(); ++i)
    if (i % c.task.out_stride >= width) REQUIRE(std::isnan(c.out[i]));  // nothing is written between rows
}

template <class Check>
void for_every_version(Check check) {
  for (const AttendVersion& version : attend_versions()) {
    const std::string name(version.name);
    if (!version.usable) {
      MESSAGE("this CPU cannot run " << name);
      continue;
    }
    CAPTURE(name);
    check(version);
  }
}

// check(version, format)
template <class Check>
void for_every_version_and_format(Check check) {
  for_every_version([&](const AttendVersion& version) {
    for (const KvFormat format : kFormats) {
      const std::string stored(format_name(format));
      CAPTURE(stored);
      check(version, format);
    }
  });
}

void check_shape(const AttendVersion& version, const Shape& shape, unsigned seed) {
  Case c(shape, seed);
  AttendScratch scratch;
  check_against_reference(version, c, scratch);
}

}  // namespace

TEST_CASE("attend: every head size around the vector widths agrees with the reference") {
  for_every_version_and_format([](const AttendVersion& version, KvFormat format) {
    for (std::uint32_t d :
         {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 80, 100, 128, 129, 255, 256}) {
      CAPTURE(d);
      check_shape(version,
                  {.head_dim = d, .context = {37, 4}, .segments = {5, 3, 7}, .gap = d % 5, .format = format},
                  d);
    }
  });
}

TEST_CASE("attend: every number of query vectors around the tiles and blocks agrees with the reference") {
  for_every_version_and_format([](const AttendVersion& version, KvFormat format) {
    for (std::uint32_t heads : {1, 2, 3, 7, 8})
      for (std::uint32_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 23, 24, 25, 26, 36, 37, 49, 97}) {
        CAPTURE(heads);
        CAPTURE(rows);
        check_shape(
            version,
            {.heads = heads, .head_dim = 8, .context = {19}, .segments = {rows}, .gap = 3, .format = format},
            rows);
      }
  });
}

TEST_CASE("attend: every number of keys around the panels agrees with the reference") {
  for_every_version_and_format([](const AttendVersion& version, KvFormat format) {
    for (std::uint32_t keys : {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000})
      for (std::uint32_t rows : {1u, 40u}) {
        CAPTURE(keys);
        CAPTURE(rows);
        check_shape(version, {.head_dim = 20, .context = {keys}, .segments = {rows}, .format = format}, keys);
      }
  });
}

TEST_CASE("attend: shared context, short runs and long prompts agree with the reference") {
  for_every_version_and_format([](const AttendVersion& version, KvFormat format) {
    check_shape(
        version,
        {.head_dim = 64, .context = {300}, .segments = std::vector<std::uint32_t>(12, 10), .format = format},
        1);
    check_shape(version,
                {.heads = 3, .head_dim = 32, .segments = std::vector<std::uint32_t>(30, 7), .format = format},
                2);
    check_shape(version,
                {.heads = 2,
                 .head_dim = 32,
                 .context = std::vector<std::uint32_t>(60, 4),
                 .segments = {90},
                 .tail_run = 4,
                 .format = format},
                3);
    check_shape(version, {.head_dim = 64, .segments = {400}, .tail_run = 32, .format = format}, 4);
    check_shape(version,
                {.heads = 1, .head_dim = 128, .context = {1500, 700}, .segments = {1}, .format = format}, 5);
  });
}

TEST_CASE("attend: a mask restricts what a row sees of its interval of the tail") {
  for_every_version_and_format([](const AttendVersion& version, KvFormat format) {
    for (const std::uint32_t rows : {1u, 2u, 5u, 30u, 97u})
      for (const std::uint32_t context : {0u, 40u}) {
        CAPTURE(rows);
        CAPTURE(context);
        Case c({.heads = 3,
                .head_dim = 24,
                .context = {context},
                .segments = {rows},
                .tail_run = 7,
                .format = format},
               rows);
        if (rows > 2)
          std::fill(c.end.begin(), c.end.end(), rows), std::fill(c.begin.begin(), c.begin.end(), 0u);
        const std::size_t stride = (rows + attend_mask_tokens - 1) / attend_mask_tokens * attend_mask_tokens;
        std::vector<float> mask(rows * stride);
        for (std::uint32_t r = 0; r < rows; ++r)
          for (std::uint32_t t = 0; t < rows; ++t) mask[r * stride + t] = t == r || c.random() % 5 == 0;
        c.task.mask = mask.data();
        c.task.mask_stride = stride;
        AttendScratch scratch;
        check_against_reference(version, c, scratch);
      }
  });
}

TEST_CASE("attend: a task without rows writes nothing") {
  for_every_version([](const AttendVersion& version) {
    check_shape(version, {.context = {5}}, 1);
    check_shape(version, {}, 1);
  });
}

TEST_CASE("attend: a row that sees no key is zero, beside rows that see some") {
  for_every_version([](const AttendVersion& version) {
    for (std::uint32_t rows : {4, 30, 60}) {
      Case c({.head_dim = 24, .segments = {rows}}, rows);
      for (std::uint32_t r = 0; r < rows; r += 3) c.begin[r] = c.end[r] = r % 2 == 0 ? 0 : rows;
      AttendScratch scratch;
      check_against_reference(version, c, scratch);
      CHECK(std::all_of(c.out.begin(), c.out.begin() + 24, [](float x) { return x == 0; }));
      std::fill(c.begin.begin(), c.begin.end(), 0u);
      std::fill(c.end.begin(), c.end.end(), 0u);
      version.run(c.task, scratch);
      CHECK(std::all_of(c.out.begin(), c.out.end(), [](float x) { return x == 0; }));
    }
  });
}

TEST_CASE("attend: an item's output is bit-equal whatever the other items of its group are") {
  for_every_version([](const AttendVersion& version) {
    Case c({.heads = 2, .head_dim = 32, .context = {50}, .segments = std::vector<std::uint32_t>(9, 5)}, 7);
    AttendScratch scratch;
    version.run(c.task, scratch);
    const std::vector<float> before = c.out;
    c.change_tokens(c.tail, [](std::size_t token, float* key, float* value) {
      if (token / 5 == 4) key[0] = 1e4f, value[1] = -1e30f;
    });
    version.run(c.task, scratch);
    for (std::size_t i = 0; i < c.out.size(); ++i)
      if (i / c.task.out_stride / 5 != 4) REQUIRE(before[i] == c.out[i]);
    CHECK(before != c.out);
  });
}

TEST_CASE("attend: equal keys share the weight equally") {
  for_every_version([](const AttendVersion& version) {
    for (std::uint32_t keys : {1, 2, 16, 100, 700}) {
      Case c({.head_dim = 16, .context = {keys}, .segments = {3}}, keys);
      std::vector<double> mean(16, 0.0);
      c.change_tokens(c.context, [&](std::size_t, float* key, float* value) {
        for (int i = 0; i < 16; ++i) key[i] = 1e3f, mean[std::size_t(i)] += double(value[i]) / keys;
      });
      std::fill(c.begin.begin(), c.begin.end(), 0u);
      std::fill(c.end.begin(), c.end.end(), 0u);
      AttendScratch scratch;
      version.run(c.task, scratch);
      // Equal scores have equal error, so only the two sums and the division round: values are under 5.
      for (std::size_t i = 0; i < 16; ++i)
        CHECK(std::abs(c.out[i] - mean[i]) <= 5 * 6 * std::sqrt(keys + 8.0) * std::ldexp(1.0, -24));
    }
  });
}

TEST_CASE("attend: one overwhelming key takes all the weight, at any index and for scores of any size") {
  for_every_version([](const AttendVersion& version) {
    for (float size : {30.0f, 1e3f, 1e6f, 1e12f, 1e17f})
      for (float sign : {1.0f, -1.0f})
        for (std::size_t winner : {0, 1, 31, 32, 40, 69}) {
          CAPTURE(size);
          CAPTURE(sign);
          CAPTURE(winner);
          Case c({.head_dim = 16, .context = {70}, .segments = {2}}, 3);
          for (float& x : c.queries) x = sign * size;
          // Scales every other score to be lower than the winner's by a factor of the size squared.
          c.change_tokens(c.context, [&](std::size_t token, float* key, float*) {
            const float level = token == winner ? 1.0f : -1.0f;
            std::fill(key, key + 16, sign * size * (sign > 0 ? level : level - 2));
          });
          std::fill(c.begin.begin(), c.begin.end(), 0u);
          std::fill(c.end.begin(), c.end.end(), 0u);
          AttendScratch scratch;
          version.run(c.task, scratch);
          const float* want = static_cast<const float*>(c.context[0].values) + winner * c.context[0].stride;
          for (std::size_t i = 0; i < c.out.size(); ++i)
            REQUIRE(c.out[i] == doctest::Approx(want[i % 16]).epsilon(1e-6));
        }
  });
}

TEST_CASE("attend: the weights of two keys follow the exponential over its whole range") {
  for_every_version([](const AttendVersion& version) {
    constexpr std::uint32_t kRows = 400;
    Case c({.head_dim = 1, .context = {2}, .segments = {kRows}}, 1);
    c.task.scale = 1;
    c.change_tokens(c.context, [](std::size_t token, float* key, float* value) {
      key[0] = -float(token);
      value[0] = float(token);
    });
    for (std::uint32_t r = 0; r < kRows; ++r) c.queries[r] = 0.2f * float(r), c.begin[r] = c.end[r] = 0;
    AttendScratch scratch;
    version.run(c.task, scratch);
    for (std::uint32_t r = 0; r < kRows; ++r) {
      const double x = c.queries[r], want = std::exp(-x) / (1 + std::exp(-x));
      // Three roundings of the score, each an error of the weight in units of the score's logarithm to base
      // 2; 5 units for the exponential; sum, quotient and product.
      CAPTURE(x);
      CHECK(std::abs(c.out[r] - want) <= want * std::ldexp(1.0, -24) * (3 * x + 9));
    }
  });
}

TEST_CASE("attend: scores that rise or fall from key to key agree with the reference") {
  for_every_version_and_format([](const AttendVersion& version, KvFormat format) {
    for (float step : {0.01f, -0.01f, 1.0f, -1.0f, 40.0f, -40.0f}) {
      CAPTURE(step);
      Case c({.head_dim = 4, .context = {150}, .segments = {30}, .format = format}, 5);
      for (std::size_t i = 0; i < c.queries.size(); ++i) c.queries[i] = i % 4 == 0 ? 2.0f : 0.0f;
      c.change_tokens(c.context,
                      [&](std::size_t token, float* key, float*) { key[0] = step * float(token); });
      AttendScratch scratch;
      check_against_reference(version, c, scratch);
    }
  });
}

TEST_CASE("attend: random mixtures of runs, segments, heads and strides agree with the reference") {
  for_every_version([](const AttendVersion& version) {
    std::mt19937 random(std::random_device{}());
    AttendScratch scratch;
    for (int round = 0; round < 60; ++round) {
      const unsigned seed = random();
      CAPTURE(seed);
      std::mt19937 draw(seed);
      const auto up_to = [&](std::uint32_t n) { return std::uint32_t(draw() % (n + 1)); };
      Shape shape{
          .heads = 1 + up_to(7), .head_dim = 1 + up_to(79), .tail_run = 1 + up_to(40), .gap = up_to(9)};
      for (std::uint32_t runs = up_to(6); runs > 0; --runs)
        shape.context.push_back(up_to(1) ? up_to(8) : up_to(90));
      for (std::uint32_t segments = up_to(8); segments > 0; --segments) shape.segments.push_back(up_to(25));
      shape.format = kFormats[up_to(2)];
      Case c(shape, seed);
      if (!c.context.empty() && up_to(1)) {  // formats may differ from run to run
        shape.format = kFormats[up_to(2)];
        c.context.back() = c.add_run(c.context.back().tokens, shape);
      }
      for (KvRun& run : c.context)
        if (shape.head_dim % 2 == 0 && up_to(2) == 0) c.rotation(run);
      for (std::uint32_t r = 0; r < c.rows(); ++r)  // some rows see only the later keys of their segment
        if (up_to(4) == 0) c.begin[r] = c.end[r] - 1 - up_to(c.end[r] - c.begin[r] - 1);
      check_against_reference(version, c, scratch);
    }
  });
}

TEST_CASE("attend: a rotated run is attended to as if its keys were stored rotated") {
  for_every_version([](const AttendVersion& version) {
    for (const std::uint32_t rows : {1, 30, 200}) {  // in place, panel by panel, all panels at once
      Case c({.heads = 1, .head_dim = 32, .context = {45, 20}, .segments = {rows}}, rows);
      AttendScratch scratch;
      c.rotation(c.context[0]);
      version.run(c.task, scratch);
      const std::vector<float> rotated = c.out;
      const float *const cosines = c.context[0].cosines, *const sines = c.context[0].sines;
      c.context[0].cosines = nullptr;
      version.run(c.task, scratch);
      const std::vector<float> unrotated = c.out;
      c.change_tokens({c.context[0]}, [&](std::size_t, float* key, float*) {
        for (std::uint32_t i = 0; i < 16; ++i) {
          const float first = key[i], second = key[16 + i];
          key[i] = first * cosines[i] - second * sines[i];
          key[16 + i] = second * cosines[i] + first * sines[i];
        }
      });
      version.run(c.task, scratch);
      double off = 0, moved = 0;
      for (std::size_t i = 0; i < rotated.size(); ++i) {
        off = std::max(off, std::abs(double(c.out[i]) - rotated[i]));
        moved = std::max(moved, std::abs(double(unrotated[i]) - rotated[i]));
      }
      CHECK(off < 1e-5);
      CHECK(moved > 1e-3);
    }
  });
}

// Puts `bad` into one key or value of one tail token. Every row that sees the token must be not
// finite, and every other row as with a sound token.
void check_poison(const AttendVersion& version, const Shape& shape, std::uint32_t token, bool in_key,
                  float bad) {
  Case c(shape, 5);
  AttendScratch scratch;
  attend_reference(c.task, scratch);
  const std::vector<float> sound = c.out;
  std::vector<double> bounds;
  for (std::uint32_t v = 0; v < c.rows() * shape.heads; ++v)
    bounds.push_back(tolerance(c, v / shape.heads, v % shape.heads));
  c.change_tokens(c.tail, [&](std::size_t t, float* key, float* value) {
    if (t == token) (in_key ? key : value)[shape.head_dim / 2] = bad;
  });
  std::fill(c.out.begin(), c.out.end(), kNan);
  version.run(c.task, scratch);
  for (std::uint32_t v = 0; v < c.rows() * shape.heads; ++v) {
    const std::uint32_t row = v / shape.heads;
    CAPTURE(row);
    bool finite = true;
    double worst = 0;
    for (std::size_t i = v * shape.head_dim; i < (v + 1) * shape.head_dim; ++i) {
      finite = finite && std::isfinite(c.out[i]);
      worst = std::max(worst, std::abs(double(c.out[i]) - sound[i]));
    }
    const bool seen = c.begin[row] <= token && token < c.end[row];
    REQUIRE(finite == !seen);
    if (!seen) REQUIRE(worst <= bounds[v]);
  }
}

TEST_CASE("attend: infinity or NaN in a key or value spoils exactly the rows that see it") {
  for_every_version_and_format([](const AttendVersion& version, KvFormat format) {
    const float odd_nan =
        std::bit_cast<float>(0x7f800fffu);  // bits that leak into an exponent if they are added
    for (const float bad : {kNan, odd_nan, INFINITY, -INFINITY})
      for (const bool in_key : {true, false})
        for (const std::uint32_t items : {1, 4, 40})  // in place, one block, more blocks
          for (const std::uint32_t d : {32, 20})
            for (const std::uint32_t token : {0, 2, 3}) {
              CAPTURE(bad);
              CAPTURE(in_key);
              CAPTURE(items);
              CAPTURE(d);
              CAPTURE(token);
              const Shape shape{.head_dim = d,
                                .context = {19},
                                .segments = std::vector<std::uint32_t>(items, 4),
                                .format = format};
              check_poison(version, shape, (items - 1) / 2 * 4 + token, in_key, bad);
            }
  });
}

TEST_CASE("attend: infinity or NaN in the context spoils every row, however unlikely its key") {
  for_every_version([](const AttendVersion& version) {
    for (const float bad : {kNan, INFINITY, -INFINITY})
      for (const bool in_key : {true, false})
        for (const std::uint32_t rows : {1, 3, 50}) {
          Case c({.heads = 2, .head_dim = 16, .context = {90}, .segments = {rows}}, rows);
          c.change_tokens(c.context, [&](std::size_t token, float* key, float* value) {
            if (token == 33) std::fill(key, key + 16, -1e4f), (in_key ? key : value)[3] = bad;
          });
          for (float& x : c.queries) x = std::abs(x);
          AttendScratch scratch;
          version.run(c.task, scratch);
          for (std::size_t i = 0; i < c.out.size(); i += 16)
            REQUIRE(!std::all_of(&c.out[i], &c.out[i] + 16, [](float x) { return std::isfinite(x); }));
        }
  });
}

TEST_CASE("attend: every 16-bit pattern is widened to its number") {
  for_every_version([](const AttendVersion& version) {
    for (const KvFormat format : {KvFormat::f16, KvFormat::bf16})
      for (const std::uint32_t rows : {1, 20}) {  // in place and packed
        Case c({.head_dim = 256, .context = {1}, .segments = {rows}, .format = format}, 1);
        std::fill(c.begin.begin(), c.begin.end(), 0u);
        std::fill(c.end.begin(), c.end.end(), 0u);
        auto* values = const_cast<std::uint16_t*>(static_cast<const std::uint16_t*>(c.context[0].values));
        AttendScratch scratch;
        for (std::uint32_t first = 0; first < 0x10000; first += 256) {
          for (std::uint32_t i = 0; i < 256; ++i) values[i] = std::uint16_t(first + i);
          version.run(c.task, scratch);  // this value has all the weight
          for (std::uint32_t i = 0; i < 256; ++i) {
            const float want = number(values, format, i), got = c.out[i];
            // The weight and the total are the same number near one: product, inverse and product round.
            if (std::isfinite(want))
              REQUIRE(std::abs(got - want) <= std::abs(want) * 0x1p-22f + 0x1p-148f);
            else
              REQUIRE((std::isnan(want) ? std::isnan(got) : got == want));
          }
        }
      }
  });
}

TEST_CASE("attend: the scratch stops growing after the first call") {
  for_every_version([](const AttendVersion& version) {
    if (version.run == attend_reference) return;
    Case c({.heads = 2, .head_dim = 64, .context = {100}, .segments = {64}}, 9);
    AttendScratch scratch;
    version.run(c.task, scratch);
    const float* const memory = scratch.floats.data();
    version.run(c.task, scratch);
    CHECK(memory == scratch.floats.data());
  });
}

TEST_CASE("attend: the chosen version agrees with the reference, and the table ends with the reference") {
  CHECK(attend_versions().back().name == "reference");
  CHECK(attend_versions().back().usable);
  Case c({.head_dim = 64, .context = {10}, .segments = {10}}, 11);
  AttendScratch scratch;
  check_against_reference({"chosen", &attend, true}, c, scratch);
}
