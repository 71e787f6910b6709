#include "router/fleet/model_share.h"

#include <doctest/doctest.h>

#include "router/fleet/fingerprint.h"

namespace troupe::router {
namespace model_share_test {

struct Bench {
  WorkerTable workers{{.heartbeat = {1'000}}, {1, 2}};
  VersionKeeper versions{
      {.epoch = 3, .model_version = "m1", .catalog_version = "c", .next_model = "m2", .next_share = 500},
      true};
  ModelShare share{versions, workers};

  void beat(NodeId node, std::vector<std::string> models) {
    Heartbeat beat{.incarnation = 5};
    beat.models = std::move(models);
    workers.hear({0}, node, beat);
  }
  std::string pin(std::string_view model = "", std::uint64_t home = 0) {
    return share.pin({0}, model, home).model_version;
  }
};

TEST_CASE("model share: no user gets the next model before every worker has it") {
  Bench b;
  b.beat(1, {"m1", "m2"});
  b.beat(2, {"m1"});
  b.share.advance({0});
  CHECK_FALSE(b.share.is_settled());
  CHECK(b.pin("m2") == "m1");
  b.workers.lose(2);
  b.share.advance({0});
  CHECK(b.share.is_settled());
  CHECK(b.pin("m2") == "m2");
}

TEST_CASE("model share: users below the share get the next model, unless they name the current one") {
  Bench b;
  for (const NodeId node : {1, 2}) b.beat(node, {"m1", "m2"});
  b.share.advance({0});
  for (std::uint64_t home = 0; home < 50; ++home) {
    CHECK(b.pin("", home) == (share_position(home, "m2") < 500 ? "m2" : "m1"));
    CHECK(b.pin("m1", home) == "m1");
    CHECK(b.pin("m2", home) == "m2");
  }
  for (const NodeId node : {1, 2}) b.workers.lose(node);
  CHECK(b.pin("m2") == "m1");  // no worker has it now
}

TEST_CASE("model share: requests of either model may continue, those of another catalog may not") {
  Bench b;
  CHECK(b.share.is_present({"m1", "c"}));
  CHECK(b.share.is_present({"m2", "c"}));
  CHECK_FALSE(b.share.is_present({"m3", "c"}));
  CHECK_FALSE(b.share.is_present({"m1", "old"}));
}

}  // namespace model_share_test
}  // namespace troupe::router
