#pragma once
// Lends pages of the pool's row area to this node's inference workers, which keep rows of embedding
// tables in them. All borrowers get equal shares of the area. Each message moves a bounded number
// of pages and is repeated until it is answered. When the boundary shrinks the area, pages return
// only once the borrower gives them back. When the boundary grows the area, pages come from the
// pool's free list, and from blocks of areas that exceed their share.
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
    std::vector<NodeId> borrowers;  // ids of inference workers; at most 255
    std::uint32_t pages_at_once = 1'024;
    // Until an unanswered message is repeated, or an unmet demand is repeated.
    Duration retry{50'000};
  };
  RowLending(Config config, Incarnation incarnation, std::uint32_t pool_pages);

  // Returns the messages to send now. With `ask`, borrowers without a change get one, too, because
  // their answers carry statistics.
  std::vector<std::pair<NodeId, LendPages>> next(Instant now, PagePool& pool, bool ask);
  // Returns false if the answer is malformed.
  bool answer(Instant now, NodeId from, PagesLent&& answer, PagePool& pool);

  bool idle() const { return config_.borrowers.empty(); }
  bool settled(const PagePool& pool) const;  // every borrower has its share and has confirmed it
  Duration retry() const { return config_.retry; }
  // Adds the hits, misses and savings that the borrowers reported.
  void add_to(AreaReport& rows) const;
  std::uint32_t lent() const;

 private:
  struct Borrower {
    std::uint32_t pages = 0;
    std::uint64_t number = 0;             // of the latest message
    std::optional<LendPages> unanswered;  // latest message, until it is answered
    // When the message was sent last; pages are not demanded again before `demand_again_at`.
    Instant sent_at, demand_again_at;
    std::uint64_t hits = 0, misses = 0;
    double saved_us = 0;
    std::vector<double> savings;  // by the pool's hundredths, as if the borrower were alone
  };
  std::uint32_t share(std::size_t borrower, const PagePool& pool) const;
  bool change(Instant now, std::size_t borrower, PagePool& pool, LendPages& next);
  bool is_valid(std::size_t borrower, const PagesLent& answer) const;

  const Config config_;
  const Incarnation incarnation_;
  std::vector<Borrower> borrowers_;
  std::vector<std::uint8_t> borrower_of_;  // per page, counted from 1; 0 = not lent
};

}  // namespace troupe::actors
