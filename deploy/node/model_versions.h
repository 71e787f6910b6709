#pragma once
// Where a worker finds the models that the cluster's versions may name: model.versions, a folder with a model
// directory for each version, under its name. A version is a hash of all that the model computes with, so a
// directory that holds something else is found out.
#include <functional>
#include <string>

#include "actors/inference/compute_port.h"
#include "deploy/models/families.h"

namespace troupe::deploy {

// What stands between executors and tables of that version.
using WrapVersion = std::function<WrapTable(const std::string& model_version)>;

// What loads them; none if the knob is empty: then the model of the start stays.
actors::ComputePort::Loader version_loader(const Families& families, const Config& config, WrapVersion wrap);

}  // namespace troupe::deploy
