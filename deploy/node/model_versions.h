#pragma once
// Loads the model versions of a rollout from model.versions: a folder with one model directory per
// version, named by the version. A version is a hash of everything the model computes with, so a
// directory with other content is detected.
#include <functional>
#include <string>

#include "actors/inference/compute_port.h"
#include "deploy/models/model_families.h"

namespace troupe::deploy {

// Wraps the embedding tables of a version for its executors.
using WrapVersion = std::function<WrapTable(const std::string& model_version)>;

// Returns a loader of versions. If model.versions is empty, returns an empty loader: the worker
// then keeps the model it started with.
actors::ComputePort::Loader version_loader(const ModelFamilies& families, const Config& config,
                                           WrapVersion wrap);

}  // namespace troupe::deploy
