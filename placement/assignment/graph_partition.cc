// Cuts a graph into parts of equal weight with few edges between them, by the library METIS. This
// is the only file that includes METIS.
#include "placement/assignment/graph_partition.h"

#include <metis.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "kernels/base/check.h"

namespace troupe::placement {

namespace {

constexpr std::uint64_t index_max = std::numeric_limits<idx_t>::max();

// Scales weights so that their sum stays below 1e9: METIS adds them up in its own integer type.
std::vector<idx_t> scaled(std::span<const std::uint64_t> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double scale = std::min(1.0, 1e9 / sum);
  std::vector<idx_t> all;
  all.reserve(weights.size());
  for (const std::uint64_t weight : weights)
    all.push_back(std::max<idx_t>(1, static_cast<idx_t>(std::lround(static_cast<double>(weight) * scale))));
  return all;
}

std::vector<idx_t> in_range(std::span<const std::uint32_t> weights) {
  std::vector<idx_t> all;
  all.reserve(weights.size());
  for (const std::uint32_t weight : weights)
    all.push_back(static_cast<idx_t>(std::min<std::uint32_t>(weight, 1'000'000)));
  return all;
}

}  // namespace

std::vector<NodeIndex> partition(const Graph& graph, std::span<const std::uint64_t> weights,
                                 std::size_t parts) {
  TROUPE_CHECK(weights.size() == graph.vertices(), "one weight per vertex");
  if (parts == 0 || parts > nodes_max || graph.neighbours.size() > index_max)
    throw std::invalid_argument("partition: " + std::to_string(parts) + " parts of a graph with " +
                                std::to_string(graph.neighbours.size()) +
                                " neighbours; expected at least one part, and fewer than 2^31 neighbours");
  if (parts == 1 || graph.vertices() == 0) return std::vector<NodeIndex>(graph.vertices(), 0);
  auto vertices = static_cast<idx_t>(graph.vertices()), constraints = idx_t{1};
  auto count = static_cast<idx_t>(parts);
  std::vector<idx_t> begins(graph.begins.begin(), graph.begins.end());
  std::vector<idx_t> neighbours(graph.neighbours.begin(), graph.neighbours.end());
  std::vector<idx_t> edge_weights = in_range(graph.weights), vertex_weights = scaled(weights);
  std::vector<idx_t> part(graph.vertices());
  idx_t options[METIS_NOPTIONS], cut = 0;
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = 1;
  options[METIS_OPTION_UFACTOR] = static_cast<idx_t>(std::lround((partition_tolerance - 1) * 1000));
  const int status =
      METIS_PartGraphKway(&vertices, &constraints, begins.data(), neighbours.data(), vertex_weights.data(),
                          nullptr, edge_weights.data(), &count, nullptr, nullptr, options, &cut, part.data());
  if (status == METIS_ERROR_MEMORY)
    throw std::runtime_error("partition: METIS ran out of memory for this graph");
  TROUPE_CHECK(status == METIS_OK, "METIS accepts a graph that this program built");
  return {part.begin(), part.end()};
}

}  // namespace troupe::placement
