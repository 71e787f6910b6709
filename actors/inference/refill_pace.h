#pragma once
// Limits how many bytes may be prefetched per second over a link that passes also use. Bytes that
// passes missed meanwhile are subtracted. Unused credit is kept for one interval, and so is debt.
#include <algorithm>
#include <cstdint>

#include "runtime/actor/core.h"

namespace troupe::actors {

class RefillPace {
 public:
  RefillPace(double bytes_per_second, Duration interval)
      : per_us_(bytes_per_second * 1e-6), most_(per_us_ * static_cast<double>(interval.us)) {}

  void spend(std::uint64_t bytes) { credit_ = std::max(-most_, credit_ - static_cast<double>(bytes)); }
  std::uint64_t allowed(Instant now) {
    credit_ = std::min(most_, credit_ + per_us_ * static_cast<double>((now - then_).us));
    then_ = now;
    return credit_ > 0 ? static_cast<std::uint64_t>(credit_) : 0;
  }

 private:
  double per_us_, most_, credit_ = 0;
  Instant then_;
};

}  // namespace troupe::actors
