#pragma once
// A segment plan: the one form of every prompt that Troupe computes, from the router to the kernels. A plan
// lists segments (runs of tokens that are attended to as a unit) in an order in which each comes after those
// that it sees, and says where scores are read. The plan fixes the mathematics completely; where keys and
// values come from (computed now, or cached) does not change the result. ARCHITECTURE.md, "Segments".
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/repair.h"
#include "kernels/base/sees.h"
#include "kernels/base/tokens.h"

namespace troupe::kernels {

class PathIndex;

enum class SegmentKind : std::uint8_t { system, user, item, instruction, discriminant, beam };

// Tokens of an earlier segment in whose place later ones stand (a block's tokens that were computed again
// where the prompt has them): whoever sees both segments sees the later one's tokens only. Neither sees the
// other.
struct Replaced {
  static constexpr std::uint32_t none = UINT32_MAX;
  std::uint32_t segment = none;
  std::uint32_t offset = 0;  // of the first token; as many as the replacing segment has
  bool operator==(const Replaced&) const = default;
};

struct Segment {
  SegmentKind kind = SegmentKind::user;
  Tokens tokens;
  std::int32_t start = 0;  // position id of tokens[0]; positions run on inside the segment
  Sees sees;               // earlier segments whose keys all its tokens attend to
  // Positions by which others see its keys moved: where a block stands that was computed alone, at its own
  // start.
  std::int32_t shift = 0;
  Replaced replaces;
  // Of each token as many numbers as the model's family takes (times, actions; [token][feature]); none for
  // decoders.
  std::vector<std::int64_t> features;
  bool operator==(const Segment&) const = default;
};

// What is read of one token's final hidden state: dot products with the named rows of the output projection,
// with all of them, a head of the model by its number, or the state itself.
struct Readout {
  enum class What : std::uint8_t { rows, all_rows, head, state };
  std::uint32_t segment = 0;
  std::uint32_t offset = 0;  // token inside the segment
  std::vector<Token> rows;   // vocabulary rows, in the order in which logits are returned
  What what = What::rows;
  std::uint32_t head = 0;
  bool operator==(const Readout&) const = default;
};

// A beam search behind a plan (xGR §6): paths of tokens that follow the last token of one segment, whose
// first token sees all that this segment sees, the segment, and nothing else; the most probable ones are
// found level by level. A path's value is the sum of its tokens' log-probabilities. Paths are ordered by
// value, and equal ones by their tokens, so that there is one right answer.
struct Search {
  // Over which tokens a token's probability is normalised.
  enum class Normalised : std::uint8_t {
    vocabulary,  // all of them: a path is as probable as the model says
    allowed      // those that may follow: rows of the output projection that none asks for are not computed
  };
  std::uint32_t segment = 0;
  std::uint32_t width = 0;    // paths that are kept at each level; 0: there is no search
  std::uint32_t results = 0;  // paths that are returned, at most: 1 to width
  // Tokens of a path. With an index or with `allowed` their paths say how many; then it is 0.
  std::uint32_t steps = 0;
  Normalised normalised = Normalised::vocabulary;
  std::vector<Tokens> allowed;  // whole paths; not empty: only these, whatever the index has
  std::vector<Tokens> denied;   // whole paths that are not returned
  bool by_token = false;        // each token's log-probability comes back, too

  // Whether what it may return is said by the index of a catalog, and not here.
  bool wants_index() const { return width > 0 && steps == 0 && allowed.empty(); }
  bool operator==(const Search&) const = default;
};

// What a search found.
struct Beam {
  std::vector<Token> path;
  double log_probability = 0;         // the sum over its tokens
  std::vector<double> by_token = {};  // what each added, where the search was asked for it
  bool operator==(const Beam&) const = default;
};

struct Plan {
  std::vector<Segment> segments;
  std::vector<Readout> readouts;
  Search search;
  Repair repair;  // the plan is exact without one
  bool operator==(const Plan&) const = default;
};

// What a model allows; a plan outside it is refused before anything is computed.
struct PlanLimits {
  std::int32_t vocabulary = 0;
  std::int32_t positions_max = 0;
  std::uint32_t features = 0;  // of each token
  std::uint32_t heads = 0;
  std::uint32_t width_max = 0;  // of a search; 0: the model does not generate
  std::uint32_t state = 0;      // numbers of a hidden state; 0: it is not given out
  bool moves = true;     // a segment may be seen elsewhere than where it stands, or be replaced in part
  bool repairs = false;  // plans with a repair are computed
  std::string prototypes =
      {};  // checksum of those that blocks of a repair may be made of; empty: there are none
};

// Empty if the plan is sound: non-empty segments, tokens and readout rows inside the vocabulary, positions
// inside [0, positions_max) also where others see them, `sees` ascending and earlier, what is replaced inside
// one earlier segment and once, readouts inside their segment, a search within what is said at its members
// and with room for its paths behind the prompt, a sound repair. Otherwise what is wrong, where and what was
// expected.
std::string find_fault(const Plan& plan, const PlanLimits& limits);

// The rest of it, where the index of a sound plan's search is known (null: there is none): steps only without
// paths that say how many, tokens inside the vocabulary, and room for the longest path.
std::string find_fault(const Plan& plan, const PathIndex* paths, const PlanLimits& limits);

std::size_t token_count(const Plan& plan);

}  // namespace troupe::kernels
