#pragma once
// What each area of a node's pool saved its requests, and would have saved with another share of the pool:
// shadow caches (placement/split/shadow_cache.h) of the blocks that were wanted, sampled, with what each
// would have cost to compute. Beside it what a policy that goes by latencies wants to know of the requests.
// All sums are since the start, so that whoever hears two reports knows what was between them, however many
// were lost.
#include <cstdint>
#include <string_view>
#include <vector>

#include "placement/popularity/frequency_sketch.h"
#include "placement/split/shadow_cache.h"
#include "runtime/actor/core.h"
#include "runtime/actor/messages.h"

namespace troupe::actors {

class AreaSavings {
 public:
  AreaSavings(std::size_t areas, std::uint32_t pool_pages);

  // A request wanted this block, of so many pages. Of a guest's, whose blocks belong to another node, only
  // what was saved counts.
  void use(std::size_t area, const BlockWant& want, std::uint64_t pages, bool hit, bool guest);
  // Requests that ran on other nodes would have wanted it here: to the curve it is the same.
  void use_elsewhere(std::size_t area, const BlockUse& use, std::uint64_t pages);
  std::uint64_t elsewhere() const { return elsewhere_; }
  // A request let go of its blocks, so long after it asked for them. `user`: user_key, or 0 if it wanted none
  // of a user's.
  void served(std::uint64_t user, std::uint32_t user_tokens, Duration held);
  static std::uint64_t user_key(std::string_view owner);  // never 0

  void tell(
      std::vector<AreaReport>& areas) const;  // saved_us and savings of areas that blocks were wanted of
  const ServedReport& served() const { return served_; }
  std::size_t areas() const { return areas_.size(); }
  double saved_us(std::size_t area) const { return areas_[area].saved_us; }

 private:
  struct Area {
    placement::ShadowCache shadow;
    double saved_us = 0;
    bool used = false;
  };
  void count(Area& area, const BlockName& name, std::uint64_t pages, double us);

  std::vector<Area> areas_;
  std::uint64_t elsewhere_ = 0;  // uses
  placement::FrequencySketch users_;
  ServedReport served_;
};

// A curve as reports have it: none, or one value for each hundredth, none of them less than the one before.
bool is_savings(const std::vector<double>& savings);

}  // namespace troupe::actors
