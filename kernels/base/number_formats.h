#pragma once
// Formats in which a decoder stores its numbers: the weights of linear layers, and keys and values.
// Arithmetic is float32 (int8 products accumulate in int32). Both formats belong to what a model
// computes: a block made under one format is not valid under another.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::kernels {

// Keys and values. They are rounded once, when they are made, so a result does not depend on
// whether a segment was computed in the pass or read from pages.
enum class KvFormat : std::uint8_t { f32, f16, bf16 };

// Weights of linear layers. int8: symmetric, one scale per output feature; activations are
// quantised to 8 bits per row (token) when they are multiplied (W8A8). bf16: rounded to nearest;
// activations are rounded too where the CPU multiplies bf16 (AVX512_BF16), and sums are float32.
// Embeddings, norms, biases and the output projection stay float32, except that the copy of the
// output projection with which beam searches multiply, and that of the item table which searches of items
// scan first, are bf16 if the layers are.
enum class WeightFormat : std::uint8_t { f32, int8, bf16 };

inline constexpr std::array<std::string_view, 3> kv_format_names = {"f32", "f16", "bf16"};
inline constexpr std::array<std::string_view, 3> weight_format_names = {"f32", "int8", "bf16"};

constexpr std::string_view format_name(KvFormat format) {
  return kv_format_names[static_cast<std::size_t>(format)];
}
constexpr std::string_view format_name(WeightFormat format) {
  return weight_format_names[static_cast<std::size_t>(format)];
}
constexpr std::optional<KvFormat> find_kv_format(std::string_view text) {
  for (std::size_t i = 0; i < kv_format_names.size(); ++i)
    if (kv_format_names[i] == text) return static_cast<KvFormat>(i);
  return std::nullopt;
}
constexpr std::optional<WeightFormat> find_weight_format(std::string_view text) {
  for (std::size_t i = 0; i < weight_format_names.size(); ++i)
    if (weight_format_names[i] == text) return static_cast<WeightFormat>(i);
  return std::nullopt;
}

constexpr std::size_t value_bytes(KvFormat format) { return format == KvFormat::f32 ? 4 : 2; }

}  // namespace troupe::kernels
