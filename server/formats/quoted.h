#pragma once
// Quotes a client's text in an error, shortened to a bounded length.
#include <string>
#include <string_view>

namespace troupe::server {

inline constexpr std::size_t quoted_bytes_max = 64;

inline std::string in_quotes(std::string_view text) {
  return '"' + std::string(text.substr(0, quoted_bytes_max)) + '"';
}

}  // namespace troupe::server
