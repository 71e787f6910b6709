// Estimates how often a user's block will be wanted again before it would be evicted, which decides
// whether caching it pays. It also tells whether a missing block is probably being computed by
// another request already.
#include "placement/popularity/return_rate.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <ranges>
#include <utility>

namespace troupe::placement {
namespace {

constexpr double user_wants_per_halving = 1'000;  // wants until all counts are halved
// A block missing for longer than this many times the mean time from miss to cached is taken to be
// computed by nobody.
constexpr double overdue_factor = 2;
constexpr double share_of_new = 0.1;  // weight of a new observation in that mean

}  // namespace

// A first want is followed by a return with one probability, each later want with another. So after a later
// want, the number of further ones is geometric.
double ReturnRate::want(const std::string& key, std::uint32_t tokens, std::uint64_t capacity,
                        std::int64_t now_us) {
  if (tokens > capacity) return 0;
  advance(now_us);
  drop_beyond(capacity);
  const auto known = by_key_.find(key);
  const bool again = known != by_key_.end();
  if (again) {
    TrackedBlock& block = *known->second;
    SpanCounts& gaps = table_of(block)[block.span];
    ++gaps.left;
    ++gaps.returned;
    tracked_[0].splice(tracked_[0].begin(), tracked_[block.span], known->second);
    block.again = true;
    block.at_us = now_us;
    enter(block, 0);
  } else {
    tracked_[0].push_front({.key = key, .tokens = tokens, .at_us = now_us});
    enter(tracked_[0].front(), 0);
    by_key_[key] = tracked_[0].begin();
    tokens_ += tokens;
    drop_beyond(capacity);
  }
  age();
  const double later = return_probability(after_later_);
  const double after_later = later / (1 - later);
  return again ? after_later : return_probability(after_first_) * (1 + after_later);
}

// Multiplies the probabilities of passing each span without a return. A gap that has entered a span and not
// left it has passed about half of it. The added 1 stands for a gap without a return, so that the result is
// below 1.
double ReturnRate::return_probability(const LifeTable& gaps) {
  double none = 1;
  for (const SpanCounts& span : gaps) none *= 1 - span.returned / ((span.entered + span.left) / 2 + 1);
  return 1 - none;
}

std::size_t ReturnRate::span_of(std::int64_t gap_us) {
  constexpr int first_span_bits = 10;  // 1,024 us
  const auto gap = static_cast<std::uint64_t>(std::max<std::int64_t>(gap_us, 0));
  return std::min<std::size_t>(std::bit_width(gap >> first_span_bits), spans - 1);
}

void ReturnRate::enter(TrackedBlock& block, std::size_t span) {
  block.span = span;
  ++table_of(block)[span].entered;
}

// Moves each block through the spans that have passed. The blocks of a span are younger than those of the
// next one, so the oldest comes first there.
void ReturnRate::advance(std::int64_t now_us) {
  for (std::size_t span = 0; span + 1 < spans; ++span) {
    Blocks& here = tracked_[span];
    while (!here.empty() && span_of(now_us - here.back().at_us) > span) {
      TrackedBlock& block = here.back();
      ++table_of(block)[span].left;
      tracked_[span + 1].splice(tracked_[span + 1].begin(), here, std::prev(here.end()));
      enter(block, span + 1);
    }
  }
}

std::int64_t ReturnRate::oldest_us(std::int64_t now_us) const {
  for (const Blocks& blocks : tracked_ | std::views::reverse)
    if (!blocks.empty()) return now_us - blocks.back().at_us;
  return 0;
}

bool ReturnRate::is_expected(const std::string& key, bool is_there, std::int64_t now_us) {
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) return false;
  std::optional<std::int64_t>& missed = known->second->missed_us;
  if (is_there) {
    missed.reset();
  } else if (missed && static_cast<double>(now_us - *missed) < overdue_factor * creation_us_) {
    return true;
  } else {
    missed = now_us;
  }
  return false;
}

void ReturnRate::mark_cached(const std::string& key, std::int64_t now_us) {
  const auto known = by_key_.find(key);
  if (known == by_key_.end() || !known->second->missed_us) return;
  const auto took_us = static_cast<double>(now_us - *std::exchange(known->second->missed_us, {}));
  creation_us_ += creation_us_ > 0 ? (took_us - creation_us_) * share_of_new : took_us;
}

void ReturnRate::mark_abandoned(const std::string& key) {
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) known->second->missed_us.reset();
}

void ReturnRate::drop_beyond(std::uint64_t capacity) {
  for (Blocks& blocks : tracked_ | std::views::reverse) {
    while (!blocks.empty() && (tokens_ > capacity || by_key_.size() > keys_max_)) {
      const TrackedBlock& oldest = blocks.back();
      ++table_of(oldest)[oldest.span].left;
      tokens_ -= oldest.tokens;
      by_key_.erase(oldest.key);
      blocks.pop_back();
    }
  }
}

void ReturnRate::age() {
  if (++wants_ < user_wants_per_halving) return;
  wants_ /= 2;
  for (LifeTable* table : {&after_first_, &after_later_}) {
    for (SpanCounts& span : *table) {
      span.entered /= 2;
      span.left /= 2;
      span.returned /= 2;
    }
  }
}

}  // namespace troupe::placement
