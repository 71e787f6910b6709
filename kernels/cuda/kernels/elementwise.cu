#include "kernels/cuda/kernels/elementwise.h"

#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda {

namespace {

using namespace simt;

constexpr unsigned threads = 256;

unsigned blocks_for(std::size_t elements) {
  const std::size_t blocks = (elements + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 1u << 20 ? blocks : 1u << 20);  // the grid strides over the rest
}

TROUPE_DEVICE std::size_t first_element() { return block_x() * std::size_t{threads} + thread_x(); }
TROUPE_DEVICE std::size_t grid_stride() { return blocks_x() * std::size_t{threads}; }

TROUPE_DEVICE float block_sum(float value) {
  TROUPE_SHARED(float, partial, threads / warp_threads);
  for (unsigned offset = warp_threads / 2; offset > 0; offset /= 2) value += shuffle_down(value, offset);
  if (lane() == 0) partial[warp()] = value;
  barrier();
  float sum = 0;
  for (unsigned i = 0; i < threads / warp_threads; ++i) sum += partial[i];
  return sum;
}

// One block a row.
TROUPE_KERNEL(threads)
rms_norm_kernel(const float* in, std::size_t in_stride, const float* weight, float epsilon, float* out,
                std::size_t out_stride, std::size_t width) {
  const float* row = in + block_x() * in_stride;
  float squares = 0;
  for (std::size_t i = thread_x(); i < width; i += threads) squares += row[i] * row[i];
  const float scale = rsqrt_fast(block_sum(squares) / static_cast<float>(width) + epsilon);
  for (std::size_t i = thread_x(); i < width; i += threads)
    out[block_x() * out_stride + i] = row[i] * scale * weight[i];
}

// One thread a pair (i, i + head_dim/2).
TROUPE_KERNEL(threads)
rope_kernel(float* values, std::size_t stride, std::size_t rows, std::size_t heads, std::size_t head_dim,
            const float* cosines, const float* sines) {
  const std::size_t half = head_dim / 2, pairs = rows * heads * half;
  for (std::size_t n = first_element(); n < pairs; n += grid_stride()) {
    const std::size_t i = n % half, head = n / half % heads, row = n / half / heads;
    float* low = values + row * stride + head * head_dim + i;
    const float c = cosines[row * half + i], s = sines[row * half + i], a = low[0], b = low[half];
    low[0] = a * c - b * s;
    low[half] = b * c + a * s;
  }
}

TROUPE_KERNEL(threads)
swiglu_kernel(const float* gate_up, std::size_t in_stride, float* out, std::size_t out_stride,
              std::size_t rows, std::size_t width) {
  for (std::size_t n = first_element(); n < rows * width; n += grid_stride()) {
    const std::size_t row = n / width, i = n % width;
    const float gate = gate_up[row * in_stride + i], up = gate_up[row * in_stride + width + i];
    out[row * out_stride + i] = gate / (1.0f + exp_fast(-gate)) * up;
  }
}

TROUPE_KERNEL(threads)
add_rows_kernel(const float* in, std::size_t in_stride, float* out, std::size_t out_stride, std::size_t rows,
                std::size_t width) {
  for (std::size_t n = first_element(); n < rows * width; n += grid_stride())
    out[n / width * out_stride + n % width] += in[n / width * in_stride + n % width];
}

}  // namespace

void rms_norm(const float* in, std::size_t in_stride, const float* weight, float epsilon, float* out,
              std::size_t out_stride, std::size_t rows, std::size_t width, Stream& stream) {
  if (rows == 0 || width == 0) return;
  launch("rms_norm", rms_norm_kernel, {.blocks = static_cast<unsigned>(rows), .threads = threads}, stream, in,
         in_stride, weight, epsilon, out, out_stride, width);
}

void rope(float* values, std::size_t stride, std::size_t rows, std::size_t heads, std::size_t head_dim,
          const float* cosines, const float* sines, Stream& stream) {
  const std::size_t pairs = rows * heads * (head_dim / 2);
  if (pairs == 0) return;
  launch("rope", rope_kernel, {.blocks = blocks_for(pairs), .threads = threads}, stream, values, stride, rows,
         heads, head_dim, cosines, sines);
}

void swiglu(const float* gate_up, std::size_t in_stride, float* out, std::size_t out_stride, std::size_t rows,
            std::size_t width, Stream& stream) {
  if (rows * width == 0) return;
  launch("swiglu", swiglu_kernel, {.blocks = blocks_for(rows * width), .threads = threads}, stream, gate_up,
         in_stride, out, out_stride, rows, width);
}

void add_rows(const float* in, std::size_t in_stride, float* out, std::size_t out_stride, std::size_t rows,
              std::size_t width, Stream& stream) {
  if (rows * width == 0) return;
  launch("add_rows", add_rows_kernel, {.blocks = blocks_for(rows * width), .threads = threads}, stream, in,
         in_stride, out, out_stride, rows, width);
}

}  // namespace troupe::kernels::cuda
