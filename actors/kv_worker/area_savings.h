#pragma once
// Counts how often each area of a node's pool for blocks (users, items) had a wanted block, and the
// time that this saved requests. The row area is reported by the inference workers instead
// (row_lending.h). This class also estimates what an area would have saved with another share of
// the pool. Shadow caches (placement/split/shadow_cache.h) hold a sample of the wanted blocks, with
// the cost of computing each. It also counts requests, their latencies and their user tokens, which
// split policies need. The allocator agent reads all of this from the worker's reports. All sums
// are since the start, so the difference of two reports is right however many reports in between
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

  // Counts one request's use of a block of `pages` pages. If the user's home is another node
  // (`remote_home`), the savings curve of that home counts it instead of this node's.
  void use(std::size_t area, const BlockWant& want, std::uint64_t pages, bool hit, bool remote_home);
  // Counts uses by requests that ran on other nodes although their user's home is here. They enter
  // the savings curve like local uses.
  void use_elsewhere(std::size_t area, const BlockUse& use, std::uint64_t pages);
  std::uint64_t elsewhere() const { return elsewhere_; }
  // Counts a request that held its blocks for `held`. `user` is its user_key, or 0 if it wanted no
  // user block.
  void served(std::uint64_t user, std::uint32_t user_tokens, Duration held);
  static std::uint64_t user_key(std::string_view owner);  // never 0

  // Sets the hits and misses of each area, and what areas saved whose blocks were wanted.
  void add_to(std::vector<AreaReport>& areas) const;
  const ServedReport& served() const { return served_; }

 private:
  struct Area {
    placement::ShadowCache shadow;
    std::uint64_t hits = 0, misses = 0;
    double saved_us = 0;
    bool used = false;
  };
  void count(Area& area, const BlockName& name, std::uint64_t pages, double us);

  std::vector<Area> areas_;
  std::uint64_t elsewhere_ = 0;  // uses counted by use_elsewhere
  placement::FrequencySketch users_;
  ServedReport served_;
};

// Returns true for a valid savings curve: empty, or the microseconds saved at 0 to 100 hundredths
// of the pool, finite and never falling.
bool is_savings(const std::vector<double>& savings);

}  // namespace troupe::actors
