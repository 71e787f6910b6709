#pragma once
// The state of one request's beam search (xGR §6): which paths go on at each level, whatever computes the
// logits. It asks for the logits behind its beams, one row each, is given them, and has the next level's
// rows; whole paths wait and compete with those that go on. A level keeps the `width` best of all of them.
// Memory is kept from request to request (§6.3); only a search with lists of its own builds an index of them.
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

// log of the sum of exp(logits), at least one; in double. Not a number if one of them is not finite.
double log_sum_exp(std::span<const float> logits);

class BeamSearch {
 public:
  // Begins anew, at the end of a prompt. `search` is sound and suits `paths` (find_fault, both) and a
  // vocabulary of that many tokens; width > 0. Without an index, paths are `steps` tokens of the whole
  // vocabulary. The index is kept alive until the next search.
  void begin(const Search& search, std::shared_ptr<const PathIndex> paths, std::uint32_t vocabulary,
             SelectBest* select = select_best);

  std::uint32_t steps() const { return steps_; }  // tokens of the longest path: no more levels than this
  std::uint32_t level() const { return level_; }  // tokens of each row's path
  bool done() const { return rows_.empty(); }

  // The level at hand: rows that wait for logits, in the order of their paths' tokens. First one row, the
  // prompt's end.
  std::uint32_t rows() const { return static_cast<std::uint32_t>(rows_.size()); }
  // Per row the last token of its path, and the row of the level before that it comes from. These do not
  // descend (reorder.h). Empty at the first level.
  std::span<const Token> tokens() const { return row_tokens_; }
  std::span<const std::uint32_t> parents() const { return row_parents_; }
  // Tokens that may follow row r, ascending: those whose logits it needs. Empty: the whole vocabulary's.
  std::span<const Token> wanted(std::uint32_t row) const {
    return paths_ ? paths_->next(kept_[rows_[row]].node) : std::span<const Token>();
  }

  // So many of the tokens that may follow row r are enough: those of the largest logits, of equal ones the
  // lowest.
  std::uint32_t enough(std::uint32_t row) const;
  // The same of rows [first, first + rows) together: so many of the best by value, of equal ones the lowest
  // row's and token's.
  std::uint32_t enough(std::uint32_t first, std::uint32_t rows) const;
  double value(std::uint32_t row) const {
    return kept_[rows_[row]].value;
  }  // of the path behind which it goes on

  // logits[r]: of wanted(r), in that order; or, where there are likely[r], of those only: enough(r) of them
  // or more, by their places in wanted(r), ascending; null: nothing that follows the row may be kept, which
  // whoever has chosen among all rows knows. log_totals[r]: log_sum_exp of those over which row r is
  // normalised, wanted ones among them: of the whole vocabulary, or of wanted(r) alone. It must not be finite
  // if one of them is not. False: one is not finite. The search is over then and has no paths.
  using Likely = std::span<const std::uint32_t>;
  [[nodiscard]] bool advance(std::span<const double> log_totals, std::span<const float* const> logits,
                             std::span<const Likely> likely = {});

  // Whole paths, best first, at most `results`. When done: the answer; `out` and its paths' memory are used
  // again.
  void finish(std::vector<Beam>& out) const;

 private:
  // A path that is kept, whole or not; its tokens are path_tokens_[place * steps_...]. Places, which are
  // indices of kept_, are in the order of tokens. None is the beginning of another, so that order lasts as
  // they go on.
  struct Kept {
    double value = 0;
    PathIndex::Node node = PathIndex::root;    // of paths_
    PathIndex::Node denied = PathIndex::none;  // of denied_, where denied paths go on behind this one
    std::uint32_t length = 0, row = 0;
    Token token = 0;  // the last one
    bool whole = false;
    double added = 0;  // to the value, by the last token
  };

  void deny(std::span<const Tokens> denied);
  std::size_t denied_children(std::uint32_t row) const;
  bool is_path(const Tokens& path) const;
  std::size_t children(const Kept& kept) const;
  std::uint32_t child_of(const Kept& kept, Token token) const;
  void add_extensions(std::span<const double> log_totals, std::span<const float* const> logits,
                      std::span<const Likely> likely);
  std::span<const std::uint32_t> bar(const Kept& kept);
  Kept continued(const Kept& kept, const Candidate& candidate) const;
  void go_on();
  void list_rows();
  void stop();

  std::shared_ptr<const PathIndex> paths_;
  SelectBest* select_ = select_best;
  std::optional<PathIndex> denied_;
  std::vector<std::uint8_t> dead_;  // [node of denied_]: nothing but denied paths goes on behind it
  std::uint32_t vocabulary_ = 0, steps_ = 0, width_ = 0, results_ = 0, level_ = 0;
  bool by_token_ = false;

  std::vector<Kept> kept_, next_;
  std::vector<std::uint32_t> best_first_;  // places
  std::vector<Token> path_tokens_;         // [place][steps_]
  std::vector<double> token_values_;       // [place][steps_], where they are asked for: what each token added
  std::vector<std::uint32_t> rows_;        // [row]: place
  std::vector<Token> row_tokens_;
  std::vector<std::uint32_t> row_parents_, places_before_;
  std::vector<Extensions> extensions_;
  std::vector<std::uint32_t> barred_;
  std::vector<Candidate> chosen_;
};

// The definition: all paths are held and compared as they are; never tuned. `paths` are those of the index,
// or none. logits_after(path): of the whole vocabulary.
using LogitsAfter = std::function<std::vector<float>(std::span<const Token> path)>;
std::vector<Beam> beam_search_reference(const Search& search, std::span<const std::vector<Token>> paths,
                                        std::uint32_t vocabulary, const LogitsAfter& logits_after);

}  // namespace troupe::kernels
