#pragma once
// Loads the model versions of a rollout from model.versions (version_folder.h). A version is a hash of
// everything the model computes with, so a directory with other content is detected. The prompt form is no
// part of that: routers keep the form of their start, so a version with another form is refused.
#include <functional>
#include <memory>
#include <string>

#include "actors/inference/compute_port.h"
#include "deploy/models/model_families.h"
#include "deploy/node/version_folder.h"
#include "runtime/actor/prompt_form.h"

namespace troupe::deploy {

// Wraps the embedding tables of a version for its executors.
using WrapVersion = std::function<WrapTable(const std::string& model_version)>;

// Returns what a form has that requests of the `served` form would not get, by the names of the prompt
// file ("system, arrangements"); "" = the served form holds for it too. A larger vocabulary and more
// positions than the served form's are no difference.
std::string form_differences(const PromptForm& form, const PromptForm& served);

// Returns a loader of versions, which refuses a version with another form than `served`. Without a folder of
// versions, returns an empty loader: the worker then keeps the model it started with.
actors::ComputePort::Loader version_loader(std::shared_ptr<VersionFolder> versions, const Config& config,
                                           const PromptForm& served, WrapVersion wrap);

}  // namespace troupe::deploy
