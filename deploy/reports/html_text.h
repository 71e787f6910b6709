#pragma once
// Text made safe for HTML and XML. Whatever bytes come in, what goes out is valid UTF-8 that no reader takes
// for markup: the names in a report may come from a damaged file or a hostile request.
#include <string>
#include <string_view>

namespace troupe::deploy {

// & < > " ' become entities; bytes that are no UTF-8, and code points that XML forbids, become U+FFFD.
std::string escaped(std::string_view text);

std::size_t code_points(std::string_view text);

}  // namespace troupe::deploy
