// Fetches rows of an embedding table from a mapped safetensors file, and hashes a table for the
// model's version. So a table may be larger than memory.
#include "kernels/checkpoint/embedding_table.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::kernels {
namespace {

const StoredTensor& table_in(const SafetensorsFile& file, const std::string& name, std::uint32_t rows,
                             std::uint32_t columns) {
  const std::uint64_t shape[] = {rows, columns};
  const auto stored = file.tensors().find(name);
  if (stored == file.tensors().end())
    throw_load_error(file.path(), "tensor " + in_quotes(name) + " is missing", "shape " + shape_text(shape));
  const StoredTensor& tensor = stored->second;
  if (tensor.shape != std::vector<std::uint64_t>{rows, columns})
    throw_load_error(file.path(), "tensor " + in_quotes(name) + " has shape " + shape_text(tensor.shape),
                     shape_text(shape));
  if (tensor.dtype != "F32" && tensor.dtype != "F16" && tensor.dtype != "BF16")
    throw_load_error(file.path(), "tensor " + in_quotes(name) + " has dtype " + tensor.dtype,
                     "F32, F16 or BF16");
  return tensor;
}

}  // namespace

MappedTable::MappedTable(std::shared_ptr<const SafetensorsFile> file, const std::string& name,
                         std::uint32_t rows, std::uint32_t columns)
    : file_(std::move(file)),
      tensor_(table_in(*file_, name, rows, columns)),
      name_(name),
      rows_(rows),
      columns_(columns) {}

void MappedTable::fetch(std::span<const Token> rows, float* out) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TROUPE_CHECK(rows[i] >= 0 && static_cast<std::uint32_t>(rows[i]) < rows_,
                 "embedding table: expected a row inside the table");
    const std::span<float> row(out + i * columns_, columns_);
    if (!file_->read(tensor_, static_cast<std::uint64_t>(rows[i]) * columns_, row))
      throw_load_error(
          file_->path(),
          "tensor " + in_quotes(name_) + " holds infinity or NaN in row " + std::to_string(rows[i]),
          "finite values");
  }
}

void hash_rows(EmbeddingTable& table, VersionHash& hash) {
  constexpr std::uint32_t rows_at_once = 256;
  std::vector<float> values(std::size_t{rows_at_once} * table.columns());
  std::vector<Token> rows;
  hash.begin_part(std::uint64_t{table.rows()} * table.columns() * sizeof(float));
  for (std::uint32_t first = 0; first < table.rows(); first += static_cast<std::uint32_t>(rows.size())) {
    rows.resize(std::min(rows_at_once, table.rows() - first));
    std::iota(rows.begin(), rows.end(), static_cast<Token>(first));
    table.fetch(rows, values.data());
    hash.add(std::as_bytes(std::span(values).first(rows.size() * table.columns())));
  }
}

void hash_sampled_rows(EmbeddingTable& table, VersionHash& hash) {
  if (table.rows() <= sampled_rows) return hash_rows(table, hash);
  hash.part("sampled " + std::to_string(table.rows()));
  std::vector<float> values(table.columns());
  for (std::uint64_t part = 0; part < sampled_rows; ++part) {
    const std::uint64_t first = part * table.rows() / sampled_rows,
                        end = (part + 1) * table.rows() / sampled_rows;
    const Token row[] = {static_cast<Token>(first + part * 2'654'435'761 % (end - first))};
    table.fetch(row, values.data());
    hash.part(std::as_bytes(std::span(values)));
  }
}

}  // namespace troupe::kernels
