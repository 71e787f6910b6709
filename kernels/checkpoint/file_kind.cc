// Knows the first bytes of the files that users have in place of a checkpoint.
#include "kernels/checkpoint/file_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <system_error>

#include "kernels/checkpoint/json_file.h"

namespace troupe::kernels {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t beginning_bytes = 512, files_max = 10'000;

struct KnownKind {
  std::string_view magic;
  std::string_view kind;
};
constexpr std::array<KnownKind, 19> kinds{
    {{"version https://git-lfs.github.com/spec/"sv,
      "a pointer of git-lfs, in place of the file itself: run git lfs pull"sv},
     {"PK\x03\x04"sv, "a zip archive, as torch.save writes it (.pt, .bin)"sv},
     {"PK\x05\x06"sv, "an empty zip archive"sv},
     {"GGUF"sv, "a GGUF file of llama.cpp"sv},
     {"\x89HDF\r\n"sv, "an HDF5 file, as Keras and TensorFlow write it"sv},
     {"\x93NUMPY"sv, "a NumPy array"sv},
     {"\x1f\x8b"sv, "compressed by gzip"sv},
     {"\x28\xb5\x2f\xfd"sv, "compressed by zstd"sv},
     {"\xfd"
      "7zXZ"sv,
      "compressed by xz"sv},
     {"BZh"sv, "compressed by bzip2"sv},
     {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive"sv},
     {"Rar!"sv, "a RAR archive"sv},
     {"%PDF"sv, "a PDF document"sv},
     {"\x7f"
      "ELF"sv,
      "a program or library"sv},
     {"SQLite format 3"sv, "an SQLite database"sv},
     {"PAR1"sv, "a Parquet file"sv},
     {"#!"sv, "a script"sv},
     {"\x80\x02"sv, "a pickle, as older versions of torch.save write it"sv},
     {"\x80\x04"sv, "a pickle"sv}}};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Recognises documents, which may begin with white space and are written in any case.
std::string_view kind_of_text(std::string_view beginning) {
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return beginning.empty() ? "an empty file" : "only white space";
  const std::string text = lower_case(beginning.substr(first));
  if (text.starts_with("<!doctype html") || text.starts_with("<html"))
    return "an HTML page, as a download without access gives it";
  if (text.starts_with("<?xml") || text.starts_with("<error"))
    return "an XML document, as an error of an object store";
  if (text.starts_with("{\"error\"") || text.starts_with("{\"message\""))
    return "a server's error in JSON, in place of the download";
  if (text.starts_with("entry not found") || text.starts_with("not found") ||
      text.starts_with("access denied") || text.starts_with("access to ") || text.starts_with("invalid "))
    return "a server's error text, in place of the download";
  return "";
}

bool holds_weights(const std::string& name) {
  constexpr std::array<std::string_view, 11> endings{".bin",  ".pt",   ".pth", ".gguf", ".ggml",       ".h5",
                                                     ".onnx", ".ckpt", ".npz", ".zip",  ".safetensors"};
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

std::string_view kind_of_bytes(std::string_view beginning) {
  for (const KnownKind& known : kinds)
    if (beginning.starts_with(known.magic)) return known.kind;
  if (beginning.size() >= 262 && beginning.substr(257, 5) == "ustar") return "a tar archive";
  if (!beginning.empty() && beginning.find_first_not_of('\0') == std::string_view::npos)
    return "only zeros, as a download that was cut short leaves them";
  return kind_of_text(beginning);
}

std::string_view kind_of_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return "";
  std::ifstream in(file, std::ios::binary);
  std::string beginning(beginning_bytes, '\0');
  in.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  if (in.bad() || !in.is_open()) return "";
  beginning.resize(static_cast<std::size_t>(in.gcount()));
  return kind_of_bytes(beginning);
}

std::string kind_remark(std::string_view beginning) {
  const std::string_view kind = kind_of_bytes(beginning.substr(0, beginning_bytes));
  return kind.empty() ? "" : " (it is " + std::string(kind) + ")";
}

void refuse_other_weights(const std::filesystem::path& directory) {
  std::error_code error;
  for (const char* const own : {"model.safetensors", "model.safetensors.index.json"})
    if (std::filesystem::exists(directory / own, error)) return;
  std::string first;
  std::size_t files = 0;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    if (++files > files_max) break;
    std::string name = at->path().filename().string();
    if (holds_weights(name) && (first.empty() || name < first)) first = std::move(name);
  }
  if (first.empty()) return;
  const std::string_view kind = kind_of_file(directory / first);
  throw_load_error(
      directory,
      "has no model.safetensors, but " + in_quotes(first) + (kind.empty() ? "" : ", " + std::string(kind)),
      "model.safetensors, or several files with model.safetensors.index.json, as "
      "save_pretrained of transformers writes them");
}

}  // namespace troupe::kernels
