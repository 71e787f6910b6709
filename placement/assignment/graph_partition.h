#pragma once
// Cuts a graph into parts of equal weight and minimizes the weight of the edges between parts.
// graph_partition.cc is the only file that includes METIS.
#include <cstdint>
#include <span>
#include <vector>

#include "placement/assignment/placement.h"

namespace troupe::placement {

// An undirected graph in compressed rows: each edge is stored at both of its ends. Vertices are
// numbered from 0.
struct Graph {
  std::vector<std::uint64_t> begins;  // [vertices + 1] first neighbour of each vertex
  std::vector<std::uint32_t> neighbours, weights;

  std::size_t vertices() const { return begins.empty() ? 0 : begins.size() - 1; }
};

inline constexpr double partition_tolerance = 1.03;  // maximum weight of a part, relative to an equal share

// Returns the part of each vertex; equal inputs give equal results. `weights` has one entry per
// vertex. METIS aims at partition_tolerance and keeps it when vertices are small compared with a
// part. Throws std::invalid_argument for no parts or for 2^31 neighbours and more, and
// std::runtime_error if METIS runs out of memory.
std::vector<NodeIndex> partition(const Graph& graph, std::span<const std::uint64_t> weights,
                                 std::size_t parts);

}  // namespace troupe::placement
