#pragma once
// Loads cuBLASLt at the first product instead of at program start: it takes hundreds of megabytes,
// only machines with a GPU have it, and the program must start without it.
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

// Loads the library at the first call; throws DeviceError if the version that this was built for is
// missing.
const CublasLibrary& cublas();

}  // namespace troupe::kernels::cuda
