#pragma once
// State of one request's beam search across the passes of a decoder of any backend: what is
// computed before it, the rows of its levels, and where the tokens of its paths were computed.
// kernels/search decides which paths go on. Memory is kept from search to search (xGR §6.3).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/decoder/decoder_batch.h"
#include "kernels/executor/executor.h"
#include "kernels/search/beam_search.h"

namespace troupe::kernels {

// Records where the tokens of all paths of a search were computed. Each level's rows stay where
// they are, and nothing moves when paths change their parents: each path knows in which rows its
// tokens are. (kernels/search/reorder.h has the paper's way, which moves them in place.)
//
// A path of n tokens leaves n - 2 of them. Its last token is never computed, and the one before is
// seen only by itself, in the pass that computes it. So a search keeps width × (steps - 2) tokens
// of all layers, no more.
class PathRows {
 public:
  // Number of levels whose rows are kept, for paths of so many tokens.
  static std::uint32_t levels(std::uint32_t steps) { return steps > 2 ? steps - 2 : 0; }

  void begin(std::uint32_t width, std::uint32_t steps);
  // Advances to the next level, whose row r follows this level's row parents[r]. Not called for the
  // first level, whose parent is the prompt.
  void follow(std::span<const std::uint32_t> parents);

  std::uint32_t level() const { return level_; }
  // Number of tokens of a path that its newest one sees, itself included.
  std::uint32_t path() const { return level_ + 1; }
  bool keeps() const { return level_ < levels_; }  // this level's rows are kept for later ones
  // Returns the row of an earlier level where the token of row r's path was computed.
  std::uint32_t row(std::uint32_t level, std::uint32_t r) const { return rows_[level * width_ + r]; }

 private:
  std::uint32_t width_ = 0, levels_ = 0, level_ = 0;
  std::vector<std::uint32_t> rows_, before_;  // [level before this one][row]; rows_ of the previous level
};

// Pages at equal distances.
struct PageRun {
  std::byte* first = nullptr;
  std::size_t stride = 0;  // bytes from page to page
};

struct SearchProgress {
  std::size_t request = 0;  // of the batch
  Plan before;            // computed before the search; the last readout is the state where the search begins
  Request prompt;         // the request with pages for all that its paths see
  std::uint32_t end = 0;  // position of the first token of a path
  std::vector<float> state;  // of the prompt's last token; empty until it is computed
  BeamSearch search;
  bool failed = false;  // a logit was not finite

  // Begins the search of `asked` and sets `begun` to the request to compute before it. `begun` has
  // pages for all that paths see, taken from `pages` where the request has none, and a readout
  // where paths begin. CHECKs that the plan is within the limits.
  void begin(std::size_t number, const Request& asked, const PlanLimits& limits, const PageLayout& layout,
             PageRun pages, SelectBest* select, Request& begun);
  // Takes the state out of the answer to `begun`, if it was asked for.
  void take_state(Reply& answer);
  void finish(std::vector<Beam>& beams) const;

  std::uint32_t segment() const { return prompt.plan->search.segment; }
  const Tokens& segment_tokens() const { return prompt.plan->segments[segment()].tokens; }
  // Recomputes the prompt's last token for its state, if all of the prompt is cached.
  BeamRows last_token() const;
  // Returns rows [first, first + rows) of this level; `path` as in PathRows.
  BeamRows level_rows(std::uint32_t path, std::uint32_t first, std::uint32_t rows) const;
};

// Counts the pages that a request lacks for what the paths of its search see.
std::size_t missing_pages(const Request& request, const PageLayout& layout);
// Returns the length of the longest path that a request's search can find.
std::uint32_t steps_of(const Request& request);

}  // namespace troupe::kernels
