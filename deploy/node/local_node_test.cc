#include "deploy/node/local_node.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/testing/etcd_test_server.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {
namespace local_node_test {

// Host that records the actors added to it.
class RecordingHost final : public Host {
 public:
  void add(ActorSpec actor) override {
    CHECK(actor.core != nullptr);
    CHECK(slots.emplace(name_of(actor.address), actor.slots).second);
    Effects effects;
    actor.core->step({1}, Received{{1, Role::server}, StatusRequest{7}}, effects);
    for (const auto& effect : effects.list)
      if (const auto* send = std::get_if<Effects::Send>(&effect))
        if (const auto* status = std::get_if<StatusReply>(&send->message))
          for (const StatusField& field : status->fields)
            if (field.name == "degraded" && field.value == reason) degraded += name_of(actor.address) + " ";
    CHECK((actor.port == nullptr) == (actor.address.role == Role::allocator));
  }
  void set_server(Address, ServerHandler) override {}
  void start() override {}
  void post_encoded(Address, Bytes) override {}
  void stop() override {}

  std::string actors() const {
    std::string text;
    for (const auto& [name, of_it] : slots)
      text += (text.empty() ? "" : " ") + name + ":" + std::to_string(of_it);
    return text;
  }

  static constexpr const char* reason = "the disk of /data fills";
  static std::vector<std::string> reasons() { return {reason}; }
  std::string degraded;  // actors whose status has the reason

 private:
  std::map<std::string, std::uint32_t> slots;
};

Config demo_config(const TestFolder& folder) {
  Config config;
  config.set("model.directory", std::string(TROUPE_ROOT_DIR) + "/deploy/demo/model");
  config.set("node.data_dir", (folder.path() / "data").string());
  config.set("pool.memory", "16MiB");
  config.set("inference.executors", "3");
  return config;
}

}  // namespace local_node_test
using namespace local_node_test;
}  // namespace

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
    config.set("transfer.transport", "ucx");
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
    config.set("transfer.transport", "auto");  // not UCX, since there are certificates
    LocalNode box(config, roles, &metrics);
    REQUIRE(box.link_transport() != nullptr);
    CHECK(box.link_transport() == box.transport());
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

  TEST_CASE("single node: five actors, each with lanes for its jobs") {
    const TestFolder folder;
    LocalNode box(demo_config(folder));
    RecordingHost host;
    box.add_to(host, RecordingHost::reasons);
    CHECK(host.degraded == "router@1 ");
    CHECK(host.actors() == "allocator@1:1 cache_meta@1:1 inference_worker@1:4 kv_worker@1:3 router@1:19");
    CHECK(box.executors() == 3);
    CHECK(box.keeps_features());
    CHECK(box.store() != nullptr);
    CHECK(box.items() == 0);
    CHECK(box.pool_pages() == (16 << 20) / box.model().layout.page_bytes());
    CHECK(box.store_damage() == "");
    CHECK(std::filesystem::status(folder.path() / "data").permissions() == std::filesystem::perms::owner_all);
    CHECK(box.actors().size() == 5);
    CHECK(box.actors({.routers = {1, 2}, .cache_metas = {3}, .workers = {2, 4, 5}}).size() == 2 + 1 + 3 * 3);
  }

  TEST_CASE("node roles: a worker among others has lanes for pulls; a router has one actor and no pool") {
    const EtcdServer etcd;
    if (!etcd.here()) {
      MESSAGE("skipped: no etcd on this machine");
      return;
    }
    const TestFolder folder;
    MetricRegistry metrics;
    Config config = demo_config(folder);
    config.set("transfer.devices", "lo");
    config.set("cluster.coordination", etcd.endpoint());
    {
      LocalNode worker(config, {.node = 2, .router = false, .cache_meta = false, .workers = {1, 2}},
                       &metrics);
      RecordingHost host;
      worker.add_to(host, RecordingHost::reasons);
      CHECK(host.degraded == "kv_worker@2 ");
      CHECK(host.actors() == "allocator@2:1 inference_worker@2:4 kv_worker@2:7");
      CHECK_FALSE(worker.keeps_features());
      CHECK(worker.store() != nullptr);
    }
    LocalNode router(config, {.node = 1, .cache_meta = false, .worker = false, .workers = {2}}, &metrics);
    RecordingHost host;
    router.add_to(host);
    CHECK(host.degraded == "");
    CHECK(host.actors() == "router@1:19");
    CHECK(router.pool_pages() == 0);
    CHECK(router.transport() == nullptr);
    LocalNode meta(config, {.node = 3, .router = false, .worker = false, .cache_metas = {3}, .workers = {2}},
                   &metrics);
    RecordingHost other;
    meta.add_to(other, RecordingHost::reasons);
    CHECK(other.degraded == "cache_meta@3 ");
    CHECK(other.actors() == "cache_meta@3:1");
    CHECK(meta.store() == nullptr);
    CHECK_THROWS_WITH_AS(
        LocalNode(config,
                  {.node = 1, .cache_meta = false, .worker = false, .routers = {1, 4}, .workers = {2}},
                  &metrics),
        "features.store is empty; expected a Redis, because there are several routers", ConfigError);
  }
}
