#pragma once
// Cuts a graph into parts of equal weight so that the edges between parts weigh little. The one file that
// knows METIS.
#include <cstdint>
#include <span>
#include <vector>

#include "placement/assignment/placement.h"

namespace troupe::placement {

// Undirected: each edge is there twice. Vertices are numbered from 0.
struct Graph {
  std::vector<std::uint64_t> begins;  // of each vertex's neighbours; one more at the end
  std::vector<std::uint32_t> neighbours, weights;

  std::size_t vertices() const { return begins.empty() ? 0 : begins.size() - 1; }
};

inline constexpr double partition_tolerance = 1.03;  // a part's weight, at most, over the equal one

// The part of each vertex; the same every time. weights: of the vertices. METIS aims at the tolerance and
// keeps it where vertices are small beside a part. Throws std::invalid_argument for no parts, or 2^31
// neighbours and more, and std::runtime_error if METIS has no memory.
std::vector<Place> partition(const Graph& graph, std::span<const std::uint64_t> weights, std::size_t parts);

}  // namespace troupe::placement
