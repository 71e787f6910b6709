#pragma once
// Exports the benchmark's work for peers: a folder with works.json and the models, which
// bench_torch.py reads.
#include <filesystem>
#include <vector>

#include "kernels/cuda/bench/bench_model.h"
#include "kernels/cuda/bench/bench_work.h"

namespace troupe::kernels::cuda {

struct ExportedPass {
  std::string model, name;  // name: of its row
  ModelPass pass;
  std::vector<std::vector<float>> logits;  // by readout: the logits that a peer must reproduce
};
// Throws std::runtime_error with the file's name.
void export_works(const std::filesystem::path& folder, std::uint64_t seed,
                  const std::vector<BenchWork>& works, const std::vector<ExportedPass>& passes);

}  // namespace troupe::kernels::cuda
