#include "router/reloads.h"

#include "router/testing/flights_test.h"

namespace troupe::router {
namespace reloads_test {

struct Bench : FlightBench {
  Bench() : FlightBench({1}) { versions.hear({0}, {.epoch = 1, .model_version = "m"}, workers); }
  VersionKeeper versions{{.model_version = "m"}, true};
  ModelShare share{versions, workers};
  Reloads reloads{{.coordinate = true, .budget = {5'000}, .heartbeat = {1'000}, .version_bytes_max = 8},
                  versions,
                  share,
                  workers,
                  flights,
                  outcomes};

  Reloads of_any_length{
      {.coordinate = true, .version_bytes_max = 512}, versions, share, workers, flights, outcomes};

  std::string ask(const Reload& reload) {
    effects = {};
    reloads.on_reload(at(0), client, reload);
    const auto refused = sent<Refused>();
    return refused.empty() ? "" : refused[0].refusal.code;
  }
};

TEST_CASE("reloads: a reload without a version, with a bad one, or during another one is refused") {
  Bench b;
  CHECK(b.ask({1}) == "empty_reload");
  CHECK(b.ask({2, "m\n2"}) == "bad_version");
  CHECK(b.ask({3, "much too long"}) == "bad_version");
  CHECK(b.ask({4, "m2", "", 1.5}) == "bad_share");
  CHECK_FALSE(b.reloads.in_progress());
  CHECK(b.ask({5, "m2"}) == "");
  CHECK(b.reloads.in_progress());
  CHECK(b.ask({6, "m3"}) == "busy");
  CHECK(b.ask({5, "m2"}) == "");  // a copy
}

TEST_CASE("reloads: a model version that is longer than a folder's name can be is refused at once") {
  Bench b;
  RequestId id = 70;
  for (const std::size_t bytes : {255, 256, 512}) {
    CAPTURE(bytes);
    b.effects = {};
    b.of_any_length.on_reload(b.at(0), b.client, {id++, "", std::string(bytes, 'c')});
    CHECK(b.sent<Refused>().empty());  // the name of a catalog, which is no folder
    b.of_any_length.advance(b.at(200'000'000));
    b.effects = {};
    b.of_any_length.on_reload(b.at(0), b.client, {id++, std::string(bytes, 'm')});
    const auto refused = b.sent<Refused>();
    CHECK(refused.size() == (bytes > 255 ? 1 : 0));
    if (bytes > 255) CHECK(refused.at(0).refusal.code == "bad_version");
    CHECK(b.of_any_length.in_progress() == (bytes <= 255));
    b.of_any_length.advance(b.at(400'000'000));
  }
}

TEST_CASE("reloads: one that does not end in time is refused at its deadline") {
  Bench b;
  b.ask({5, "m2"});
  b.reloads.advance(b.at(4'999));
  CHECK(b.sent<Refused>().empty());
  b.reloads.advance(b.at(5'000));
  CHECK(b.sent<Refused>().at(0).refusal.code == "deadline_exceeded");
  CHECK_FALSE(b.reloads.in_progress());
}

}  // namespace reloads_test
}  // namespace troupe::router
