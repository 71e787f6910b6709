#pragma once
// How pages of the pool's row area get to the inference workers of this node that keep rows of embedding
// tables in them, and back: a bounded number at a time, each change told until it is answered. All get the
// same share of the area. What the boundary takes from them comes back when they say so, and no sooner; what
// it gives them comes from the pool's free list, and from blocks of areas that have more than their share
// now.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

class RowLending {
 public:
  struct Config {
    std::vector<NodeId> borrowers;  // numbers of inference workers; at most 255
    std::uint32_t pages_at_once = 1'024;
    Duration retry{50'000};  // until something is told again, or asked again for that was not to be had
  };
  RowLending(Config config, Incarnation incarnation, std::uint32_t pool_pages);

  // What is to be said now. `ask`: also to those from whom nothing is wanted, for they tell how they fare.
  std::vector<std::pair<NodeId, LendPages>> next(Instant now, PagePool& pool, bool ask);
  // False: that makes no sense.
  bool answer(Instant now, NodeId from, const PagesLent& answer, PagePool& pool);

  bool idle() const { return config_.borrowers.empty(); }
  bool settled(const PagePool& pool) const;  // everybody has what the boundary says, and has said so
  Duration retry() const { return config_.retry; }
  bool waits() const;  // for an answer, or for pages
  // What its borrowers said of their hits, misses and savings, together.
  void tell(AreaReport& rows) const;
  std::uint32_t lent() const;

 private:
  struct Borrower {
    std::uint32_t pages = 0;
    std::uint64_t number = 0;       // of what was told last
    std::optional<LendPages> told;  // and not answered
    Instant told_at, rests_until;   // before that it is not asked for pages again
    std::uint64_t hits = 0, misses = 0;
    double saved_us = 0;
    std::vector<double> savings;  // with so much of the pool for it alone
  };
  std::uint32_t share(std::size_t borrower, const PagePool& pool) const;
  bool change(Instant now, std::size_t borrower, PagePool& pool, LendPages& next);
  bool makes_sense(std::size_t borrower, const PagesLent& answer) const;

  const Config config_;
  const Incarnation incarnation_;
  std::vector<Borrower> borrowers_;
  std::vector<std::uint8_t> borrower_of_;  // per page, counted from 1; 0: it is not lent
};

}  // namespace troupe::actors
