#pragma once
// Measures what it costs to pull a token of a block from another node, as a fraction of computing
// it. The data comes from requests that pulled. A worker's answer says how long its pulled blocks
// took; this includes latency, the other node and the link. Computing them would have taken their
// tokens at the pace of that worker's device. Older measurements lose weight with each heartbeat,
// beside a start value of constant weight. If pulls become too expensive they stop, and after about
// a minute without any they are tried again.
// It also measures how many tokens of such blocks arrive per second, over about the last hundred
// requests that pulled.
namespace troupe::router {

class PullCost {
 public:
  explicit PullCost(double start_share) : start_(start_share) {}

  // Records blocks of `tokens` tokens that took `pull_us` to pull and would have taken `computed_us` to
  // compute.
  void note(double computed_us, double pull_us, double tokens);
  void beat();  // called once per heartbeat
  // Returns 0..1; 1 = computing is as fast. A start value of 1 stays: nothing is pulled, so nothing
  // is measured.
  double share() const;
  double tokens_per_s() const { return recent_us_ > 0 ? recent_tokens_ / recent_us_ * 1e6 : 0; }  // 0 = none

 private:
  double start_;
  double pulled_us_ = 0, computed_us_ = 0;
  // sums over the latest pulls; only a new pull lowers their weight
  double recent_us_ = 0, recent_tokens_ = 0;
};

}  // namespace troupe::router
