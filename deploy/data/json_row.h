#pragma once
// Parses a line of a data set into a JSON tree. Refuses a line that is too large for a row before
// it builds the tree.
#include <nlohmann/json.hpp>

#include "deploy/data/text_file.h"

namespace troupe::deploy {

// Throws ImportError if the line is too large, and nlohmann's errors if it is not JSON.
nlohmann::json parse_row(const TextFile& file, std::string_view line);

}  // namespace troupe::deploy
