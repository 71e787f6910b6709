#pragma once
// A file of torch.save: a zip archive (PyTorch 1.6 and later) or the older form, pickles followed by the
// storages. Its pickle is read as data (pickle.h), and tensors are copied out of the mapped file when
// they are asked for: views, strides and types become row-major float32.
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "deploy/convert/pickle.h"
#include "deploy/convert/zip_archive.h"
#include "kernels/checkpoint/mapped_file.h"

namespace troupe::deploy {

// A parsed view of a file's bytes, which must outlive it.
class TorchBytes {
 public:
  // `file` is for errors. Throws kernels::LoadError.
  TorchBytes(std::filesystem::path file, std::span<const std::byte> bytes);

  const std::filesystem::path& path() const { return file_; }
  std::uint64_t size() const { return bytes_.size(); }
  const Pickle& pickle() const { return *pickle_; }
  // Describes the file: its form, its pickle's protocol, and the devices that its storages name.
  std::string form() const;

  // Copy a tensor's elements in row-major order. Throw kernels::LoadError with the tensor's `name` if its
  // type has no such values, a value is not finite, or its storage is not in the file.
  std::vector<float> values(const PickleTensor& tensor, const std::string& name) const;
  std::vector<std::int64_t> integers(const PickleTensor& tensor, const std::string& name) const;

 private:
  void read_archive();
  void read_pickles();  // the older form
  void read_older_storages(const Pickle& keys, std::uint64_t position);
  std::span<const std::byte> storage_bytes(const PickleTensor& tensor, const std::string& name) const;

  std::filesystem::path file_;
  std::span<const std::byte> bytes_;
  std::optional<ZipArchive> archive_;
  std::string prefix_;  // of an archive's entries: "archive/"
  std::map<std::string, std::span<const std::byte>, std::less<>> storages_;  // of the older form, by key
  std::unique_ptr<Pickle> pickle_;
};

class TorchFile : private kernels::MappedFile, public TorchBytes {
 public:
  explicit TorchFile(const std::filesystem::path& file)  // throws kernels::LoadError
      : MappedFile(file), TorchBytes(file, bytes()) {}
};

}  // namespace troupe::deploy
