#pragma once
// An embedding table that need not be in memory: a pass fetches the rows that it needs. They come
// from a mapped file, from a generator, or through something in front of those (a cache, a slow
// link). Rows are bit-equal to those of the whole table in memory.
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
  // Sets out[i][c] to row rows[i]. Rows must be inside the table and may repeat. Thread-safe.
  // Throws the errors of the rows' source; `out` is undefined then.
  virtual void fetch(std::span<const Token> rows, float* out) = 0;
};

// A matrix of a safetensors file, in F32, F16 or BF16. The file stays mapped, and the system does
// not read ahead.
class MappedTable final : public EmbeddingTable {
 public:
  // Throws LoadError if the file has no such tensor of this shape.
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

// Storage of a model's item embedding, which may be larger than all else together: read into memory, or left
// in its file.
enum class ItemRows : std::uint8_t { in_memory, apart };

// Hashes all rows in order, as one part, like the whole matrix in memory. Reads the table once.
void hash_rows(EmbeddingTable& table, VersionHash& hash);
// Hashes only sampled_rows rows of a larger table, one from each of as many equal parts: for tables
// larger than memory. Tables of the same size whose sampled rows are equal hash alike.
inline constexpr std::uint32_t sampled_rows = 2'048;
void hash_sampled_rows(EmbeddingTable& table, VersionHash& hash);

}  // namespace troupe::kernels
