#pragma once
// The engine on a GPU. A program is linked with one of three: on CUDA, on the emulated device (tests), or
// none, which only says so.
#include "deploy/families/engine.h"

namespace troupe::deploy {

// `choice` is not the CPU.
Engine open_device_engine(const DeviceChoice& choice, const Config& config, kernels::DecoderModel model);

}  // namespace troupe::deploy
