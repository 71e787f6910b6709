#pragma once
// A file's bytes, mapped read-only for the lifetime of the object, so that a checkpoint is read without a
// second copy. Somebody who cuts the file short meanwhile stops the process (SIGBUS): checkpoints are
// replaced, not edited.
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
  // From now on a read brings no more into memory than what it asks for.
  void expect_scattered_reads() const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace troupe::kernels
