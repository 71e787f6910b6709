// Implements product.h on cuBLASLt, which stores matrices by column. Our rows are its columns, so
// it computes out' (outputs × rows) = weight'' (stored as inputs × outputs, transposed) × in'
// (inputs × rows).
#include <map>

#include "kernels/base/check.h"
#include "kernels/cuda/device/cublas_cuda.h"
#include "kernels/cuda/device/product.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // NVIDIA's recommendation for Hopper

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(std::string(call) + ": " + cublas().cublasLtGetStatusString(status));
}

struct Destroy {
  void operator()(cublasLtHandle_t handle) const { cublas().cublasLtDestroy(handle); }
  void operator()(cublasLtMatmulDesc_t description) const { cublas().cublasLtMatmulDescDestroy(description); }
  void operator()(cublasLtMatrixLayout_t layout) const { cublas().cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublas().cublasLtMatmulPreferenceDestroy(preference);
  }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

Owned<cublasLtMatrixLayout_t> matrix(cudaDataType_t type, std::uint64_t rows, std::uint64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublas().cublasLtMatrixLayoutCreate(&layout, type, rows, columns, static_cast<std::int64_t>(rows)),
        "cublasLtMatrixLayoutCreate");
  return Owned<cublasLtMatrixLayout_t>(layout);
}

template <class Value>
void set(const Owned<cublasLtMatmulDesc_t>& description, cublasLtMatmulDescAttributes_t name,
         const Value& value) {
  check(cublas().cublasLtMatmulDescSetAttribute(description.get(), name, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

// A shape with its cuBLASLt descriptors and algorithm.
struct Prepared {
  Owned<cublasLtMatmulDesc_t> description;
  Owned<cublasLtMatrixLayout_t> weight, in, out;
  cublasLtMatmulAlgo_t algorithm;
};

class LtProduct final : public Product {
 public:
  explicit LtProduct(HalfFormat format)
      : half_(format == HalfFormat::bf16 ? CUDA_R_16BF : CUDA_R_16F), workspace_(workspace_bytes) {
    cublasLtHandle_t handle = nullptr;
    check(cublas().cublasLtCreate(&handle), "cublasLtCreate");
    handle_.reset(handle);
  }

  void run(const ProductShape& shape, const ProductOperands& operands, Stream& stream) override {
    if (shape.rows == 0) return;
    auto found = prepared_.find(shape);
    if (found == prepared_.end()) found = prepared_.emplace(shape, prepare(shape)).first;
    const Prepared& ready = found->second;
    if (shape.bias) set(ready.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
    const float one = 1, beta = shape.out == ProductOut::add_f32 ? 1 : 0;
    check(cublas().cublasLtMatmul(handle_.get(), ready.description.get(), &one, operands.weight,
                                  ready.weight.get(), operands.in, ready.in.get(), &beta, operands.out,
                                  ready.out.get(), operands.out, ready.out.get(), &ready.algorithm,
                                  workspace_.data(), workspace_.size_bytes(),
                                  static_cast<cudaStream_t>(stream.handle())),
          "cublasLtMatmul");
  }

 private:
  Prepared prepare(const ProductShape& shape) const;
  static Owned<cublasLtMatmulPreference_t> preference();

  const cudaDataType_t half_;
  const DeviceMemory workspace_;
  Owned<cublasLtHandle_t> handle_;
  // Has an entry per weight shape and number of rows; the decoder rounds these numbers up to a few
  // values.
  std::map<ProductShape, Prepared> prepared_;
};

template <class Value>
void set(const Owned<cublasLtMatmulPreference_t>& preference, cublasLtMatmulPreferenceAttributes_t name,
         const Value& value) {
  check(cublas().cublasLtMatmulPreferenceSetAttribute(preference.get(), name, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

Owned<cublasLtMatmulPreference_t> LtProduct::preference() {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublas().cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  Owned<cublasLtMatmulPreference_t> preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  // Sums that are split over blocks stay float32 until they are complete.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  return preference;
}

Prepared LtProduct::prepare(const ProductShape& shape) const {
  TROUPE_CHECK(shape.inputs % 8 == 0 && shape.outputs % 8 == 0, "inputs and outputs are multiples of 8");
  TROUPE_CHECK(!shape.bias || shape.out != ProductOut::half, "a bias requires float32 results");
  Prepared ready;
  cublasLtMatmulDesc_t description = nullptr;
  check(cublas().cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  ready.description.reset(description);
  set(ready.description, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (shape.bias) {
    set(ready.description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(ready.description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
  }
  ready.weight = matrix(half_, shape.inputs, shape.outputs);
  ready.in = matrix(half_, shape.inputs, shape.rows);
  ready.out = matrix(shape.out == ProductOut::half ? half_ : CUDA_R_32F, shape.outputs, shape.rows);
  const Owned<cublasLtMatmulPreference_t> preference = this->preference();
  cublasLtMatmulHeuristicResult_t best;
  int found = 0;
  check(cublas().cublasLtMatmulAlgoGetHeuristic(handle_.get(), description, ready.weight.get(),
                                                ready.in.get(), ready.out.get(), ready.out.get(),
                                                preference.get(), 1, &best, &found),
        "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0) throw DeviceError("cublasLtMatmulAlgoGetHeuristic: no algorithm for this shape");
  ready.algorithm = best.algo;
  return ready;
}

}  // namespace

std::unique_ptr<Product> make_product(HalfFormat format) { return std::make_unique<LtProduct>(format); }

}  // namespace troupe::kernels::cuda
