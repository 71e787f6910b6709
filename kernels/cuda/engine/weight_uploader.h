#pragma once
// Uploads weights of any family to the calling thread's device, tensor by tensor, in the format
// that products read. `memory` owns the uploads.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/base/float_formats.h"
#include "kernels/checkpoint/model.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/half_format.h"

namespace troupe::kernels::cuda {

// Rounds up to a multiple of 8, as outputs of products require.
inline std::uint32_t padded_outputs(std::uint32_t rows) { return (rows + 7) / 8 * 8; }

class WeightUploader {
 public:
  WeightUploader(RowFormat format, std::vector<DeviceMemory>& memory) : format_(format), memory_(memory) {}

  // Uploads matrices with equal columns, stacked one below the other.
  template <class... Matrices>
  const std::uint16_t* halves(Matrices... matrices) {
    std::vector<std::uint16_t> all;
    (append(std::move(matrices), all), ...);
    return upload(all);
  }

  // Uploads a matrix padded with zero rows to a multiple of 8, so that a product may use all of it.
  const std::uint16_t* padded(Matrix matrix) {
    const std::size_t size = std::size_t{padded_outputs(matrix.rows)} * matrix.columns * parts_of(format_);
    std::vector<std::uint16_t> all;
    append(std::move(matrix), all);
    all.resize(size);
    return upload(all);
  }

  template <class... Vectors>
  const float* floats(const Vectors&... vectors) {
    std::vector<float> all;
    (all.insert(all.end(), vectors.begin(), vectors.end()), ...);
    return upload(all);
  }

 private:
  void append(Matrix matrix, std::vector<std::uint16_t>& all) const {
    const std::size_t first = all.size(), parts = parts_of(format_), columns = matrix.columns;
    all.resize(first + matrix.values.size() * parts);
    if (parts == 1) return round_to(half_of(format_), matrix.values, all.data() + first);
    std::vector<std::uint16_t> rounded(matrix.values.size()), rests(matrix.values.size());
    round_to(HalfFormat::f16, matrix.values, rounded.data());
    for (std::size_t i = 0; i < rounded.size(); ++i) matrix.values[i] -= from_f16(rounded[i]);
    round_to(HalfFormat::f16, matrix.values, rests.data());
    for (std::size_t r = 0; r < matrix.rows; ++r)
      for (std::size_t part = 0; part < parts; ++part)
        std::copy_n((part < 2 ? rounded : rests).data() + r * columns, columns,
                    all.data() + first + (r * parts + part) * columns);
  }

  template <class T>
  const T* upload(const std::vector<T>& all) {
    if (all.empty()) return nullptr;
    const DeviceMemory& memory = memory_.emplace_back(all.size() * sizeof(T));
    stream_.upload(memory.data(), all.data(), memory.size_bytes());
    stream_.synchronize();
    return memory.as<T>();
  }

  const RowFormat format_;
  std::vector<DeviceMemory>& memory_;
  Stream stream_;
};

}  // namespace troupe::kernels::cuda
