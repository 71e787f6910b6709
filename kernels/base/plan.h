#pragma once
// A segment plan: the one form of every prompt that Troupe computes, from the router to the kernels. A plan lists
// segments (runs of tokens that are attended to as a unit) in an order in which each comes after those that it sees,
// and says where scores are read. The plan fixes the mathematics completely; where keys and values come from
// (computed now, or cached) does not change the result. ARCHITECTURE.md, "Segments".
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/sees.h"
#include "kernels/base/tokens.h"

namespace troupe::kernels {

enum class SegmentKind : std::uint8_t { system, user, item, instruction, discriminant, beam };

// Tokens of an earlier segment in whose place later ones stand (a block's tokens that were computed again where the
// prompt has them): whoever sees both segments sees the later one's tokens only. Neither sees the other.
struct Replaced {
  static constexpr std::uint32_t none = UINT32_MAX;
  std::uint32_t segment = none;
  std::uint32_t offset = 0;        // of the first token; as many as the replacing segment has
  bool operator==(const Replaced&) const = default;
};

struct Segment {
  SegmentKind kind = SegmentKind::user;
  Tokens tokens;
  std::int32_t start = 0;          // position id of tokens[0]; positions run on inside the segment
  Sees sees;                       // earlier segments whose keys all its tokens attend to
  // Positions by which others see its keys moved: where a block stands that was computed alone, at its own start.
  std::int32_t shift = 0;
  Replaced replaces;
  // Of each token as many numbers as the model's family takes (times, actions; [token][feature]); none for decoders.
  std::vector<std::int64_t> features;
  bool operator==(const Segment&) const = default;
};

// What is read of one token's final hidden state: dot products with the named rows of the output projection, with all
// of them, or a head of the model by its number.
struct Readout {
  enum class What : std::uint8_t { rows, all_rows, head };
  std::uint32_t segment = 0;
  std::uint32_t offset = 0;        // token inside the segment
  std::vector<Token> rows;         // vocabulary rows, in the order in which logits are returned
  What what = What::rows;
  std::uint32_t head = 0;
  bool operator==(const Readout&) const = default;
};

struct Plan {
  std::vector<Segment> segments;
  std::vector<Readout> readouts;
  bool operator==(const Plan&) const = default;
};

// What a model allows; a plan outside it is refused before anything is computed.
struct PlanLimits {
  std::int32_t vocabulary = 0;
  std::int32_t positions_max = 0;
  std::uint32_t features = 0;      // of each token
  std::uint32_t heads = 0;
};

// Empty if the plan is sound: non-empty segments, tokens and readout rows inside the vocabulary, positions inside
// [0, positions_max) also where others see them, `sees` ascending and earlier, what is replaced inside one earlier
// segment and once, readouts inside their segment. Otherwise what is wrong, where and what was expected.
std::string find_fault(const Plan& plan, const PlanLimits& limits);

std::size_t token_count(const Plan& plan);

}  // namespace troupe::kernels
