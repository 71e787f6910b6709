// Measures what splitting work between cores costs and gains on this machine, and fits a cost model.
#include "kernels/cpu/engine/split_fit.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/base/check.h"
#include "kernels/cpu/engine/team.h"
#include "kernels/operations/attend.h"

namespace troupe::kernels {
namespace {

constexpr std::uint32_t regions_of_pass = 20;
constexpr double seconds_max = 0.1;  // of the measurement at the start of a process

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One region: `parts` parts, each the attention of rows on the same keys.
class Region {
 public:
  Region(std::uint32_t keys, std::uint32_t workers) : scratch_(workers) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    numbers_.resize(std::size_t{2} * keys * head_dim);
    for (float& x : numbers_) x = normal(random);
    queries_.resize(std::size_t{parts} * rows * head_dim);
    for (float& x : queries_) x = normal(random);
    out_.resize(queries_.size());
    runs_ = {{numbers_.data(), numbers_.data() + std::size_t{keys} * head_dim, keys, head_dim}};
    none_.assign(rows, 0);
    operations_ = 4.0 * parts * rows * keys * head_dim;
  }

  double operations() const { return operations_; }

  // Returns the seconds of one region, in a pass of several.
  double seconds(Team& team) {
    Team::Pass pass(team);
    const double begin = now_seconds();
    for (std::uint32_t region = 0; region < regions_of_pass; ++region)
      pass.run(parts, operations_,
               [this](std::size_t part, std::uint32_t worker) { run_part(part, scratch_[worker]); });
    return (now_seconds() - begin) / regions_of_pass;
  }

 private:
  static constexpr std::uint32_t parts = 8, rows = 12, head_dim = 64;

  void run_part(std::size_t part, AttendScratch& scratch) {
    AttendTask task;
    task.queries = queries_.data() + part * rows * head_dim;
    task.out = out_.data() + part * rows * head_dim;
    task.query_stride = task.out_stride = head_dim;
    task.rows = rows;
    task.heads = 1;
    task.head_dim = head_dim;
    task.scale = 0.125f;
    task.context = runs_;
    task.tail_begin = task.tail_end = none_;
    attend(task, scratch);
  }

  std::vector<float> numbers_, queries_, out_;
  std::vector<AttendScratch> scratch_;
  std::vector<KvRun> runs_;
  std::vector<std::uint32_t> none_;
  double operations_ = 0;
};

// Fits c and s of seconds = c + s × operations, by least squares of relative errors.
struct Line {
  double at_once = 0, each = 0;
};
Line line_of(std::span<const SplitPoint> points, double SplitPoint::*seconds) {
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
  for (const SplitPoint& p : points) {
    const double one = 1 / (p.*seconds), two = p.operations / (p.*seconds);
    aa += one * one, ab += one * two, bb += two * two, a += one, b += two;
  }
  const double determinant = aa * bb - ab * ab;
  return {(a * bb - b * ab) / determinant, (aa * b - ab * a) / determinant};
}

}  // namespace

double SplitFit::worth_splitting(std::uint32_t workers) const {
  if (!(rate > 0) || !(share > 0)) return std::numeric_limits<double>::infinity();
  return std::max(meet * rate / (1 - 1 / (1 + share * (workers - 1))), least);
}

std::vector<SplitPoint> measure_split(std::uint32_t workers, std::span<const std::uint32_t> keys, int rounds,
                                      double seconds_max) {
  TROUPE_CHECK(workers > 1, "split fit: expected at least two cores");
  constexpr double never = std::numeric_limits<double>::infinity();
  Team alone(workers, {}, never), together(workers, {}, 0);
  std::vector<SplitPoint> points;
  const double begin = now_seconds();
  for (const std::uint32_t count : keys) {
    Region region(count, workers);
    SplitPoint point{region.operations(), never, never};
    for (int round = 0; round < rounds; ++round) {
      if (now_seconds() - begin > seconds_max) return {};
      point.alone = std::min(point.alone, region.seconds(alone));
      point.split = std::min(point.split, region.seconds(together));
    }
    points.push_back(point);
  }
  return points;
}

SplitFit fit_split(std::span<const SplitPoint> points, std::uint32_t workers) {
  TROUPE_CHECK(points.size() > 1 && workers > 1, "split fit: expected two sizes and two cores");
  const Line alone = line_of(points, &SplitPoint::alone), split = line_of(points, &SplitPoint::split);
  return {1 / alone.each, alone.at_once, std::max(split.at_once - alone.at_once, 0.0),
          (alone.each / split.each - 1) / (workers - 1), points.front().operations};
}

double fitted_split() {
  static const double fitted = [] {
    constexpr std::uint32_t keys[] = {4, 16, 40, 100}, workers = 2;
    const std::vector<SplitPoint> points = measure_split(workers, keys, 12, seconds_max);
    if (points.empty()) return split_bounds.most;
    const double worth = fit_split(points, workers).worth_splitting(workers);
    return std::isnan(worth) ? split_bounds.most : std::clamp(worth, split_bounds.least, split_bounds.most);
  }();
  return fitted;
}

}  // namespace troupe::kernels
