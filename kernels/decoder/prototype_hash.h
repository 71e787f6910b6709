#pragma once
// Finds the prototype that is nearest to a token at a position (prototypes.h). A token at a position
// has a direction: its row of the embedding joined with waves of its position. Random hyperplanes
// divide the directions into buckets, in several tables. The nearest prototype is looked for among
// those that share a bucket with the token.
//
// Sums are in a fixed order and never fused with products, so machines with the same C library find
// the same prototype.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/base/tokens.h"

namespace troupe::kernels {

struct PrototypeOptions {
  std::uint32_t tables = 8, planes = 12;  // of the hash: 1 to 64, 1 to 24
  std::uint64_t seed = 1;
  double position_weight = 0.2;  // share of the position in the squared length of a token's direction: 0 to 1
  double cosine_min = 0.9;       // minimum cosine of a token and its prototype: −1 to 1
  std::uint32_t prototypes_max = 65'536;
  std::uint32_t runs_max = 1u << 22;  // of the file's look-up table (prototype_table.h)
};

// Returns the scalar product of two rows of equal length.
float dot(std::span<const float> a, std::span<const float> b);

// Computes the direction of a token at a position, with length one.
class PositionalEmbedding {
 public:
  static constexpr std::uint32_t waves = 16;
  // `table` is [vocabulary][hidden] and must outlive this object.
  PositionalEmbedding(std::span<const float> table, std::uint32_t hidden, double position_weight);
  std::uint32_t width() const { return hidden_ + waves; }
  // Returns true if a token has the same direction at every position.
  bool ignores_positions() const { return position_weight_ == 0; }
  std::vector<float> direction(Token token, std::uint32_t position) const;
  // Return its two parts, of `width` less `waves` numbers and of `waves`.
  std::vector<float> row(Token token) const;
  std::vector<float> waves_at(std::uint32_t position) const;

 private:
  const std::span<const float> table_;
  const std::uint32_t hidden_;
  const double position_weight_;
  double frequencies_[waves / 2];  // radians per position
};

// Finds directions that are on the same side of all hyperplanes of a table. A direction's head (a
// token's row) and its tail (the waves) are summed apart, so that a head's sums serve all positions.
class HashTables {
 public:
  // Directions have `width` numbers, the last `tail` of which are the tail.
  HashTables(std::uint32_t width, const PrototypeOptions& options, std::uint32_t tail = 0);
  void add(std::span<const float> direction, std::uint32_t number);
  // The candidate of the largest cosine; the lowest number among equals.
  struct Neighbour {
    std::uint32_t number = 0;
    float cosine = 0;
  };
  std::optional<Neighbour> nearest(std::span<const float> direction) const;
  // Returns the cosine of a direction and an added one.
  float cosine(std::span<const float> direction, std::uint32_t number) const;

 private:
  friend class HashSweep;
  std::span<const float> head(std::span<const float> row) const { return row.first(width_ - tail_); }
  std::span<const float> tail(std::span<const float> row) const { return row.last(tail_); }
  std::span<const float> added(std::uint32_t number) const;
  // Return the products of a head or a tail with the hyperplanes: [table][plane].
  std::vector<float> project_head(std::span<const float> head) const;
  std::vector<float> project_tail(std::span<const float> tail) const;
  // Calls `visit` with the candidates of each table; a candidate of several tables comes several times.
  template <class Visit>
  void visit_candidates(std::span<const float> head, std::span<const float> tail, const Visit& visit) const;

  const std::uint32_t width_, tail_, planes_;
  std::vector<float> normals_;     // [table][plane][width]
  std::vector<float> directions_;  // [number][width]
  std::vector<std::unordered_map<std::uint32_t, std::vector<std::uint32_t>>> tables_;
};

// Finds the neighbours of directions that share their head, each as HashTables::nearest does.
class HashSweep {
 public:
  // `tables` and `tails`, of all directions that are asked for, must outlive this object.
  HashSweep(const HashTables& tables, std::span<const std::vector<float>> tails);
  // Returns the neighbour of each tail behind this head.
  std::vector<std::optional<HashTables::Neighbour>> nearest(std::span<const float> head);

 private:
  const HashTables& tables_;
  const std::span<const std::vector<float>> tails_;
  std::vector<std::vector<float>> projections_;  // of each tail
  std::vector<float> cosines_;                   // of the head and each added one's, if it is known
  // [number] last head, and last direction, that it was computed for
  std::vector<std::uint64_t> known_since_, visited_;
  std::uint64_t heads_ = 0, directions_ = 0;
};

// Keeps the newest results of hashing, so that a token is hashed once for all that ask for it: the
// router's plan, the check of the plan and its pass. Several threads may use it.
class HashedTokens {
 public:
  HashedTokens();
  HashedTokens(HashedTokens&& other) noexcept;
  ~HashedTokens();
  // Returns what `keep` was told; nullopt if it was told nothing, or newer results took its entry.
  std::optional<std::uint32_t> find(Token token, std::uint32_t position) const;
  void keep(Token token, std::uint32_t position, std::uint32_t result);

 private:
  struct Shard;
  Shard& shard(Token token, std::uint32_t position, std::size_t& entry) const;

  std::unique_ptr<Shard[]> shards_;
};

}  // namespace troupe::kernels
