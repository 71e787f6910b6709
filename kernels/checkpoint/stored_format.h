#pragma once
// The number format in which a model directory stores its weights.
#include <filesystem>

namespace troupe::kernels {

// Returns true if the directory has *.safetensors files with matrices, and all of these, in every
// file, are in BF16: kept in this format they lose nothing. Norms and biases may be in any format.
// Reads only the files' headers. Throws LoadError for a file with a faulty one.
bool has_bf16_matrices(const std::filesystem::path& directory);

}  // namespace troupe::kernels
