#pragma once
// The decoder's configuration as Hugging Face writes it (config.json). A field that would change
// the mathematics and is not implemented here is refused by name, never ignored.
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "kernels/checkpoint/model.h"

namespace troupe::kernels {

inline constexpr char kConfigFile[] = "config.json";

// Reads the configuration from config.json; `file` is for errors. Throws LoadError.
DecoderConfig decoder_config_of(const std::filesystem::path& file, const nlohmann::json& document);

// Returns the configuration as config.json text; reading it back gives the same configuration.
// Equal configurations give equal texts: key order is fixed and numbers are the shortest exact
// ones.
std::string config_text(const DecoderConfig& config, StoredAs stored_as);

}  // namespace troupe::kernels
