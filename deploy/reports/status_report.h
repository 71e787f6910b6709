#pragma once
// Prints /v1/cluster for `troupe status`: a summary of about ten lines, or every field of every
// actor. Nodes appear by their names where the server knows them.
#include <cstddef>
#include <nlohmann/json.hpp>
#include <ostream>

namespace troupe::deploy {

// Prints models, requests, precomputation, a line per node and warnings. Of more than `nodes_shown` nodes
// those with a problem come first, and the others are counted.
inline constexpr std::size_t nodes_shown = 12, warnings_shown = 8;
void print_status_summary(const nlohmann::json& cluster, std::ostream& out);
// Prints all fields of all actors, and the compute time that each area of the pools saves.
void print_status_fields(const nlohmann::json& cluster, std::ostream& out);

}  // namespace troupe::deploy
