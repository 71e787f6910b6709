// Limits the memory that a node keeps for page replies which slow readers have not received yet.
// It decides whether a request gets pages, a refusal or nothing.
#include "runtime/transfer/reply_budget.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe {

// A page that spans two pieces is two parts.
std::size_t ReplyBudget::cost_of(const PullRequest& request, bool sealed) {
  const std::size_t pieces = pieces_of(request.pages.size() * request.bytes_of_page());
  const std::size_t copies = sealed ? std::min(pieces, sealed_at_once) * piece_bytes : 0;
  return pieces * (piece_cost + part_cost) + request.pages.size() * part_cost + copies;
}

ReplyBudget::Answer ReplyBudget::decide(Reader reader, std::size_t cost) const {
  const auto at = of_reader_.find(reader);
  const std::size_t before = at == of_reader_.end() ? 0 : at->second;
  if (before == 0)
    return all_ == 0 || all_ + cost <= 2 * limits_.all ? Answer::pages
                                                       : Answer::refusal;  // one page may be large
  if (before + refusal_cost > 2 * limits_.of_reader || all_ + refusal_cost > 2 * limits_.all)
    return Answer::nothing;
  return before + cost <= limits_.of_reader && all_ + cost <= limits_.all ? Answer::pages : Answer::refusal;
}

void ReplyBudget::keep(Reader reader, std::size_t cost) {
  of_reader_[reader] += cost;
  all_ += cost;
}

void ReplyBudget::release(Reader reader, std::size_t cost) {
  const auto at = of_reader_.find(reader);
  TROUPE_CHECK(at != of_reader_.end() && at->second >= cost && all_ >= cost,
               "released bytes were counted before");
  all_ -= cost;
  if ((at->second -= cost) == 0) of_reader_.erase(at);
}

}  // namespace troupe
