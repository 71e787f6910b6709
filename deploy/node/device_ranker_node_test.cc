// Compares nodes that serve HSTU and Climber on a device with nodes on the CPU, if the models'
// golden files are beside the checkout. deploy_test runs this on the emulated device,
// device_box_test on a GPU.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "deploy/node/local_node.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/testing/test_folder.h"
#include "runtime/actor/message_id.h"
#include "runtime/network/caf_host.h"

namespace troupe::deploy {
namespace {
namespace device_ranker_box_test {

#ifdef TROUPE_EMULATED
const std::string device_kind = "emulated";
#else
const std::string device_kind = "cuda";
#endif

// Returns a trained model beside the checkout; empty if there is none.
std::filesystem::path model_folder(const std::string& name) {
  const auto folder = std::filesystem::path(TROUPE_ROOT_DIR) / "../shared/models" / name;
  if (std::filesystem::exists(folder / "golden.json")) return folder;
  MESSAGE("skipped: no ../shared/models/", name);
  return {};
}

nlohmann::json golden_of(const std::filesystem::path& folder) {
  std::ifstream in(folder / "golden.json");
  return nlohmann::json::parse(in).at("cases");
}

// Node that answers one request at a time.
class RankerBox {
 public:
  RankerBox(const std::filesystem::path& model, const std::string& device, const std::string& kv_format) {
    Config config;
    config.set("model.directory", model.string());
    config.set("node.data_dir", (folder_.path() / "data").string());
    config.set("pool.memory", "8MiB");
    config.set("pool.page_tokens", "16");
    config.set("pool.kv_format", kv_format);
    config.set("inference.executors", "1");
    config.set("model.device", device);
    config.set("router.deadline", "60s");
    config.set("router.deadline_max", "60s");
    box_ = std::make_unique<LocalNode>(config);
    host_ = std::make_unique<CafHost>(metrics_, [](auto&&...) {});
    box_->add_to(*host_);
    host_->set_server(LocalNode::address(Role::server), [this](Address, Message message) {
      const std::lock_guard lock(mutex_);
      answers_.emplace(id_of(message), std::move(message));
      changed_.notify_all();
    });
  }
  ~RankerBox() { host_->stop(); }

  // Stores a user with a case's history and its one feature. Called before the start.
  void put(const std::string& user, const nlohmann::json& one, const std::string& feature,
           const std::vector<std::int64_t>& values) {
    std::vector<std::string> history;
    for (const char* list : {"item_ids", "candidate_ids"})
      for (const Token item : one.at(list))
        if (known_.insert(item).second) items_.push_back({0, name(item), name(item), {item}, item});
    for (const Token item : one.at("item_ids")) history.push_back(name(item));
    users_.push_back({0, "", user, history, {}, {{feature, values}}});
  }
  void start() {
    box_->features().import_items(items_);
    box_->features().import_users(users_);
    host_->start();
  }
  RankReply rank(const std::string& user, const nlohmann::json& one) {
    RankRequest request;
    request.id = ++last_id_;
    request.user = user;
    std::set<Token> asked;
    for (const Token item : one.at("candidate_ids"))
      if (asked.insert(item).second) request.candidates.push_back(name(item));
    request.request_timestamp = one.value("request_timestamp", std::int64_t{0});
    request.scenario = one.value("scenario", 0u);
    host_->post(LocalNode::address(Role::router), LocalNode::address(Role::server), std::move(request));
    const Message message = answer(last_id_);
    if (const auto* refused = std::get_if<Refused>(&message))
      FAIL(refused->refusal.code << ": " << refused->refusal.what);
    return std::get<RankReply>(message);
  }
  // Waits until the last reply's blocks are committed and in the index.
  void settle() {
    for (const Role role : {Role::inference_worker, Role::kv_worker, Role::cache_meta}) {
      host_->post(LocalNode::address(role), LocalNode::address(Role::server), StatusRequest{++last_id_});
      answer(last_id_);
    }
  }
  double metric(Metric metric) const { return metrics_.value(metric); }

 private:
  static std::string name(Token item) { return std::to_string(item); }
  Message answer(RequestId id) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(90), [&] { return answers_.contains(id); }));
    return answers_.extract(id).mapped();
  }

  kernels::TestFolder folder_;
  MetricRegistry metrics_;
  std::unique_ptr<LocalNode> box_;
  std::unique_ptr<Host> host_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Message> answers_;
  RequestId last_id_ = 0;
  std::set<Token> known_;
  std::vector<PutItem> items_;
  std::vector<PutUser> users_;
};

// Returns the largest deviation of the scores from the expected ones, in the candidates' order.
double worst(const RankReply& reply, const nlohmann::json& one, const std::vector<double>& wanted) {
  std::map<std::string, double> by_item;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    by_item[std::to_string(one.at("candidate_ids")[i].get<Token>())] = wanted[i];
  double most = reply.items.size() == by_item.size() ? 0 : INFINITY;
  for (const RankedItem& item : reply.items) {
    const double off = std::abs(item.score - by_item.at(item.id));
    if (!(off <= most)) most = off;
  }
  return most;
}

constexpr std::size_t cases_asked = 3;

TEST_CASE("device node: HSTU scores equal the golden logits, computed and from cached histories") {
  const auto folder = model_folder("tiny-hstu-movielens");
  if (!kernels::cuda::have_device() || folder.empty()) return;
  const nlohmann::json cases = golden_of(folder);
  for (const auto& [format, tolerance] : {std::pair{"f32", 1e-4}, {"bf16", 0.2}}) {
    RankerBox box(folder, device_kind, format);
    for (std::size_t i = 0; i < cases_asked; ++i)
      box.put("user-" + std::to_string(i), cases[i], "timestamps", cases[i].at("timestamps"));
    box.start();
    for (std::size_t i = 0; i < cases_asked; ++i) {
      const std::vector<double> wanted = cases[i].at("target_aware").at("task_logits");
      const RankReply first = box.rank("user-" + std::to_string(i), cases[i]);
      box.settle();
      const RankReply second = box.rank("user-" + std::to_string(i), cases[i]);
      CHECK(worst(first, cases[i], wanted) < tolerance);
      CHECK(worst(second, cases[i], wanted) < tolerance);
      CHECK(second.tokens_reused == cases[i].at("item_ids").size() - 1);
    }
    CHECK(box.metric(Metric::device_blocks_hit) + box.metric(Metric::device_blocks_missed) > 0);
  }
}

TEST_CASE("device node: Climber scores equal the golden logits, computed and from cached towers") {
  const auto folder = model_folder("tiny-climber");
  if (!kernels::cuda::have_device() || folder.empty()) return;
  const nlohmann::json cases = golden_of(folder);
  for (const auto& [format, tolerance] : {std::pair{"f32", 1e-4}, {"bf16", 0.3}}) {
    RankerBox box(folder, device_kind, format);
    for (std::size_t i = 0; i < cases_asked; ++i)
      box.put("user-" + std::to_string(i), cases[i], "actions", cases[i].at("actions"));
    box.start();
    for (std::size_t i = 0; i < cases_asked; ++i) {
      const std::vector<double> wanted = cases[i].at("logits").at("click");
      const RankReply first = box.rank("user-" + std::to_string(i), cases[i]);
      box.settle();
      const RankReply second = box.rank("user-" + std::to_string(i), cases[i]);
      CHECK(worst(first, cases[i], wanted) < tolerance);
      CHECK(worst(second, cases[i], wanted) < tolerance);
      CHECK(second.tokens_reused > 0);
    }
    CHECK(box.metric(Metric::device_blocks_hit) + box.metric(Metric::device_blocks_missed) > 0);
  }
}

}  // namespace device_ranker_box_test
}  // namespace
}  // namespace troupe::deploy
