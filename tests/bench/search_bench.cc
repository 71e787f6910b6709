// Measures a level of a beam search without its logits: the heap with early termination (select_best)
// against a full sort of all continuations, on the same logits; then whole searches without the logits.
// Figures are CPU microseconds of one thread, the minimum of a few alternating rounds. A selection that
// disagrees is not timed.
//   search_bench [--rounds N]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "kernels/base/thread_clock.h"
#include "kernels/search/beam_search.h"

using namespace troupe::kernels;

namespace {

struct Shape {
  const char* name;
  std::uint32_t beams, children, width;
};

constexpr Shape kShapes[] = {
    {"the first token, 1 beam x 8192", 1, 8192, 512},
    {"the second, 512 beams x 256", 512, 256, 512},
    {"the last, 512 beams x 8", 512, 8, 512},
    {"128 beams x 256", 128, 256, 128},
    {"512 beams x 8192, unconstrained", 512, 8192, 512},
    {"512 beams x 32768, unconstrained", 512, 32768, 512},
};

// Beams as the level before leaves them, and random logits.
struct Level {
  explicit Level(const Shape& shape) : logits(std::size_t{shape.beams} * shape.children) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 3);
    for (float& logit : logits) logit = normal(random);
    for (std::uint32_t place = 0; place < shape.beams; ++place) {
      const std::span<const float> row(&logits[std::size_t{place} * shape.children], shape.children);
      const double value = shape.beams == 1 ? 0 : -1 - 0.5 * std::abs(normal(random));
      beams.push_back({value, log_sum_exp(row), place, row, {}});
    }
    std::sort(beams.begin(), beams.end(), [](auto& a, auto& b) { return a.value > b.value; });
  }

  std::vector<float> logits;
  std::vector<Extensions> beams;
};

double seconds_of(SelectBest* select, const Level& level, std::uint32_t width, std::vector<Candidate>& kept) {
  const double start = thread_cpu_seconds();
  kept.clear();
  if (!select(level.beams, width, kept)) std::exit(1);
  return thread_cpu_seconds() - start;
}

// Returns false if the selections disagree.
bool report(const Shape& shape, int rounds) {
  const Level level(shape);
  std::vector<Candidate> ours, sorted;
  double best = 1e9, full = 1e9;
  for (int round = 0; round <= rounds; ++round) {
    for (int again = 0; again < 5; ++again)
      best = std::min(best, seconds_of(select_best, level, shape.width, ours));
    full = std::min(full, seconds_of(select_by_full_sort, level, shape.width, sorted));
    std::sort(ours.begin(), ours.end(), better);
    if (ours != sorted) {
      std::printf("%-36s DISAGREES: not timed\n", shape.name);
      return false;
    }
  }
  std::printf("%-36s %10.1f us   full sort %12.1f us   %7.1f times\n", shape.name, 1e6 * best, 1e6 * full,
              full / best);
  return true;
}

// Searches a catalog of random identifiers of three tokens on given logits, which all rows share.
void report_search(std::uint32_t width, std::uint32_t codes, std::size_t items, std::uint32_t denied,
                   int rounds) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 3);
  std::vector<std::vector<Token>> paths(items, std::vector<Token>(3));
  for (auto& path : paths)
    for (Token& token : path) token = static_cast<Token>(random() % codes);
  const std::vector<std::span<const Token>> runs(paths.begin(), paths.end());
  const auto index = std::make_shared<const PathIndex>(runs);
  std::vector<float> logits(codes);
  for (float& logit : logits) logit = normal(random);
  const std::vector<double> totals(width, log_sum_exp(logits));
  const std::vector<const float*> rows(width, logits.data());
  Search what{0, width, width};
  for (std::uint32_t i = 0; i < denied; ++i) what.denied.push_back(paths[i]);
  BeamSearch search;
  std::vector<Beam> found;
  double best = 1e9;
  for (int round = 0; round < 10 * rounds; ++round) {
    const double start = thread_cpu_seconds();
    search.begin(what, index, codes);
    while (!search.done())
      if (!search.advance({totals.data(), search.rows()}, {rows.data(), search.rows()})) std::exit(1);
    search.finish(found);
    best = std::min(best, thread_cpu_seconds() - start);
  }
  std::printf("a search: width %3u, %7zu items of 3 x %u codes, %4u denied: %8.1f us, %zu found\n", width,
              items, codes, denied, 1e6 * best, found.size());
}

}  // namespace

int main(int count, char** arguments) {
  int rounds = 5;
  if (count == 3 && std::strcmp(arguments[1], "--rounds") == 0) rounds = std::max(1, std::atoi(arguments[2]));
  for (const Shape& shape : kShapes)
    if (!report(shape, rounds)) return 1;
  for (const std::uint32_t denied : {0u, 1000u})
    for (const std::uint32_t width : {128u, 512u}) report_search(width, 8192, 1'000'000, denied, rounds);
}
