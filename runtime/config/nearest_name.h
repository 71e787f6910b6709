#pragma once
// Finds the known name that an unknown one was probably meant to be, for errors.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Edit distance: letters to change, insert or remove.
std::size_t edit_distance(std::string_view from, std::string_view to);

// Returns the name nearest to `word`, the first of equally near ones; "" if all are farther than
// `distance_max`.
std::string nearest_name(const std::vector<std::string>& names, std::string_view word,
                         std::size_t distance_max);

}  // namespace troupe
