// For programs that were built without CUDA.
#include "deploy/families/device_engine.h"

namespace troupe::deploy {

Engine open_device_engine(const DeviceChoice& choice, const Config&, kernels::DecoderModel) {
  throw ConfigError("model.device is " + choice.kind +
                    ", and this program was built without CUDA; expected cpu, or a program that was built "
                    "where nvcc is found (TROUPE_CUDA)");
}

}  // namespace troupe::deploy
