#pragma once
// Embedding tables of a checkpoint of NVIDIA's recsys-examples, written in the form that a served model
// has: one row for each item, action or value of a contextual feature.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "deploy/convert/model_builder.h"
#include "deploy/convert/nvidia_data.h"

namespace troupe::deploy {

class NvidiaTables {
 public:
  // `folder` is the checkpoint's. All throw kernels::LoadError.
  NvidiaTables(ModelBuilder& builder, const NvidiaData& data, std::filesystem::path folder);

  // Write a table, each row through the perceptron `mlp` of the preprocessor ("_item_mlp"), if it is not
  // empty. `columns` is the table's width, `hidden` the written one's. Row 0 of items is zero and stands
  // for no item. `write_values` returns the number of rows.
  void write_items(std::uint64_t columns, std::uint64_t hidden, const std::string& mlp);
  std::uint64_t write_values(const std::string& feature, const std::string& to, std::uint64_t columns,
                             std::uint64_t hidden, const std::string& mlp);
  // Leaves out tables that no token of the sequence reads, and what stands for dynamic tables.
  void drop_others();

 private:
  struct Rows {
    std::vector<std::int64_t> keys;  // of a dynamic table; empty: row i is key i
    std::vector<float> values;
    std::uint64_t count = 0;
  };

  Rows read_rows(const NvidiaTable& table, std::uint64_t columns);
  Rows read_flat(const NvidiaTable& table, std::uint64_t columns);
  std::vector<float> through(std::vector<float> rows, std::uint64_t columns, std::uint64_t hidden,
                             const std::string& mlp);
  Rows dense(const NvidiaTable& table, const Rows& rows, std::uint64_t columns) const;

  ModelBuilder& builder_;
  const NvidiaData& data_;
  std::filesystem::path folder_;
  std::map<std::string, std::vector<float>> flat_;  // parameters with several tables, once they were read
};

}  // namespace troupe::deploy
