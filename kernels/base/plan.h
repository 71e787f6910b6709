#pragma once
// A segment plan: the one form of every prompt that Troupe computes, from the router to the
// kernels. A plan lists segments (runs of tokens that are attended to as a unit), each after those
// that it sees, and says which scores are read. The plan fixes the mathematics completely: whether
// keys and values are computed now or cached does not change the result. See ARCHITECTURE.md,
// "Segments".
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/repair.h"
#include "kernels/base/tokens.h"
#include "kernels/base/visible_segments.h"

namespace troupe::kernels {

class PathIndex;

enum class SegmentKind : std::uint8_t { system, user, item, instruction, discriminant, beam };

// Tokens of an earlier segment that this segment replaces, such as tokens of a block that are
// computed again in the prompt. A segment that sees both sees only the replacing tokens. Neither of
// the two sees the other.
struct ReplacedTokens {
  static constexpr std::uint32_t none = UINT32_MAX;
  std::uint32_t segment = none;
  std::uint32_t offset = 0;  // first replaced token; the replacing segment's length says how many
  bool operator==(const ReplacedTokens&) const = default;
};

struct Segment {
  SegmentKind kind = SegmentKind::user;
  Tokens tokens;
  std::int32_t start = 0;  // position id of tokens[0]; later tokens have consecutive ids
  VisibleSegments sees;    // earlier segments whose keys all its tokens attend to
  // Positions by which its keys are moved for segments that see it: a block is computed alone, at
  // its own start, and seen elsewhere.
  std::int32_t shift = 0;
  ReplacedTokens replaces;
  // Numbers per token ([token][feature]), as many as the model's architecture takes, such as times
  // and actions; empty for decoders.
  std::vector<std::int64_t> features;
  bool operator==(const Segment&) const = default;
};

// A value to read from one token's final hidden state: its dot products with the named rows of the
// output projection or with all rows, one head of the model, or the state itself.
struct Readout {
  enum class What : std::uint8_t { rows, all_rows, head, state };
  std::uint32_t segment = 0;
  std::uint32_t offset = 0;  // token inside the segment
  std::vector<Token> rows;   // vocabulary rows, in the order in which logits are returned
  What what = What::rows;
  std::uint32_t head = 0;
  bool operator==(const Readout&) const = default;
};

// A beam search that follows a plan (xGR §6). Its paths are tokens that follow the last token of
// one segment. A path's first token sees that segment, what the segment sees, and nothing else. The
// most probable paths are found level by level. A path's value is the sum of its tokens'
// log-probabilities. Paths are ordered by value, then by tokens, so there is one right answer.
struct Search {
  // Set of tokens over which a token's probability is normalised.
  enum class Normalisation : std::uint8_t {
    vocabulary,  // all tokens: a path is as probable as the model says
    allowed      // tokens that may follow: other rows of the output projection are not computed
  };
  std::uint32_t segment = 0;
  std::uint32_t width = 0;    // paths kept at each level; 0: there is no search
  std::uint32_t results = 0;  // maximum number of paths returned: 1 to width
  // Tokens of a path; 0 if an index or `allowed` determines it.
  std::uint32_t steps = 0;
  Normalisation normalised = Normalisation::vocabulary;
  std::vector<Tokens> allowed;  // whole paths; not empty: only these may be returned, and no index is used
  std::vector<Tokens> denied;   // whole paths that are not returned
  bool by_token = false;        // each token's log-probability is returned too
  // Paths are one token, a row of the item table: the search finds the best rows, in one scan of the table.
  bool of_items = false;

  // Returns true if the paths it may return come from a catalog's index.
  bool wants_index() const { return width > 0 && steps == 0 && allowed.empty(); }
  bool operator==(const Search&) const = default;
};

// A path that a search found.
struct Beam {
  std::vector<Token> path;
  double log_probability = 0;         // sum over its tokens
  std::vector<double> by_token = {};  // log-probability of each token; empty unless the search asks for it
  double score = 0;                   // logit of its one token, for models that score items; 0 for others
  bool operator==(const Beam&) const = default;
};

struct Plan {
  std::vector<Segment> segments;
  std::vector<Readout> readouts;
  Search search;
  Repair repair;  // the plan is exact without one
  bool operator==(const Plan&) const = default;
};

// Limits of a model; a plan outside them is refused before anything is computed.
struct PlanLimits {
  std::int32_t vocabulary = 0;
  std::int32_t positions_max = 0;
  std::uint32_t features = 0;  // per token
  std::uint32_t heads = 0;
  std::uint32_t width_max = 0;  // maximum width of a search; 0: the model does not generate
  bool item_searches = false;   // its searches are those of items (cpu/engine/item_search.h)
  std::uint32_t state = 0;      // size of a hidden state; 0: states cannot be read
  bool moves = true;            // a segment may have a shift, or be replaced in part
  bool repairs = false;         // plans with a repair are computed
  std::string prototypes =
      {};  // checksum of the prototypes that blocks of a repair may be made of; empty: none
};

// Returns "" if the plan is sound, otherwise what is wrong, where and what was expected. Checks:
//
// - segments are not empty; tokens and readout rows are inside the vocabulary;
// - positions are inside [0, positions_max), also where others see them;
// - `sees` is ascending and earlier;
// - replaced tokens are inside one earlier segment and are replaced once;
// - readouts are inside their segment;
// - the search has the values documented at its members and positions left for its paths, and is one of
//   items if the model's are;
// - the repair is sound.
std::string validate(const Plan& plan, const PlanLimits& limits);

// Checks what depends on the index of a sound plan's search (null: there is none): `steps` is given
// only if no paths determine it, tokens are inside the vocabulary, and the longest path has
// positions left.
std::string validate(const Plan& plan, const PathIndex* paths, const PlanLimits& limits);

std::size_t token_count(const Plan& plan);

}  // namespace troupe::kernels
