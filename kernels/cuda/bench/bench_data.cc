// Fills device memory with random numbers, or with poison that shows which outputs a kernel did not
// write. Also reads numbers back for checks.
#include "kernels/cuda/bench/bench_data.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/float_formats.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::size_t block_numbers = std::size_t{1} << 20;

// Returns the sum of four uniform 16-bit numbers, scaled to mean 0 and deviation 1.
float nearly_normal(std::uint64_t bits) {
  const auto sum =
      static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
  return (sum - 2 * 65535.0f) * (1.7320508f / 65536.0f);
}

std::vector<std::byte> drawn(NumberKind kind, std::size_t count, Chance& chance, float size) {
  std::vector<std::byte> bytes(count * number_bytes(kind));
  for (std::size_t i = 0; i < count; ++i) {
    const float number = size * nearly_normal(chance());
    if (kind == NumberKind::f32) {
      std::memcpy(&bytes[4 * i], &number, 4);
    } else {
      const std::uint16_t half = kind == NumberKind::bf16 ? to_bf16(number) : to_f16(number);
      std::memcpy(&bytes[2 * i], &half, 2);
    }
  }
  return bytes;
}

double number_at(NumberKind kind, const std::byte* from) {
  float wide = 0;
  std::uint16_t half = 0;
  if (kind == NumberKind::f32)
    std::memcpy(&wide, from, 4);
  else
    std::memcpy(&half, from, 2);
  return kind == NumberKind::f32 ? wide : kind == NumberKind::bf16 ? from_bf16(half) : from_f16(half);
}

}  // namespace

DeviceNumbers::DeviceNumbers(NumberKind kind, std::size_t count, Chance& chance, float size)
    : kind_(kind), memory_(count * number_bytes(kind)) {
  repeat(drawn(kind, std::min(count, block_numbers), chance, size));
}

DeviceNumbers::DeviceNumbers(NumberKind kind, std::size_t count)
    : kind_(kind), memory_(count * number_bytes(kind)) {
  repeat(std::vector<std::byte>(std::min(memory_.size_bytes(), block_numbers), std::byte{0xff}));
}

void DeviceNumbers::repeat(std::span<const std::byte> block) {
  if (block.empty()) return;
  Stream stream;
  stream.upload(memory_.data(), block.data(), block.size());
  for (std::size_t done = block.size(); done < size_bytes();) {
    const std::size_t more = std::min(done, size_bytes() - done);
    stream.copy(memory_.data() + done, memory_.data(), more);
    done += more;
  }
  stream.synchronize();
}

std::vector<double> DeviceNumbers::read(std::size_t first, std::size_t count) const {
  const std::size_t bytes = number_bytes(kind_);
  const std::vector<std::byte> raw = read_bytes(memory_.data() + first * bytes, count * bytes);
  std::vector<double> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = number_at(kind_, &raw[i * bytes]);
  return numbers;
}

std::optional<std::size_t> DeviceNumbers::find_poison() const {
  constexpr std::size_t chunk = std::size_t{64} << 20, all_of = 4 * chunk;
  const std::size_t bytes = number_bytes(kind_);
  for (std::size_t at = 0; at < size_bytes(); at += chunk) {
    if (size_bytes() > all_of && at >= chunk && at + chunk < size_bytes()) continue;
    const std::vector<std::byte> found = read_bytes(memory_.data() + at, std::min(chunk, size_bytes() - at));
    const std::vector<std::byte> poison(bytes, std::byte{0xff});
    for (std::size_t i = 0; i < found.size(); i += bytes)
      if (std::memcmp(&found[i], poison.data(), bytes) == 0) return (at + i) / bytes;
  }
  return std::nullopt;
}

std::vector<std::byte> read_bytes(const std::byte* device, std::size_t count) {
  std::vector<std::byte> bytes(count);
  Stream stream;
  if (count > 0) stream.download(bytes.data(), device, count);
  stream.synchronize();
  return bytes;
}

}  // namespace troupe::kernels::cuda
