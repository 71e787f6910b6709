#pragma once
// Limits retries so that they cannot become the load (promise 10). Each admitted request earns a
// fraction of a retry, up to a burst, and each retry spends a whole one. The number of retries
// never exceeds burst + share * admitted requests.
#include <algorithm>

namespace troupe::router {

class RetryBudget {
 public:
  RetryBudget(double share, double burst) : share_(share), burst_(burst), left_(burst) {}

  void earn() { left_ = std::min(burst_, left_ + share_); }
  bool spend() {
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  double share_, burst_, left_;
};

}  // namespace troupe::router
