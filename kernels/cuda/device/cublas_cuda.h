#pragma once
// cuBLASLt, loaded by the first product instead of with the program: it is hundreds of megabytes that only a
// machine with a GPU has, and the program must start without.
#include <cublasLt.h>

namespace troupe::kernels::cuda {

#define TROUPE_CUBLAS_FUNCTIONS(entry)                                                                       \
  entry(cublasLtCreate) entry(cublasLtDestroy) entry(cublasLtGetStatusString) entry(cublasLtMatmul)          \
      entry(cublasLtMatmulAlgoGetHeuristic) entry(cublasLtMatmulDescCreate) entry(cublasLtMatmulDescDestroy) \
          entry(cublasLtMatmulDescSetAttribute) entry(cublasLtMatmulPreferenceCreate)                        \
              entry(cublasLtMatmulPreferenceDestroy) entry(cublasLtMatmulPreferenceSetAttribute)             \
                  entry(cublasLtMatrixLayoutCreate) entry(cublasLtMatrixLayoutDestroy)

struct CublasLibrary {
#define TROUPE_CUBLAS_MEMBER(name) decltype(&::name) name = nullptr;
  TROUPE_CUBLAS_FUNCTIONS(TROUPE_CUBLAS_MEMBER)
#undef TROUPE_CUBLAS_MEMBER
};

// The first call loads it; throws DeviceError if there is none of the version that this was built for.
const CublasLibrary& cublas();

}  // namespace troupe::kernels::cuda
