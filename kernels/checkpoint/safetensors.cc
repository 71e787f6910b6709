// Reads tensors from a safetensors file, after checking every length, name, type, shape and offset
// in it.
#include "kernels/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "kernels/base/float_formats.h"
#include "kernels/checkpoint/file_kind.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::kernels {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are stored little-endian and copied as they are");

constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit
constexpr std::size_t kHeaderValuesMax = 4'000'000;     // a dozen for each tensor
constexpr std::size_t kLengthBytes = 8, kRankMax = 8, kBeginningBytes = 512;

struct Dtype {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<Dtype, 15> kDtypes{{{"F64", 8},
                                         {"F32", 4},
                                         {"F16", 2},
                                         {"BF16", 2},
                                         {"F8_E4M3", 1},
                                         {"F8_E5M2", 1},
                                         {"I64", 8},
                                         {"I32", 4},
                                         {"I16", 2},
                                         {"I8", 1},
                                         {"U64", 8},
                                         {"U32", 4},
                                         {"U16", 2},
                                         {"U8", 1},
                                         {"BOOL", 1}}};

std::uint64_t dtype_bytes(const JsonFields& fields, const std::string& name) {
  for (const Dtype& dtype : kDtypes)
    if (dtype.name == name) return dtype.bytes;
  fields.fault("dtype", "a type of the safetensors format");
}

std::uint64_t unsigned_element(const JsonFields& fields, std::string_view key,
                               const nlohmann::json& element) {
  if (!element.is_number_unsigned()) fields.fault(key, "integers from 0, found " + describe(element));
  return element.get<std::uint64_t>();
}

std::vector<std::uint64_t> unsigned_array(const JsonFields& fields, std::string_view key,
                                          std::size_t length_max) {
  const nlohmann::json* const array = fields.find(key);
  if (!array || !array->is_array() || array->size() > length_max)
    fields.fault(key, "an array of at most " + std::to_string(length_max) + " integers");
  std::vector<std::uint64_t> result;
  for (const nlohmann::json& element : *array) result.push_back(unsigned_element(fields, key, element));
  return result;
}

// Sets `bytes` to the size of a tensor; returns false if it does not fit into 64 bits.
bool checked_bytes(std::span<const std::uint64_t> shape, std::uint64_t element_bytes, std::uint64_t& bytes) {
  bytes = element_bytes;
  for (const std::uint64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return false;
  return true;
}

// Returns the end of the data that a header describes. Malformed entries are left to read_entry().
std::uint64_t described_end(const nlohmann::json& header) {
  std::uint64_t end = 0;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = entry.is_object() ? entry.find("data_offsets") : entry.end();
    if (offsets != entry.end() && offsets->is_array() && offsets->size() == 2 &&
        (*offsets)[1].is_number_unsigned())
      end = std::max(end, (*offsets)[1].get<std::uint64_t>());
  }
  return end;
}

StoredTensor read_entry(const JsonFields& fields, std::uint64_t data_bytes) {
  StoredTensor tensor;
  tensor.dtype = fields.maybe_text("dtype").value_or("");
  const std::uint64_t element_bytes = dtype_bytes(fields, tensor.dtype);
  tensor.shape = unsigned_array(fields, "shape", kRankMax);
  const std::vector<std::uint64_t> offsets = unsigned_array(fields, "data_offsets", 2);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes)
    fields.fault("data_offsets", "[begin, end] with begin <= end <= " + std::to_string(data_bytes) +
                                     ", found " + shape_text(offsets));
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  std::uint64_t bytes = 0;
  if (!checked_bytes(tensor.shape, element_bytes, bytes) || bytes != tensor.end - tensor.begin)
    fields.fault("shape", "what " + std::to_string(tensor.end - tensor.begin) + " bytes of " + tensor.dtype +
                              " hold, found " + shape_text(tensor.shape));
  return tensor;
}

// Sets out[i] = widen(stored[i]); returns false if any value is not finite. Tensors need not be
// aligned in the file.
template <class Stored, class Widen>
bool widen_all(const std::byte* in, std::span<float> out, Widen widen) {
  std::uint32_t not_finite = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, in + i * sizeof(Stored), sizeof(Stored));
    out[i] = widen(stored);
    not_finite |= (std::bit_cast<std::uint32_t>(out[i]) & 0x7f800000u) == 0x7f800000u;
  }
  return not_finite == 0;
}

}  // namespace

bool has_values(const StoredTensor& tensor) {
  return tensor.dtype == "F32" || tensor.dtype == "F16" || tensor.dtype == "BF16";
}

Safetensors::Safetensors(const std::filesystem::path& file, std::span<const std::byte> bytes) : path_(file) {
  read_header(bytes);
  check_tiling();
}

// Refuses a file of another kind before its bytes are taken for a header.
void Safetensors::refuse_other_kinds(std::string_view bytes) const {
  const std::string_view kind = kind_of_bytes(bytes.substr(0, kBeginningBytes));
  if (!kind.empty()) throw_load_error(path_, "it is " + std::string(kind), "a safetensors file");
}

void Safetensors::read_header(std::span<const std::byte> bytes) {
  const std::string_view whole(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::uint64_t header_bytes = 0;
  if (bytes.size() >= kLengthBytes) std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  // A length that fits, before an object, is a safetensors file's, whatever its bytes spell.
  if (bytes.size() <= kLengthBytes || header_bytes > bytes.size() - kLengthBytes ||
      whole[kLengthBytes] != '{')
    refuse_other_kinds(whole);
  if (bytes.size() < kLengthBytes)
    throw_load_error(path_, std::to_string(bytes.size()) + " bytes long",
                     "8 bytes of header length and a header");
  const std::uint64_t most = std::min<std::uint64_t>(kHeaderBytesMax, bytes.size() - kLengthBytes);
  if (header_bytes > most)
    throw_load_error(
        path_, "the header length is " + std::to_string(header_bytes),
        "at most " + std::to_string(most) + " in this file, which is no safetensors file or was cut short");
  data_ = bytes.subspan(kLengthBytes + header_bytes);
  const std::string_view text = whole.substr(kLengthBytes, header_bytes);
  const nlohmann::json header = parse_json(path_, text, kHeaderValuesMax);
  if (!header.is_object()) throw_load_error(path_, "the header is " + describe(header), "an object");
  if (const std::uint64_t end = described_end(header); end > data_.size())
    throw_load_error(
        path_, "has " + std::to_string(data_.size()) + " bytes of data",
        std::to_string(end) + ", by its header: the file was cut short, or the header is damaged");
  for (const auto& [name, entry] : header.items())
    if (name == "__metadata__")
      JsonFields(path_, entry, name);
    else
      tensors_.emplace(name, read_entry(JsonFields(path_, entry, "tensor " + in_quotes(name)), data_.size()));
}

void Safetensors::check_tiling() const {
  std::vector<const std::pair<const std::string, StoredTensor>*> ordered;
  for (const auto& tensor : tensors_) ordered.push_back(&tensor);
  std::ranges::sort(ordered, {}, [](const auto* t) { return std::pair(t->second.begin, t->second.end); });
  std::uint64_t covered = 0;
  for (const auto* tensor : ordered) {
    if (tensor->second.begin != covered)
      throw_load_error(
          path_,
          "tensor " + in_quotes(tensor->first) + " begins at byte " + std::to_string(tensor->second.begin),
          std::to_string(covered) + ", where the data before it ends");
    covered = tensor->second.end;
  }
  if (covered != data_.size())
    throw_load_error(path_, std::to_string(data_.size()) + " bytes of data",
                     "the tensors' " + std::to_string(covered));
}

std::vector<float> Safetensors::values(const std::string& name) const {
  const StoredTensor& tensor = tensors_.at(name);
  std::uint64_t elements = 0;
  checked_bytes(tensor.shape, 1, elements);
  std::vector<float> result;
  if (!has_values(tensor))
    throw_load_error(path_, "tensor " + in_quotes(name) + " has dtype " + tensor.dtype, "F32, F16 or BF16");
  result.resize(elements);
  if (!read(tensor, 0, result))
    throw_load_error(path_, "tensor " + in_quotes(name) + " holds infinity or NaN", "finite values");
  return result;
}

bool Safetensors::read(const StoredTensor& tensor, std::uint64_t first, std::span<float> out) const {
  const std::byte* const in = data_.data() + tensor.begin;
  if (tensor.dtype == "F32")
    return widen_all<float>(in + first * 4, out, [](float stored) { return stored; });
  return widen_all<std::uint16_t>(in + first * 2, out, tensor.dtype == "F16" ? from_f16 : from_bf16);
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const std::uint64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

}  // namespace troupe::kernels
