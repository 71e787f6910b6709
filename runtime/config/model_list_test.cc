#include "runtime/config/model_list.h"

#include <doctest/doctest.h>

using namespace troupe;

namespace {
namespace model_list_test {

std::string error_of(const std::string& text) {
  try {
    read_single_node(text, "box.yaml");
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}
bool fails(const std::string& text, const std::string& start, const std::string& part) {
  const std::string error = error_of(text);
  CAPTURE(error);
  CHECK(error.starts_with(start));
  return error.find(part) != error.npos;
}

const std::string two = R"(node: {data_dir: /var/box}
router: {policy: planner, width_max: 64}
models:
  - {name: games, directory: /srv/games, data_dir: /var/games}
  - {name: news.v2, directory: /srv/news, data_dir: /var/news, prompt: p.json, )"
                        R"(settings: {router: {policy: user}}}
)";

}  // namespace model_list_test
using namespace model_list_test;
}  // namespace

TEST_CASE("model list: each model gets the node's settings, overridden by its own") {
  const SingleNodeFile box = read_single_node(two, "box.yaml");
  CHECK(box.config.node.data_dir == "/var/box");
  CHECK(box.config.model.directory == "");
  REQUIRE(box.models.size() == 2);
  CHECK(box.models[0].name == "games");
  CHECK(box.models[0].config.model.directory == "/srv/games");
  CHECK(box.models[0].config.node.data_dir == "/var/games");
  CHECK(box.models[0].config.router.policy == "planner");
  CHECK(box.models[1].name == "news.v2");
  CHECK(box.models[1].config.model.prompt == "p.json");
  CHECK(box.models[1].config.router.policy == "user");
  CHECK(box.models[1].config.router.width_max == 64);
  CHECK(read_single_node("node: {data_dir: /x}", "box.yaml").models.empty());
  CHECK(read_single_node("", "box.yaml").models.empty());
}

TEST_CASE("model list: an override applies to all models, unless each has its own value") {
  SingleNodeFile box = read_single_node(two, "box.yaml");
  override_for_all_models(box, "router.policy", "item");
  override_for_all_models(box, "node.data_dir", "/else");
  CHECK(box.models[1].config.router.policy == "item");
  CHECK(box.models[1].config.node.data_dir == "/var/news");
  CHECK(box.config.node.data_dir == "/else");
  CHECK_THROWS_WITH_AS(override_for_all_models(box, "model.directory", "/m"),
                       doctest::Contains("expected it in the list of models"), ConfigError);
  SingleNodeFile single;
  override_for_all_models(single, "model.directory", "/m");
  CHECK(single.config.model.directory == "/m");
}

TEST_CASE("model list: an invalid list is refused at the wrong line") {
  const std::string list = "models:\n  - {name: a, directory: /a, data_dir: /da}\n";
  CHECK(
      fails(list + "  - {name: a, directory: /b, data_dir: /db}", "box.yaml:3: ", "two models are named a"));
  CHECK(fails(list + "  - {directory: /b, data_dir: /db}", "box.yaml:3: ", "a model has no name"));
  CHECK(fails(list + "  - {name: b, data_dir: /db}", "box.yaml:3: ", "a model has no directory"));
  CHECK(fails(list + "  - {name: b, directory: /b}", "box.yaml:3: ", "a model has no data_dir"));
  CHECK(fails(list + "  - {name: b, directory: /b, data_dir: /x/../da}",
              "box.yaml:3: ", "a folder of its own"));
  CHECK(fails(list + "  - {name: b, directory: /b, data_dir: /db, port: 1}", "box.yaml:3: ", "unknown key"));
  CHECK(fails(list + "  - {name: b/c, directory: /b, data_dir: /db}", "box.yaml:3: ", "letters, digits"));
  CHECK(fails(list + "  - games", "box.yaml:3: ", "a model is not a map"));
  CHECK(fails(list + "  - {name: b, name: c, directory: /b, data_dir: /db}",
              "box.yaml:3: ", "name is given twice"));
  CHECK(fails(list + "  - {name: b, directory: /b, data_dir: /db, settings: {pool: {memory: 1GiB}}}",
              "box.yaml:3: ", "sections model, router, inference and features"));
  CHECK(fails(list + "  - {name: b, directory: /b, data_dir: /db, settings: {model: {directory: /c}}}",
              "box.yaml:3: ", "directory is in a model's settings"));
  CHECK(fails(list + "  - {name: b, directory: /b, data_dir: /db, settings: {router: {polcy: user}}}",
              "box.yaml:3: ", "no setting router.polcy"));
  CHECK(fails("models: {a: /a}", "box.yaml:1: ", "models is not a list"));
  CHECK(fails("models: []", "box.yaml:1: ", "models is not a list"));
  CHECK(fails("model: {directory: /m}\n" + list, "box.yaml:", "model.directory and a list of models"));
  CHECK(fails("model: {name: a/b}\n" + list, "box.yaml:", "model.name and a list of models"));
  CHECK(fails("node: {data_dir: /da}\n" + list, "box.yaml:3: ", "a folder of its own"));
}

TEST_CASE("model list: a command for a single model refuses a list") {
  CHECK_THROWS_WITH_AS(read_config(two, "box.yaml"),
                       doctest::Contains("box.yaml:3: there is a list of models: this file is for "
                                         "`troupe serve`"),
                       ConfigError);
}

TEST_CASE(
    "model list: a cluster's nodes have the same models, with the node's settings and then the model's") {
  const std::string nodes = R"(
nodes:
  - {node: 1, name: a, host: h, port: 1, roles: [router, cache_meta, worker], )"
                            R"(settings: {router: {policy: item, width_max: 8}}}
  - {node: 2, name: b, host: h, port: 2, roles: [worker]}
)";
  const std::string shared = "features: {store: \"redis://h\"}\nrouter: {policy: planner}\nmodels:\n";
  const std::string games = "  - {name: games, directory: /srv/games}\n";
  const std::string news = "  - {name: news, directory: /srv/news, settings: {router: {policy: user}}}\n";
  const auto read = read_cluster(shared + games + news + nodes, "cluster.yaml");
  REQUIRE(read.size() == 2);
  REQUIRE(read[0].models.size() == 2);
  REQUIRE(read[1].models.size() == 2);
  CHECK(read[1].models[0].name == "games");
  CHECK(read[0].models[0].config.model.directory == "/srv/games");
  CHECK(read[0].models[0].config.router.policy == "item");
  CHECK(read[1].models[0].config.router.policy == "planner");
  CHECK(read[0].models[1].config.router.policy == "user");
  CHECK(read[0].models[1].config.router.width_max == 8);
  CHECK_THROWS_WITH_AS(read_cluster(shared + games + games + nodes, "cluster.yaml"),
                       doctest::Contains("cluster.yaml:5: two models are named games"), ConfigError);
  CHECK_THROWS_WITH_AS(read_cluster("models:\n" + games + nodes, "cluster.yaml"),
                       doctest::Contains("cluster.yaml:2: a model has no data_dir"),
                       ConfigError);  // there is no Redis
  std::string many = "features: {store: \"redis://h\"}\nmodels:\n", places = "nodes:\n";
  for (int i = 1; i <= 64; ++i) many += "  - {name: m" + std::to_string(i) + ", directory: /m}\n";
  for (int i = 1; i <= 65; ++i)
    places += "  - {node: " + std::to_string(i) + ", name: n" + std::to_string(i) +
              ", host: h, port: " + std::to_string(i) + ", roles: [router, cache_meta, worker]}\n";
  CHECK_THROWS_WITH_AS(read_cluster(many + places, "cluster.yaml"),
                       doctest::Contains("64 models on 65 nodes; expected"), ConfigError);
}
