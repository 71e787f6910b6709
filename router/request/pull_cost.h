#pragma once
// Measures what it costs to pull a token of a block from another node, as a fraction of computing
// it. The data comes from requests that pulled. A worker's answer says how long its pulled blocks
// took; this includes latency, the other node and the link. Computing them would have taken their
// tokens at the pace of that worker's device. Older measurements lose weight with each heartbeat,
// beside a start value of constant weight. If pulls become too expensive they stop, and after about
// a minute without any they are tried again.
namespace troupe::router {

class PullCost {
 public:
  explicit PullCost(double start_share) : start_(start_share) {}

  // Records blocks that took `pull_us` to pull and would have taken `computed_us` to compute.
  void note(double computed_us, double pull_us);
  void beat();  // called once per heartbeat
  // Returns 0..1; 1 = computing is as fast. A start value of 1 stays: nothing is pulled, so nothing
  // is measured.
  double share() const;

 private:
  double start_;
  double pulled_us_ = 0, computed_us_ = 0;
};

}  // namespace troupe::router
