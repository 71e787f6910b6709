#pragma once
// The engine on a GPU. A program is linked with one of three: on CUDA, on the emulated device (tests), or
// none, which only says so.
#include "deploy/models/engine.h"
#include "kernels/climber/climber.h"
#include "kernels/hstu/hstu_model.h"

namespace troupe::deploy {

// `choice` is not the CPU.
Engine open_device_engine(const DeviceChoice& choice, const Config& config, kernels::DecoderModel model);
Engine open_device_engine(const DeviceChoice& choice, const Config& config, kernels::HstuModel model);
Engine open_device_engine(const DeviceChoice& choice, const Config& config, kernels::ClimberModel model);

}  // namespace troupe::deploy
