#pragma once
// Searches of models that score items: a path is one token, so a search finds the best rows of the
// item table, exactly. A batch's searches scan the table together, block by block, with a bounded
// heap for each (search/best_rows.h); idle cores take parts of the table. The log-probability of a
// row is its logit less the logarithm of the sum of exponentials over the rows that the search
// normalises over. Row 0 is padding: it is neither found nor counted.
//
// With a table in bf16 (narrow_items.h) the scan multiplies that, half the bytes, and keeps more rows
// than are asked for. The kept rows are scored again in float32. If the worst of the rows asked for is
// better than any row that was not kept can be, they are the best in float32; otherwise the search scans
// again in float32. So rows, their order and their scores are those of float32. Sums of exponentials are
// of bf16 scores.
//
// A search takes part in no forward pass. `begin` gives the requests to compute instead, which read
// the state where their search begins; `finish` takes these states out of the replies.
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cpu/engine/narrow_items.h"
#include "kernels/cpu/engine/team.h"
#include "kernels/executor/executor.h"
#include "kernels/operations/exponential_sum.h"
#include "kernels/operations/readout.h"
#include "kernels/operations/score_rows.h"
#include "kernels/search/best_rows.h"

namespace troupe::kernels {

// A row's logit is its product with a state, which `norm` changes to one of the table's width first,
// times the row's factor.
struct ItemTable {
  const Matrix& items;
  std::span<const float> factors;  // [row]
  std::function<void(std::vector<float>& state)> norm;
  const NarrowTable* narrow = nullptr;  // `items` in bf16; null: scans multiply `items`
};

struct ItemKernels {
  ScoreRows* score = &score_rows;
  ReadoutRows* readout = &readout_rows;
  SumExponentials* sum = &sum_exponentials;
  const ProductVersion* product = &product_version();  // for which the table in bf16 is packed
};

inline ItemKernels with_product(ItemKernels kernels, const ProductVersion* product) {
  kernels.product = product;
  return kernels;
}

// Sets the limits of a model whose searches an ItemSearch answers.
void allow_item_search(PlanLimits& limits);

class ItemSearch {
 public:
  explicit ItemSearch(const ItemKernels& kernels = {}) : kernels_(kernels) {}

  // Returns the requests to compute: `requests` themselves if none has a search. Plans must be sound
  // within limits that allow_item_search has set. Both must outlive finish().
  std::span<const Request> begin(std::span<const Request> requests);
  bool pending() const { return !searches_.empty(); }  // finish() has something to find

  // Sets the beams of the replies to `requests`, and forgets these. A reply that is too large is left as it
  // is. If a score is not finite, the only beam of its search is NaN. Adds the CPU seconds of all threads
  // to `seconds`, unless it is null.
  void finish(std::span<Reply> replies, const ItemTable& table, Team& team, double* seconds = nullptr);

 private:
  struct OneSearch {
    std::size_t request = 0;
    const Search* search = nullptr;
    std::shared_ptr<const PathIndex> paths;  // owner of `rows`
    std::vector<Token> own_rows, barred;
    bool any_row = false;         // all rows of the table may be found
    std::span<const Token> rows;  // otherwise these, ascending
    bool over_all = false;        // probabilities over the whole table
    std::vector<float> state;
  };
  // Result of a part of the table for one search.
  struct Found {
    BestRows best;
    ExponentialSum total;
    std::size_t next = 0;  // index into OneSearch::rows: the first one that is not before the next block
  };
  struct Scratch {
    std::vector<float> scores, some;  // [search of a group][row of a block], [row of a block]
    std::vector<float> inputs;        // [search of a group][column]: states side by side
    std::vector<float*> out;
    std::vector<const float*> states;
    std::vector<std::size_t> searches;  // of the group
    double seconds = 0;                 // CPU time of this worker
  };
  // Consecutive rows of the table.
  struct RowRange {
    std::size_t begin, end;
    std::size_t size() const { return end - begin; }
  };

  OneSearch& add(const Request& request, std::size_t number);
  void take_states(std::span<Reply> replies, const ItemTable& table);
  void find(std::span<Reply> replies, const ItemTable& table, Team& team, double* seconds);
  bool settle(OneSearch& search, std::vector<ScoredRow>& best, const ItemTable& table);
  void scan(RowRange part, std::span<Found> found, const ItemTable& table, Scratch& scratch) const;
  void scan_block(RowRange block, std::span<Found> found, const ItemTable& table, Scratch& scratch) const;
  void score_group(RowRange block, std::span<Found> found, const ItemTable& table, Scratch& scratch) const;
  void multiply_group(RowRange block, const ItemTable& table, Scratch& scratch) const;
  void take_scores(const OneSearch& search, RowRange block, std::span<const Token> rows,
                   std::span<const float> scores, Found& found, Scratch& scratch) const;
  void score_named(const OneSearch& search, std::span<const Token> rows, const ItemTable& table, Found& found,
                   Scratch& scratch) const;
  std::span<const Token> rows_in(const OneSearch& search, RowRange block, const Found& found) const;
  static void write_beams(const OneSearch& search, const Found& found, std::span<const ScoredRow> best,
                          std::vector<Beam>& beams);

  const ItemKernels kernels_;
  std::vector<Request> computed_;
  std::deque<Plan> plans_;
  std::vector<OneSearch> searches_;
  std::vector<Found> found_;  // [part][search]
  std::vector<Scratch> scratch_;
  std::vector<ScoredRow> best_;
};

}  // namespace troupe::kernels
