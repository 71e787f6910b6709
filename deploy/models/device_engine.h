#pragma once
// Engine on a GPU. A program links one of three versions: CUDA, the emulated device (tests), or
// none, which reports that this program has no GPU support.
#include "deploy/models/engine.h"
#include "kernels/climber/climber.h"
#include "kernels/hstu/hstu_model.h"

namespace troupe::deploy {

// `choice` must not be the CPU.
Engine open_device_engine(const DeviceChoice& choice, const Config& config, kernels::DecoderModel model);
Engine open_device_engine(const DeviceChoice& choice, const Config& config, kernels::HstuModel model);
Engine open_device_engine(const DeviceChoice& choice, const Config& config, kernels::ClimberModel model);

}  // namespace troupe::deploy
