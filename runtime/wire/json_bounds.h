#pragma once
// Bounds the memory that a JSON text would take as a tree, up to fifty times its size, before any
// of it is kept. Values are counted together with the names of members.
#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

struct JsonBounds {
  std::size_t values_max = 0, depth_max = 32;
};
// Returns "" or the exceeded bound, e.g. "more than 1000 values". For text that is not JSON it may
// return either.
std::string exceeded_bound(std::string_view json, const JsonBounds& bounds);

}  // namespace troupe
