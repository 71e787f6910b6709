#include "sim/world/world_data.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

using namespace troupe;
using namespace troupe::sim;

namespace {

WorldOptions small() {
  WorldOptions options;
  options.items = 230;
  options.users = 200;
  options.tenants = {"", "a", "b"};
  options.absent = 0.1;
  return options;
}

}  // namespace

TEST_CASE("world data: items are reproducible, have their own rows and differ between catalog versions") {
  const WorldData world(small()), again(small());
  std::size_t absent = 0, changed = 0;
  std::set<std::size_t> lengths;
  for (std::uint32_t n = 0; n < 230; ++n) {
    const auto one = world.item(WorldData::item_id(n), "c1"), two = world.item(WorldData::item_id(n), "c2");
    CHECK(one == again.item(WorldData::item_id(n), "c1"));
    if (!one || !two) {
      ++absent;
      continue;
    }
    CHECK(one->identifier == static_cast<Token>(n));
    CHECK(one->identifier < world.rows());
    lengths.insert(one->tokens.size());
    for (const Token token : one->tokens) CHECK(token < world.rows());
    if (one->tokens != two->tokens) ++changed;
  }
  CHECK(*std::ranges::min_element(lengths) == small().item_tokens_min);
  CHECK(*std::ranges::max_element(lengths) == small().item_tokens_max);
  CHECK(absent > 20);
  CHECK(absent < 80);
  CHECK(changed > 5);
  CHECK(changed < 60);
  for (const char* id : {"i230", "i01", "i", "i1x", "x1", "", "i99999999999"})
    CHECK_FALSE(world.item(id, "c1"));
  CHECK_FALSE(world.item("i1", "c9"));
}

TEST_CASE("world data: an item change holds in every version from its edition on; earlier editions stay") {
  WorldData world(small());
  const auto before = world.item("i7", "c2");
  const auto put = world.write({PutItem{.item = "i7", .title = "t", .tokens = {1, 2}, .identifier = 9}});
  CHECK(std::get<WriteResult>(put).version == 1);
  CHECK(world.edition() == 1);
  CHECK(world.item("i7", "c1")->tokens == std::vector<Token>{1, 2});
  world.write({DeleteItem{.item = "i7"}});
  CHECK_FALSE(world.item("i7", "c2"));
  CHECK(world.item("i7", "c2", 0) == before);
  CHECK(world.item("i7", "c2", 1)->identifier == 9);
}

TEST_CASE("world data: every id has a number; items put under other ids come after the generated ones") {
  WorldData world(small());
  const std::uint32_t made = world.options().items;
  CHECK(world.item_numbers() == made);
  for (const char* id : {"x1", "i5x", "x1", "i1"})
    world.write({PutItem{.item = id, .title = "", .tokens = {1}, .identifier = 3}});
  world.write({DeleteItem{.item = "x1"}});
  CHECK(world.item_numbers() == made + 2);
  CHECK(world.item_number("i1") == 1);
  CHECK(world.item_number("x1") == made);
  CHECK(world.item_number("i5x") == made + 1);
  CHECK_FALSE(world.item_number("y"));
  for (ItemNumber n = 0; n < world.item_numbers(); ++n) CHECK(world.item_number(world.id_of(n)) == n);
}

TEST_CASE("world data: the same user id is a different user in another tenant, except for twins") {
  const WorldData world(small());
  std::size_t twins = 0;
  for (std::uint32_t n = 0; n < 200; ++n) {
    const auto a = world.profile("a", WorldData::user_id(n)), b = world.profile("b", WorldData::user_id(n));
    REQUIRE(a);
    CHECK(std::accumulate(a->events.begin(), a->events.end(), 0U) == a->tokens.size());
    CHECK((*a == *b) == world.is_twin(n));
    twins += world.is_twin(n);
  }
  CHECK(twins > 20);
  CHECK(twins < 70);
  CHECK_FALSE(world.profile("c", "u1"));
  CHECK_FALSE(world.profile("a", "u200"));
}

TEST_CASE(
    "world data: histories stay in the ranges of events and of tokens per event, and events cover all "
    "tokens") {
  WorldOptions asked = small();
  asked.events_min = 3, asked.events_max = 5, asked.event_tokens_min = 2, asked.event_tokens_max = 3;
  const WorldData world(asked);
  std::set<std::size_t> events;
  std::set<std::uint32_t> tokens;
  for (std::uint32_t n = 0; n < asked.users; ++n) {
    const Profile profile = *world.profile("", WorldData::user_id(n));
    events.insert(profile.events.size());
    tokens.insert(profile.events.begin(), profile.events.end());
    CHECK(profile.tokens.size() ==
          std::accumulate(profile.events.begin(), profile.events.end(), std::size_t{0}));
  }
  CHECK(events == std::set<std::size_t>{3, 4, 5});
  CHECK(tokens == std::set<std::uint32_t>{2, 3});
}

TEST_CASE("world data: profiles keep all versions, the generated one first") {
  WorldData world(small());
  const auto first = world.profile("a", "u1");
  CHECK(world.profile_version("a", "u1") == 1);
  const std::uint64_t two =
      std::get<WriteResult>(world.write({PutUser{.tenant = "a", .user = "u1", .tokens = {5, 6}}})).version;
  const std::uint64_t three =
      std::get<WriteResult>(world.write({DeleteUser{.tenant = "a", .user = "u1"}})).version;
  CHECK(two == 2);
  CHECK(three == 3);
  CHECK_FALSE(world.profile("a", "u1"));
  CHECK(world.profile_version("a", "u1") == 3);
  CHECK(world.profile("a", "u1", 1) == first);
  CHECK(world.profile("a", "u1", 2)->tokens == std::vector<Token>{5, 6});
  CHECK_FALSE(world.profile("a", "u1", 3));
  CHECK_FALSE(world.profile("a", "u1", 4));
  CHECK_FALSE(world.profile("b", "u1", 2));
  CHECK(world.profile("b", "u1")->version == 1);
}

TEST_CASE("world data: a history takes its items' tokens, and one with an unknown item is refused") {
  WorldData world(small());
  world.write({PutItem{.item = "i1", .title = "", .tokens = {1, 2, 3}, .identifier = 1}});
  world.write({PutItem{.item = "i2", .title = "", .tokens = {4}, .identifier = 2}});
  world.write({PutUser{.tenant = "", .user = "new", .history = {"i2", "i1"}}});
  CHECK(world.profile("", "new")->tokens == std::vector<Token>{4, 1, 2, 3});
  CHECK(world.profile("", "new")->events == std::vector<std::uint32_t>{1, 3});
  const auto refused = world.write({PutUser{.tenant = "", .user = "new", .history = {"i2", "nothing"}}});
  CHECK(std::get<Refusal>(refused).code == "unknown_item");
  CHECK(std::get<Refusal>(refused).where == "history[1]");
  CHECK(world.profile_version("", "new") == 2);
}

TEST_CASE("world data: a growing profile has a version per step and takes its items' tokens") {
  WorldOptions options = small();
  options.absent = 0;
  WorldData world(options);
  const auto tokens_of = [&](std::initializer_list<const char*> items) {
    std::vector<Token> tokens;
    for (const char* id : items) {
      const auto item = world.item(id, "c1");
      tokens.insert(tokens.end(), item->tokens.begin(), item->tokens.end());
    }
    return tokens;
  };
  const auto made = world.profile("a", "u1");
  const WriteResult one = world.append("a", "u1", {"i7", "i9"}), two = world.append("a", "u1", {"i7"});
  CHECK(two.version > one.version);
  CHECK(world.profile_version("a", "u1") == two.version);
  CHECK(world.profile("a", "u1", 1) == made);
  CHECK(world.profile("a", "u1", one.version)->tokens == tokens_of({"i7", "i9"}));
  CHECK(world.profile("a", "u1")->tokens == tokens_of({"i7", "i9", "i7"}));
  CHECK(world.profile("a", "u1")->events.size() == 3);
  CHECK(world.profile("a", "u1")->version == two.version);
  CHECK_FALSE(world.was_absent("a", "u1", 1));
  CHECK(world.was_absent("a", "stranger", 1));
  CHECK_FALSE(world.was_absent("a", "stranger", 2));  // no deletion since then
  CHECK(world.profile("b", "u1")->version == 1);
  const WriteResult empty = world.append("b", "u1", {});
  CHECK(world.profile("b", "u1")->version == empty.version);
  CHECK(world.profile("b", "u1")->tokens.empty());
  for (int i = 0; i < 1'100; ++i) world.append("a", "u1", {"i3"});
  CHECK(world.profile("a", "u1")->events.size() == 1'000);
}

TEST_CASE("world data: ranks follow the Zipf distribution") {
  const std::uint64_t seed = 99;
  INFO("seed ", seed);
  for (const double exponent : {0.0, 0.8, 1.0, 1.3}) {
    RandomStream random(seed, 0);
    const Zipf zipf(50, exponent);
    std::vector<int> counts(50);
    const int draws = 200'000;
    for (int i = 0; i < draws; ++i) ++counts.at(zipf.draw(random));
    double sum = 0;
    for (int rank = 1; rank <= 50; ++rank) sum += std::pow(rank, -exponent);
    for (const int rank : {1, 2, 3, 10, 50}) {
      const double expected = draws * std::pow(rank, -exponent) / sum;
      CHECK(std::abs(counts[static_cast<std::size_t>(rank - 1)] - expected) < 5 * std::sqrt(expected));
    }
  }
  RandomStream random(seed, 1);
  CHECK(Zipf(1, 0.9).draw(random) == 0);
}

TEST_CASE("world data: candidates are different existing items, and a flash crowd draws the same ones") {
  WorldData world(small());
  RandomStream random(5, 5);
  for (int round = 0; round < 50; ++round) {
    const auto ids = world.draw_candidates(random, 100, "c2");
    CHECK(ids.size() == 100);
    CHECK(std::set<std::string>(ids.begin(), ids.end()).size() == 100);
    for (const std::string& id : ids) CHECK(world.item(id, "c2"));
  }
  CHECK(world.draw_candidates(random, 1'000, "c2").size() > 190);
  CHECK(world.draw_candidates(random, 1, "c9").empty());
  world.user_flash = {1.0, 150, 2};
  for (int round = 0; round < 50; ++round) CHECK(world.draw_user(random) / 2 == 75);
}

TEST_CASE("world data: all candidates together are the items of the catalog as it is now") {
  WorldData world(small());
  std::string absent;  // from this catalog version
  for (std::uint32_t n = 0; absent.empty(); ++n)
    if (!world.item(WorldData::item_id(n), "c2")) absent = WorldData::item_id(n);
  world.write({DeleteItem{.item = "i7"}});
  world.write({PutItem{.item = absent, .title = "t", .tokens = {1, 2}, .identifier = 9}});
  std::set<std::string> expected;
  for (std::uint32_t n = 0; n < world.options().items; ++n)
    if (world.item(WorldData::item_id(n), "c2")) expected.insert(WorldData::item_id(n));
  RandomStream random(5, 5);
  const auto ids = world.draw_candidates(random, 1'000, "c2");
  CHECK(std::set<std::string>(ids.begin(), ids.end()) == expected);
  CHECK_FALSE(expected.contains("i7"));
  CHECK(expected.contains(absent));
}

TEST_CASE("world data: log-normal profiles have the given mean length and none exceeds the maximum") {
  WorldOptions options;
  options.users = 20'000;
  options.history_mean = 150;
  options.history_sigma = 0.6;
  options.history_max = 650;
  const WorldData world(options);
  double sum = 0;
  std::uint32_t shorter = 0;
  for (std::uint32_t n = 0; n < options.users; ++n) {
    const auto profile = world.profile("", WorldData::user_id(n));
    REQUIRE(profile);
    REQUIRE(profile->tokens.size() <= 650);
    REQUIRE(std::accumulate(profile->events.begin(), profile->events.end(), std::size_t{0}) ==
            profile->tokens.size());
    sum += static_cast<double>(profile->tokens.size());
    shorter += profile->tokens.size() < 100;
  }
  CHECK(sum / options.users == doctest::Approx(150).epsilon(0.02));
  CHECK(shorter / 20'000.0 == doctest::Approx(0.353).epsilon(0.05));  // Φ((ln(2/3) + 0.18) / 0.6)
  CHECK(world.profile("", "u7")->tokens == WorldData(options).profile("", "u7")->tokens);
}

TEST_CASE(
    "world data: the mean length holds if many histories are cut, and history_length matches the profile") {
  WorldOptions options;
  options.users = 20'000;
  options.history_mean = 500;
  options.history_sigma = 1;
  options.history_max = 1'000;
  const WorldData world(options);
  double sum = 0;
  std::uint32_t cut = 0;
  for (std::uint32_t n = 0; n < options.users; ++n) {
    sum += world.history_length(n);
    cut += world.history_length(n) == 1'000;
  }
  CHECK(sum / options.users == doctest::Approx(500).epsilon(0.02));
  CHECK(cut > 3'000);
  CHECK(world.profile("", "u9")->tokens.size() == world.history_length(9));
}

TEST_CASE("world data: histories may share whole events from a small common set") {
  WorldOptions options;
  options.users = 500;
  options.history_mean = 60;
  options.history_sigma = 0.5;
  options.history_max = 200;
  options.event_tokens_max = 10;
  options.known_events = 7;
  options.known_share = 0.9;
  const WorldData world(options);
  std::map<std::vector<Token>, std::uint32_t> seen;
  std::uint32_t events = 0;
  for (std::uint32_t n = 0; n < options.users; ++n) {
    const Profile profile = *world.profile("", WorldData::user_id(n));
    REQUIRE(profile.tokens.size() == 10 * profile.events.size());
    for (std::size_t e = 0; e < profile.events.size(); ++e, ++events) {
      REQUIRE(profile.events[e] == 10);
      const Token* first = profile.tokens.data() + 10 * e;
      ++seen[{first, first + 10}];
    }
  }
  std::uint32_t repeated = 0, often = 0;
  for (const auto& [tokens, count] : seen)
    if (count > 20) repeated += count, ++often;
  CHECK(often == 7);
  CHECK(static_cast<double>(repeated) / events == doctest::Approx(0.9).epsilon(0.03));
}

TEST_CASE("world data: had_tokens knows exactly the tokens that an item ever had in a catalog") {
  WorldData world(small());
  std::size_t distinguished = 0;
  for (std::uint32_t n = 0; n < 230; ++n) {
    const std::string id = WorldData::item_id(n);
    const auto one = world.item(id, "c1"), two = world.item(id, "c2");
    if (one) CHECK(world.had_tokens(id, "c1", one->tokens));
    if (!one || !two || one->tokens == two->tokens) continue;
    CHECK_FALSE(world.had_tokens(id, "c2", one->tokens));
    ++distinguished;
  }
  CHECK(distinguished > 0);
  std::uint32_t there = 0;
  while (!world.item(WorldData::item_id(there), "c1")) ++there;
  const std::string id = WorldData::item_id(there);
  const std::vector<Token> before = world.item(id, "c1")->tokens, after{1, 2, 3};
  world.write({PutItem{0, id, "changed", after, 1}});
  REQUIRE(world.item(id, "c1")->tokens == after);
  CHECK(world.had_tokens(id, "c1", before));
  CHECK(world.had_tokens(id, "c1", after));
  CHECK_FALSE(world.had_tokens(id, "no catalog", after));
  CHECK_FALSE(world.had_tokens("nobody", "c1", after));
}
