#include "deploy/node/model_versions.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "deploy/models/model_families.h"
#include "deploy/node/prompt_file.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/testing/test_folder.h"
#include "runtime/config/config.h"
#include "runtime/config/whole_file.h"

using namespace troupe;
using namespace troupe::deploy;

namespace model_versions_test {

PromptForm ranker() {
  PromptForm form{{1, 2}, {3}, {4, 5}, {6}, 64, 40};
  form.arrangements = {Arrangement::item_first, Arrangement::user_first};
  form.interchangeable = form.arrangements;
  return form;
}

PromptForm pointwise() {
  PromptForm form;
  form.system = {1};
  form.event = {2};
  form.item = {3};
  form.score = {4};
  form.yes = 5;
  form.no = 6;
  form.arrangements = {Arrangement::candidates_apart};
  return form;
}

template <class Change>
std::string after(PromptForm form, const Change& change) {
  const PromptForm served = form;
  change(form);
  return form_differences(form, served);
}

std::string demo_model() { return std::string(TROUPE_ROOT_DIR) + "/deploy/demo/model"; }

nlohmann::json demo_form() {
  return nlohmann::json::parse(read_whole_file(demo_model() + "/prompt.json", 1 << 20, "a prompt file"));
}

// Serves the demo's model; the folder of versions has a copy of it under its name, with another prompt form.
struct Versions {
  kernels::TestFolder folder;
  Config config;
  std::string version;

  Versions() {
    config.set("model.directory", demo_model());
    config.set("model.versions", folder.path().string());
    version = family().open(demo_model(), config).version;
    std::filesystem::copy(demo_model(), folder.path() / version);
  }
  static const ModelFamily& family() { return family_of(all_families(), demo_model()); }
  void write_form(const nlohmann::json& form) { write(version + "/prompt.json", form.dump()); }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::remove(folder.path() / name);
    folder.write(name, text);
  }
  PromptForm served() const {
    const ModelFacts facts = family().describe(demo_model(), config);
    const std::string& file = config.model.prompt;
    return read_prompt_form(demo_model(),
                            file.empty() ? std::nullopt : std::optional<std::filesystem::path>(file), facts,
                            read_vocabulary_if_any(demo_model(), facts.limits));
  }
  // Returns "" if the version is loaded, or why it is refused.
  std::string refusal() const {
    try {
      version_loader(std::make_shared<VersionFolder>(all_families(), config), config, served(),
                     [](const std::string&) { return WrapTable(); })(version);
      return "";
    } catch (const kernels::LoadError& error) {
      return error.what();
    }
  }
};

TEST_SUITE("model versions") {
  TEST_CASE("form differences: each part of a form is compared, by its name in the prompt file") {
    CHECK(form_differences(ranker(), ranker()) == "");
    CHECK(after(ranker(), [](PromptForm& f) { f.system = {1, 3}; }) == "system");
    CHECK(after(ranker(), [](PromptForm& f) { f.user = {}; }) == "user");
    CHECK(after(ranker(), [](PromptForm& f) { f.instruction = {5, 4}; }) == "instruction");
    CHECK(after(ranker(), [](PromptForm& f) { f.discriminant = {7}; }) == "discriminant");
    CHECK(after(ranker(), [](PromptForm& f) { f.events_max = 3; }) == "events_max");
    CHECK(after(ranker(), [](PromptForm& f) { f.normalised = Normalised::allowed; }) == "normalised");
    CHECK(after(ranker(), [](PromptForm& f) { std::swap(f.arrangements[0], f.arrangements[1]); }) ==
          "arrangements");
    CHECK(after(ranker(), [](PromptForm& f) { f.interchangeable = {}; }) == "interchangeable");
    CHECK(after(ranker(), [](PromptForm& f) { f.user = {2}, f.arrangements = {Arrangement::causal}; }) ==
          "user, arrangements");
    CHECK(after(pointwise(), [](PromptForm& f) { f.system = {2}; }) == "instruction");
    CHECK(after(pointwise(), [](PromptForm& f) { f.event = {1}; }) == "history_item");
    CHECK(after(pointwise(), [](PromptForm& f) { f.item = {1}; }) == "candidate");
    CHECK(after(pointwise(), [](PromptForm& f) { f.score = {1}; }) == "candidate");
    CHECK(after(pointwise(), [](PromptForm& f) { std::swap(f.yes, f.no); }) == "yes, no");
    CHECK(after(pointwise(), [](PromptForm& f) { f.events_max = 3; }) == "max_history");
    CHECK(after(ranker(), [](PromptForm& f) { f.token_features = 2; }) == "features of tokens");
    CHECK(after(ranker(), [](PromptForm& f) { f.towers = {{.events_max = 3}}; }) == "towers");
    CHECK(after(ranker(), [](PromptForm& f) { f.scenarios = 2; }) == "scenarios");
    CHECK(after(ranker(), [](PromptForm& f) { f.tasks = {"click"}; }) == "tasks");
  }

  TEST_CASE("form differences: a model that takes more than requests of the served form is no other one") {
    CHECK(after(ranker(), [](PromptForm& f) { f.positions_max = 65, f.vocabulary = 41; }) == "");
    CHECK(after(ranker(), [](PromptForm& f) { f.positions_max = 63; }) == "positions");
    CHECK(after(ranker(), [](PromptForm& f) { f.vocabulary = 39; }) == "vocabulary");
  }

  TEST_CASE("version loader: a version with the served form is loaded, one with another is refused by name") {
    Versions versions;
    CHECK(versions.refusal() == "");
    nlohmann::json form = demo_form();
    form["arrangements"] = {"causal"};
    form.erase("interchangeable");
    versions.write_form(form);
    CHECK(versions.refusal().starts_with(
        (versions.folder.path() / versions.version).string() +
        ": its prompt form differs from the served one in arrangements, interchangeable; expected the served "
        "form, which routers keep until they are restarted"));
    // model.prompt holds for every version, so the versions' own forms are not read.
    const std::string file = versions.folder.path() / "form.json";
    versions.write("form.json", demo_form().dump());
    versions.config.set("model.prompt", file);
    CHECK(versions.refusal() == "");
  }

  TEST_CASE("version loader: a name that no folder can have is refused for good") {
    Versions versions;
    for (const std::string& name : {std::string(256, 'm'), std::string("loop"), std::string("file")}) {
      CAPTURE(name.size());
      if (name == "loop") std::filesystem::create_symlink("loop", versions.folder.path() / "loop");
      if (name == "file") versions.folder.write("file", "no folder");
      versions.version = name;
      CHECK(versions.refusal() != "");  // a LoadError, which is final
    }
  }

  TEST_CASE("version loader: a form of the same words is another one if the vocabulary gives other tokens") {
    Versions versions;
    const std::string vocabulary = demo_model() + "/vocab.json";
    nlohmann::json words = nlohmann::json::parse(read_whole_file(vocabulary, 1 << 24, "a vocabulary"));
    std::swap(words.at("<sys_1>"), words.at("<sys_2>"));
    versions.write(versions.version + "/vocab.json", words.dump());
    CHECK(versions.refusal().find("differs from the served one in system; expected") != std::string::npos);
  }
}

}  // namespace model_versions_test
