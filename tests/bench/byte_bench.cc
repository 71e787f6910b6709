// Measures the versions of the int8 product against each other and against this CPU's rate of byte
// multiply-adds, on the layers of the shapes of `bench engine`.
//   byte_bench [--json FILE] [--rounds N] [--shape NAME] [--only VERSION,VERSION…] [--resident yes]
//              [--values yes]
// Figures are multiply-adds per second of the thread's CPU time, medians of the rounds. In each round every
// version runs in turn, and the rate is sampled before and after each run, because a neighbour on the
// physical core can halve both. A version takes the weights of all layers in turn, as a pass does, so large
// ones come from memory; with --resident one weight is multiplied again and again. With --values sums also
// become values, as in a layer. All versions multiply the same bytes, and a version whose sums differ from
// the plain version's is not timed. Ratios are to oneDNN where the build has it. Without --only, oneDNN and
// our best version run; the last line counts the cells in which the best of our versions is at least as
// fast.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/thread_clock.h"
#include "kernels/cpu/products/byte_product.h"
#include "kernels/cpu/products/fma_rate.h"

using namespace troupe::kernels;

namespace {

struct Layer {
  const char *shape, *name;
  std::uint32_t layers, rows, columns;  // layers of the model; rows and columns of the weight
};

constexpr Layer kLayers[] = {
    {"tiny", "qkv", 4, 512, 256},         {"tiny", "o", 4, 256, 256},
    {"tiny", "gate|up", 4, 2048, 256},    {"tiny", "down", 4, 256, 1024},
    {"small", "qkv", 12, 768, 512},       {"small", "o", 12, 512, 512},
    {"small", "gate|up", 12, 4096, 512},  {"small", "down", 12, 512, 2048},
    {"qwen05", "qkv", 24, 1152, 896},     {"qwen05", "o", 24, 896, 896},
    {"qwen05", "gate|up", 24, 9728, 896}, {"qwen05", "down", 24, 896, 4864},
};
constexpr std::size_t kInputRows[] = {1, 6, 16, 64, 256};  // a layer multiplies at most 256 rows at once
constexpr std::string_view kPeer = "onednn";

struct Options {
  std::string json, shape, only;
  int rounds = 5;
  bool resident = false, values = false;
};

// Returns the name of the first of our versions that this CPU can run.
std::string_view first_own() {
  for (const ByteProductVersion& version : byte_product_versions())
    if (version.usable && version.name != kPeer) return version.name;
  return "plain";
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

bool in_list(const std::string& list, std::string_view name) {
  return ("," + list + ",").find("," + std::string(name) + ",") != std::string::npos;
}

// The weights of one layer of the model and the inputs; bytes that every version can multiply exactly.
struct Inputs {
  Inputs(const Layer& layer, std::size_t m, std::int32_t limit) : in(m * layer.columns) {
    weight = {
        layer.rows, layer.columns, std::vector<std::int8_t>(std::size_t{layer.rows} * layer.columns), {}, {}};
    std::mt19937 random(1);
    for (std::int8_t& value : weight.values)
      value = static_cast<std::int8_t>(static_cast<int>(random() % (2 * limit + 1)) - limit);
    for (std::uint8_t& value : in) value = static_cast<std::uint8_t>(random());
    const std::size_t padded = layer.rows + byte_columns_padding;
    rows.assign(m, {0.01f, 128});
    scales.assign(padded, 0.01f);
    sums.assign(padded, 3);
    bias.assign(padded, 1.0f);
  }
  QuantizedMatrix weight;
  std::vector<std::uint8_t> in;
  std::vector<RowScale> rows;  // for values
  std::vector<float> scales, bias;
  std::vector<std::int32_t> sums;
};

// One version, packed for every layer of a model, and its rates.
class Contender {
 public:
  Contender(const ByteProductVersion& version, const Layer& layer, const Inputs& inputs, std::size_t m,
            const Options& options)
      : name(version.name), m_(m), values_(options.values), out_(m * layer.rows) {
    const std::size_t copies = options.resident ? 1 : layer.layers;
    for (std::size_t i = 0; i < copies; ++i) products_.push_back(version.pack(inputs.weight, memory_));
    multiply_adds_ = static_cast<double>(m) * layer.rows * layer.columns;
  }

  bool agrees(const Inputs& inputs, const std::vector<float>& expected) {
    products_[0]->run(inputs.in.data(), out_.data(), m_);
    return std::memcmp(out_.data(), expected.data(), out_.size() * sizeof(float)) == 0;
  }

  // Runs for at least two milliseconds, over all weights equally often.
  void measure(const Inputs& inputs) {
    const double rate = rate_of_bytes();
    const double start = thread_cpu_seconds();
    double seconds = 0;
    std::size_t runs = 0;
    do {
      for (const auto& product : products_) run(*product, inputs);
      runs += products_.size();
      seconds = thread_cpu_seconds() - start;
    } while (seconds < 2e-3);
    rates.push_back(static_cast<double>(runs) * multiply_adds_ / seconds);
    shares.push_back(rates.back() / ((rate + rate_of_bytes()) / 2));
  }

  std::string_view name;
  std::vector<double> rates, shares;

 private:
  static double rate_of_bytes() { return multiply_add_rates(1).of(WeightFormat::int8) / 2; }

  void run(const ByteProduct& product, const Inputs& inputs) {
    if (values_)
      product.run_values({inputs.in.data(), inputs.rows.data(), out_.data(), m_, false},
                         {inputs.scales.data(), inputs.sums.data(), inputs.bias.data()});
    else
      product.run(inputs.in.data(), out_.data(), m_);
  }

  std::size_t m_;
  bool values_;
  std::vector<float> out_;
  WeightMemory memory_;
  std::vector<std::unique_ptr<ByteProduct>> products_;
  double multiply_adds_ = 0;
};

struct Cells {
  std::string json;
  int cells = 0, as_fast = 0;
  double worst = INFINITY;
};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// Prints the figures of a cell; adds its JSON, and the ratio of our best version to the peer.
void report(const Layer& layer, std::size_t m, const std::vector<std::unique_ptr<Contender>>& contenders,
            Cells& cells) {
  const Contender* peer = nullptr;
  for (const auto& contender : contenders)
    if (contender->name == kPeer) peer = contender.get();
  double best = 0;
  for (const auto& contender : contenders) {
    std::vector<double> ratios;
    for (std::size_t i = 0; peer != nullptr && i < contender->shares.size(); ++i)
      ratios.push_back(contender->shares[i] / peer->shares[i]);
    const double ratio = peer != nullptr ? median(ratios) : NAN;
    if (contender.get() != peer) best = std::max(best, ratio);
    std::printf("%-7s %-8s %5u x %-5u %4zu rows  %-12s %7.1f G/s  %5.1f %% of the rate  %5.2f x %s\n",
                layer.shape, layer.name, layer.rows, layer.columns, m, std::string(contender->name).c_str(),
                median(contender->rates) / 1e9, 100 * median(contender->shares), ratio, kPeer.data());
    cells.json += (cells.json.empty() ? "" : ",\n") + std::string("  {\"shape\": \"") + layer.shape +
                  "\", \"layer\": \"" + layer.name + "\", \"rows\": " + std::to_string(m) +
                  ", \"version\": \"" + std::string(contender->name) +
                  "\", \"multiply_adds\": " + number(median(contender->rates)) +
                  ", \"share\": " + number(median(contender->shares)) +
                  (peer != nullptr ? ", \"times_onednn\": " + number(ratio) : "") + "}";
  }
  std::fflush(stdout);
  if (peer == nullptr || contenders.size() < 2) return;
  ++cells.cells;
  cells.as_fast += best >= 1;
  cells.worst = std::min(cells.worst, best);
}

// Returns false if a version's sums are wrong.
bool measure(const Layer& layer, std::size_t m, const std::vector<const ByteProductVersion*>& versions,
             const Options& options, Cells& cells) {
  std::int32_t limit = 127;
  for (const ByteProductVersion* version : versions) limit = std::min(limit, version->weight_limit());
  const Inputs inputs(layer, m, limit);
  WeightMemory memory(0);
  std::vector<float> expected(m * layer.rows);
  byte_product_versions().back().pack(inputs.weight, memory)->run(inputs.in.data(), expected.data(), m);
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const ByteProductVersion* version : versions) {
    contenders.push_back(std::make_unique<Contender>(*version, layer, inputs, m, options));
    if (!contenders.back()->agrees(inputs, expected)) {
      std::fprintf(stderr, "%s: its sums differ from the plain version's\n",
                   std::string(version->name).c_str());
      return false;
    }
  }
  for (int round = 0; round < options.rounds; ++round)
    for (std::size_t i = 0; i < contenders.size(); ++i)
      contenders[round % 2 == 0 ? i : contenders.size() - 1 - i]->measure(inputs);
  report(layer, m, contenders, cells);
  return true;
}

// Returns false, with a line on standard error, if an argument is invalid.
bool parse(int count, char** arguments, Options& options) {
  for (int i = 1; i < count; i += 2) {
    const std::string flag = arguments[i], value = i + 1 < count ? arguments[i + 1] : "";
    if (flag == "--json" && !value.empty()) {
      options.json = value;
    } else if (flag == "--shape" && !value.empty()) {
      options.shape = value;
    } else if (flag == "--only" && !value.empty()) {
      options.only = value;
    } else if (flag == "--rounds" && std::atoi(value.c_str()) > 0) {
      options.rounds = std::atoi(value.c_str());
    } else if ((flag == "--resident" || flag == "--values") && (value == "yes" || value == "no")) {
      (flag == "--values" ? options.values : options.resident) = value == "yes";
    } else {
      std::fprintf(stderr,
                   "%s %s: expected --json FILE, --rounds N (from 1), --shape NAME, --only VERSION,…, "
                   "--resident yes|no or --values yes|no\n",
                   flag.c_str(), value.c_str());
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (!parse(count, arguments, options)) return 2;
  std::vector<const ByteProductVersion*> versions;
  for (const ByteProductVersion& version : byte_product_versions()) {
    const bool wanted = options.only.empty() ? version.name == kPeer || version.name == first_own()
                                             : in_list(options.only, version.name);
    if (version.usable && wanted) versions.push_back(&version);
  }
  Cells cells;
  for (const Layer& layer : kLayers)
    for (const std::size_t m : kInputRows)
      if (options.shape.empty() || options.shape == layer.shape)
        if (!measure(layer, m, versions, options, cells)) return 1;
  if (cells.cells > 0)
    std::printf("ours is at least as fast as %s in %d of %d cells; the least ratio is %.3f\n", kPeer.data(),
                cells.as_fast, cells.cells, cells.worst);
  if (!options.json.empty()) std::ofstream(options.json) << "[\n" << cells.json << "\n]\n";
}
