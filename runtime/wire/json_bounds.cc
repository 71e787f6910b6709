// Counts values and nesting of a JSON text before it is parsed, so that a hostile text cannot
// fill the memory.
#include "runtime/wire/json_bounds.h"

namespace troupe {

std::string exceeded_bound(std::string_view json, const JsonBounds& bounds) {
  std::size_t values = 1, depth = 0;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      for (++i; i < json.size() && json[i] != '"'; ++i) i += json[i] == '\\';
    } else if (c == '[' || c == '{') {
      if (++depth > bounds.depth_max) return "more than " + std::to_string(bounds.depth_max) + " levels";
      ++values;
    } else if (c == ']' || c == '}') {
      depth -= depth > 0;
    } else if (c == ',' || c == ':') {
      ++values;
    }
    if (values > bounds.values_max) return "more than " + std::to_string(bounds.values_max) + " values";
  }
  return "";
}

}  // namespace troupe
