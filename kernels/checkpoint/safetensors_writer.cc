// Writes tensors to a safetensors file in float32, f16 or bf16. Refuses values that the format
// cannot hold.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/base/check.h"
#include "kernels/base/float_formats.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/safetensors.h"

namespace troupe::kernels {
namespace {

const char* dtype_name(StoredAs stored_as) {
  if (stored_as == StoredAs::f32) return "F32";
  return stored_as == StoredAs::f16 ? "F16" : "BF16";
}

std::uint64_t element_bytes(StoredAs stored_as) { return stored_as == StoredAs::f32 ? 4 : 2; }

std::string header_text(std::span<const NamedTensor> tensors, StoredAs stored_as) {
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t begin = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::uint64_t end = begin + tensor.values.size() * element_bytes(stored_as);
    header[tensor.name] = {
        {"dtype", dtype_name(stored_as)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns the first tensor
  return text;
}

std::vector<std::uint16_t> narrowed(std::span<const float> values, StoredAs stored_as) {
  std::vector<std::uint16_t> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    result[i] = stored_as == StoredAs::f16 ? to_f16(values[i]) : to_bf16(values[i]);
  return result;
}

bool all_fit(std::span<const float> values, std::span<const std::uint16_t> narrow, StoredAs stored_as) {
  for (std::size_t i = 0; i < narrow.size(); ++i)
    if (!std::isfinite(stored_as == StoredAs::f16 ? from_f16(narrow[i]) : from_bf16(narrow[i]))) return false;
  for (const float value : values)
    if (!std::isfinite(value)) return false;
  return true;
}

void write_bytes(std::ofstream& out, const void* bytes, std::size_t size) {
  out.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
}

}  // namespace

void write_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors,
                       StoredAs stored_as) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  const std::string header = header_text(tensors, stored_as);
  const std::uint64_t header_bytes = header.size();
  write_bytes(out, &header_bytes, sizeof(header_bytes));
  write_bytes(out, header.data(), header.size());
  for (const NamedTensor& tensor : tensors) {
    const auto narrow =
        stored_as == StoredAs::f32 ? std::vector<std::uint16_t>() : narrowed(tensor.values, stored_as);
    if (!all_fit(tensor.values, narrow, stored_as))
      throw_load_error(
          file, "a value of tensor " + in_quotes(tensor.name) + " does not fit " + dtype_name(stored_as),
          "finite values in its range");
    if (stored_as == StoredAs::f32)
      write_bytes(out, tensor.values.data(), tensor.values.size_bytes());
    else
      write_bytes(out, narrow.data(), narrow.size() * sizeof(std::uint16_t));
  }
  out.close();
  if (!out) throw_load_error(file, "cannot be written", "a writable path with enough free space");
}

}  // namespace troupe::kernels
