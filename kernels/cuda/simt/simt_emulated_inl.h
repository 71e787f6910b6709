#pragma once
// Implements the primitives of simt.h on the emulator; simt.h includes it if TROUPE_EMULATED is
// defined. Fragment layouts are those of the PTX ISA, "Matrix fragments for mma.m16n8k16 with
// floating point type" and "ldmatrix".
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/simt/emulator.h"

#define TROUPE_KERNEL(threads) void
#define TROUPE_KERNEL_RESIDENT(threads, blocks) void
#define TROUPE_DEVICE inline
#define TROUPE_UNROLL
#define TROUPE_SHARED(type, name, count)                                                           \
  static const char name##_key = 0;                                                                \
  const ::troupe::kernels::cuda::simt::Shared<type> name {                                         \
    ::troupe::kernels::cuda::emulator::shared_variable(&name##_key, sizeof(type) * (count)), count \
  }

namespace troupe::kernels::cuda::simt {

inline unsigned thread_x() { return emulator::place().thread; }
inline unsigned block_x() { return emulator::place().block_x; }
inline unsigned block_y() { return emulator::place().block_y; }
inline unsigned blocks_x() { return emulator::place().blocks_x; }
inline unsigned block_threads() { return emulator::place().block_threads; }
inline unsigned lane() { return thread_x() % warp_threads; }
inline unsigned warp() { return thread_x() / warp_threads; }

inline void barrier() { emulator::sync_block(false); }
inline bool barrier_or(bool value) { return emulator::sync_block(value); }
inline void warp_sync() {
  static constexpr emulator::WarpOperation operation{"warp_sync", [](void* const*) {}};
  emulator::sync_warp(operation, nullptr);
}

// A lane's operand of a shuffle.
template <class T>
struct Shuffled {
  T value;
  unsigned from;
  T result;
};
template <class T>
T shuffle_operation(T value, unsigned from) {
  static constexpr emulator::WarpOperation operation{
      "shuffle", [](void* const* operands) {
        for (unsigned i = 0; i < warp_threads; ++i) {
          auto& mine = *static_cast<Shuffled<T>*>(operands[i]);
          mine.result = static_cast<Shuffled<T>*>(operands[mine.from])->value;
        }
      }};
  Shuffled<T> operands{value, from, value};
  emulator::sync_warp(operation, &operands);
  return operands.result;
}
template <class T>
T shuffle(T value, unsigned from) {
  return shuffle_operation(value, from % warp_threads);
}
template <class T>
T shuffle_xor(T value, unsigned mask) {
  return shuffle_operation(value, lane() ^ mask);
}

struct Vote {
  bool value;
  std::uint32_t result;
};
inline std::uint32_t ballot(bool value) {
  static constexpr emulator::WarpOperation operation{
      "vote", [](void* const* operands) {
        std::uint32_t votes = 0;
        for (unsigned i = 0; i < warp_threads; ++i)
          votes |= std::uint32_t{static_cast<Vote*>(operands[i])->value} << i;
        for (unsigned i = 0; i < warp_threads; ++i) static_cast<Vote*>(operands[i])->result = votes;
      }};
  Vote vote{value, 0};
  emulator::sync_warp(operation, &vote);
  return vote.result;
}
inline bool any(bool value) { return ballot(value) != 0; }
inline bool all(bool value) { return ballot(value) == ~0u; }

template <class T>
struct Shared {
  SharedAddress start;
  std::size_t count;
  SharedAddress address(std::size_t i) const { return start + static_cast<SharedAddress>(i * sizeof(T)); }
  T& operator[](std::size_t i) const {
    // An index past a small array may still be inside the block's memory, so the array's own length is
    // checked, too.
    const SharedAddress at = i < count ? address(i) : ~SharedAddress{0};
    return *reinterpret_cast<T*>(emulator::shared_element(at, sizeof(T), alignof(T)));
  }
};

template <class T>
Shared<T> dynamic_shared(std::size_t offset_bytes, std::size_t count) {
  return {emulator::dynamic_shared(offset_bytes, count * sizeof(T)), count};
}

inline std::uint32_t atomic_or(const Shared<std::uint32_t>& to, std::size_t i, std::uint32_t bits) {
  return std::exchange(to[i], to[i] | bits);
}

template <unsigned bytes>
void copy_async(SharedAddress to, const void* from, bool present) {
  static_assert(bytes == 8 || bytes == 16, "cp.async of 8 or 16 bytes");
  emulator::copy_async(to, from, bytes, present);
}
inline void copy_async_commit() { emulator::copy_async_commit(); }
template <unsigned left>
void copy_async_wait() {
  emulator::copy_async_wait(left);
}

// A lane's operand of a matrix load. Lane i passes the address of row i%8 of matrix i/8. It
// receives, from matrix j, row lane/4, columns 2*(lane%4) and the next; from the transpose if
// transposed.
struct MatrixLoad {
  SharedAddress row;
  std::uint32_t result[4];
};
template <bool transposed>
void run_matrix_load(void* const* operands) {
  SharedAddress rows[warp_threads];
  std::uint16_t halves[4][8][8];
  for (unsigned i = 0; i < warp_threads; ++i) {
    rows[i] = static_cast<MatrixLoad*>(operands[i])->row;
    std::memcpy(halves[i / 8][i % 8], emulator::shared_memory(rows[i], 16, 16), 16);
  }
  emulator::count_matrix_load(rows);
  for (unsigned i = 0; i < warp_threads; ++i)
    for (unsigned j = 0; j < 4; ++j) {
      const unsigned row = i / 4, column = 2 * (i % 4);
      const std::uint32_t low = transposed ? halves[j][column][row] : halves[j][row][column];
      const std::uint32_t high = transposed ? halves[j][column + 1][row] : halves[j][row][column + 1];
      static_cast<MatrixLoad*>(operands[i])->result[j] = low | high << 16;
    }
}
template <bool transposed>
void load_matrices_operation(std::uint32_t (&r)[4], SharedAddress row) {
  static constexpr emulator::WarpOperation operation{"load_matrices", run_matrix_load<transposed>};
  MatrixLoad load{row, {}};
  emulator::sync_warp(operation, &load);
  std::memcpy(r, load.result, sizeof r);
}
inline void load_matrices(std::uint32_t (&r)[4], SharedAddress row) {
  load_matrices_operation<false>(r, row);
}
inline void load_matrices_transposed(std::uint32_t (&r)[4], SharedAddress row) {
  load_matrices_operation<true>(r, row);
}

template <class Half>
float low_of(std::uint32_t bits);
template <>
inline float low_of<Bf16>(std::uint32_t bits) {
  return from_bf16(static_cast<std::uint16_t>(bits));
}
template <>
inline float low_of<F16>(std::uint32_t bits) {
  return from_f16(static_cast<std::uint16_t>(bits));
}
template <class Half>
float high_of(std::uint32_t bits) {
  return low_of<Half>(bits >> 16);
}
template <class Half>
std::uint32_t pack(float low, float high);
template <>
inline std::uint32_t pack<Bf16>(float low, float high) {
  return std::uint32_t{to_bf16(low)} | std::uint32_t{to_bf16(high)} << 16;
}
template <>
inline std::uint32_t pack<F16>(float low, float high) {
  return std::uint32_t{to_f16(low)} | std::uint32_t{to_f16(high)} << 16;
}

// A lane's operand of a product. Element i of the 16x16 matrix a is at row lane/4, plus 8 where i/2
// is odd, and column 2*(lane%4) + i%2, plus 8 where i >= 4. Element i of the 16x8 matrix b is at
// row 2*(lane%4) + i%2, plus 8 where i >= 2, and column lane/4. Element i of the 16x8 sum is at row
// lane/4, plus 8 where i >= 2, and column 2*(lane%4) + i%2.
struct MultiplyAdd {
  float* d;
  const std::uint32_t* a;
  std::uint32_t b[2];
};
template <class Half>
void run_multiply_add(void* const* operands) {
  float a[16][16], b[8][16];  // b by columns
  for (unsigned lane = 0; lane < warp_threads; ++lane) {
    const auto& from = *static_cast<MultiplyAdd*>(operands[lane]);
    const unsigned row = lane / 4, column = 2 * (lane % 4);
    for (unsigned r = 0; r < 4; ++r) {
      float* to = &a[row + 8 * (r % 2)][column + 8 * (r / 2)];
      to[0] = low_of<Half>(from.a[r]), to[1] = high_of<Half>(from.a[r]);
    }
    for (unsigned r = 0; r < 2; ++r)
      b[row][column + 8 * r] = low_of<Half>(from.b[r]), b[row][column + 8 * r + 1] = high_of<Half>(from.b[r]);
  }
  for (unsigned lane = 0; lane < warp_threads; ++lane)
    for (unsigned i = 0; i < 4; ++i) {
      const float* x = a[lane / 4 + 8 * (i / 2)];
      const float* y = b[2 * (lane % 4) + i % 2];
      float sum = 0;
      for (unsigned k = 0; k < 16; ++k) sum += x[k] * y[k];
      static_cast<MultiplyAdd*>(operands[lane])->d[i] += sum;
    }
  emulator::count_multiply_add();
}
template <class Half>
void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  static constexpr emulator::WarpOperation operation{"multiply_add", run_multiply_add<Half>};
  MultiplyAdd operands{d, a, {b0, b1}};
  emulator::sync_warp(operation, &operands);
}

inline float exp2_fast(float x) { return std::exp2(x); }
inline float exp_fast(float x) { return std::exp(x); }
inline float reciprocal_fast(float x) { return 1.0f / x; }
inline float root(float x) { return std::sqrt(x); }
inline float rsqrt_fast(float x) { return 1.0f / std::sqrt(x); }
inline float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
inline double log_of(double x) { return std::log(x); }
inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline std::uint64_t bits_of(double x) { return std::bit_cast<std::uint64_t>(x); }
inline std::uint32_t count_bits(std::uint32_t bits) {
  return static_cast<std::uint32_t>(std::popcount(bits));
}
inline float larger(float a, float b) { return std::fmax(a, b); }

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape, Stream& stream,
            const Arguments&... arguments) {
  emulator::enqueue(stream, [=] {
    emulator::run({name, shape.blocks, shape.blocks_y, shape.threads, shape.shared_bytes},
                  [&] { kernel(arguments...); });
  });
}

}  // namespace troupe::kernels::cuda::simt
