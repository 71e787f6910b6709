#include "runtime/config/config.h"

#include <doctest/doctest.h>

#include "runtime/testing/store_test_folder.h"

using namespace troupe;

namespace {

// A configuration file that is deleted at the end of the test.
class File {
 public:
  explicit File(std::string_view text) { folder_.write("config.yaml", text); }
  std::string path() const { return folder_.path() / "config.yaml"; }

  // Returns the error without the file's name, e.g. "12: page_tokens is 0; …"; "" if the file
  // loads.
  std::string error() const {
    try {
      load_config(path());
      return "";
    } catch (const ConfigError& e) {
      const std::string what = e.what();
      REQUIRE(what.starts_with(path() + ":"));
      return what.substr(path().size() + 1);
    }
  }

 private:
  TestFolder folder_;
};

std::string error_of(std::string_view text) { return File(text).error(); }

std::string error_of_set(std::string_view name, std::string_view text) {
  Config config;
  try {
    config.set(name, text);
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("config: an error does not repeat a NUL byte of the input") {
  Config config;
  CHECK_THROWS_WITH_AS(config.set("pool.kv_format", std::string_view("f\0f", 3)),
                       doctest::Contains("pool.kv_format is f?f; expected "), ConfigError);
}

TEST_CASE("config: without a file every setting has its default") {
  const Config config;
  CHECK(config.pool.memory == 256 << 20);
  CHECK(config.pool.page_tokens == 4);
  CHECK(config.pool.item_share == std::nullopt);
  CHECK_FALSE(config.pool.verify_on_read);
  CHECK(config.router.policy == "planner");
  CHECK(config.pool.kv_format == PoolSettings::KvFormat::f32);
  CHECK(config.model.weights == ModelSettings::Weights::f32);
  CHECK(config.router.deadline.us == 2'000'000);
  CHECK(config.node.data_dir == "");
}

TEST_CASE("config: a file changes only the settings that it names") {
  const File file(
      "pool:\n  memory: 2GiB\n  item_share: 0.25\n  verify_on_read: true\n"
      "router:\n  policy: item\n  deadline: 200ms\nhttp:   # all of these stay\nmodel:\n  directory: \"a "
      "b\"\n");
  const Config config = load_config(file.path());
  CHECK(config.pool.memory == std::int64_t{2} << 30);
  CHECK(config.pool.item_share == 0.25);
  CHECK(config.pool.verify_on_read);
  CHECK(config.router.policy == "item");
  CHECK(config.router.deadline.us == 200'000);
  CHECK(config.model.directory == "a b");
  CHECK(config.http.port == 8080);
  CHECK(error_of("") == "");
  CHECK(error_of("# nothing\n") == "");
}

TEST_CASE("config: an invalid value is an error with its line and what was expected") {
  CHECK(error_of("pool:\n\n  page_tokens: 0\n") == "3: pool.page_tokens is 0; expected 1..256 tokens");
  CHECK(error_of("pool:\n  page_tokens: 4.0") == "2: pool.page_tokens is 4.0; expected 1..256 tokens");
  CHECK(error_of("pool:\n  page_tokens: \"4\"") ==
        "2: pool.page_tokens is quoted text; expected 1..256 tokens");
  for (const char* quoted : {"pool: {memory: \"1GiB\"}", "router: {deadline: \"1s\"}",
                             "router: {policy: \"bat\"}", "node: {data_dir: \"d\"}"})
    CHECK(error_of(quoted) == "");  // none of them is a number or a YAML keyword
  CHECK(error_of("pool: {verify_on_read: \"true\"}") ==
        "1: pool.verify_on_read is quoted text; expected true or false");
  CHECK(error_of("pool: {item_share: \"0.5\"}").starts_with("1: pool.item_share is quoted text; expected "));
  CHECK(error_of("pool:\n  page_tokens:") ==
        "2: pool.page_tokens is not a single value; expected 1..256 tokens");
  CHECK(error_of("pool:\n  page_tokens: [4]") ==
        "2: pool.page_tokens is not a single value; expected 1..256 tokens");
  CHECK(error_of("pool: {verify_on_read: yes}") == "1: pool.verify_on_read is yes; expected true or false");
  CHECK(error_of("pool:\n  kv_format: F32") == "2: pool.kv_format is F32; expected f32 | f16 | bf16");
}

TEST_CASE("config: an unknown name is an error that lists the known names") {
  CHECK(error_of("a: 1\nb: 2").starts_with("1: there is no section a; expected one of node, model, pool"));
  CHECK(error_of("router:\n  polcy: bat")
            .starts_with("2: there is no setting router.polcy; expected router.policy, router.shared_areas, "
                         "router.approximate, router.requests_in_flight_max"));
  CHECK(error_of("router.policy: bat")
            .starts_with("1: there is no section router.policy; expected one of node"));
  CHECK(error_of("pool:\n  memory: 1GiB\n  memory: 2GiB") ==
        "3: pool.memory is given twice; expected it once");
}

TEST_CASE("config: a file that is not a configuration is refused") {
  CHECK(error_of("pool: [1, 2]") == "1: pool is not a map; expected keys and values");
  CHECK(error_of("- a") == "1: the file is not a map; expected keys and values");
  CHECK(error_of("pool: {\n").find("is not valid YAML") != std::string::npos);
  CHECK(error_of("pool:\n\tmemory: 1").starts_with("2: is not valid YAML"));
  CHECK(error_of("pool:\n---\npool:\n").find("second document") != std::string::npos);
  // the library alone would loop on a comma
  for (const char* stray : {",", "pool:\n,", "{}\n,", "[]]", "}"}) CHECK(error_of(stray) != "");
  CHECK(error_of("? [a]\n: 1").find("not a plain word") != std::string::npos);
  CHECK(error_of(std::string(10000, '[')).find("is not valid YAML") != std::string::npos);
  CHECK(error_of(std::string(100000, '[')).find("has more than 50000 values") != std::string::npos);
  CHECK(error_of(std::string(2 << 20, '#')).find("larger than 1 MiB") != std::string::npos);
  CHECK_THROWS_AS(load_config("no/such/file.yaml"), ConfigError);
}

TEST_CASE("config: a file with too many values is refused at the line of the first one too many") {
  const auto lines = [](std::size_t count, const char* line) {
    std::string text;
    while (count-- > 0) text += line;
    return text;
  };
  const std::string many = ": has more than 50000 values; expected sections of keys and values";
  CHECK(error_of(std::string(50'000, '[')).find("is not valid YAML") != std::string::npos);
  CHECK(error_of("\n\n" + std::string(50'001, '[')) == "3" + many);
  CHECK(error_of(lines(25'000, "{,\n") + "?") == "25001" + many);
  CHECK(error_of(lines(49'999, "- 1\n")) ==
        "1: the file is not a map; expected keys and values");  // the list itself counts as a value
  CHECK(error_of(lines(50'000, "- 1\n")) == "50000" + many);
  CHECK(error_of(std::string(1 << 20, '#')) == "");
  CHECK(error_of(std::string((1 << 20) + 1, '#')).find("larger than 1 MiB") != std::string::npos);
}

TEST_CASE("config: command line values are checked like those of the file") {
  Config config;
  config.set("http.port", "0");
  config.set("pool.memory", "1.5 GiB");
  config.set("router.frequency_window", "5min");
  CHECK(config.http.port == 0);
  CHECK(config.pool.memory == std::int64_t{3} << 29);
  CHECK(config.router.frequency_window.us == 300'000'000);
  CHECK(error_of_set("http.port", "65536") == "http.port is 65536; expected 0..65535");
  CHECK(error_of_set("http.port", "65535") == "");
  CHECK(error_of_set("http.port", std::string(65, '7')) ==
        "http.port is " + std::string(64, '7') + "; expected 0..65535");
  CHECK(error_of_set("http.port", "").starts_with("http.port is empty"));
  CHECK(error_of_set("pool.item_share", "1.01") == "pool.item_share is 1.01; expected 0..1 | auto");
  CHECK(error_of_set("nothing", "1").starts_with("there is no setting nothing; expected one of node"));
}

TEST_CASE("config: the example file lists every setting and loads as the defaults") {
  const std::string text = example_yaml();
  const File file(text);
  CHECK(file.error() == "");
  for (const Setting& setting : setting_table()) {
    CAPTURE(setting.name);
    const auto key = setting.name.substr(setting.name.find('.') + 1);
    CHECK(text.find("\n  " + std::string(key) + ": ") != std::string::npos);
    CHECK(text.find(setting.help) != std::string::npos);
  }
  CHECK(text.find("  # Tokens per page.") != std::string::npos);
  CHECK(text.find("1..256 tokens.\n  page_tokens: 4\n") != std::string::npos);
}

// ---- clusters ----

namespace {
constexpr std::string_view three_nodes =
    "cluster: {name: blue}\n"
    "nodes:\n"
    "  - {node: 1, name: front, host: 10.0.0.1, port: 7000, roles: [router, cache_meta]}\n"
    "  - {node: 2, name: w1, host: 10.0.0.2, port: 7000, roles: [worker],\n"
    "     settings: {pool: {memory: 2GiB}, node: {data_dir: /data}}}\n"
    "  - {node: 9, name: w2, host: 10.0.0.3, port: 7000, roles: [worker]}\n"
    "pool: {page_tokens: 8}\n";
}

TEST_CASE("config: a cluster's file gives each node the shared settings and its own") {
  const File file(three_nodes);
  const std::vector<ClusterNode> nodes = load_cluster(file.path());
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[0].roles == std::vector{NodeRole::router, NodeRole::cache_meta});
  CHECK(nodes[0].config.cluster.name == "blue");
  CHECK(nodes[1].node == 2);
  CHECK(nodes[1].name == "w1");
  CHECK(nodes[1].host == "10.0.0.2");
  CHECK(nodes[1].port == 7000);
  CHECK(nodes[1].config.pool.memory == 2ll << 30);
  CHECK(nodes[1].config.node.data_dir == "/data");
  CHECK(nodes[2].config.pool.memory == 256ll << 20);
  CHECK(nodes[2].config.pool.page_tokens == 8);
}

TEST_CASE("config: an invalid cluster's file is an error with its line and what was expected") {
  const auto error = [](std::string_view what, std::string_view instead) {
    std::string text(three_nodes);
    text.replace(text.find(what), what.size(), instead);
    const File file(text);
    try {
      load_cluster(file.path());
      return std::string();
    } catch (const ConfigError& e) {
      return std::string(e.what()).substr(file.path().size() + 1);
    }
  };
  CHECK(error("node: 9", "node: 0").starts_with("6: node is 0; expected a number from 1"));
  CHECK(error("node: 9", "node: 2").starts_with("6: node w2 has the number, name or address of another"));
  CHECK(error("name: w2", "name: w1").starts_with("6: node w1 has"));
  CHECK(error("10.0.0.3", "10.0.0.2").starts_with("6: node w2 has"));
  CHECK(error("port: 7000, roles: [router", "port: 70000, roles: [router").starts_with("3: port is 70000"));
  CHECK(error("[router, cache_meta]", "[router]").starts_with("3: a role has no node"));
  CHECK(error("[router, cache_meta]", "[router, router]").starts_with("3: a role is unknown or given twice"));
  CHECK(error("[router, cache_meta]", "[]").starts_with("3: a node has no roles"));
  CHECK(error("host: 10.0.0.3, ", "").starts_with("6: a node has no host"));
  CHECK(error("host: 10.0.0.3", "hots: 10.0.0.3").starts_with("6: a node has an unknown key"));
  CHECK(error("memory: 2GiB", "memory: 2").starts_with("5: pool.memory is 2"));
  CHECK(error("memory: 2GiB}", "memory: 2GiB}, cluster: {heartbeat: 1s}")
            .starts_with("4: node w1 has a different cluster.heartbeat; expected the same for all nodes"));
  CHECK(error("name: w2", "name: ca").starts_with("6: a node is named ca"));
  CHECK(error("10.0.0.3", std::string(254, 'x')).starts_with("6: host is longer than 253 bytes"));
  CHECK(error("10.0.0.3", std::string(253, 'x')) == "");
  CHECK(error("port: 7000, roles: [router", "port: 65535, roles: [router") == "");
  CHECK(error("port: 7000, roles: [router", "port: 65536, roles: [router") ==
        "3: port is 65536; expected a number from 1 to 65535");
  CHECK(error("node: 9", "node: 4294967295") == "");
  CHECK(error("node: 9", "node: 4294967296") ==
        "6: node is 4294967296; expected a number from 1 to 4294967295");
  CHECK(error("node: 9", "node: 9x").starts_with("6: node is 9x; expected a number"));
  CHECK(error("memory: 2GiB}", "memory: 2GiB}, cluster: {name: red}") ==
        "4: node w1 has a different cluster.name; expected the same for all nodes");
  CHECK(error("nodes:", "notes:").starts_with("2: there is no section notes"));
  CHECK(error("page_tokens: 8", "page_tokens: 0").starts_with("7: pool.page_tokens is 0"));
  const File empty("");
  CHECK_THROWS_AS(load_cluster(empty.path()), ConfigError);
  // not a single node's file
  CHECK(File(three_nodes).error().starts_with("2: there is a list of nodes: this is a cluster's file"));
}
