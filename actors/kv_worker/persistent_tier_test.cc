#include "actors/kv_worker/persistent_tier.h"

#include <doctest/doctest.h>

namespace troupe::actors {
namespace persistent_tier_test {

BlockName name(std::uint8_t n) { return {{n}}; }
StoredBlock stored(std::uint8_t n, SegmentKind kind = SegmentKind::item) {
  return {name(n), kind, "owner", 4, n};
}
using Names = std::vector<BlockName>;

// Three known blocks; two saves may wait, one runs; one load of the warm start; back-off of 10 us.
struct Bench {
  PersistentTier tier{{.blocks_max = 3,
                       .saves_waiting_max = 2,
                       .saves_running_max = 1,
                       .warm_loads_max = 1,
                       .erases_waiting_max = 2,
                       .back_off = {10}}};
  Names warm() {
    Names names;
    while (const StoredBlock* next = tier.next_warm()) names.push_back(next->name);
    return names;
  }
};

TEST_CASE(
    "persistent tier: the first listing is loaded, system prompts first; a later one is only recorded") {
  Bench b;
  b.tier.begin(1, PersistentTier::ListJob{});
  CHECK_FALSE(b.tier.is_warm());
  REQUIRE(b.tier.end(1));
  b.tier.note_list({{stored(1), stored(2, SegmentKind::system), stored(3, SegmentKind::user)}});
  CHECK(b.tier.may_warm());
  CHECK_FALSE(b.tier.is_warm());
  CHECK(b.warm() == Names{name(2), name(1)});
  b.tier.begin(2, PersistentTier::LoadJob{.warm = true});
  CHECK_FALSE(b.tier.is_warm());
  REQUIRE(b.tier.end(2));
  CHECK(b.tier.is_warm());
  CHECK_FALSE(b.tier.is_warm());  // returns true once
  b.tier.note_list({{stored(5)}});
  CHECK_FALSE(b.tier.may_warm());
  CHECK(b.tier.stored().find(name(5)));
}

TEST_CASE("persistent tier: a failed listing is repeated after the back-off, once") {
  Bench b;
  b.tier.note_list_failed();
  b.tier.back_off({0});
  CHECK_FALSE(b.tier.take_list_retry({9}));
  CHECK(b.tier.take_list_retry({10}));
  CHECK_FALSE(b.tier.take_list_retry({11}));
}

TEST_CASE("persistent tier: blocks being erased do not count as stored, and failed erasures are repeated") {
  Bench b;
  b.tier.note_saved(stored(1));
  b.tier.begin(1, PersistentTier::EraseJob{{name(1)}});
  CHECK_FALSE(b.tier.stored().find(name(1)));
  b.tier.note_list({{stored(1), stored(2)}});
  CHECK_FALSE(b.tier.stored().find(name(1)));
  CHECK(b.tier.stored().find(name(2)));
  const auto ended = b.tier.end(1);
  b.tier.note_not_erased(std::get<PersistentTier::EraseJob>(*ended).names);
  b.tier.back_off({0});
  CHECK(b.tier.next_erasures({9}).empty());
  CHECK(b.tier.next_erasures({10}) == Names{name(1)});
  CHECK(b.tier.next_erasures({10}).empty());
  b.tier.note_not_erased({name(1), name(4), name(5)});
  CHECK(b.tier.check_bounds(1) == "");
  b.tier.note_saved(stored(1));  // and must not be erased any more
  CHECK(b.tier.next_erasures({10}) == Names{name(4)});
  b.tier.begin(2, PersistentTier::EraseJob{{name(2)}});
  b.tier.note_saved(stored(2));  // nor a block saved while it was being erased
  REQUIRE(b.tier.end(2));
  b.tier.note_not_erased({name(2)});
  CHECK(b.tier.next_erasures({10}).empty());
}

TEST_CASE(
    "persistent tier: saves run in order and bounded, skip stored blocks, and stop in back-off or when "
    "full") {
  Bench b;
  b.tier.note_saved(stored(1));
  for (const std::uint8_t n : {1, 2, 3}) b.tier.want_save(name(n));  // two may wait
  CHECK(b.tier.saves() == 2);
  CHECK(b.tier.next_save({0}) == name(2));
  b.tier.begin(1, PersistentTier::SaveJob{{stored(2)}});
  b.tier.want_save(name(3));
  CHECK_FALSE(b.tier.next_save({0}));
  REQUIRE(b.tier.end(1));
  b.tier.back_off_saves({0});
  CHECK_FALSE(b.tier.next_save({9}));
  CHECK(b.tier.may_load({9}, {name(1), SegmentKind::item, "owner", 4}));
  CHECK_FALSE(b.tier.may_load({9}, {name(1), SegmentKind::item, "owner", 5}));
  CHECK(b.tier.next_save({10}) == name(3));
  b.tier.note_saved(stored(2)), b.tier.note_saved(stored(3));
  b.tier.want_save(name(4));
  CHECK_FALSE(b.tier.next_save({20}));
  CHECK(b.tier.oldest([](const BlockName& n) { return n == name(1); }) == Names{name(2), name(3)});
}

TEST_CASE("persistent tier: a foreign job is not ended, and an exceeded bound is reported") {
  Bench b;
  CHECK_FALSE(b.tier.end(7));
  b.tier.begin(1, PersistentTier::LoadJob{});
  b.tier.begin(2, PersistentTier::LoadJob{});
  CHECK(b.tier.loads() == 2);
  CHECK(b.tier.check_bounds(1) == "loads: 2 of 1");
  REQUIRE(b.tier.end(1));
  CHECK(b.tier.check_bounds(1) == "");
}

}  // namespace persistent_tier_test
}  // namespace troupe::actors
