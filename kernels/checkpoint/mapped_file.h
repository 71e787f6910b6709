#pragma once
// A file's bytes, mapped read-only for the lifetime of the object, so that a checkpoint is read
// without a second copy. If the file is truncated meanwhile, the process stops (SIGBUS): replace
// checkpoints, do not edit them.
#include <cstddef>
#include <filesystem>
#include <span>

#include "kernels/base/errors.h"

namespace troupe::kernels {

class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file);  // throws LoadError
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  // Stops read-ahead: later reads bring only what they ask for into memory.
  void expect_scattered_reads() const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace troupe::kernels
