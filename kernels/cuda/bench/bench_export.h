#pragma once
// Exports the benchmark's work for peers, engines that are timed on the same: a folder with
// works.json, beside the models, which bench_torch.py reads. A work is one kernel call, a
// pass one run of a whole model.
#include <filesystem>
#include <vector>

#include "kernels/cuda/bench/bench_model.h"
#include "kernels/cuda/bench/bench_work.h"

namespace troupe::kernels::cuda {

struct ExportedPass {
  std::string model, name;  // name: of the pass's row in the table of results
  ModelPass pass;
  std::vector<std::vector<float>> logits;  // by readout: the logits that a peer must reproduce
};
// Writes works.json, which holds `seed` (of the benchmark's random numbers), the works that a peer
// can run and the passes with their expected logits. Throws std::runtime_error that names a file
// that cannot be written.
void export_works(const std::filesystem::path& folder, std::uint64_t seed,
                  const std::vector<BenchWork>& works, const std::vector<ExportedPass>& passes);

}  // namespace troupe::kernels::cuda
