#pragma once
// Parses a line of a file into a JSON tree, by the same rules as a body over HTTP. Refuses a line that is too
// large for a row before it builds the tree.
#include "deploy/data/text_file.h"
#include "server/formats/json_tree.h"

namespace troupe::deploy {

// Throws ImportError if the line is too large or is not JSON, or if a member stands there twice.
nlohmann::json parse_row(const TextFile& file, std::string_view line,
                         server::Fractions fractions = server::Fractions::taken);

// Reports an error of nlohmann's accessors, such as at(), in our own words. Throws ImportError.
[[noreturn]] void fail_row(const TextFile& file, const nlohmann::json::exception& error,
                           std::string_view expected);

}  // namespace troupe::deploy
