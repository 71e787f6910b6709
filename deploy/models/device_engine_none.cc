// Refuses GPUs in programs that are built without CUDA.
#include "deploy/models/device_engine.h"

namespace troupe::deploy {

namespace {

[[noreturn]] void refuse(const DeviceChoice& choice) {
  throw ConfigError("model.device is " + choice.kind +
                    ", and this program is built without CUDA; expected cpu, or a program built where nvcc "
                    "is found (TROUPE_CUDA)");
}

}  // namespace

Engine open_device_engine(const DeviceChoice& choice, const Config&, kernels::DecoderModel) {
  refuse(choice);
}
Engine open_device_engine(const DeviceChoice& choice, const Config&, kernels::HstuModel) { refuse(choice); }
Engine open_device_engine(const DeviceChoice& choice, const Config&, kernels::ClimberModel) {
  refuse(choice);
}

}  // namespace troupe::deploy
