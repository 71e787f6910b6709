// How near attention comes to the fused multiply-add peak, for every version this CPU can run. Figures are
// per second of thread CPU time, with the peak sampled right before and after each run, since a neighbour on
// the physical core can halve both. A version that disagrees with the reference on a smaller instance is not
// timed.
//   attend_bench [--json FILE] [--rounds N] [--only VERSION]
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/attend.h"

using namespace troupe::kernels;

namespace {

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// Multiply-adds of 12 independent chains, enough to cover latency 4 on 2 ports. Operations per second.
constexpr int kChains = 12, kSteps = 400000;
volatile float fma_sink;
#if defined(__x86_64__)
__attribute__((target("avx512f"))) double fma_rate_avx512() {
  __m512 sum[kChains], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (auto& s : sum) s = b;
  const double start = cpu_seconds();
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_fmadd_ps(sum[c], a, b);
  }
  const double seconds = cpu_seconds() - start;
  for (auto& s : sum) fma_sink = _mm512_cvtss_f32(s);
  return 2.0 * 16 * kChains * kSteps / seconds;
}
__attribute__((target("avx2,fma"))) double fma_rate_avx2() {
  __m256 sum[kChains], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (auto& s : sum) s = b;
  const double start = cpu_seconds();
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sum[c] = _mm256_fmadd_ps(sum[c], a, b);
  }
  const double seconds = cpu_seconds() - start;
  for (auto& s : sum) fma_sink = _mm256_cvtss_f32(s);
  return 2.0 * 8 * kChains * kSteps / seconds;
}
// The peak a version is held against: of its own instruction set, or AVX2's for those without fused
// multiply-add.
double fma_rate(std::string_view version) {
  if (version == "avx512") return fma_rate_avx512();
  return __builtin_cpu_supports("avx2") ? fma_rate_avx2() : NAN;
}
#else
double fma_rate(std::string_view) { return NAN; }  // not measured on this architecture
#endif

struct Shape {
  const char* name;
  std::uint32_t rows, segment, context, run, heads, head_dim;  // rows in causal segments of `segment` tokens
};

// The smaller instance on which a version must agree before `shape` is timed.
Shape smaller(Shape s) {
  s.rows = std::min(s.rows, 200u);  // more than one block of queries, as the timed ones have
  s.segment = std::min(s.segment, s.rows);
  s.context = std::min(s.context, 150u);
  return s;
}

struct Instance {
  explicit Instance(const Shape& s) : shape(s) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    const std::size_t d = s.head_dim, tokens = s.context + s.rows;
    for (auto* v : {&queries, &keys, &values}) {
      v->resize((v == &queries ? std::size_t{s.rows} * s.heads : tokens) * d);
      for (float& x : *v) x = normal(random);
    }
    out.resize(queries.size());
    for (std::uint32_t t = 0; t < s.context; t += s.run)
      context.push_back(run(t, std::min(s.run, s.context - t)));
    tail.push_back(run(s.context, s.rows));
    for (std::uint32_t r = 0; r < s.rows; ++r) {
      begin.push_back(r / s.segment * s.segment);
      end.push_back(r + 1);
      visible += s.context + end.back() - begin.back();
    }
    task = {queries.data(),          out.data(), s.heads * d, s.heads * d, s.rows, s.heads, s.head_dim,
            1 / std::sqrt(float(d)), context,    tail,        begin,       end};
  }
  KvRun run(std::size_t first, std::uint32_t tokens) const {
    const std::size_t at = first * shape.head_dim;
    return {keys.data() + at, values.data() + at, tokens, shape.head_dim};
  }
  double flops() const { return 4.0 * shape.head_dim * visible * shape.heads; }

  Shape shape;
  std::vector<float> queries, keys, values, out;
  std::vector<KvRun> context, tail;
  std::vector<std::uint32_t> begin, end;
  double visible = 0;
  AttendTask task;
};

bool agrees(const AttendVersion& version, const Shape& shape) {
  Instance got(smaller(shape)), want(smaller(shape));
  AttendScratch scratch;
  version.run(got.task, scratch);
  attend_reference(want.task, scratch);
  for (std::size_t i = 0; i < got.out.size(); ++i)
    if (!(std::abs(got.out[i] - want.out[i]) < 2e-5f)) return false;
  return true;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Result {
  double gflops, peak, share;
};
Result measure(const AttendVersion& version, const Shape& shape, int rounds) {
  Instance instance(shape);
  AttendScratch scratch;
  version.run(instance.task, scratch);
  std::vector<double> rates, peaks, shares;
  for (int round = 0; round < rounds; ++round) {
    const double before = fma_rate(version.name), start = cpu_seconds();
    version.run(instance.task, scratch);
    rates.push_back(instance.flops() / (cpu_seconds() - start) / 1e9);
    peaks.push_back((before + fma_rate(version.name)) / 2e9);
    shares.push_back(rates.back() / peaks.back());
  }
  return {median(rates), median(peaks), median(shares)};
}

constexpr Shape kShapes[] = {
    {"causal 1500, d=64", 1500, 1500, 0, 32, 1, 64},
    {"causal 1500, d=128", 1500, 1500, 0, 32, 1, 128},
    {"100 items x 10 on 1500, d=64", 1000, 10, 1500, 32, 1, 64},
    {"100 items x 10 on 1500, d=128", 1000, 10, 1500, 32, 1, 128},
    {"causal 8196, d=64", 8196, 8196, 0, 32, 1, 64},
    {"240 rows on 400 in runs of 4, d=32, 2 heads", 240, 240, 400, 4, 2, 32},
    {"1 row x 7 heads on 1500, d=64", 1, 1, 1500, 32, 7, 64},
    {"1 row x 1 head on 1500, d=64", 1, 1, 1500, 32, 1, 64},
};

}  // namespace
int main(int count, char** arguments) {
  std::string json_path, only;
  int rounds = 5;
  for (int i = 1; i < count; i += 2) {
    const std::string flag = arguments[i];
    if (i + 1 < count && flag == "--json") {
      json_path = arguments[i + 1];
    } else if (i + 1 < count && flag == "--rounds") {
      rounds = std::max(1, std::atoi(arguments[i + 1]));
    } else if (i + 1 < count && flag == "--only") {
      only = arguments[i + 1];
    } else {
      std::fprintf(stderr, "%s: expected --json FILE, --rounds N or --only VERSION\n", flag.c_str());
      return 2;
    }
  }
  std::string json;
  for (const Shape& shape : kShapes)
    for (const AttendVersion& version : attend_versions()) {
      const std::string name(version.name);
      if (!version.usable || name == "reference" || (!only.empty() && only != name)) continue;
      if (!agrees(version, shape)) {
        std::printf("%-46s %-8s DISAGREES with the reference: not timed\n", shape.name, name.c_str());
        return 1;
      }
      const Result r = measure(version, shape, rounds);
      std::printf("%-46s %-8s %7.1f GFLOP/s  peak %6.1f  share %4.1f %%\n", shape.name, name.c_str(),
                  r.gflops, r.peak, 100 * r.share);
      std::fflush(stdout);
      json += (json.empty() ? "" : ",\n") + std::string("  {\"case\": \"") + shape.name +
              "\", \"version\": \"" + name + "\", \"gflops\": " + std::to_string(r.gflops) +
              ", \"peak_gflops\": " + std::to_string(r.peak) + ", \"share\": " + std::to_string(r.share) +
              "}";
    }
  if (!json_path.empty()) std::ofstream(json_path) << "[\n" << json << "\n]\n";
}
