// Compares the figures of a simulated run with those of a measured run, and lists the figures whose
// error exceeds its bound.
#include "deploy/lab/what_if/comparison.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

constexpr double share_least = 0.05;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }
double hit_share(std::uint64_t part, std::uint64_t rest) {
  return ratio(static_cast<double>(part), static_cast<double>(part + rest));
}

struct FigureKind {
  const char* name;
  double (*of)(const BenchRankRun&);
  bool is_share;
};
constexpr FigureKind figure_kinds[] = {
    {"throughput", [](const BenchRankRun& r) { return r.qps; }, false},
    {"cpu_seconds", [](const BenchRankRun& r) { return r.cpu_seconds; }, false},
    {"p50_ms", [](const BenchRankRun& r) { return r.p50_ms; }, false},
    {"p99_ms", [](const BenchRankRun& r) { return r.p99_ms; }, false},
    {"tokens_total", [](const BenchRankRun& r) { return static_cast<double>(r.tokens_total); }, false},
    {"tokens_computed", [](const BenchRankRun& r) { return static_cast<double>(r.tokens_computed); }, false},
    {"hit_rate", [](const BenchRankRun& r) { return r.hit_rate; }, true},
    {"user_plans",
     [](const BenchRankRun& r) {
       return ratio(static_cast<double>(r.plans_user), static_cast<double>(r.requests));
     },
     true},
    {"user_hits", [](const BenchRankRun& r) { return hit_share(r.user_blocks_hit, r.user_blocks_computed); },
     true},
    {"item_hits", [](const BenchRankRun& r) { return hit_share(r.item_blocks_hit, r.item_blocks_computed); },
     true}};

std::string known_figures() {
  std::string names;
  for (const FigureKind& kind : figure_kinds) names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

}  // namespace

BenchRankRun as_bench_run(const sim::DeploymentResult& result, const std::string& policy,
                          const placement::HostWork& host) {
  BenchRankRun run;
  run.policy = policy;
  run.requests = result.requests;
  run.errors = result.errors;
  run.seconds = result.seconds;
  run.qps = ratio(static_cast<double>(result.requests), result.seconds);
  run.p50_ms = result.p50_ms;
  run.p99_ms = result.p99_ms;
  run.tokens_total = result.tokens_total;
  run.tokens_computed = result.tokens_computed;
  run.tokens_reused = result.tokens_reused;
  run.plans_user = result.plans_user;
  run.plans_item = result.answered - std::min(result.answered, result.plans_user);
  run.user_blocks_hit = result.user_blocks_hit;
  run.user_blocks_computed = result.user_blocks_computed;
  run.item_blocks_hit = result.item_blocks_hit;
  run.item_blocks_computed = result.item_blocks_computed;
  run.hit_rate = ratio(static_cast<double>(run.tokens_reused), static_cast<double>(run.tokens_total));
  run.profile.push_back({"kernels", result.kernels_s});
  for (std::size_t component = 0; component < result.host_us.size(); ++component) {
    const std::string name(name_of(static_cast<placement::HostComponent>(component)));
    if (name == run.profile.front().component)
      run.profile.front().seconds += result.host_us[component] * 1e-6;
    else
      run.profile.push_back({name, result.host_us[component] * 1e-6});
  }
  run.profile.back().seconds += host.idle_share * result.seconds;  // "rest" includes the idle work
  run.cpu_seconds = std::accumulate(run.profile.begin(), run.profile.end(), 0.0,
                                    [](double sum, const CpuShare& share) { return sum + share.seconds; });
  return run;
}

std::vector<ComparedFigure> compare(const BenchRankRun& measured, const BenchRankRun& predicted) {
  std::vector<ComparedFigure> figures;
  for (const FigureKind& kind : figure_kinds) {
    const double is = kind.of(measured), predicted_value = kind.of(predicted);
    const double of = kind.is_share ? std::max(is, share_least) : is;
    figures.push_back({kind.name, is, predicted_value,
                       of > 0                ? (predicted_value - is) / of
                       : predicted_value > 0 ? INFINITY
                                             : 0});
  }
  return figures;
}

ErrorBounds parse_bounds(const std::vector<std::string>& texts) {
  ErrorBounds bounds;
  for (const std::string& text : texts) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string name = text.substr(0, equals);
    const bool known =
        std::ranges::any_of(figure_kinds, [&](const FigureKind& kind) { return name == kind.name; });
    double most = -1;
    const char* const end = text.data() + text.size();
    const char* const begin = text.data() + std::min(equals + 1, text.size());
    const auto [stopped, error] = std::from_chars(begin, end, most);
    if (!known || error != std::errc() || stopped != end || !(most >= 0))
      throw std::invalid_argument("--bound is \"" + text.substr(0, 60) +
                                  "\"; expected FIGURE=SHARE with one of the figures " + known_figures());
    bounds[name] = most;
  }
  return bounds;
}

std::vector<std::string> exceeded_bounds(const std::vector<ComparedFigure>& figures,
                                         const ErrorBounds& bounds) {
  std::vector<std::string> faults;
  for (const ComparedFigure& figure : figures) {
    const auto bound = bounds.find(figure.name);
    if (bound == bounds.end() || std::fabs(figure.error) <= bound->second + 1e-12) continue;
    faults.push_back(figure.name + " is " + fixed(100 * figure.error, 1) + " % off; expected at most " +
                     fixed(100 * bound->second, 1) + " %");
  }
  return faults;
}

}  // namespace troupe::deploy
