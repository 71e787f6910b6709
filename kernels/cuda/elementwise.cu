#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "kernels/cuda/elementwise.h"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned block_threads = 256;
constexpr unsigned warp = 32;

void check_launch(const char* kernel) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    throw std::runtime_error(std::string(kernel) + ": " + cudaGetErrorString(error));
}

unsigned blocks_for(std::size_t elements) {
  const std::size_t blocks = (elements + block_threads - 1) / block_threads;
  return static_cast<unsigned>(blocks < 1u << 20 ? blocks : 1u << 20);   // the grid strides over the rest
}

__device__ float block_sum(float value) {
  __shared__ float partial[block_threads / warp];
  for (unsigned offset = warp / 2; offset > 0; offset /= 2) value += __shfl_down_sync(~0u, value, offset);
  if (threadIdx.x % warp == 0) partial[threadIdx.x / warp] = value;
  __syncthreads();
  float sum = 0;
  for (unsigned i = 0; i < block_threads / warp; ++i) sum += partial[i];
  return sum;
}

// One block a row.
__global__ void rms_norm_kernel(const float* in, std::size_t in_stride, const float* weight, float epsilon, float* out,
                                std::size_t out_stride, std::size_t width) {
  const float* row = in + blockIdx.x * in_stride;
  float squares = 0;
  for (std::size_t i = threadIdx.x; i < width; i += block_threads) squares += row[i] * row[i];
  const float scale = rsqrtf(block_sum(squares) / static_cast<float>(width) + epsilon);
  for (std::size_t i = threadIdx.x; i < width; i += block_threads)
    out[blockIdx.x * out_stride + i] = row[i] * scale * weight[i];
}

// One thread a pair (i, i + head_dim/2).
__global__ void rope_kernel(float* values, std::size_t stride, std::size_t rows, std::size_t heads,
                            std::size_t head_dim, const float* cosines, const float* sines) {
  const std::size_t half = head_dim / 2, pairs = rows * heads * half;
  for (std::size_t n = blockIdx.x * std::size_t{block_threads} + threadIdx.x; n < pairs;
       n += std::size_t{gridDim.x} * block_threads) {
    const std::size_t i = n % half, head = n / half % heads, row = n / half / heads;
    float* low = values + row * stride + head * head_dim + i;
    const float c = cosines[row * half + i], s = sines[row * half + i], a = low[0], b = low[half];
    low[0] = a * c - b * s;
    low[half] = b * c + a * s;
  }
}

__global__ void swiglu_kernel(const float* gate_up, std::size_t in_stride, float* out, std::size_t out_stride,
                              std::size_t rows, std::size_t width) {
  for (std::size_t n = blockIdx.x * std::size_t{block_threads} + threadIdx.x; n < rows * width;
       n += std::size_t{gridDim.x} * block_threads) {
    const std::size_t row = n / width, i = n % width;
    const float gate = gate_up[row * in_stride + i], up = gate_up[row * in_stride + width + i];
    out[row * out_stride + i] = gate / (1.0f + expf(-gate)) * up;
  }
}

__global__ void add_rows_kernel(const float* in, std::size_t in_stride, float* out, std::size_t out_stride,
                                std::size_t rows, std::size_t width) {
  for (std::size_t n = blockIdx.x * std::size_t{block_threads} + threadIdx.x; n < rows * width;
       n += std::size_t{gridDim.x} * block_threads)
    out[n / width * out_stride + n % width] += in[n / width * in_stride + n % width];
}

cudaStream_t to_cuda(Stream stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void rms_norm(const float* in, std::size_t in_stride, const float* weight, float epsilon, float* out,
              std::size_t out_stride, std::size_t rows, std::size_t width, Stream stream) {
  if (rows == 0 || width == 0) return;
  rms_norm_kernel<<<static_cast<unsigned>(rows), block_threads, 0, to_cuda(stream)>>>(in, in_stride, weight, epsilon,
                                                                                      out, out_stride, width);
  check_launch("rms_norm");
}

void rope(float* values, std::size_t stride, std::size_t rows, std::size_t heads, std::size_t head_dim,
          const float* cosines, const float* sines, Stream stream) {
  if (rows * heads * (head_dim / 2) == 0) return;
  rope_kernel<<<blocks_for(rows * heads * (head_dim / 2)), block_threads, 0, to_cuda(stream)>>>(
      values, stride, rows, heads, head_dim, cosines, sines);
  check_launch("rope");
}

void swiglu(const float* gate_up, std::size_t in_stride, float* out, std::size_t out_stride, std::size_t rows,
            std::size_t width, Stream stream) {
  if (rows * width == 0) return;
  swiglu_kernel<<<blocks_for(rows * width), block_threads, 0, to_cuda(stream)>>>(gate_up, in_stride, out, out_stride,
                                                                                 rows, width);
  check_launch("swiglu");
}

void add_rows(const float* in, std::size_t in_stride, float* out, std::size_t out_stride, std::size_t rows,
              std::size_t width, Stream stream) {
  if (rows * width == 0) return;
  add_rows_kernel<<<blocks_for(rows * width), block_threads, 0, to_cuda(stream)>>>(in, in_stride, out, out_stride,
                                                                                   rows, width);
  check_launch("add_rows");
}

}  // namespace troupe::kernels::cuda
