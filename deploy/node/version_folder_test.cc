#include "deploy/node/version_folder.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <thread>

#include "deploy/models/engine.h"
#include "deploy/node/version_names.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/testing/test_folder.h"
#include "runtime/config/whole_file.h"

using namespace troupe;
using namespace troupe::deploy;
namespace fs = std::filesystem;

namespace version_folder_test {

std::string demo_model() { return std::string(TROUPE_ROOT_DIR) + "/deploy/demo/model"; }

// A folder of versions: `spring` holds the demo's model, `summer` another one.
struct Folder {
  kernels::TestFolder folder;
  Config config;
  std::shared_ptr<VersionFolder> versions;
  std::string spring, summer;  // versions

  Folder() {
    config.set("model.versions", folder.path().string());
    add("spring", 1e-6);
    add("summer", 1e-5);
    versions = std::make_shared<VersionFolder>(all_families(), config);
    spring = version_in("spring"), summer = version_in("summer");
  }
  // Copies the demo's model with another epsilon, which is part of its version.
  void add(const std::string& name, double epsilon) {
    fs::remove_all(folder.path() / name);
    fs::copy(demo_model(), folder.path() / name);
    nlohmann::json json = nlohmann::json::parse(read_whole_file(demo_model() + "/config.json", 1 << 20, ""));
    json["rms_norm_eps"] = epsilon;
    fs::remove(folder.path() / name / "config.json");
    folder.write(name + "/config.json", json.dump());
  }
  std::string version_in(const std::string& name) const {
    return family_of(all_families(), folder.path() / name).open(folder.path() / name, config).version;
  }
  std::string refusal_of(const std::string& version) const {
    try {
      versions->open(version);
      return "";
    } catch (const kernels::LoadError& error) {
      return error.what();
    }
  }
};

using Set = std::set<std::string>;

TEST_SUITE("version folder") {
  TEST_CASE("version folder: a version is found in a directory of any name, or in that of its own") {
    Folder f;
    REQUIRE(f.spring != f.summer);
    CHECK(f.versions->open(f.summer).directory == f.folder.path() / "summer");
    CHECK(f.versions->open(f.spring).model.version == f.spring);
    fs::rename(f.folder.path() / "spring", f.folder.path() / f.spring);
    CHECK(f.versions->open(f.spring).directory == f.folder.path() / f.spring);
    CHECK(f.versions->open(f.summer).directory == f.folder.path() / "summer");
  }

  TEST_CASE("version folder: a name means what its directory holds now") {
    Folder f;
    CHECK(f.versions->known_version("summer") == "");
    CHECK(f.versions->versions_of("summer") == Set{f.summer});
    CHECK(f.versions->known_version("summer") == f.summer);
    CHECK(f.versions->names_of(f.summer) == "summer");
    CHECK(f.versions->names_of(f.spring) == "");
    f.versions->look_for(f.spring);
    CHECK(f.versions->names_of(f.spring) == "spring");
    f.add("summer", 1e-6);
    CHECK(f.versions->versions_of("summer") == Set{f.spring});
    CHECK(f.versions->names_of(f.spring) == "spring, summer");
    CHECK(f.versions->names_of(f.summer) == "");
    CHECK(f.versions->versions_of("autumn").empty());
    CHECK(f.versions->versions_of("").empty());
    CHECK(f.versions->versions_of("..").empty());
    CHECK(f.versions->versions_of("../" + f.folder.path().filename().string() + "/summer").empty());
  }

  TEST_CASE("version folder: the beginning of a version means it, unless several begin so") {
    Folder f;
    CHECK(f.versions->versions_of(f.spring) == Set{f.spring});
    CHECK(f.versions->versions_of(f.spring.substr(0, 9)).empty());  // not known yet
    f.versions->look_for(f.spring);
    CHECK(f.versions->versions_of(f.spring.substr(0, 9)) == Set{f.spring});
    CHECK(f.versions->versions_of(f.spring.substr(0, 6)).empty());  // too short
    const std::string one = "abcdef0" + std::string(57, '1'), other = "abcdef0" + std::string(57, '2');
    fs::create_directory(f.folder.path() / one);
    CHECK(f.versions->versions_of("abcdef0") == Set{one});
    fs::create_directory(f.folder.path() / other);
    CHECK(f.versions->versions_of("abcdef0") == Set{one, other});
    CHECK(f.versions->versions_of("abcdef01") == Set{one});
    f.add("abcdef01", 1e-5);
    CHECK(f.versions->versions_of("abcdef01") == Set{one, f.summer});
  }

  TEST_CASE(
      "version folder: the model of the start has the name of its directory, if that is in the folder") {
    Folder f;
    f.versions->learn(demo_model(), f.spring);
    f.versions->look_for(f.spring);
    CHECK(f.versions->names_of(f.spring) == "");
    f.versions->learn(f.folder.path() / "spring/", f.spring);
    CHECK(f.versions->names_of(f.spring) == "spring");
  }

  TEST_CASE("version folder: a version that no directory holds is refused with the names that are there") {
    Folder f;
    f.folder.write("file", "no folder");
    fs::create_directory(f.folder.path() / "empty");
    CHECK(f.refusal_of(std::string(64, '0'))
              .find(": no such folder; expected the model directory of that "
                    "version, or another one in this folder that holds it: ") != std::string::npos);
    CHECK(f.refusal_of("spring").find("it holds model " + f.spring +
                                      "; expected that version in the request") != std::string::npos);
    fs::rename(f.folder.path() / "spring", f.folder.path() / std::string(64, 'a'));
    CHECK(f.refusal_of(std::string(64, 'a')).find("the model that the folder is named after") !=
          std::string::npos);
    for (const char* name : {"", ".", "..", "a/b", "file"}) CHECK(f.refusal_of(name) != "");
  }
}

TEST_CASE("version folder: a version for which auto weights stand for another format is refused") {
  Folder f;
  const auto refusal_with = [&](ModelSettings::Weights weights, bool auto_weights) {
    f.config.model.weights = weights;
    f.versions = std::make_shared<VersionFolder>(all_families(), f.config, auto_weights);
    return f.refusal_of(f.summer);
  };
  ModelSettings resolved = f.config.model;
  resolved.weights = ModelSettings::Weights::auto_;
  resolve_weights(resolved, demo_model());
  REQUIRE(resolved.weights == ModelSettings::Weights::f32);
  CHECK(refusal_with(resolved.weights, true) == "");
  const std::string refusal = refusal_with(ModelSettings::Weights::bf16, true);
  CHECK(refusal.find("summer: model.weights is auto, which is f32 for this version and bf16 for the model "
                     "that the node started with; expected a version stored in the same number format, or "
                     "model.weights bf16") != std::string::npos);
  CHECK(refusal_with(ModelSettings::Weights::bf16, false) == "");  // configured, not auto
}

// Collects what is forwarded, and answers; both may come from the thread of the names.
struct Ends {
  std::promise<Message> forwarded, answered;
  VersionNames names;

  explicit Ends(std::shared_ptr<VersionFolder> folder)
      : names(
            {std::move(folder)}, {}, [this](Address, Message m) { forwarded.set_value(std::move(m)); },
            [this](Message m) { answered.set_value(std::move(m)); }) {}
  Message forward(Message message) {
    names.forward({1, Role::router}, std::move(message));
    return forwarded.get_future().get();
  }
};

TEST_SUITE("version names") {
  TEST_CASE("version names: a reload by name is forwarded with the version") {
    Folder f;
    const auto reloaded = [&](const std::string& name) {
      return std::get<Reload>(Ends(f.versions).forward(Reload{7, name, "c", 0.5}));
    };
    CHECK(reloaded("summer") == Reload{7, f.summer, "c", 0.5});
    CHECK(reloaded(f.spring) == Reload{7, f.spring, "c", 0.5});
    CHECK(reloaded("autumn").model_version == "autumn");  // workers may have it
    CHECK(reloaded("").model_version == "");
    fs::create_directory(f.folder.path() / "empty");
    CHECK(reloaded("empty").model_version == "empty");
    CHECK(std::get<Reload>(Ends(nullptr).forward(Reload{7, "summer", ""})).model_version == "summer");
  }

  TEST_CASE("version names: an ambiguous name is refused with the versions that it means") {
    Folder f;
    const std::string one = "abcdef0" + std::string(57, '1'), other = "abcdef0" + std::string(57, '2');
    for (const std::string& version : {one, other}) fs::create_directory(f.folder.path() / version);
    Ends ends(f.versions);
    ends.names.forward({1, Role::router}, Reload{7, "abcdef0", ""});
    const auto refused = std::get<Refused>(ends.answered.get_future().get());
    CHECK(refused.id == 7);
    CHECK(refused.refusal.code == "ambiguous_version");
    CHECK(refused.refusal.what == "\"abcdef0\" means 2 versions: " + one + ", " + other);
  }

  TEST_CASE("version names: a completion names a version by its directory") {
    Folder f;
    f.versions->look_for(f.summer);
    const auto asked = [&](const std::string& model) {
      CompleteRequest request;
      request.model = model;
      return std::get<CompleteRequest>(Ends(f.versions).forward(std::move(request))).model;
    };
    CHECK(asked("summer") == f.summer);
    CHECK(asked(f.summer) == f.summer);
    CHECK(asked("autumn") == "autumn");
    CHECK(asked("") == "");
  }

  TEST_CASE("version names: the status of a router gets the names of its versions once they are known") {
    Folder f;
    Ends ends(f.versions);
    const auto named = [&] {
      StatusReply status{1, 1, Role::router, true, {{"model_version", f.spring}, {"next_model", f.summer}}};
      ends.names.add_names(status);
      return status.fields;
    };
    f.versions->look_for(f.summer);
    CHECK(named().back() == StatusField{"next_model_name", "summer"});
    for (int tries = 0; f.versions->names_of(f.spring).empty() && tries < 10'000; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the thread looks for it
    const auto fields = named();
    REQUIRE(fields.size() == 4);
    CHECK(fields[2] == StatusField{"model_version_name", "spring"});
    StatusReply worker{1, 1, Role::inference_worker, true, {{"model_version", f.spring}}};
    ends.names.add_names(worker);
    CHECK(worker.fields.size() == 1);
  }

  TEST_CASE("version names: a version whose search found the queue full is looked for by a later status") {
    Folder f;
    std::promise<void> released;
    std::counting_semaphore<> begun(0);
    std::atomic<int> busy = 0;
    VersionNames names(
        {f.versions}, {},
        [&, goes_on = released.get_future().share()](Address, Message) {
          begun.release();
          goes_on.wait();
        },
        [&](Message answer) { busy += std::get<Refused>(answer).refusal.code == "busy"; });
    const auto add_names = [&] {
      StatusReply status{1, 1, Role::router, true, {{"model_version", f.spring}}};
      names.add_names(status);
      return status.fields.size();
    };
    names.forward({1, Role::router}, Reload{7, "autumn", ""});
    begun.acquire();  // the thread is in this reload, so the next ones fill the queue
    while (busy == 0) names.forward({1, Role::router}, Reload{8, "autumn", ""});
    CHECK(add_names() == 1);
    released.set_value();
    for (int tries = 0; add_names() == 1 && tries < 10'000; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(add_names() == 2);
  }
}

}  // namespace version_folder_test
