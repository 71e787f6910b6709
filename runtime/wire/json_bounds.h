#pragma once
// What a JSON text is worth to whoever keeps it as a tree, which takes up to fifty times as much memory: told
// before any of it is kept. Values are counted with the names of members.
#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

struct JsonBounds {
  std::size_t values_max = 0, depth_max = 32;
};
// "" or what it has too much of: "more than 1000 values". Of what is no JSON it may say either.
std::string find_excess(std::string_view json, const JsonBounds& bounds);

}  // namespace troupe
