#include "actors/inference/model_set.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

namespace troupe::actors {
namespace model_set_test {

using Names = std::vector<std::string>;

// A model is kept for 100 us after it was last named; three may be loaded; the first pause is 10
// us.
struct Bench {
  ModelSet set{"a", {100}, 3, {10}};
  std::set<std::string> needed;

  std::string next(std::int64_t us) {  // "+b": load b, "-b": drop b; "": nothing to do
    const auto job = set.next_change({us}, [this](const std::string& m) { return needed.contains(m); });
    if (!job) return "";
    if (const auto* load = std::get_if<LoadModel>(&*job)) return "+" + load->model_version;
    return "-" + std::get<DropModel>(*job).model_version;
  }
  void follow(std::int64_t us, std::uint64_t epoch, std::string active, std::string next_model = "") {
    set.follow({us}, {epoch, std::move(active), "catalog", std::move(next_model)});
  }
  void end(std::int64_t us, bool ok = true) { set.end_change({us}, ok); }
};

TEST_CASE("model set: the next model is loaded beside the active one, one change at a time") {
  Bench b;
  CHECK(b.next(0) == "");
  b.follow(1, 5, "a", "b");
  CHECK(b.next(1) == "+b");
  CHECK(b.next(2) == "");
  CHECK_FALSE(b.set.serves({2}, "b"));
  b.end(3);
  CHECK(b.set.served({3}) == Names{"a", "b"});
  CHECK(b.next(4) == "");
}

TEST_CASE("model set: older or equal versions change nothing") {
  Bench b;
  b.follow(1, 5, "a", "b");
  CHECK_FALSE(b.set.follow({2}, {5, "c", "", "d"}));
  CHECK_FALSE(b.set.follow({2}, {4, "c", "", "d"}));
  CHECK(b.set.versions().epoch == 5);
  CHECK(b.next(2) == "+b");
  b.end(3);
  CHECK(b.next(4) == "");
}

TEST_CASE("model set: a model no longer named takes plans for a while, and is dropped when none is left") {
  Bench b;
  b.follow(1, 1, "a", "b");
  CHECK(b.next(1) == "+b");
  b.end(2);
  b.follow(10, 2, "b");
  b.follow(50, 3, "b");  // does not restart the time
  b.needed = {"a"};
  CHECK(b.set.serves({109}, "a"));
  CHECK(b.next(109) == "");
  CHECK_FALSE(b.set.serves({110}, "a"));
  CHECK(b.next(110) == "");
  b.needed = {};
  CHECK(b.next(111) == "-a");
  b.end(112);
  CHECK_FALSE(b.set.has("a"));
  CHECK(b.set.served({112}) == Names{"b"});
}

TEST_CASE(
    "model set: a final refusal of the next model is reported until newer versions or a successful load") {
  Bench b;
  const auto refused_model = [&] { return b.set.refused_next() ? b.set.refused_next()->model : ""; };
  const auto fail = [&](std::int64_t us, RefusalKind kind) {
    b.end(us, false);
    b.set.note_refusal("b", {kind, "code", "why", "", ""});
  };
  b.follow(0, 1, "a", "b");
  CHECK(b.next(0) == "+b");
  fail(1, RefusalKind::unavailable);  // not final: a later try may succeed
  CHECK(refused_model() == "");
  for (const auto& [us, kind] :
       {std::pair{404'000, RefusalKind::not_found}, {501'000, RefusalKind::unsupported}}) {
    CHECK(b.next(us) == "+b");
    fail(us + 1, kind);
    CHECK(refused_model() == "b");
    CHECK(b.set.refused_next()->why == "why");
    if (kind == RefusalKind::unsupported) break;
    b.follow(us + 2, 2, "a", "b");
    CHECK(refused_model() == "");
  }
  CHECK(b.next(900'000) == "+b");
  b.end(900'001);
  CHECK(refused_model() == "");
  b.set.note_refusal("a", {RefusalKind::not_found, "code", "why", "", ""});
  CHECK(refused_model() == "");
}

TEST_CASE("model set: a load begun under earlier versions does not count against a newly announced model") {
  Bench b;
  b.follow(0, 1, "a", "b");
  CHECK(b.next(0) == "+b");
  b.follow(1, 2, "a");
  b.follow(2, 3, "a", "b");
  for (const std::int64_t us : {3, 100}) {
    b.end(us, false);
    b.set.note_refusal("b", {RefusalKind::not_found, "code", "why", "", ""});
    CHECK(b.set.refused_next().has_value() == (us == 100));
    if (us == 3) CHECK(b.next(99) == "+b");
  }
}

TEST_CASE("model set: a model named again in time stays, and one being dropped is loaded again afterwards") {
  Bench b;
  b.follow(0, 1, "a", "b");
  CHECK(b.next(0) == "+b");
  b.end(1);
  b.follow(2, 2, "b");
  b.follow(50, 3, "a", "b");
  CHECK(b.next(500) == "");
  b.follow(500, 4, "b");
  CHECK(b.next(600) == "-a");
  b.follow(601, 5, "a", "b");
  CHECK(b.next(602) == "");
  b.end(603);
  CHECK(b.next(604) == "+a");
}

TEST_CASE("model set: an active model that was never the next one is loaded") {
  Bench b;
  b.follow(0, 9, "c");
  CHECK_FALSE(b.set.ready({0}));
  CHECK(b.next(0) == "+c");
  b.end(1);
  CHECK(b.set.ready({1}));
}

TEST_CASE("model set: a model that cannot be loaded is retried at growing pauses and does not delay others") {
  Bench b;
  b.needed = {"a"};
  b.follow(0, 1, "b", "c");
  CHECK(b.next(0) == "+b");
  b.end(1, false);
  CHECK(b.next(2) == "+c");
  b.end(3);
  std::int64_t now = 1;
  for (const std::int64_t pause : {10, 20, 40, 80}) {
    CHECK(b.next(now + pause - 1) == "");
    CHECK(b.next(now += pause) == "+b");
    b.end(now, false);
  }
  b.follow(now, 2, "b", "d");  // d has not failed yet; new versions do not end b's back-off
  CHECK(b.next(now) == "+d");
}

TEST_CASE(
    "model set: the pause is bounded, and starts anew after a success or when the model was not named") {
  Bench b;
  b.follow(0, 1, "a", "b");
  std::int64_t now = 0;
  const auto fail = [&](std::int64_t pause) {
    CHECK(b.next(now += pause) == "+b");
    b.end(now, false);
  };
  for (int i = 0; i < 40; ++i) fail(ModelSet::longest_pause.us);
  CHECK(b.next(now + ModelSet::longest_pause.us - 1) == "");
  b.follow(now, 2, "a");
  b.follow(now, 3, "a", "b");
  fail(0);
  CHECK(b.next(now + 9) == "");
  CHECK(b.next(now += 10) == "+b");
}

TEST_CASE("model set: at most models_max models are loaded, and a drop allows another load") {
  Bench b;
  b.follow(0, 1, "a", "b");
  CHECK(b.next(0) == "+b");
  b.end(0);
  b.follow(0, 2, "b", "c");
  CHECK(b.next(0) == "+c");
  b.end(0);
  b.follow(0, 3, "c", "d");
  CHECK(b.next(99) == "");
  CHECK(b.next(100) == "-a");
  b.end(100);
  CHECK(b.next(100) == "-b");
  b.end(100);
  CHECK(b.next(100) == "+d");
}

TEST_CASE("model set: versions without a model keep the present one") {
  Bench b;
  b.follow(0, 1, "");
  CHECK(b.set.versions().epoch == 1);
  CHECK(b.next(1'000) == "");
  CHECK(b.set.ready({1'000}));
}

TEST_CASE("model set: under random versions needed models stay, and finally both named models are loaded") {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Bench b;
    std::int64_t now = 0;
    std::uint64_t epoch = 0;
    std::string running;
    const auto tend = [&](bool ok) {
      if (!running.empty()) b.end(now, ok);
      running = b.next(now);
      if (running.starts_with("-")) CHECK_FALSE(b.needed.contains(running.substr(1)));
      CHECK(b.set.size() <= 3);
    };
    const auto any = [&] { return std::string(1, static_cast<char>('a' + random() % 5)); };
    for (int i = 0; i < 200; ++i) {
      now += random() % 40;
      if (random() % 4 == 0) b.follow(now, epoch + random() % 3, any(), random() % 2 ? any() : "");
      epoch = b.set.versions().epoch;
      b.needed = random() % 2 ? std::set<std::string>{any()} : std::set<std::string>{};
      if (random() % 2) tend(random() % 3 != 0);
    }
    b.needed = {};
    b.follow(now, epoch + 1, "x", "y");
    for (int i = 0; i < 12; ++i) {
      now += ModelSet::longest_pause.us;
      tend(true);
    }
    CHECK(b.set.served({now}) == Names{"x", "y"});
    CHECK(b.set.size() == 2);
  }
}

}  // namespace model_set_test
}  // namespace troupe::actors
