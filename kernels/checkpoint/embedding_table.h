#pragma once
// An embedding table that need not be in memory: who computes with it asks for the rows of a pass, which come
// from a file that is mapped, from what generates them, or from whatever stands before one of those (a cache,
// a slow link). Its rows are those that the whole table in memory would have, to the bit.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/base/tokens.h"
#include "kernels/checkpoint/safetensors.h"
#include "kernels/checkpoint/version_hash.h"

namespace troupe::kernels {

class EmbeddingTable {
 public:
  virtual ~EmbeddingTable() = default;
  virtual std::uint32_t rows() const = 0;
  virtual std::uint32_t columns() const = 0;
  // out[i][c] is row rows[i]; rows are inside the table, and may be named several times. Thread-safe. What
  // throws is an error of where the rows are; `out` is worth nothing then.
  virtual void fetch(std::span<const Token> rows, float* out) = 0;
};

// A matrix of a safetensors file, in F32, F16 or BF16. The file stays mapped, and is not read ahead of what
// is asked for.
class MappedTable final : public EmbeddingTable {
 public:
  // Throws LoadError where there is no such tensor of this shape.
  MappedTable(std::shared_ptr<const SafetensorsFile> file, const std::string& name, std::uint32_t rows,
              std::uint32_t columns);
  std::uint32_t rows() const override { return rows_; }
  std::uint32_t columns() const override { return columns_; }
  void fetch(std::span<const Token> rows, float* out) override;

 private:
  const std::shared_ptr<const SafetensorsFile> file_;
  const StoredTensor& tensor_;
  const std::string name_;
  const std::uint32_t rows_, columns_;
};

// Whether a model's item embedding, which may be larger than all else together, is read into memory or stays
// where it is.
enum class ItemRows : std::uint8_t { in_memory, apart };

// All rows in order, as one part: what the whole matrix in memory adds. Reads the table once.
void hash_rows(EmbeddingTable& table, VersionHash& hash);
// Of a table of more than sampled_rows, only so many rows, one from each of as many equal parts: what a table
// that is larger than memory adds. Another table of the same size whose sampled rows are the same is taken
// for this one.
inline constexpr std::uint32_t sampled_rows = 2'048;
void hash_sampled_rows(EmbeddingTable& table, VersionHash& hash);

}  // namespace troupe::kernels
