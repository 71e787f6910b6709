#pragma once
// A segment plan: the one form of every prompt that Troupe computes. A plan lists segments (runs of tokens that
// are attended to as a unit) in an order in which each comes after those that it sees, and says where scores are
// read. The plan fixes the mathematics completely; where keys and values come from (computed now, or cached) does
// not change the result. ARCHITECTURE.md, "Segments".
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::kernels {

using Token = std::int32_t;

enum class SegmentKind : std::uint8_t { system, user, item, instruction, discriminant, beam };

struct Segment {
  SegmentKind kind = SegmentKind::user;
  std::vector<Token> tokens;
  std::int32_t start = 0;            // position id of tokens[0]; positions run on inside the segment
  std::vector<std::uint32_t> sees;   // indices of earlier segments, ascending, whose keys all tokens attend to
};

// Scores: dot products of the final hidden state of one token with the named rows of the output projection.
struct Readout {
  std::uint32_t segment = 0;
  std::uint32_t offset = 0;          // token inside the segment
  std::vector<Token> rows;           // vocabulary rows, in the order in which logits are returned
};

struct Plan {
  std::vector<Segment> segments;
  std::vector<Readout> readouts;
};

// What a model allows; a plan outside it is refused before anything is computed.
struct PlanLimits {
  std::int32_t vocabulary = 0;
  std::int32_t positions_max = 0;
};

// Empty if the plan is sound: non-empty segments, tokens and readout rows inside the vocabulary, positions inside
// [0, positions_max), `sees` ascending and earlier, readouts inside their segment. Otherwise what is wrong, where
// and what was expected.
std::string find_fault(const Plan& plan, const PlanLimits& limits);

std::size_t token_count(const Plan& plan);

}  // namespace troupe::kernels
