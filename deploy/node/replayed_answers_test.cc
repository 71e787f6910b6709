// Runs a whole node over CAF that records its answers: replays are equal, across a restart, until the
// user is deleted or the model is another one.
#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "deploy/node/local_node.h"
#include "kernels/checkpoint/model.h"
#include "kernels/testing/test_folder.h"
#include "runtime/actor/message_id.h"
#include "runtime/network/caf_host.h"

namespace troupe::deploy {
namespace replayed_answers_test {

// Writes a model; returns its version.
std::string write_model(const std::filesystem::path& directory, std::uint64_t seed) {
  kernels::DecoderConfig shape;
  shape.layers = 2, shape.hidden = 16, shape.heads = 2, shape.kv_heads = 1, shape.head_dim = 32;
  shape.intermediate = 24, shape.vocabulary = 64, shape.positions_max = 96;
  shape.qkv_bias = true, shape.tied_embeddings = true;
  std::filesystem::create_directories(directory);
  kernels::write_decoder(kernels::random_decoder(shape, seed), directory, kernels::StoredAs::f32);
  std::ofstream(directory / "vocab.json") << R"({"<bos>":0,"<user>":1,"<disc>":2})";
  std::ofstream(directory / "prompt.json")
      << R"({"system":["<bos>",3],"user":["<user>"],"instruction":[],"discriminant":["<disc>"],)"
         R"("arrangements":["item_first","user_first"],"interchangeable":["item_first","user_first"]})";
  return kernels::read_decoder(directory).version;
}

struct Folders {
  kernels::TestFolder all;
  std::string first, second;  // versions of two models

  Folders() : first(add(1)), second(add(2)) {}
  std::string add(std::uint64_t seed) const {
    const std::filesystem::path made = all.path() / "models" / "new";
    std::string version = write_model(made, seed);
    std::filesystem::rename(made, all.path() / "models" / version);
    return version;
  }
  bool has_records() const { return std::filesystem::exists(all.path() / "data" / "replay"); }
};

Config config_of(const Folders& folders, const char* keep) {
  Config config;
  config.set("model.directory", (folders.all.path() / "models" / folders.first).string());
  config.set("model.versions", (folders.all.path() / "models").string());
  config.set("node.data_dir", (folders.all.path() / "data").string());
  config.set("pool.memory", "1MiB");
  config.set("pool.precompute_items", "false");
  config.set("inference.executors", "1");
  config.set("router.deadline", "30s");
  config.set("router.deadline_max", "60s");
  config.set("replay.keep", keep);
  return config;
}

class RecordingNode {
 public:
  explicit RecordingNode(const Folders& folders, const char* keep = "1h", LogSink log = {})
      : node_(std::make_unique<LocalNode>(config_of(folders, keep), NodeRoles{}, nullptr, all_families(),
                                          std::move(log))),
        host_(std::make_unique<CafHost>(metrics_, [](auto&&...) {})) {
    std::vector<PutItem> items;
    for (int i = 0; i < 8; ++i) items.push_back({0, item(i), item(i), {4 + i, 40 - i, 5 + i}, 44 + i});
    node_->features().import_items(items);
    node_->features().import_users(std::vector<PutUser>{{0, "", "ann", {item(1), item(4), item(6)}, {}}});
    node_->add_to(*host_);
    host_->set_server(LocalNode::address(Role::server), [this](Address, Message message) {
      const std::lock_guard lock(mutex_);
      answers_.emplace(id_of(message), std::move(message));
      changed_.notify_all();
    });
    host_->start();
  }
  ~RecordingNode() { host_->stop(); }

  template <class Request>
  Message ask(Request request) {
    request.id = ++last_id_;
    host_->post(LocalNode::address(Role::router), LocalNode::address(Role::server), std::move(request));
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return answers_.contains(last_id_); }));
    return answers_.extract(last_id_).mapped();
  }
  template <class Reply, class Request>
  Reply answer(Request request) {
    const Message message = ask(std::move(request));
    if (const auto* refused = std::get_if<Refused>(&message))
      FAIL(refused->refusal.code << ": " << refused->refusal.what);
    return std::get<Reply>(message);
  }
  RankReply rank(const std::string& request_id, bool anonymous = false) {
    RankRequest request{.user = anonymous ? "" : "ann", .policy = "user"};
    for (int i = 0; i < 4; ++i) request.candidates.push_back(item(i));
    if (anonymous) request.history = {item(2), item(7)};
    request.client_request_id = request_id;
    RankReply reply = answer<RankReply>(std::move(request));
    settle();
    return reply;
  }
  ReplayReply replay(const std::string& request_id) {
    return answer<ReplayReply>(ReplayRequest{.request_id = request_id});
  }
  // Asks again while the router starts.
  Refusal refusal(const std::string& request_id) {
    Refusal refusal;
    do {
      const Message message = ask(ReplayRequest{.request_id = request_id});
      REQUIRE(std::holds_alternative<Refused>(message));
      refusal = std::get<Refused>(message).refusal;
    } while (refusal.code == "starting");
    return refusal;
  }
  double metric(Metric metric) const { return metrics_.value(metric); }

 private:
  static std::string item(int i) { return "item-" + std::to_string(i); }
  // Waits until the last reply's blocks are committed and in the index.
  void settle() {
    for (const Role role : {Role::inference_worker, Role::kv_worker, Role::cache_meta}) {
      host_->post(LocalNode::address(role), LocalNode::address(Role::server), StatusRequest{++last_id_});
      std::unique_lock lock(mutex_);
      REQUIRE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return answers_.contains(last_id_); }));
      answers_.erase(last_id_);
    }
  }

  MetricRegistry metrics_;
  std::unique_ptr<LocalNode> node_;
  std::unique_ptr<Host> host_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Message> answers_;
  RequestId last_id_ = 0;
};

// Checks that the replay has the answer's scores and is equal.
void check_equal(const ReplayReply& replay, const RankReply& answer) {
  CHECK(replay.equal);
  CHECK(replay.kind == "rank");
  CHECK(replay.plan == answer.plan);
  CHECK(replay.model_version == answer.model_version);
  CHECK(replay.catalog_version == answer.catalog_version);
  CHECK(replay.profile_version == answer.profile_version);
  CHECK(replay.largest_difference <= replay.bound);
  REQUIRE(replay.values.size() == answer.items.size());
  std::map<std::string, double> scores;
  for (const RankedItem& item : answer.items) scores[item.id] = item.score;
  for (const ReplayedValue& value : replay.values) {
    CHECK(value.recorded == scores.at(value.name));
    CHECK(value.replayed == doctest::Approx(value.recorded).epsilon(1e-5));
    CHECK(value.replayed != 0);
  }
}

TEST_CASE("replayed answers: cold and warm answers are equal, of users, anonymous and of labels") {
  const Folders folders;
  RecordingNode node(folders);
  const RankReply cold = node.rank("r-cold"), warm = node.rank("r-warm"), other = node.rank("r-other", true);
  REQUIRE(warm.tokens_reused > 0);
  ScoreRequest score{.query = {5, 6}, .items = {{{7, 8}}, {{9}}}, .label_tokens = {10, 11}};
  score.client_request_id = "r-score";
  const auto scored = node.answer<ScoreReply>(score);
  check_equal(node.replay("r-cold"), cold);
  check_equal(node.replay("r-warm"), warm);
  check_equal(node.replay("r-other"), other);
  CHECK(node.replay("r-warm").user == "ann");
  CHECK(node.replay("r-other").user.empty());
  const ReplayReply labels = node.replay("r-score");
  CHECK(labels.equal);
  REQUIRE(labels.values.size() == 4);
  CHECK(labels.values[1].name == "items[0], token 11");
  CHECK(labels.values[1].recorded == scored.items[0].scores[1]);
  CHECK(labels.answered_at > 1'700'000'000);
  CHECK(node.refusal("r-none").code == "no_record");
  CHECK(node.metric(Metric::replay_recorded) == 4);
  CHECK(node.metric(Metric::replay_dropped) == 0);
}

TEST_CASE("replayed answers: deleting the user deletes the user's records, and a restart keeps the others") {
  const Folders folders;
  {
    RecordingNode node(folders);
    node.rank("r-ann");
    node.rank("r-other", true);
    node.replay("r-ann");
    node.answer<Stored>(DeleteUser{.user = "ann"});
    CHECK(node.refusal("r-ann").code == "no_record");
    CHECK(node.replay("r-other").equal);
  }
  RecordingNode again(folders);
  CHECK(again.refusal("r-ann").code == "no_record");
  CHECK(again.replay("r-other").equal);
}

TEST_CASE("replayed answers: after a reload the refusal names the model that answered") {
  const Folders folders;
  RecordingNode node(folders);
  node.rank("r-first");
  node.answer<Stored>(Reload{.model_version = folders.second});
  const Refusal refusal = node.refusal("r-first");
  CHECK(refusal.kind == RefusalKind::conflict);
  CHECK(refusal.code == "version_gone");
  CHECK(refusal.what.find(folders.first) != std::string::npos);
  CHECK(refusal.expected.find(folders.second) != std::string::npos);
  const RankReply second = node.rank("r-second");
  CHECK(second.model_version == folders.second);
  check_equal(node.replay("r-second"), second);
  node.answer<Stored>(Reload{.model_version = folders.first});  // the way back
  CHECK(node.replay("r-first").equal);
}

TEST_CASE("replayed answers: while recording is off nothing is stored, and what was stored is deleted") {
  const Folders folders;
  {
    RecordingNode node(folders, "0s");
    node.rank("r-1");
    const Refusal refusal = node.refusal("r-1");
    CHECK(refusal.code == "replay_off");
    CHECK(refusal.where == "replay.keep");
    CHECK(node.metric(Metric::replay_recorded) == 0);
  }
  CHECK_FALSE(folders.has_records());
  {
    RecordingNode node(folders);
    node.rank("r-2");
    node.replay("r-2");
  }
  CHECK(folders.has_records());
  { RecordingNode node(folders, "0s"); }
  CHECK_FALSE(folders.has_records());
}

TEST_CASE("replayed answers: a node whose records cannot be opened serves, and refuses replays") {
  const Folders folders;
  const std::filesystem::path records = folders.all.path() / "data" / "replay";
  std::filesystem::create_directories(records);
  std::vector<std::string> warned;
  const Store other(records, {.is_cache = true});  // locks it
  RecordingNode node(
      folders, "1h",
      [&](LogLevel level, std::string_view, std::string_view event, std::span<const LogField> f) {
        if (level == LogLevel::warning && event == "records_lost") warned.push_back(f[1].value);
      });
  REQUIRE(warned.size() == 1);
  CHECK(warned[0].find(records.string()) != std::string::npos);
  CHECK(node.rank("r-1").items.size() == 4);
  for (int i = 0; i < 3; ++i) CHECK(node.refusal("r-none").code == "storage_failed");  // each after a job
  const Refusal refusal = node.refusal("r-1");
  CHECK(refusal.kind == RefusalKind::unavailable);
  CHECK(refusal.code == "storage_failed");
  CHECK(node.metric(Metric::replay_recorded) == 0);
  CHECK(node.metric(Metric::replay_dropped) == 1);
  CHECK(node.rank("r-2").items.size() == 4);
}

}  // namespace replayed_answers_test
}  // namespace troupe::deploy
