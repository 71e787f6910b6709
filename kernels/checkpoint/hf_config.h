#pragma once
// The decoder's configuration as Hugging Face writes it (config.json). Whatever in it would change the
// mathematics and is not implemented here is refused by name, never ignored.
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "kernels/checkpoint/model.h"

namespace troupe::kernels {

inline constexpr char kConfigFile[] = "config.json";

// What config.json says; `file` is for errors. Throws LoadError.
DecoderConfig decoder_config_of(const std::filesystem::path& file, const nlohmann::json& document);

// The configuration as config.json text: reading it back gives the same configuration. Fixed key order and
// shortest exact numbers, so that equal configurations are equal texts.
std::string config_text(const DecoderConfig& config, StoredAs stored_as);

}  // namespace troupe::kernels
