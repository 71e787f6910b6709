#pragma once
// One request's beam search on its way through the passes of a decoder, whatever computes them: what comes
// before it, the rows of its levels, and where the tokens of its paths were computed. Which paths go on is
// decided elsewhere (kernels/search). Memory is kept from search to search (xGR §6.3).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/decoder/decoder_batch.h"
#include "kernels/executor/executor.h"
#include "kernels/search/beam_search.h"

namespace troupe::kernels {

// Where the tokens of all paths of a search were computed. Each level's rows stay where they are, and nothing
// is moved when paths change their parents: a path knows instead in which rows its tokens are.
// (kernels/search/reorder.h has the paper's way, which moves them in place.)
//
// A path of n tokens leaves n - 2 of them: its last token is never computed, and the one before it is seen by
// itself alone, in the pass that computes it. So a search keeps width × (steps - 2) tokens of all layers, no
// more.
class PathRows {
 public:
  // Levels whose rows are kept, of paths of so many tokens.
  static std::uint32_t levels(std::uint32_t steps) { return steps > 2 ? steps - 2 : 0; }

  void begin(std::uint32_t width, std::uint32_t steps);
  // The next level's row r follows this level's row parents[r]. Not for the first level, whose parent is the
  // prompt.
  void follow(std::span<const std::uint32_t> parents);

  std::uint32_t level() const { return level_; }
  // Tokens of a path that its newest one sees, itself included.
  std::uint32_t path() const { return level_ + 1; }
  bool keeps() const { return level_ < levels_; }  // this level's rows, for later ones
  // The row of an earlier level where the token of row r's path was computed.
  std::uint32_t row(std::uint32_t level, std::uint32_t r) const { return rows_[level * width_ + r]; }

 private:
  std::uint32_t width_ = 0, levels_ = 0, level_ = 0;
  std::vector<std::uint32_t> rows_, before_;  // [level before this one][row]; as they were
};

// Pages one behind the other.
struct PageRun {
  std::byte* first = nullptr;
  std::size_t stride = 0;  // bytes from page to page
};

struct Searching {
  std::size_t request = 0;  // of the batch
  Plan before;            // what is computed before the search; the last readout is the state where it begins
  Request prompt;         // the request with all that its paths see in pages
  std::uint32_t end = 0;  // position of the first token of a path
  std::vector<float> state;  // of the prompt's last token; empty until it was computed
  BeamSearch search;
  bool failed = false;  // a logit was not finite

  // What comes before the search of `asked`, as `begun`: with pages for all that paths see, those that the
  // request lacks from `pages`, and a readout where paths begin. A plan outside the limits is a bug of the
  // caller.
  void begin(std::size_t number, const Request& asked, const PlanLimits& limits, const PageLayout& layout,
             PageRun pages, SelectBest* select, Request& begun);
  // Takes the state out of the answer to `begun`, if it was asked for.
  void take_state(Reply& answer);
  void finish(std::vector<Beam>& beams) const;

  std::uint32_t segment() const { return prompt.plan->search.segment; }
  const Tokens& segment_tokens() const { return prompt.plan->segments[segment()].tokens; }
  // The prompt's last token once more, for its state, where all of the prompt is cached.
  BeamRows last_token() const;
  // Rows [first, first + rows) of this level; `path` as PathRows has it.
  BeamRows level_rows(std::uint32_t path, std::uint32_t first, std::uint32_t rows) const;
};

// Pages of what the paths of a request's search see and the request has none for.
std::size_t lacking_pages(const Request& request, const PageLayout& layout);
// Tokens of the longest path that a request's search finds.
std::uint32_t steps_of(const Request& request);

}  // namespace troupe::kernels
