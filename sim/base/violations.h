#pragma once
// Collects broken promises. Ports and judges report here. The run checks it after each step or
// receives each violation through a callback.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe::sim {

struct Violation {
  int promise = 0;  // promise number, see "Promises" in ARCHITECTURE.md
  std::string what;
  Instant at;  // virtual time
  bool operator==(const Violation&) const = default;
};

class Violations {
 public:
  // Keeps the first `kept_max` violations and counts all. `on_violation` may be called from within
  // a core's step or a port.
  explicit Violations(std::function<void(const Violation&)> on_violation = {}, std::size_t kept_max = 16)
      : on_violation_(std::move(on_violation)), kept_max_(kept_max) {}

  void report(int promise, std::string what, Instant at) {
    ++count_;
    const Violation violation{promise, std::move(what), at};
    if (kept_.size() < kept_max_) kept_.push_back(violation);
    if (on_violation_) on_violation_(violation);
  }
  const std::vector<Violation>& kept() const { return kept_; }
  std::uint64_t count() const { return count_; }

 private:
  std::function<void(const Violation&)> on_violation_;
  std::size_t kept_max_;
  std::vector<Violation> kept_;
  std::uint64_t count_ = 0;
};

}  // namespace troupe::sim
