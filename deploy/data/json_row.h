#pragma once
// A line of a data set as a JSON tree. One that holds too much for a row is refused before a tree is made of
// it.
#include <nlohmann/json.hpp>

#include "deploy/data/text_file.h"

namespace troupe::deploy {

// Throws ImportError on too much, nlohmann's errors on what is no JSON.
nlohmann::json parse_row(const TextFile& file, std::string_view line);

}  // namespace troupe::deploy
