#pragma once
// Recognises files that are no checkpoint by their first bytes, so that an error can say what stands
// there instead: a download page, a pointer of git-lfs, another format of weights.
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace troupe::kernels {

// Describes these first bytes of a file, such as "a zip archive, as torch.save writes it"; "" = none of
// the known kinds. A few hundred bytes are enough.
std::string_view kind_of_bytes(std::string_view beginning);

// Describes a file by its first bytes; "" if it is none of the known kinds or cannot be read.
std::string_view kind_of_file(const std::filesystem::path& file);

// Returns " (it is an HTML page, …)" for an error, or "" for an unknown kind.
std::string kind_remark(std::string_view beginning);

// Throws a LoadError if the folder has neither model.safetensors nor an index of several files, but
// weights of another kind, which the error names.
void refuse_other_weights(const std::filesystem::path& directory);

}  // namespace troupe::kernels
