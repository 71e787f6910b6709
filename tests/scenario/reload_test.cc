// Tests of a model reload under load: a node loads a second model beside its first, serves it, and drops
// the first.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>

#include "tests/fuzz/tiny_world.h"
#include "tests/scenario/node_world.h"

using namespace troupe;
using namespace troupe::scenario;

namespace {

using Scores = std::map<std::string, double>;  // by item

// Two models of the same shape; the first is the node's own.
struct TwoModels {
  TestFolder folder;
  std::string first, second;

  TwoModels() : first(add(1)), second(add(2)) {}

  std::string add(std::uint64_t seed) const {
    const std::filesystem::path here = folder.path() / "new";
    fuzz::write_tiny_model(here, fuzz::tiny_shape(), seed);
    const std::string version = kernels::read_decoder(here).version;
    std::filesystem::rename(here, folder.path() / version);
    return version;
  }
};

const std::string candidates = R"("candidates":["item-1","item-4","item-9","steady-2"])";

fuzz::Reply rank(const fuzz::ServedNode& box, const std::string& policy) {
  return box.ask("POST", "/v1/rank", R"({"user":"ana","policy":")" + policy + "\"," + candidates + "}");
}

Scores scores_of(const nlohmann::json& reply) {
  Scores scores;
  for (const auto& item : reply.at("items"))
    scores[item.at("id").get<std::string>()] = item.at("score").get<double>();
  return scores;
}

bool close(const Scores& a, const Scores& b) {
  return a.size() == b.size() && std::ranges::all_of(a, [&](const auto& score) {
           return b.contains(score.first) && std::abs(score.second - b.at(score.first)) < 1e-3;
         });
}

// Returns a model's scores per plan, since the two plans of a request compute different results.
std::map<std::string, Scores> truth_of(std::uint64_t seed) {
  const fuzz::ServedNode box({{"pool.precompute_items", "false"}}, {}, {[seed](const auto& directory) {
                               fuzz::write_tiny_model(directory, fuzz::tiny_shape(), seed);
                             }});
  std::map<std::string, Scores> truth;
  for (const char* policy : {"user", "item"}) {
    const nlohmann::json reply = rank(box, policy).body;
    truth[reply.at("plan").get<std::string>()] = scores_of(reply);
  }
  return truth;
}

StatusReply worker_status(RunningNode& box, RequestId id) {
  return std::get<StatusReply>(box.ask_worker(StatusRequest{id}));
}

std::string models_of(const StatusReply& status) {
  for (const StatusField& field : status.fields)
    if (field.name == "models") return field.value;
  return "";
}

}  // namespace

TEST_SUITE("reload") {
  TEST_CASE(
      "reload: under load every request is answered by one of the two models, and then by the new one") {
    const TwoModels models;
    const std::map<std::string, std::map<std::string, Scores>> truth{{models.first, truth_of(1)},
                                                                     {models.second, truth_of(2)}};
    const fuzz::ServedNode box(
        {{"model.versions", models.folder.path().string()}, {"http.admin_routes", "true"}});
    std::atomic<bool> stop = false;
    std::mutex mutex;
    std::map<std::string, int> answered;  // by version
    std::vector<std::string> wrong;
    std::vector<std::thread> clients;
    for (int c = 0; c < 3; ++c)
      clients.emplace_back([&, c] {
        constexpr const char* policies[] = {"item", "user", "bat", "recompute"};
        for (int i = c; !stop; ++i) {
          const fuzz::Reply reply = rank(box, policies[i % 4]);
          const std::lock_guard lock(mutex);
          if (reply.status != 200) {
            wrong.push_back(reply.body.dump());
            continue;
          }
          const std::string version = reply.body.at("model_version");
          ++answered[version];
          const auto of_model = truth.find(version);
          const std::string plan = reply.body.at("plan");
          if (of_model == truth.end() || !close(scores_of(reply.body), of_model->second.at(plan)))
            wrong.push_back(version + " " + reply.body.dump());
        }
      });
    const auto answers = [&](const std::string& version) {
      const std::lock_guard lock(mutex);
      return answered[version];
    };
    while (answers(models.first) < 20) std::this_thread::yield();
    const fuzz::Reply reloaded =
        box.ask("POST", "/v1/models/reload", R"({"model":")" + models.second + "\"}");
    CHECK_MESSAGE(reloaded.status == 200, reloaded.body.dump());
    for (const char* policy : {"item", "user"})
      CHECK(rank(box, policy).body.at("model_version") == models.second);
    while (answers(models.second) < 20 && wrong.empty()) std::this_thread::yield();
    stop = true;
    for (std::thread& client : clients) client.join();
    for (const std::string& what : wrong) FAIL_CHECK(what);
    CHECK(answered.size() == 2);
  }

  TEST_CASE("reload: an unknown version is refused, and the first model stays") {
    const TwoModels models;
    std::filesystem::rename(models.folder.path() / models.second, models.folder.path() / "misnamed");
    const fuzz::ServedNode box(
        {{"model.versions", models.folder.path().string()}, {"http.admin_routes", "true"}});
    for (const char* version : {"absent", "misnamed", "../new"}) {
      CAPTURE(version);
      const fuzz::Reply reply =
          box.ask("POST", "/v1/models/reload", R"({"model":")" + std::string(version) + "\"}");
      CHECK(reply.status == 422);
      CHECK(reply.body.dump().find("model_refused") != std::string::npos);
    }
    CHECK(rank(box, "item").body.at("model_version") == models.first);
    box.check_steady();
  }

  TEST_CASE("reload: the former model is dropped later, and the chosen one survives a restart") {
    const TwoModels models;
    const TestFolder data;
    const auto config = [&] {
      Config made = fuzz::tiny_config(data.path());
      made.set("model.directory", (models.folder.path() / models.first).string());
      made.set("model.versions", models.folder.path().string());
      return made;
    };
    {
      RunningNode box(World::simulation, config(), false);
      CHECK(std::holds_alternative<Stored>(box.ask(Reload{1, models.second, ""})));
      CHECK(models_of(worker_status(box, 2)).find(models.first) != std::string::npos);
      box.run_for(Duration{15'000'000});
      CHECK(models_of(worker_status(box, 3)) == models.second);
    }
    RunningNode box(World::simulation, config(), false);
    box.run_for(Duration{3'000'000});
    CHECK(models_of(worker_status(box, 4)).find(models.second) != std::string::npos);
  }
}
