#pragma once
// The safetensors file format: an 8-byte little-endian header length, a JSON header (name → dtype,
// shape, byte range) and the tensors' bytes. The reader trusts nothing: every length, name, type,
// shape and offset is checked before a byte is used, and the tensors must tile the data exactly,
// without overlaps and holes. Errors are LoadErrors.
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/checkpoint/mapped_file.h"
#include "kernels/checkpoint/model.h"

namespace troupe::kernels {

struct StoredTensor {
  std::string dtype;  // "F32", "BF16", … as in the header; one that the format knows
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, relative to the first byte after the header
};

bool has_values(const StoredTensor& tensor);  // true of F32, F16 and BF16, which are read as float32

// A parsed view of a file's bytes, which must outlive it.
class Safetensors {
 public:
  // `file` is for errors. Throws LoadError.
  Safetensors(const std::filesystem::path& file, std::span<const std::byte> bytes);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  // Returns the elements of an F32, F16 or BF16 tensor as float32. Any other type and any value
  // that is not finite is a LoadError that names the tensor.
  std::vector<float> values(const std::string& name) const;
  // Reads elements from `first` on into `out`. The tensor must be of this file, of one of those
  // types, and have the elements. Returns false, without an error, if a value is not finite.
  bool read(const StoredTensor& tensor, std::uint64_t first, std::span<float> out) const;

 private:
  void refuse_other_kinds(std::string_view bytes) const;
  void read_header(std::span<const std::byte> bytes);
  void check_tiling() const;

  std::filesystem::path path_;
  std::span<const std::byte> data_;
  std::map<std::string, StoredTensor> tensors_;
};

class SafetensorsFile : private MappedFile, public Safetensors {
 public:
  explicit SafetensorsFile(const std::filesystem::path& file)  // throws LoadError
      : MappedFile(file), Safetensors(file, bytes()) {}
  using MappedFile::expect_scattered_reads;
};

struct NamedTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::span<const float> values;
};

// Writes the tensors in the order given. Throws LoadError if `stored_as` cannot hold a value or if
// writing fails.
void write_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                       StoredAs stored_as);

// Formats a shape as "[2, 3]", for messages.
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace troupe::kernels
