#pragma once
// Reads a served model's description and its catalog without starting a node.
#include <filesystem>
#include <vector>

#include "deploy/node/served_model.h"
#include "runtime/actor/catalog.h"

namespace troupe::deploy {

// Describes the model without reading its weights. Block names therefore differ from a real node's;
// everything else is the same. Throws what a node throws for its configuration and model.
void describe_without_weights(const Config& config, ServedModel& model);

// Returns the items of a catalog folder, as import would store them, or of node.data_dir if the folder is
// "", in the order of their numbers, without block names. Throws ImportError, ConfigError.
std::vector<Item> served_catalog(const ServedModel& model, const std::filesystem::path& data);

}  // namespace troupe::deploy
