#include "deploy/node/served_model.h"

#include <doctest/doctest.h>

#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {
namespace served_model_test {

// Returns a family whose tokens have this many bytes, in pages of the configured number of tokens.
ModelFamily family(const std::string& type, std::size_t token_bytes) {
  ModelFamily made;
  made.name = type;
  made.model_types = {type};
  made.describe = [token_bytes](const auto&, const Config& config) {
    ModelFacts facts;
    facts.layout.page_tokens = config.pool.page_tokens;
    facts.layout.bytes = facts.layout.page_tokens * token_bytes;
    return facts;
  };
  return made;
}
const ModelFamilies families{family("large", 1000), family("small", 300), family("tiny", 2)};

using Models = std::vector<std::unique_ptr<ServedModel>>;
Models models_of(const kernels::TestFolder& folder, const std::vector<std::string>& types) {
  Models models;
  for (const std::string& type : types) {
    const auto directory = folder.path() / type;
    std::filesystem::create_directories(directory);
    folder.write(type + "/config.json", R"({"model_type":")" + type + "\"}");
    models.push_back(std::make_unique<ServedModel>());
    models.back()->name = type;
    models.back()->config.set("model.directory", directory.string());
  }
  return models;
}
std::vector<std::int64_t> page_tokens(const Models& models) {
  std::vector<std::int64_t> tokens;
  for (const auto& model : models) tokens.push_back(model->config.pool.page_tokens);
  return tokens;
}

std::string refused(const std::string& setting, const std::string& value, bool of_box = false,
                    bool is_alone = true) {
  Config box;
  NamedModel model{"games", {}};
  if (!setting.empty()) (of_box ? box : model.config).set(setting, value);
  try {
    reject_single_model_settings(box, {model}, is_alone);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace served_model_test
using namespace served_model_test;
}  // namespace

TEST_SUITE("served models") {
  TEST_CASE(
      "shared pages: have the configured tokens of the largest model, and as many of the others as fit") {
    const kernels::TestFolder folder;
    Models models = models_of(folder, {"small", "large", "tiny"});
    CHECK(share_pages(models, families) == 4'000);
    CHECK(page_tokens(models) == std::vector<std::int64_t>{13, 4, 256});
    Models alone = models_of(folder, {"small"});
    CHECK(share_pages(alone, families) == 1'200);
    CHECK(page_tokens(alone) == std::vector<std::int64_t>{4});
  }

  TEST_CASE("saved blocks: belong to one set of models, with each model as it is") {
    const kernels::TestFolder folder;
    Models models = models_of(folder, {"small", "large"});
    models[0]->names = {"v1", "f32"};
    models[1]->names = {"v2", "f32"};
    const auto prefix = [&] { return block_name(shared_name_context(models, 4'000), "", {}, 0, {}); };
    const BlockName both = prefix();
    CHECK(identical(prefix(), both));
    models[1]->names.model_version = "v3";
    CHECK_FALSE(identical(prefix(), both));
    models[1]->names = {"v2", "bf16"};
    CHECK_FALSE(identical(prefix(), both));
    models.pop_back();
    const BlockName named = prefix();
    models[0]->name = "";
    CHECK_FALSE(identical(prefix(), named));
    CHECK(shared_name_context(models, 4'000).layout_version == "f32");  // as for a node with one model
  }

  TEST_CASE("coordination keys: each model has its own keys, leases are shared") {
    struct AskedCoordination final : Coordination {
      std::vector<Coordinate> questions;
      std::variant<CoordinationReply, Refusal> ask(const Coordinate& question) override {
        questions.push_back(question);
        return CoordinationReply{true};
      }
    } asked;
    CoordinationPort games(asked, nullptr, "model/games/"), only(asked, nullptr);
    games.run(Coordinate{ReadKey{"versions"}}, 0);
    games.run(Coordinate{WriteKey{"versions", "1", 2, 3}}, 0);
    games.run(Coordinate{KeepLease{5}}, 0);
    only.run(Coordinate{ReadKey{"versions"}}, 0);
    REQUIRE(asked.questions.size() == 4);
    CHECK(std::get<ReadKey>(asked.questions[0].what).key == "model/games/versions");
    CHECK(std::get<WriteKey>(asked.questions[1].what).key == "model/games/versions");
    CHECK(std::get<WriteKey>(asked.questions[1].what).expected == 2);
    CHECK(std::get<KeepLease>(asked.questions[2].what).lease == 5);
    CHECK(std::get<ReadKey>(asked.questions[3].what).key == "versions");
  }

  TEST_CASE("several models: settings that only one model supports are refused by name") {
    CHECK(refused("", "") == "");
    CHECK(refused("", "", false, false) == "");
    CHECK(refused("features.store", "redis://x", false, false)
              .find("model games: features.store differs from its node's") == 0);
    CHECK(refused("features.store", "redis://x", true, false).find("model games: features.store differs") ==
          0);
    CHECK(refused("cluster.coordination", "http://x", true, false) == "");
    CHECK(refused("model.versions", "/v", false, false) == "");
    CHECK(refused("cluster.coordination", "http://x", true).find("cluster.coordination is set") == 0);
    CHECK(refused("features.store", "redis://x").find("model games: features.store is set") == 0);
    CHECK(refused("model.versions", "/v") == "");
    CHECK(refused("model.device", "cuda").find("model games: model.device is cuda; expected cpu") == 0);
  }
}
