#pragma once
// Keeps the slowest requests of the last five minutes for the page. It keeps a few of each half
// minute, so old outliers disappear in time and memory stays bounded.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/observability/observed_request.h"

namespace troupe::server {

class SlowestRequests {
 public:
  void add(std::int64_t now_us, ObservedRequest request);
  // Returns {"requests":[…]}, slowest first. `tenant`: whose requests; nullopt = all.
  std::string to_json(std::int64_t now_us, const std::optional<std::string>& tenant = std::nullopt) const;

 private:
  static constexpr std::int64_t slot_us = 30'000'000;
  static constexpr std::size_t slots = 10, of_slot_max = 10, shown = 16;
  struct Kept {
    std::int64_t at_us = 0;
    ObservedRequest request;
  };
  struct Slot {
    std::int64_t number = -1;
    std::vector<Kept> kept;  // slowest first
  };
  std::array<Slot, slots> slots_;
};

}  // namespace troupe::server
