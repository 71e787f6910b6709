#pragma once
// Escapes text for HTML and XML. The output is valid UTF-8 without markup for any input bytes:
// names in a report may come from a damaged file or a hostile request.
#include <string>
#include <string_view>

namespace troupe::deploy {

// Replaces & < > " ' by entities. Bytes that are not UTF-8, and code points that XML forbids,
// become U+FFFD.
std::string escaped(std::string_view text);

std::size_t code_points(std::string_view text);

}  // namespace troupe::deploy
