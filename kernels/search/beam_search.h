#pragma once
// The state of one request's beam search (xGR §6): chooses which paths go on at each level,
// whatever computes the logits. It asks for the logits of the tokens that may follow its beams, one
// row each, and then gives the rows of the next level. Whole paths compete with those that go on; a
// level keeps the `width` best of all. Memory is kept from request to request (§6.3); only a search
// with its own lists of paths builds an index of them.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/base/path_index.h"
#include "kernels/base/plan.h"
#include "kernels/executor/executor.h"
#include "kernels/search/selection.h"

namespace troupe::kernels {

// Returns the log of the sum of exp(logits), in double; NaN if a logit is not finite. There must be
// at least one.
double log_sum_exp(std::span<const float> logits);

class BeamSearch {
 public:
  // Begins a search at the end of a prompt. `search` must be sound and fit `paths` (both
  // find_faults) and the vocabulary's size; width > 0. Without an index, paths are `steps` tokens
  // of the whole vocabulary. The index is kept alive until the next search.
  void begin(const Search& search, std::shared_ptr<const PathIndex> paths, std::uint32_t vocabulary,
             SelectBest* select = select_best);

  std::uint32_t steps() const { return steps_; }  // tokens of the longest path, and maximum number of levels
  std::uint32_t level() const { return level_; }  // tokens of each row's path
  bool done() const { return rows_.empty(); }

  // Number of rows of the current level, which need logits, in the order of their paths' tokens.
  // The first level has one row, the prompt's end.
  std::uint32_t rows() const { return static_cast<std::uint32_t>(rows_.size()); }
  // Per row, the last token of its path and its row of the previous level. Parents do not descend
  // (reorder.h). Empty at the first level.
  std::span<const Token> tokens() const { return row_tokens_; }
  std::span<const std::uint32_t> parents() const { return row_parents_; }
  // Returns the tokens that may follow row r, ascending; the search needs their logits. Empty: the
  // whole vocabulary's.
  std::span<const Token> wanted(std::uint32_t row) const {
    return paths_ ? paths_->next(kept_[rows_[row]].node) : std::span<const Token>();
  }

  // Returns how many of the tokens that may follow row r are enough: those of the largest logits,
  // the lower token first among equals.
  std::uint32_t enough(std::uint32_t row) const;
  // The same for rows [first, first + rows) together: the best by value; among equals the lower
  // row, then the lower token.
  std::uint32_t enough(std::uint32_t first, std::uint32_t rows) const;
  double value(std::uint32_t row) const { return kept_[rows_[row]].value; }  // value of the row's path

  // Advances to the next level. Returns false if a number is not finite; then the search is over
  // and has no paths.
  // logits[r]: logits of wanted(r), in that order. With likely[r], logits only of enough(r) tokens
  // or more; likely[r] has their ascending indices in wanted(r). Null: no continuation of the row
  // can be kept, as a choice among all rows has shown.
  // log_totals[r]: log_sum_exp of the logits over which row r is normalised: the whole vocabulary's
  // or those of wanted(r). It must not be finite if one of these is not.
  using LikelyChildren = std::span<const std::uint32_t>;
  [[nodiscard]] bool advance(std::span<const double> log_totals, std::span<const float* const> logits,
                             std::span<const LikelyChildren> likely = {});

  // Sets `out` to the whole paths, best first, at most `results`; the answer once done(). Reuses
  // the memory of `out` and its paths.
  void finish(std::vector<Beam>& out) const;

 private:
  // A path that is kept, whole or not. Its place is its index in kept_; its tokens are at
  // path_tokens_[place * steps_]. kept_ is in the order of the paths' tokens. No path is the
  // beginning of another, so the order is stable as paths grow.
  struct KeptPath {
    double value = 0;
    PathIndex::Node node = PathIndex::root;    // node of paths_
    PathIndex::Node denied = PathIndex::none;  // node of denied_; none: no denied path begins with this one
    std::uint32_t length = 0, row = 0;
    Token token = 0;  // last token of the path
    bool whole = false;
    double added = 0;  // log-probability of the last token
  };

  void deny(std::span<const Tokens> denied);
  std::size_t denied_children(std::uint32_t row) const;
  bool is_path(const Tokens& path) const;
  std::size_t children(const KeptPath& kept) const;
  std::uint32_t child_of(const KeptPath& kept, Token token) const;
  void add_extensions(std::span<const double> log_totals, std::span<const float* const> logits,
                      std::span<const LikelyChildren> likely);
  std::span<const std::uint32_t> barred_children(const KeptPath& kept);
  KeptPath continued(const KeptPath& kept, const Candidate& candidate) const;
  void start_next_level();
  void list_rows();
  void stop();

  std::shared_ptr<const PathIndex> paths_;
  SelectBest* select_ = select_best;
  std::optional<PathIndex> denied_;
  std::vector<std::uint8_t> dead_;  // [node of denied_]: all paths from it on are denied
  std::uint32_t vocabulary_ = 0, steps_ = 0, width_ = 0, results_ = 0, level_ = 0;
  bool by_token_ = false;

  std::vector<KeptPath> kept_, next_;
  std::vector<std::uint32_t> best_first_;  // places
  std::vector<Token> path_tokens_;         // [place][steps_]
  std::vector<double> token_values_;  // [place][steps_]: log-probability of each token; only if asked for
  std::vector<std::uint32_t> rows_;   // [row]: place
  std::vector<Token> row_tokens_;
  std::vector<std::uint32_t> row_parents_, slots_before_;
  std::vector<Extensions> extensions_;
  std::vector<std::uint32_t> barred_;
  std::vector<Candidate> chosen_;
};

// Reference implementation: holds and compares all paths; never tuned. `paths` are those of the
// index, or empty. logits_after(path) returns logits of the whole vocabulary.
using LogitsAfter = std::function<std::vector<float>(std::span<const Token> path)>;
std::vector<Beam> beam_search_reference(const Search& search, std::span<const std::vector<Token>> paths,
                                        std::uint32_t vocabulary, const LogitsAfter& logits_after);

}  // namespace troupe::kernels
