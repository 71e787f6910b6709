// Loads cuBLASLt when the first product is made, so that the program also starts on machines
// without it.
#include "kernels/cuda/device/cublas_cuda.h"

#include <dlfcn.h>

#include <string>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda {
namespace {

CublasLibrary load() {
  const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw DeviceError("cuBLASLt: " + std::string(dlerror()) + "; expected " + file +
                      " of the CUDA toolkit where the loader finds it (LD_LIBRARY_PATH)");
  CublasLibrary loaded;
  const auto symbol = [&](const char* name) {
    void* const found = dlsym(library, name);
    if (found == nullptr) throw DeviceError("cuBLASLt: " + file + " has no " + name);
    return found;
  };
#define TROUPE_CUBLAS_LOAD(name) loaded.name = reinterpret_cast<decltype(loaded.name)>(symbol(#name));
  TROUPE_CUBLAS_FUNCTIONS(TROUPE_CUBLAS_LOAD)
#undef TROUPE_CUBLAS_LOAD
  return loaded;
}

}  // namespace

const CublasLibrary& cublas() {
  static const CublasLibrary library = load();
  return library;
}

}  // namespace troupe::kernels::cuda
