#pragma once
// Element types of PyTorch's tensors: their names, their sizes, and their values as float32.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::deploy {

enum class TensorType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean, other, unknown };

// Returns the type of a storage class ("FloatStorage") or of a dtype ("float32"); `other` for the types
// whose values are not read, such as complex numbers, and nothing for a name that is no type.
std::optional<TensorType> storage_type_of(std::string_view storage_class);
std::optional<TensorType> dtype_of(std::string_view name);

std::string_view word_of(TensorType type);
// Returns the bytes of one element; 0 for `other` and `unknown`.
std::size_t element_bytes(TensorType type);
// Reads the element that begins at `bytes`, which has at least element_bytes(type) bytes. An integer
// beyond 2^24 is rounded.
float element_value(TensorType type, const std::byte* bytes);

}  // namespace troupe::deploy
