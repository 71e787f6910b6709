#include "deploy/node/page_transport.h"

#include <doctest/doctest.h>

namespace troupe::deploy {
namespace page_transport_test {

using PageTransport = TransferSettings::PageTransport;

Config config_with(const std::string& setting, const std::string& value) {
  Config config;
  config.set(setting, value);
  return config;
}

TEST_CASE(
    "page transport: UCX is not chosen where there are certificates or where a router would end with it") {
  const NodeRoles apart{.node = 2, .router = false, .workers = {2, 3}};
  NodeRoles mixed = apart;
  mixed.mixes_roles = true;
  CHECK(page_transport_of({}, apart) == PageTransport::ucx);
  CHECK(page_transport_of({}, mixed) == PageTransport::links);
  CHECK(page_transport_of(config_with("cluster.certificates", "/certificates"), apart) ==
        PageTransport::links);
  CHECK(page_transport_of(config_with("transfer.transport", "links"), apart) == PageTransport::links);
  Config ucx = config_with("transfer.transport", "ucx");
  ucx.set("cluster.certificates", "/certificates");
  CHECK(page_transport_of(ucx, mixed) == PageTransport::ucx);
}

TEST_CASE("page transport: UCX gets the device with the node's address, unless devices are named") {
  const auto devices = [](const Config& config, const std::string& host) {
    NodeRoles roles{.node = 2, .workers = {2, 3}};
    roles.host = host;
    return ucx_devices_of(config, roles);
  };
  CHECK(devices({}, "127.0.0.1") == "lo");
  CHECK(devices({}, "127.0.0.9") == "lo");
  CHECK(devices({}, "localhost") == "lo");
  CHECK(devices(config_with("transfer.devices", "eth7"), "") == "eth7");
  CHECK(devices(config_with("transfer.devices", "all"), "127.0.0.1") == "");
  for (const char* foreign : {"", "203.0.113.7"})
    CHECK_THROWS_WITH_AS(devices({}, foreign), doctest::Contains("transfer.devices is empty, and no network"),
                         ConfigError);
  CHECK_THROWS_WITH_AS(devices(config_with("transfer.transports", "rc,ud,tcp"), "127.0.0.1"),
                       doctest::Contains("expected the names of the devices"), ConfigError);
}

TEST_CASE("page transport: what is opened is logged, with a warning where UCX is exposed") {
  std::string logged;
  const auto opens = [&](const Config& config, const NodeRoles& roles) {
    logged.clear();
    PageArena arena(4096, 1);
    MetricRegistry metrics;
    const auto opened =
        open_page_transport(config, roles, 1, arena, metrics,
                            [&](LogLevel, std::string_view, std::string_view event, auto fields) {
                              logged += std::string(event);
                              for (const LogField& field : fields)
                                if (field.name != "why" && field.name != "expected")
                                  logged += " " + field.name + "=" + field.value;
                              logged += "; ";
                            });
    CHECK((opened.over_links != nullptr) == LinkTransport::is_address(opened.transport->address()));
  };
  NodeRoles worker{.node = 2, .router = false, .workers = {2, 3}};
  worker.host = "127.0.0.1";
  opens({}, worker);
  CHECK(logged == "page_transport transport=ucx encrypted=no devices=lo; ");
  opens(config_with("transfer.transport", "links"), worker);
  CHECK(logged == "page_transport transport=links encrypted=no; ");
  Config certified = config_with("cluster.certificates", "/certificates");
  opens(certified, worker);
  CHECK(logged == "page_transport transport=links encrypted=yes; ");
  certified.set("transfer.transport", "ucx");
  opens(certified, worker);
  CHECK(logged == "page_transport transport=ucx encrypted=yes devices=lo; ucx_exposed; ");
  worker.router = true;
  opens({}, worker);
  CHECK(logged == "page_transport transport=ucx encrypted=no devices=lo; ucx_exposed; ");
}

}  // namespace page_transport_test
}  // namespace troupe::deploy
