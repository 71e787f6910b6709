// Tables of PyTorch's element types.
#include "deploy/convert/tensor_type.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/base/check.h"
#include "kernels/base/float_formats.h"

namespace troupe::deploy {
namespace {

struct TypeRow {
  TensorType type;
  std::string_view storage, dtype;
  std::size_t bytes;
};

constexpr std::array type_rows{
    TypeRow{TensorType::f64, "DoubleStorage", "float64", 8},
    TypeRow{TensorType::f32, "FloatStorage", "float32", 4},
    TypeRow{TensorType::f16, "HalfStorage", "float16", 2},
    TypeRow{TensorType::bf16, "BFloat16Storage", "bfloat16", 2},
    TypeRow{TensorType::i64, "LongStorage", "int64", 8},
    TypeRow{TensorType::i32, "IntStorage", "int32", 4},
    TypeRow{TensorType::i16, "ShortStorage", "int16", 2},
    TypeRow{TensorType::i8, "CharStorage", "int8", 1},
    TypeRow{TensorType::u8, "ByteStorage", "uint8", 1},
    TypeRow{TensorType::boolean, "BoolStorage", "bool", 1},
    TypeRow{TensorType::other, "ComplexFloatStorage", "complex64", 0},
    TypeRow{TensorType::other, "ComplexDoubleStorage", "complex128", 0},
    TypeRow{TensorType::unknown, "UntypedStorage", "", 0},
};
constexpr std::array<std::string_view, 8> other_dtypes{"uint16",      "uint32",         "uint64",
                                                       "complex32",   "float8_e4m3fn",  "float8_e4m3fnuz",
                                                       "float8_e5m2", "float8_e5m2fnuz"};

template <class Number>
Number number_of(const std::byte* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

}  // namespace

std::optional<TensorType> storage_type_of(std::string_view storage_class) {
  const auto row = std::ranges::find(type_rows, storage_class, &TypeRow::storage);
  return row == type_rows.end() ? std::nullopt : std::optional(row->type);
}

std::optional<TensorType> dtype_of(std::string_view name) {
  if (name.empty()) return std::nullopt;
  const auto row = std::ranges::find(type_rows, name, &TypeRow::dtype);
  if (row != type_rows.end()) return row->type;
  const bool other = std::ranges::find(other_dtypes, name) != other_dtypes.end();
  return other ? std::optional(TensorType::other) : std::nullopt;
}

std::string_view word_of(TensorType type) {
  if (type == TensorType::other) return "another type";
  if (type == TensorType::unknown) return "untyped bytes";
  return std::ranges::find(type_rows, type, &TypeRow::type)->dtype;
}

std::size_t element_bytes(TensorType type) {
  return std::ranges::find(type_rows, type, &TypeRow::type)->bytes;
}

float element_value(TensorType type, const std::byte* bytes) {
  switch (type) {
    case TensorType::f64:
      return static_cast<float>(number_of<double>(bytes));
    case TensorType::f32:
      return number_of<float>(bytes);
    case TensorType::f16:
      return kernels::from_f16(number_of<std::uint16_t>(bytes));
    case TensorType::bf16:
      return kernels::from_bf16(number_of<std::uint16_t>(bytes));
    case TensorType::i64:
      return static_cast<float>(number_of<std::int64_t>(bytes));
    case TensorType::i32:
      return static_cast<float>(number_of<std::int32_t>(bytes));
    case TensorType::i16:
      return static_cast<float>(number_of<std::int16_t>(bytes));
    case TensorType::i8:
      return static_cast<float>(number_of<std::int8_t>(bytes));
    case TensorType::u8:
    case TensorType::boolean:
      return static_cast<float>(number_of<std::uint8_t>(bytes));
    case TensorType::other:
    case TensorType::unknown:
      break;
  }
  TROUPE_CHECK(false, "an element of a type without values");
  return 0;
}

}  // namespace troupe::deploy
