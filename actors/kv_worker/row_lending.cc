// Lends pages of the pool to this node's inference workers, which keep rows of embedding tables in
// them. It demands pages back when the row area shrinks.
#include "actors/kv_worker/row_lending.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "actors/kv_worker/area_savings.h"
#include "kernels/base/check.h"

namespace troupe::actors {

RowLending::RowLending(Config config, Incarnation incarnation, std::uint32_t pool_pages)
    : config_(std::move(config)), incarnation_(incarnation), borrowers_(config_.borrowers.size()) {
  TROUPE_CHECK(config_.borrowers.size() <= 255, "a node has at most 255 models with tables");
  TROUPE_CHECK(config_.pages_at_once > 0, "pages_at_once is positive");
  if (!idle()) borrower_of_.resize(pool_pages);
}

std::uint32_t RowLending::share(std::size_t borrower, const PagePool& pool) const {
  const std::uint32_t all = pool.has_rows() ? pool.cap(PoolArea::row) : 0;
  const auto count = static_cast<std::uint32_t>(borrowers_.size());
  return all / count + (borrower < all % count);
}

std::vector<std::pair<NodeId, LendPages>> RowLending::next(Instant now, PagePool& pool, bool ask) {
  std::vector<std::pair<NodeId, LendPages>> messages;
  for (std::size_t i = 0; i < borrowers_.size(); ++i) {
    Borrower& borrower = borrowers_[i];
    if (borrower.unanswered) {
      if (now - borrower.sent_at < config_.retry) continue;
    } else {
      LendPages next{incarnation_, borrower.number + 1, {}, 0};
      if (!change(now, i, pool, next) && !ask) continue;
      borrower.number = next.number;
      borrower.unanswered = std::move(next);
    }
    borrower.sent_at = now;
    messages.emplace_back(config_.borrowers[i], *borrower.unanswered);
  }
  return messages;
}

// Returns false if the borrower has its share, if no pages are available now, or if it is too early
// to demand pages again.
bool RowLending::change(Instant now, std::size_t i, PagePool& pool, LendPages& next) {
  Borrower& borrower = borrowers_[i];
  const std::uint32_t share = this->share(i, pool);
  if (borrower.pages > share) {
    if (now < borrower.demand_again_at) return false;
    next.give_back = std::min(borrower.pages - share, config_.pages_at_once);
    return true;
  }
  next.pages = pool.lend(std::min(share - borrower.pages, config_.pages_at_once));
  for (const std::uint32_t page : next.pages) borrower_of_[page] = static_cast<std::uint8_t>(i + 1);
  borrower.pages += static_cast<std::uint32_t>(next.pages.size());
  return !next.pages.empty();
}

// Checks that the borrower gives back only pages that were lent to it, each once.
bool RowLending::is_valid(std::size_t i, const PagesLent& answer) const {
  if (!(answer.saved_us >= 0) || !std::isfinite(answer.saved_us) || !is_savings(answer.savings)) return false;
  std::set<std::uint32_t> pages;
  for (const std::uint32_t page : answer.given_back)
    if (page >= borrower_of_.size() || borrower_of_[page] != i + 1 || !pages.insert(page).second)
      return false;
  return true;
}

// An answer that is late, duplicate or meant for an earlier process of this worker is ignored.
bool RowLending::answer(Instant now, NodeId from, PagesLent&& answer, PagePool& pool) {
  const auto at = std::ranges::find(config_.borrowers, from);
  if (at == config_.borrowers.end()) return false;
  const auto i = static_cast<std::size_t>(at - config_.borrowers.begin());
  Borrower& borrower = borrowers_[i];
  if (answer.incarnation != incarnation_ || !borrower.unanswered ||
      answer.number != borrower.unanswered->number)
    return true;
  if (!is_valid(i, answer)) return false;
  if (answer.given_back.size() < borrower.unanswered->give_back)
    borrower.demand_again_at = now + config_.retry;
  pool.return_pages(answer.given_back);
  for (const std::uint32_t page : answer.given_back) borrower_of_[page] = 0;
  borrower.pages -= static_cast<std::uint32_t>(answer.given_back.size());
  borrower.hits = std::max(borrower.hits, answer.hits);
  borrower.misses = std::max(borrower.misses, answer.misses);
  borrower.saved_us = std::max(borrower.saved_us, answer.saved_us);
  if (!answer.savings.empty()) borrower.savings = std::move(answer.savings);
  borrower.unanswered.reset();
  return true;
}

bool RowLending::settled(const PagePool& pool) const {
  for (std::size_t i = 0; i < borrowers_.size(); ++i)
    if (borrowers_[i].unanswered || borrowers_[i].pages != share(i, pool)) return false;
  return true;
}

// Each borrower has an equal part of the area, so its curve is stretched by the number of
// borrowers.
void RowLending::add_to(AreaReport& rows) const {
  for (const Borrower& borrower : borrowers_) {
    rows.hits += borrower.hits;
    rows.misses += borrower.misses;
    rows.saved_us += borrower.saved_us;
    if (borrower.savings.empty()) continue;
    rows.savings.resize(borrower.savings.size());
    for (std::size_t cell = 0; cell < rows.savings.size(); ++cell)
      rows.savings[cell] += borrower.savings[cell / borrowers_.size()];
  }
}

std::uint32_t RowLending::lent() const {
  std::uint32_t pages = 0;
  for (const Borrower& borrower : borrowers_) pages += borrower.pages;
  return pages;
}

}  // namespace troupe::actors
