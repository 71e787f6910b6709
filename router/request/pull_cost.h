#pragma once
// What it costs to pull a token of a block from another node, as a share of computing it: measured on the
// requests that pulled. A worker's answer says how long its blocks from elsewhere took, which is latency, the
// other end and the link together, as requests feel them; what computing them would have taken is their
// tokens at the pace of that worker's device. What was seen counts for less with each heartbeat, beside a
// start value that always counts as much: where pulls have become dear none is tried any more, and after a
// minute or so without any they are tried again.
namespace troupe::router {

class PullCost {
 public:
  explicit PullCost(double start_share) : start_(start_share) {}

  // What would have taken so long to compute came from other nodes in this time.
  void note(double computed_us, double pull_us);
  void beat();  // once per heartbeat
  // 0..1; 1: computing is as quick. A start of 1 stays: nothing is pulled, so that nothing is measured.
  double share() const;

 private:
  double start_;
  double pulled_us_ = 0, computed_us_ = 0;
};

}  // namespace troupe::router
