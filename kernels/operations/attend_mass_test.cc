#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/operations/attend.h"

using namespace troupe::kernels;

namespace {
namespace attend_mass_test {

// Causal rows behind a context of a few runs, with random values.
struct Case {
  Case(std::uint32_t rows, std::uint32_t heads, std::uint32_t head_dim, std::vector<std::uint32_t> runs,
       unsigned seed)
      : random(seed) {
    queries = fresh(std::size_t{rows} * heads * head_dim);
    out.resize(queries.size());
    for (const std::uint32_t tokens : runs) context.push_back(run(tokens, head_dim));
    tail.push_back(run(rows, head_dim));
    for (std::uint32_t r = 0; r < rows; ++r) {
      begin.push_back(r < rows / 2 ? 0 : rows / 3);
      end.push_back(r + 1);
    }
    std::size_t tokens = rows;
    for (const std::uint32_t n : runs) tokens += n;
    mass.assign(tokens, 0.5f);
    const std::size_t stride = std::size_t{heads} * head_dim;
    task = {.queries = queries.data(),
            .out = out.data(),
            .query_stride = stride,
            .out_stride = stride,
            .rows = rows,
            .heads = heads,
            .head_dim = head_dim,
            .scale = 1 / std::sqrt(float(head_dim)),
            .context = context,
            .tail = tail,
            .tail_begin = begin,
            .tail_end = end,
            .mass = mass.data()};
  }
  Case(const Case&) = delete;

  std::vector<float> fresh(std::size_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values) value = 2 * normal(random);
    return values;
  }
  KvRun run(std::uint32_t tokens, std::uint32_t width) {
    memory.push_back(fresh(std::size_t{tokens} * width));
    memory.push_back(fresh(std::size_t{tokens} * width));
    return {memory[memory.size() - 2].data(), memory.back().data(), tokens, width};
  }

  std::mt19937_64 random;
  std::vector<std::vector<float>> memory;
  std::vector<float> queries, out, mass;
  std::vector<KvRun> context, tail;
  std::vector<std::uint32_t> begin, end;
  AttendTask task;
};

// Each row and head distributes a weight of one, so the sum must be `rows` × heads. A weight has
// the relative error of its score, about 1e-6.
void check(const AttendVersion& version, std::uint32_t rows, std::uint32_t heads, std::uint32_t head_dim,
           const std::vector<std::uint32_t>& runs, std::uint32_t from) {
  CAPTURE(std::string(version.name));
  CAPTURE(rows);
  CAPTURE(from);
  const unsigned seed = rows * 7 + heads * 3 + head_dim;
  Case expected(rows, heads, head_dim, runs, seed), found(rows, heads, head_dim, runs, seed);
  expected.task.mass_from = found.task.mass_from = from;
  AttendScratch scratch;
  attend_reference(expected.task, scratch);
  version.run(found.task, scratch);
  double sum = 0, worst = 0;
  for (std::size_t k = 0; k < found.mass.size(); ++k) {
    sum += found.mass[k] - 0.5;
    worst = std::max<double>(worst, std::abs(found.mass[k] - expected.mass[k]));
  }
  const double paid = double(rows - std::min(rows, from)) * heads;
  CHECK(std::abs(sum - paid) < 1e-5 * (paid + found.mass.size()));
  CHECK(worst < 1e-5 * (1 + std::sqrt(paid)));
  double off = 0;
  for (std::size_t i = 0; i < found.out.size(); ++i)
    off = std::max<double>(off, std::abs(found.out[i] - expected.out[i]));
  CHECK(off < 1e-4);
}

TEST_CASE(
    "attend: attention mass agrees with the reference from the first counting row on, for every version") {
  for (const AttendVersion& version : attend_versions()) {
    if (!version.usable) continue;
    for (const std::uint32_t rows : {1u, 2u, 5u, 13u, 100u, 259u})
      for (const std::uint32_t from : {0u, 1u, rows / 2, rows - 1, rows}) {
        check(version, rows, 2, 32, {5, 40, 1}, from);
        check(version, rows, 3, 18, {}, from);
      }
  }
}

}  // namespace attend_mass_test
}  // namespace
