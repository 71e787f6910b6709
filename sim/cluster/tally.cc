// Adds up the counts of several simulated runs.
#include "sim/cluster/tally.h"

namespace troupe::sim {

Tally& operator+=(Tally& sum, const Tally& one) {
  sum.requests += one.requests;
  sum.answered += one.answered;
  sum.refused += one.refused;
  sum.expired += one.expired;
  sum.cut_off += one.cut_off;
  sum.of_others += one.of_others;
  sum.approximate += one.approximate;
  sum.tokens_total += one.tokens_total;
  sum.tokens_reused += one.tokens_reused;
  sum.after_kill += one.after_kill;
  sum.after_kill_ok += one.after_kill_ok;
  sum.long_after_kill += one.long_after_kill;
  sum.long_after_kill_ok += one.long_after_kill_ok;
  sum.unsent += one.unsent;
  sum.unjudged += one.unjudged;
  sum.kills += one.kills;
  sum.swaps += one.swaps;
  sum.joined += one.joined;
  sum.left += one.left;
  sum.left_whole += one.left_whole;
  sum.users_handed_on += one.users_handed_on;
  sum.users_left_behind += one.users_left_behind;
  sum.struck += one.struck;
  return sum;
}

}  // namespace troupe::sim
