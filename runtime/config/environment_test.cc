#include "runtime/config/environment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "runtime/config/nearest_name.h"

using namespace troupe;

namespace environment_test {

using Entries = std::vector<std::string>;

Config with_environment(const Entries& entries, const std::string& file = "") {
  SingleNodeFile box = read_single_node(file, "node.yaml");
  apply_environment(box, entries);
  return box.config;
}

std::string error_of(const Entries& entries) {
  try {
    with_environment(entries);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST_SUITE("environment") {
  TEST_CASE("environment: every setting has a variable of its own, and its default may come from it") {
    std::set<std::string> variables;
    Entries all;
    for (const Setting& setting : setting_table()) {
      const std::string variable = variable_of(setting.name);
      CAPTURE(variable);
      CHECK(variables.insert(variable).second);
      CHECK(std::ranges::all_of(variable,
                                [](char c) { return c == '_' || std::isupper(c) || std::isdigit(c); }));
      all.push_back(variable + "=" + std::string(setting.initial));
    }
    const auto found = settings_of_environment(all);
    CHECK(found.size() == setting_table().size());
    CHECK(std::ranges::equal(found, setting_table(), {}, &SettingVariable::setting, &Setting::name));
    for (const OtherVariable& other : other_variables()) CHECK(!variables.contains(std::string(other.name)));
    CHECK(error_of(all) == "");
  }

  TEST_CASE("environment: a variable overrides the file; others of the file stay") {
    const Config config = with_environment({"PATH=/bin", "TROUPE_HTTP_PORT=9000", "TROUPE_POOL_MEMORY=1GiB",
                                            "TROUPE_NODE_DATA_DIR=/a=b", "TROUPE=/usr/bin/troupe"},
                                           "http: {port: 1, address: 0.0.0.0}\npool: {memory: 2GiB}\n");
    CHECK(config.http.port == 9000);
    CHECK(config.http.address == "0.0.0.0");
    CHECK(config.pool.memory == std::size_t{1} << 30);
    CHECK(config.node.data_dir == "/a=b");
  }

  TEST_CASE("environment: a variable holds for all models of a list, and not where each has its own value") {
    const std::string file =
        "models:\n  - {name: a, directory: A, data_dir: a, settings: {router: {policy: item}}}\n"
        "  - {name: b, directory: B, data_dir: b}\n";
    SingleNodeFile box = read_single_node(file, "node.yaml");
    apply_environment(box, Entries{"TROUPE_ROUTER_POLICY=user", "TROUPE_NODE_DATA_DIR=node"});
    for (const NamedModel& model : box.models) CHECK(model.config.router.policy == "user");
    CHECK(box.config.node.data_dir == "node");
    CHECK(box.models[0].config.node.data_dir == "a");
    CHECK_THROWS_WITH_AS(apply_environment(box, Entries{"TROUPE_MODEL_DIRECTORY=C"}),
                         "the environment variable TROUPE_MODEL_DIRECTORY: model.directory differs between "
                         "models; expected it in the list of models",
                         ConfigError);
  }

  TEST_CASE("environment: an invalid value is an error that names the variable") {
    CHECK(error_of({"TROUPE_HTTP_PORT=x"}) ==
          "the environment variable TROUPE_HTTP_PORT: http.port is x; expected 0..65535");
    CHECK(error_of({"TROUPE_HTTP_PORT="}) ==
          "the environment variable TROUPE_HTTP_PORT: http.port is empty; expected 0..65535");
    CHECK(error_of({"TROUPE_HTTP_PORT=1", "TROUPE_HTTP_PORT=x"}) == "");  // the first counts
  }

  TEST_CASE("environment: an unknown variable is refused with the nearest known one") {
    const std::string end = ", or no variable of that name";
    CHECK(error_of({"TROUPE_HTTP_PROT=1"}) ==
          "the environment variable TROUPE_HTTP_PROT is no setting; expected TROUPE_HTTP_PORT" + end);
    CHECK(error_of({"TROUPE_POOL_MEM=1"}) ==
          "the environment variable TROUPE_POOL_MEM is no setting; expected TROUPE_POOL_MEMORY" + end);
    CHECK(error_of({"TROUPE_" + std::string(100'000, 'Q') + "=1"}).find("such as TROUPE_HTTP_PORT") !=
          std::string::npos);
    CHECK(error_of({"TROUPE_\x1b[31m=1"}).find('\x1b') == std::string::npos);
    CHECK(error_of({"TROUPE_=1"}) != "");
    CHECK(error_of({"TROUPE_http_port=1"}) != "");
    CHECK(error_of({"TROUPE_HTTP_PORT"}) == "");  // no value: no variable
  }

  TEST_CASE("environment: variables of scripts and of Kubernetes' services are no settings") {
    for (const OtherVariable& other : other_variables())
      CHECK(error_of({std::string(other.name) + "=x"}) == "");
    Entries service{"TROUPE_SERVICE_HOST=10.0.0.1",
                    "TROUPE_SERVICE_PORT=8080",
                    "TROUPE_SERVICE_PORT_HTTP=8080",
                    "TROUPE_PORT=tcp://10.0.0.1:8080",
                    "TROUPE_PORT_8080_TCP=tcp://10.0.0.1:8080",
                    "TROUPE_PORT_8080_TCP_PROTO=tcp",
                    "TROUPE_PORT_8080_TCP_PORT=8080",
                    "TROUPE_PORT_8080_TCP_ADDR=10.0.0.1",
                    "TROUPE_HTTP_SERVICE_HOST=10.0.0.2",
                    "TROUPE_HTTP_SERVICE_PORT=80",
                    "TROUPE_HTTP_PORT=tcp://10.0.0.2:80",
                    "TROUPE_HTTP_PORT_80_TCP=tcp://10.0.0.2:80",
                    "TROUPE_PORTAL_SERVICE_HOST=10.0.0.3",
                    "TROUPE_PORTAL_PORT=tcp://10.0.0.3:80",
                    "TROUPE_PORTAL_PORT_80_TCP_ADDR=10.0.0.3"};
    CHECK(error_of(service) == "");
    CHECK(with_environment(service).http.port == 8080);
    std::ranges::replace(service, Entries::value_type("TROUPE_HTTP_PORT=tcp://10.0.0.2:80"),
                         Entries::value_type("TROUPE_HTTP_PORT=81"));
    CHECK(with_environment(service).http.port == 81);               // the pod's own
    CHECK(error_of({"TROUPE_HTTP_PORT=tcp://10.0.0.2:80"}) != "");  // without a service of that name
    CHECK(error_of({"TROUPE_PORT=tcp://10.0.0.2:80"}) != "");
    CHECK(error_of({"TROUPE_SERVICE_HOST=10.0.0.1", "TROUPE_PORTAL=1"}) != "");
  }

  TEST_CASE("nearest name: the first of the nearest names within the distance") {
    CHECK(edit_distance("kitten", "sitting") == 3);
    CHECK(edit_distance("", "ab") == 2);
    const std::vector<std::string> names{"serve", "server", "node"};
    CHECK(nearest_name(names, "serv", 2) == "serve");
    CHECK(nearest_name(names, "mode", 2) == "node");
    CHECK(nearest_name(names, "import", 2) == "");
  }
}

}  // namespace environment_test
