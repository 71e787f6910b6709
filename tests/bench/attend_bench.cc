// Measures how near attention comes to the fused multiply-add peak, for every version that this CPU can run.
// Figures are per second of thread CPU time. The peak is sampled right before and after each run, because a
// neighbour on the physical core can halve both. A version that disagrees with the reference on a smaller
// instance is not timed. The context is in pages, as in a pool. Comparing items in pages of a few tokens with
// one run of as many tokens shows the cost of short runs; the three formats show the cost of widening.
//   attend_bench [--json FILE] [--rounds N] [--only VERSION] [--kv FORMAT]
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/float_formats.h"
#include "kernels/base/thread_clock.h"
#include "kernels/cpu/products/fma_rate.h"
#include "kernels/operations/attend.h"

using namespace troupe::kernels;

namespace {

// Rows in causal segments of `segment` tokens, on `items` items of `item` tokens each in pages of `page`.
struct Shape {
  const char* name;
  std::uint32_t rows, segment, items, item, page, heads, head_dim;
  std::uint32_t layers = 1;  // layers of a page; more layers come from farther caches
};

// The smaller instance on which a version must agree before `shape` is timed.
Shape smaller(Shape s) {
  s.rows = std::min(s.rows, 200u);  // more than one block of queries, as in the timed instances
  s.segment = std::min(s.segment, s.rows);
  s.item = std::min(s.item, 150u);
  s.items = std::min(s.items, 150 / std::max(1u, s.item));
  s.layers = 1;
  return s;
}

struct Instance {
  Instance(const Shape& s, KvFormat format) : shape(s), format(format) {
    const std::size_t d = s.head_dim, page_values = 2 * d * s.page * s.layers;
    const std::uint32_t pages = s.items * ((s.item + s.page - 1) / s.page);
    numbers.resize((pages * page_values + 2 * d * s.rows) * value_bytes(format));
    queries.resize(std::size_t{s.rows} * s.heads * d);
    out.resize(queries.size());
    fill();
    for (std::uint32_t layer = 0; layer < s.layers; ++layer) {
      std::size_t page = 0;
      for (std::uint32_t i = 0; i < s.items; ++i)
        for (std::uint32_t t = 0; t < s.item; t += s.page, ++page)
          contexts[layer].push_back(
              run(page * page_values + 2 * d * s.page * layer, s.page, std::min(s.page, s.item - t)));
    }
    tail.push_back(run(pages * page_values, s.rows, s.rows));
    for (std::uint32_t r = 0; r < s.rows; ++r) {
      begin.push_back(r / s.segment * s.segment);
      end.push_back(r + 1);
      visible += s.items * s.item + end.back() - begin.back();
    }
    task = {queries.data(),          out.data(),  s.heads * d, s.heads * d, s.rows, s.heads, s.head_dim,
            1 / std::sqrt(float(d)), contexts[0], tail,        begin,       end};
  }
  Instance(const Instance&) = delete;

  void fill() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& x : queries) x = normal(random);
    for (std::size_t at = 0; at < numbers.size(); at += value_bytes(format)) {
      const float x = normal(random);
      const std::uint16_t narrow = format == KvFormat::f16 ? to_f16(x) : to_bf16(x);
      std::memcpy(&numbers[at], format == KvFormat::f32 ? static_cast<const void*>(&x) : &narrow,
                  value_bytes(format));
    }
  }
  // `tokens` keys from number `first` on, and as many values, `distance` tokens behind the keys.
  KvRun run(std::size_t first, std::size_t distance, std::uint32_t tokens) const {
    const std::byte* keys = numbers.data() + first * value_bytes(format);
    return {keys, keys + distance * shape.head_dim * value_bytes(format), tokens, shape.head_dim, format};
  }
  void attend(Attend* version, AttendScratch& scratch) {
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
      task.context = contexts[layer];
      version(task, scratch);
    }
  }
  double flops() const { return 4.0 * shape.head_dim * visible * shape.heads * shape.layers; }

  Shape shape;
  KvFormat format;
  std::vector<std::byte> numbers;
  std::vector<float> queries, out;
  std::vector<std::vector<KvRun>> contexts = std::vector<std::vector<KvRun>>(shape.layers);
  std::vector<KvRun> tail;
  std::vector<std::uint32_t> begin, end;
  double visible = 0;
  AttendTask task;
};

// The largest error against the reference on the smaller instance; infinite for NaN.
constexpr double error_max = 2e-5;
double worst_error(const AttendVersion& version, const Shape& shape, KvFormat format) {
  Instance got(smaller(shape), format), want(smaller(shape), format);
  AttendScratch scratch;
  version.run(got.task, scratch);
  attend_reference(want.task, scratch);
  double worst = 0;
  for (std::size_t i = 0; i < got.out.size(); ++i) {
    const double off = std::abs(double{got.out[i]} - double{want.out[i]});
    worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
  }
  return worst;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Result {
  double gflops, peak, share;
};
Result measure(const AttendVersion& version, const Shape& shape, KvFormat format, int rounds) {
  Instance instance(shape, format);
  AttendScratch scratch;
  instance.attend(version.run, scratch);
  const double first = thread_cpu_seconds();
  instance.attend(version.run, scratch);
  const int repeats =
      1 + static_cast<int>(1e-3 / (thread_cpu_seconds() - first + 1e-7));  // at least a millisecond
  std::vector<double> rates, peaks, shares;
  for (int round = 0; round < rounds; ++round) {
    const double before = fma_rate(version.name), start = thread_cpu_seconds();
    for (int i = 0; i < repeats; ++i) instance.attend(version.run, scratch);
    rates.push_back(repeats * instance.flops() / (thread_cpu_seconds() - start) / 1e9);
    peaks.push_back((before + fma_rate(version.name)) / 2e9);
    shares.push_back(rates.back() / peaks.back());
  }
  return {median(rates), median(peaks), median(shares)};
}

constexpr Shape kShapes[] = {
    {"causal 1500, d=64", 1500, 1500, 0, 0, 32, 1, 64},
    {"causal 1500, d=128", 1500, 1500, 0, 0, 32, 1, 128},
    {"100 items x 10 on 1500, d=64", 1000, 10, 1, 1500, 32, 1, 64},
    {"100 items x 10 on 1500, d=128", 1000, 10, 1, 1500, 32, 1, 128},
    {"causal 8196, d=64", 8196, 8196, 0, 0, 32, 1, 64},
    {"240 rows on 400 in pages of 4, d=32, 2 heads", 240, 240, 1, 400, 4, 2, 32},
    {"1 row x 7 heads on 1500, d=64", 1, 1, 1, 1500, 32, 7, 64},
    {"1 row x 1 head on 1500, d=64", 1, 1, 1, 1500, 32, 1, 64},
    // A level of a beam search: paths of two tokens on a prompt, in the shapes tiny and qwen05.
    {"256 beams on 1024 in pages of 4, d=64, 2 heads", 256, 2, 1, 1024, 4, 2, 64, 8},
    {"256 beams on 1024 in pages of 4, d=64, 7 heads", 256, 2, 1, 1024, 4, 7, 64, 8},
    {"128 beams on 1024 in pages of 4, d=64, 2 heads", 128, 2, 1, 1024, 4, 2, 64, 8},
    {"512 beams on 1024 in pages of 4, d=32, 2 heads", 512, 2, 1, 1024, 4, 2, 32, 8},
    // A user of 50 rows, then the one row that is read, on 100 items of 6 and of 14 tokens; 24 layers.
    {"50 rows on one run of 600, d=64, 2 heads", 50, 50, 1, 600, 600, 2, 64, 24},
    {"50 rows on 100 x 6 in pages of 4", 50, 50, 100, 6, 4, 2, 64, 24},
    {"50 rows on 100 x 6 in pages of 8", 50, 50, 100, 6, 8, 2, 64, 24},
    {"50 rows on one run of 1400, d=64, 2 heads", 50, 50, 1, 1400, 1400, 2, 64, 24},
    {"50 rows on 100 x 14 in pages of 4", 50, 50, 100, 14, 4, 2, 64, 24},
    {"50 rows on 100 x 14 in pages of 8", 50, 50, 100, 14, 8, 2, 64, 24},
    {"1 row on one run of 1400, d=64, 7 heads", 1, 1, 1, 1400, 1400, 7, 64, 24},
    {"1 row on 100 x 14 in pages of 4, 7 heads", 1, 1, 100, 14, 4, 7, 64, 24},
};

struct Options {
  std::string json, only, kv;
  int rounds = 5;
};

// Returns false, with a line on standard error, if an argument is invalid.
bool parse(int count, char** arguments, Options& options) {
  for (int i = 1; i < count; i += 2) {
    const std::string flag = arguments[i];
    std::string* text = flag == "--json"   ? &options.json
                        : flag == "--only" ? &options.only
                        : flag == "--kv"   ? &options.kv
                                           : nullptr;
    if (i + 1 == count || (!text && flag != "--rounds")) {
      std::fprintf(stderr, "%s: expected --json FILE, --rounds N, --only VERSION or --kv FORMAT\n",
                   flag.c_str());
      return false;
    }
    if (text)
      *text = arguments[i + 1];
    else
      options.rounds = std::max(1, std::atoi(arguments[i + 1]));
  }
  return true;
}

// Prints the figures of one case and returns them as JSON; empty if the version disagrees.
std::string report(const AttendVersion& version, const Shape& shape, KvFormat format, int rounds) {
  const std::string name(version.name), kv(format_name(format));
  const double error = worst_error(version, shape, format);
  if (error > error_max) {
    std::printf("%-46s %-8s %-4s DISAGREES with the reference: not timed\n", shape.name, name.c_str(),
                kv.c_str());
    return "";
  }
  const Result r = measure(version, shape, format, rounds);
  std::printf("%-46s %-8s %-4s %7.1f GFLOP/s  peak %6.1f  share %4.1f %%  error %.1e\n", shape.name,
              name.c_str(), kv.c_str(), r.gflops, r.peak, 100 * r.share, error);
  std::fflush(stdout);
  return std::string("  {\"case\": \"") + shape.name + "\", \"version\": \"" + name + "\", \"kv\": \"" + kv +
         "\", \"gflops\": " + std::to_string(r.gflops) + ", \"peak_gflops\": " + std::to_string(r.peak) +
         ", \"share\": " + std::to_string(r.share) + ", \"error\": " + std::to_string(1e6 * error) + "e-6}";
}

}  // namespace
int main(int count, char** arguments) {
  Options options;
  if (!parse(count, arguments, options)) return 2;
  std::string json;
  for (const Shape& shape : kShapes)
    for (const AttendVersion& version : attend_versions())
      for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::bf16}) {
        if (!version.usable || version.name == "reference") continue;
        if (!options.only.empty() && options.only != version.name) continue;
        if (!options.kv.empty() && options.kv != format_name(format)) continue;
        const std::string line = report(version, shape, format, options.rounds);
        if (line.empty()) return 1;
        json += (json.empty() ? "" : ",\n") + line;
      }
  if (!options.json.empty()) std::ofstream(options.json) << "[\n" << json << "\n]\n";
}
