// Finds out from the headers of a model directory's files in which format its matrices are stored.
#include "kernels/checkpoint/stored_format.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "kernels/checkpoint/safetensors.h"

namespace troupe::kernels {
namespace {

// Files in the order of their names, so that the same one is named in an error each time.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(directory, unreadable))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace

bool has_bf16_matrices(const std::filesystem::path& directory) {
  bool any = false;
  for (const std::filesystem::path& file : weight_files(directory)) {
    const SafetensorsFile stored(file);
    for (const auto& [name, tensor] : stored.tensors()) {
      if (tensor.shape.size() != 2 || !has_values(tensor)) continue;
      if (tensor.dtype != "BF16") return false;
      any = true;
    }
  }
  return any;
}

}  // namespace troupe::kernels
