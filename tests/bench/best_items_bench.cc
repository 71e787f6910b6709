// Measures how fast the best items of a whole table are found, beside the rate at which the same cores
// copy the same table, sampled right before and after each search. The floor of a search is the table's
// bytes at the rate of memory, and a copy also writes them, so the ratio can exceed 1.
//   best_items_bench [--json FILE] [--rounds N] [--items N] [--columns N] [--batch N] [--top N] [--cores N]
//   [--least R] [--narrow 1]
// --narrow 1 scans the table in bf16, as searches under bf16 weights do. Prints the medians of all rounds;
// fails if the ratio is below --least.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/engine/item_search.h"

using namespace troupe::kernels;

namespace {

struct ItemsBench {
  std::size_t items = 1'000'000, columns = 64, batch = 1, top = 100, rounds = 9;
  std::uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  double least = 0;
  std::size_t narrow = 0;  // 1: scan the table in bf16
  std::string json;
};

// Values from -1 to 1 that depend on their index.
std::vector<float> values_of(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(seed >> 40) * 0x1p-23f - 1;
  }
  return values;
}

double seconds_of(const auto& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// A table, a copy of it, and a batch of searches without a catalog.
class ItemsRun {
 public:
  explicit ItemsRun(const ItemsBench& bench)
      : bench_(bench),
        team_(bench.cores, {}, 0),
        items_{static_cast<std::uint32_t>(bench.items + 1), static_cast<std::uint32_t>(bench.columns),
               values_of((bench.items + 1) * bench.columns, 1)},
        factors_(bench.items + 1, 1.0f),
        copy_(items_.values.size()) {
    plan_.segments.push_back({.tokens = {1}});
    plan_.search = {.width = static_cast<std::uint32_t>(bench.top),
                    .results = static_cast<std::uint32_t>(bench.top),
                    .steps = 1};
    requests_.assign(bench.batch, {&plan_, {{}}});
  }

  double copy_seconds() {
    return seconds_of([&] {
      Team::Pass pass(team_);
      const std::size_t parts = 4 * bench_.cores, all = items_.values.size();
      pass.run(parts, 1e12, [&](std::size_t part, std::uint32_t) {
        const std::size_t begin = all * part / parts, end = all * (part + 1) / parts;
        std::memcpy(&copy_[begin], &items_.values[begin], (end - begin) * sizeof(float));
      });
    });
  }

  double search_seconds() {
    search_.begin(requests_);
    replies_.assign(bench_.batch, {});
    for (std::size_t i = 0; i < bench_.batch; ++i) replies_[i].readouts = {values_of(bench_.columns, 2 + i)};
    return seconds_of([&] {
      search_.finish(
          replies_,
          {items_, factors_, [](std::vector<float>&) {},
           narrow_items(narrow_, items_, factors_, bench_.narrow > 0 ? WeightFormat::bf16 : WeightFormat::f32,
                        product_version().panel_width)},
          team_);
    });
  }
  double table_bytes() const { return static_cast<double>(items_.values.size() * sizeof(float)); }

 private:
  const ItemsBench bench_;
  Team team_;
  const Matrix items_;
  const std::vector<float> factors_;
  std::vector<float> copy_;
  NarrowItems narrow_;
  Plan plan_;
  std::vector<Request> requests_;
  std::vector<Reply> replies_;
  ItemSearch search_;
};

nlohmann::json run_bench(const ItemsBench& bench) {
  ItemsRun run(bench);
  run.copy_seconds();
  run.search_seconds();  // sizes the buffers
  std::vector<double> ratios, searches, copies;
  for (std::size_t round = 0; round < bench.rounds; ++round) {
    const double before = run.copy_seconds(), search = run.search_seconds(), after = run.copy_seconds();
    copies.push_back((before + after) / 2);
    searches.push_back(search);
    ratios.push_back(copies.back() / search);
  }
  return {{"items", bench.items},
          {"columns", bench.columns},
          {"batch", bench.batch},
          {"top", bench.top},
          {"cores", bench.cores},
          {"narrow", bench.narrow > 0},
          {"search_ms", 1e3 * median(searches)},
          {"table_gb_per_s", run.table_bytes() / median(searches) * 1e-9},
          {"copy_gb_per_s", run.table_bytes() / median(copies) * 1e-9},
          {"ratio", median(ratios)}};
}

bool read_option(const std::string& name, const char* value, ItemsBench& bench) {
  const auto count = [&](std::size_t& to) { return (to = std::strtoull(value, nullptr, 10)) > 0; };
  if (name == "--json") return bench.json = value, true;
  if (name == "--rounds") return count(bench.rounds);
  if (name == "--items") return count(bench.items);
  if (name == "--columns") return count(bench.columns);
  if (name == "--batch") return count(bench.batch);
  if (name == "--top") return count(bench.top);
  if (name == "--narrow") return count(bench.narrow);
  if (name == "--least") return (bench.least = std::strtod(value, nullptr)) > 0;
  if (name == "--cores") return (bench.cores = static_cast<std::uint32_t>(std::atoi(value))) > 0;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  ItemsBench bench;
  for (int i = 1; i < argc; i += 2)
    if (i + 1 == argc || !read_option(argv[i], argv[i + 1], bench)) {
      std::fprintf(stderr,
                   "best_items_bench: %s; expected an option of those at the top of its source, and a "
                   "value above 0\n",
                   argv[i]);
      return 2;
    }
  const nlohmann::json result = run_bench(bench);
  std::printf("%s\n", result.dump(1).c_str());
  if (!bench.json.empty()) std::ofstream(bench.json) << result.dump(1) << "\n";
  return result["ratio"].get<double>() >= bench.least ? 0 : 1;
}
