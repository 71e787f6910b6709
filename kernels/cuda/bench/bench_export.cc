// Writes the benchmark's work to works.json, so that bench_torch.py can time PyTorch on the same
// work and compare logits.
#include "kernels/cuda/bench/bench_export.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace troupe::kernels::cuda {
namespace {

constexpr std::size_t logits_compared = 64;  // per readout

nlohmann::ordered_json pass_json(const ExportedPass& exported) {
  nlohmann::ordered_json json{{"name", exported.name}, {"model", exported.model}};
  const std::size_t first = exported.pass.cached ? 1 : 0;
  const std::vector<Segment>& segments = exported.pass.plan.segments;
  json["history"] = exported.pass.cached ? segments[0].tokens : std::vector<Token>();
  json["start"] = segments[first].start;
  for (std::size_t s = first; s < segments.size(); ++s) json["segments"].push_back(segments[s].tokens);
  json["rows"] = exported.pass.plan.readouts[0].rows.size();  // vocabulary rows 0, 1, … of each last token
  for (const std::vector<float>& logits : exported.logits)
    json["logits"].push_back(std::vector<float>(
        logits.begin(), logits.begin() + std::ptrdiff_t(std::min(logits.size(), logits_compared))));
  return json;
}

}  // namespace

void export_works(const std::filesystem::path& folder, std::uint64_t seed,
                  const std::vector<BenchWork>& works, const std::vector<ExportedPass>& passes) {
  nlohmann::ordered_json json{{"seed", seed}, {"works", nlohmann::ordered_json::array()}};
  for (const BenchWork& work : works)
    if (!work.peer.kind.empty())
      json["works"].push_back(
          {{"name", work.name()}, {"kind", work.peer.kind}, {"numbers", work.peer.numbers}});
  json["passes"] = nlohmann::ordered_json::array();
  for (const ExportedPass& pass : passes) json["passes"].push_back(pass_json(pass));
  std::filesystem::create_directories(folder);
  std::ofstream out(folder / "works.json");
  out << json.dump(1) << "\n";
  out.close();
  if (!out) throw std::runtime_error((folder / "works.json").string() + ": cannot be written");
}

}  // namespace troupe::kernels::cuda
