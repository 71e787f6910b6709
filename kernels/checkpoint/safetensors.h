#pragma once
// The safetensors file format: an 8-byte little-endian header length, a JSON header (name → dtype, shape,
// byte range) and the tensors' bytes. The reader trusts nothing: every length, name, type, shape and offset
// is checked before a byte is used, and the tensors must tile the data exactly, without overlaps and holes.
// Faults are LoadErrors.
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/checkpoint/mapped_file.h"
#include "kernels/checkpoint/model.h"

namespace troupe::kernels {

struct StoredTensor {
  std::string dtype;  // "F32", "BF16", … as in the header; one that the format knows
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, relative to the first byte after the header
};

// What the bytes of a file say. Views them.
class Safetensors {
 public:
  // `file` is for errors. Throws LoadError.
  Safetensors(const std::filesystem::path& file, std::span<const std::byte> bytes);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  // The elements of an F32, F16 or BF16 tensor as float32. Any other type, and any value that is not finite,
  // is a LoadError that names the tensor.
  std::vector<float> values(const std::string& name) const;
  // The same of the elements from `first` on, of a tensor of this file that has them and one of those types;
  // false, and no fault, where a value is not finite.
  bool read(const StoredTensor& tensor, std::uint64_t first, std::span<float> out) const;

 private:
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

// Writes the tensors in the order given. Values that `stored_as` cannot hold, and failures to write, are
// LoadErrors.
void write_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                       StoredAs stored_as);

// "[2, 3]", for messages.
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace troupe::kernels
