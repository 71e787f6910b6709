#include "runtime/features/cached_features.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/features/feature_rules.h"
#include "runtime/features/stored_catalog.h"

namespace troupe {
namespace cached_features_test {

using Source = Features::Source;

// Store whose profiles have the current version and count readings. Tests can block it, make it
// unreachable, or make every user absent.
class Far final : public FeatureStore {
 public:
  JobResult run(const Job& job, std::uint32_t) override {
    if (std::holds_alternative<Write>(job)) return WriteResult{++version};
    const auto& wanted = std::get<FindFeatures>(job);
    const int turn = ++asked;
    while (held && turn > through) std::this_thread::yield();
    if (away) return Refusal{RefusalKind::unavailable, "features_unavailable"};
    JobResult result = find_items(wanted, user(), catalog, {});
    if (remembers) std::get<Features>(result).of = Source::stale;
    return result;
  }
  std::vector<UserReading> find_users(std::span<const std::string> keys, std::uint32_t slot) override {
    ++batches;
    asked_slot = slot;
    while (held) std::this_thread::yield();
    batched += static_cast<int>(keys.size());
    std::vector<UserReading> found(keys.size());
    for (UserReading& one : found)
      if (!away) one = {user(), true};
    return found;
  }
  CatalogPointer present_catalog() const override { return catalog; }
  void import(const Import&) override {}
  std::optional<std::string> made_for() override { return std::nullopt; }
  void note_made_for(const std::string&) override {}
  bool untouched() const override { return false; }
  std::uint64_t items() const override { return 0; }
  std::string catalog_version() const override { return catalog->version(); }
  CatalogPointer catalog_at(const std::string&) override { return catalog; }
  std::uint64_t bad_records() const override { return 0; }

  ProfilePointer user() const {
    return nobody ? nullptr : std::make_shared<const Profile>(Profile{version, {1}, {1}, {}});
  }

  std::atomic<int> asked = 0, batches = 0, batched = 0,
                   through = 0;  // number of readings let through while it is blocked
  std::atomic<std::uint32_t> asked_slot = 0;
  std::atomic<bool> held = false, away = false, nobody = false, remembers = false;
  std::atomic<std::uint64_t> version = 1;
  CatalogPointer catalog = CatalogWriter().publish(7);
};

struct Near {
  Far* far = nullptr;
  std::unique_ptr<CachedFeatures> features;

  explicit Near(Freshness usual, Duration expiry = {3'600'000'000}) {
    auto store = std::make_unique<Far>();
    far = store.get();
    CachedFeatureOptions options{.usual = usual, .slot = 9, .batch_max = 8};
    options.expiry.expiry = options.expiry.unknown_expiry = expiry;
    options.expiry.stale_for = {3'600'000'000};
    features = std::make_unique<CachedFeatures>(std::move(store), options);
  }
  FindFeatures wanted(const std::string& user = "u", Freshness freshness = Freshness::configured) const {
    return {.user = user, .freshness = freshness};
  }
  Features find(const std::string& user = "u", Freshness freshness = Freshness::configured) {
    return std::get<Features>(features->run(wanted(user, freshness), 0));
  }
  bool now(const std::string& user = "u") { return features->run_now(wanted(user)).has_value(); }
  static void await(const std::function<bool()>& done) {
    while (!done()) std::this_thread::yield();
  }
};

TEST_CASE("cached features: wait is answered from memory within the expiry and from the store after it") {
  Near near(Freshness::wait);
  CHECK_FALSE(near.now());
  CHECK(near.find().of == Source::store);
  CHECK(near.now());
  near.far->version = 2;
  const Features again = near.find();
  CHECK(again.of == Source::cache);
  CHECK(again.user->version == 1);
  CHECK(again.catalog->version() == near.far->catalog->version());
  CHECK(near.far->asked == 1);
  CHECK(near.find("u", Freshness::exact).user->version == 2);  // exact gets the store's profile

  Near short_lived(Freshness::wait, {1});
  for (int i = 0; i < 3; ++i) {
    CHECK(short_lived.find().of == Source::store);
    const auto read = std::chrono::steady_clock::now();
    Near::await([&] { return std::chrono::steady_clock::now() > read + std::chrono::microseconds(2); });
  }
  CHECK(short_lived.far->asked == 3);
}

TEST_CASE("cached features: an absent user is remembered, and an unreachable store is reported") {
  Near near(Freshness::wait);
  near.far->nobody = true;
  CHECK_FALSE(near.find().user);
  CHECK_FALSE(near.find().user);
  CHECK(near.far->asked == 1);
  near.far->away = true;
  CHECK(std::get<Refusal>(near.features->run(near.wanted("other"), 0)).kind == RefusalKind::unavailable);
  CHECK(std::get<Refusal>(near.features->run(near.wanted("other"), 0)).kind == RefusalKind::unavailable);
  CHECK(near.far->asked == 3);
}

TEST_CASE("cached features: an unreachable store's remembered profile is stale and not cached") {
  Near near(Freshness::wait);
  near.far->remembers = true;
  CHECK(near.find().of == Source::stale);
  near.far->remembers = false;
  near.far->version = 2;
  CHECK(near.find().user->version == 2);
  CHECK(near.find().of == Source::cache);
}

TEST_CASE("cached features: requests for the same user share one reading") {
  Near near(Freshness::wait);
  near.far->held = true;
  std::vector<std::future<Features>> all;
  for (int i = 0; i < 4; ++i) all.push_back(std::async(std::launch::async, [&] { return near.find(); }));
  Near::await([&] { return near.far->asked > 0; });
  near.far->held = false;
  int from_store = 0;
  for (auto& one : all) from_store += one.get().of == Source::store;
  CHECK(from_store == 1);
  CHECK(near.far->asked == 1);
}

TEST_CASE("cached features: a reader after a failed reading does not end another's reading") {
  Near near(Freshness::wait);
  near.far->held = near.far->away = true;
  const auto run = [&] {
    return std::async(std::launch::async, [&] { return near.features->run(near.wanted(), 0); });
  };
  auto first = run();
  Near::await([&] { return near.far->asked == 1; });
  auto second = run();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until it waits for the first
  near.far->through = 1;
  first.wait();
  Near::await([&] { return near.far->asked == 2; });
  auto third = run();
  Near::await([&] { return near.far->asked == 3; });
  auto fourth = run();
  near.far->through = 2;
  CHECK(std::holds_alternative<Refusal>(second.get()));
  std::this_thread::sleep_for(
      std::chrono::milliseconds(20));  // until the fourth has read too, if it did not wait
  near.far->away = near.far->held = false;
  CHECK(std::get<Features>(third.get()).of == Source::store);
  CHECK(std::get<Features>(fourth.get()).of == Source::cache);
  CHECK(near.far->asked == 3);
}

TEST_CASE("cached features: behind never waits: missing, then cached, then stale") {
  Near near(Freshness::behind, {1});
  near.far->held = true;
  CHECK(near.now());  // although the store hangs
  const Features first = near.find();
  CHECK(first.of == Source::missing);
  REQUIRE(first.user);
  CHECK(first.user->version == 0);
  CHECK(first.user->events.empty());
  near.far->held = false;
  Near::await([&] { return near.find().of == Source::stale; });  // its expiry passes at once
  CHECK(near.find().user->version == 1);
  CHECK(near.far->asked_slot == 9);
  CHECK(near.far->asked == 0);
  near.far->version = 5;
  Near::await([&] { return near.find().user->version == 5; });
  near.far->away = true;
  const auto await_batch_of = [&](const char* user) {
    const int before = near.far->batches;
    Near::await([&] {
      near.find(user);
      return near.far->batches > before;
    });
  };
  await_batch_of("u");
  await_batch_of("other");  // by then the failed reading of "u" is noted
  CHECK(near.find().user->version == 5);
}

TEST_CASE("cached features: users wanted during a reading share the next round trip, up to a bound") {
  Near near(Freshness::behind);
  near.far->held = true;
  near.find("first");
  Near::await([&] { return near.far->batches == 1; });
  for (int i = 0; i < 12; ++i) near.find("user " + std::to_string(i));
  near.far->held = false;
  Near::await([&] { return near.far->batched == 13; });
  CHECK(near.far->batches == 3);  // one, eight and four users
  for (int i = 0; i < 12; ++i)    // kept just after they were read
    Near::await([&] { return near.find("user " + std::to_string(i)).of == Source::cache; });
}

TEST_CASE("cached features: a write of this process is visible to the next wait") {
  Near near(Freshness::wait);
  CHECK(near.find().user->version == 1);
  near.features->run(Write{PutUser{.user = "u"}}, 0);
  CHECK(near.find().user->version == 2);
  near.features->run(Write{DeleteUser{.user = "u"}}, 0);
  CHECK(near.find().user->version == 3);
}

TEST_CASE("cached features: a request for another catalog version goes to the store") {
  Near near(Freshness::wait);
  near.find();
  FindFeatures pinned = near.wanted();
  pinned.catalog_version = near.far->catalog->version();
  CHECK(std::get<Features>(near.features->run(pinned, 0)).of == Source::cache);
  pinned.catalog_version = "c1";
  CHECK(std::get<Refusal>(near.features->run(pinned, 0)).code == "wrong_catalog");
  CHECK(near.far->asked == 2);
}

TEST_CASE("cached features: requests without a user, and exact ones, go to the store") {
  Near near(Freshness::exact);
  for (int i = 0; i < 2; ++i) CHECK(near.find().of == Source::store);
  CHECK(near.far->asked == 2);
  Near waits(Freshness::wait);
  for (int i = 0; i < 2; ++i) waits.find("");
  CHECK(waits.far->asked == 2);
}

}  // namespace cached_features_test
}  // namespace troupe
