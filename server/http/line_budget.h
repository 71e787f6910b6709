#pragma once
// Bounds what the server's thread spends on the lines of bulk requests. Clients that send lines on many
// connections at once would otherwise keep that thread, and every other request would wait for them.
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace troupe::server {

class LineBudget {
 public:
  // The budget begins full, with `bytes_max`, and gets a second's share each second.
  LineBudget(std::size_t bytes_max, std::size_t bytes_per_second)
      : bytes_max_(static_cast<double>(bytes_max)),
        bytes_per_us_(static_cast<double>(bytes_per_second) / 1e6),
        left_(bytes_max_) {}

  // Takes the bytes of some lines. Returns false if fewer are left: the lines are read on another thread.
  // `now_us` must not decrease.
  bool take(std::size_t bytes, std::int64_t now_us) {
    left_ = std::min(bytes_max_, left_ + static_cast<double>(now_us - filled_us_) * bytes_per_us_);
    filled_us_ = now_us;
    if (static_cast<double>(bytes) > left_) return false;
    left_ -= static_cast<double>(bytes);
    return true;
  }

 private:
  double bytes_max_, bytes_per_us_, left_;
  std::int64_t filled_us_ = 0;
};

}  // namespace troupe::server
