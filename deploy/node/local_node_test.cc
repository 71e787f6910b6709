#include "deploy/node/local_node.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "runtime/testing/etcd_test_server.h"

using namespace troupe;
using namespace troupe::deploy;

TEST_SUITE("single node") {
  TEST_CASE("single node: has no transport; a worker among others has one, with its keys and incarnation") {
    const EtcdServer etcd;
    if (!etcd.here()) {
      MESSAGE("skipped: no etcd on this machine");
      return;
    }
    const TestFolder folder;
    MetricRegistry metrics;
    Config config;
    config.set("model.directory", std::string(TROUPE_ROOT_DIR) + "/deploy/demo/model");
    config.set("node.data_dir", (folder.path() / "data").string());
    config.set("pool.memory", "16MiB");
    config.set("transfer.devices", "lo");
    {
      LocalNode alone(config);
      CHECK(alone.transport() == nullptr);
    }
    config.set("cluster.coordination", etcd.endpoint());
    const NodeRoles roles{.node = 2, .router = false, .cache_meta = false, .workers = {1, 2}};
    const auto has_keys = [&] {
      LocalNode box(config, roles, &metrics);
      CHECK(box.incarnation() > 0);
      REQUIRE(box.transport() != nullptr);
      return box.transport()->address().at(3) == '2';
    };
    CHECK_FALSE(has_keys());
    config.set("transfer.encryption", "on");
    CHECK_THROWS_WITH_AS(LocalNode(config, roles, &metrics),
                         doctest::Contains("cluster.certificates is empty; expected"), ConfigError);
    config.set("cluster.certificates", folder.path().string());
    CHECK(has_keys());
    config.set("transfer.encryption", "auto");
    CHECK(has_keys());
    config.set("transfer.encryption", "off");
    CHECK_FALSE(has_keys());
  }

  TEST_CASE("single node: a damaged coordination file stops the start unless store.on_damage permits it") {
    const TestFolder folder;
    Config config;
    config.set("model.directory", std::string(TROUPE_ROOT_DIR) + "/deploy/demo/model");
    config.set("node.data_dir", (folder.path() / "data").string());
    config.set("pool.memory", "16MiB");
    std::filesystem::create_directories(folder.path() / "data");
    folder.write("data/coordination", "no hard state\n");
    CHECK_THROWS_WITH_AS(LocalNode{config}, doctest::Contains(", or set store.on_damage to start"),
                         CoordinationDamage);
    CHECK(std::filesystem::exists(folder.path() / "data/coordination"));
    config.set("store.on_damage", "start");
    { const LocalNode box(config); }
    CHECK(std::filesystem::exists(folder.path() / "data/coordination.damaged"));
  }
}
