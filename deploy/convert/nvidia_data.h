#pragma once
// Embedding tables and features of NVIDIA's recsys-examples (github.com/NVIDIA/recsys-examples at
// 43465aea, examples/hstu), which are in no checkpoint: in the gin file, or, for its own data sets, in
// training/trainer/utils.py and commons/hstu_data_preprocessor.py.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/convert/gin_file.h"

namespace troupe::deploy {

struct NvidiaTable {
  std::string name;
  std::vector<std::string> features;
  std::uint64_t rows = 0;  // of a dynamic table: its capacity, which does not count
  bool dynamic = false;    // rows are found by key, and lie in files of their own
};

struct NvidiaData {
  std::string item;                   // feature
  std::optional<std::string> action;  // feature; none: no action tokens
  std::vector<std::string> contexts;  // features, in the order of their tokens
  std::vector<NvidiaTable> tables;
  std::uint64_t events_max = 0, candidates_max = 0;

  // Throws kernels::LoadError with `file` if no table has the feature.
  const NvidiaTable& table_of(std::string_view feature, const std::filesystem::path& file) const;
};

// Reads DatasetArgs or BenchmarkDatasetArgs. Throws kernels::LoadError.
NvidiaData read_nvidia_data(GinReader& settings);

// Rows of a dynamic table: keys in rising order, and the rows in the order of the keys.
struct DynamicTable {
  std::vector<std::int64_t> keys;
  std::vector<float> rows;
};
// Reads NAME_emb_keys.rank_R.world_size_W (int64) and NAME_emb_values.… (float32) of all ranks below
// `folder`. Throws kernels::LoadError.
DynamicTable read_dynamic_table(const std::filesystem::path& folder, const std::string& name,
                                std::uint64_t columns);

}  // namespace troupe::deploy
