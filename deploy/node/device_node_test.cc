// Compares a whole node on a device with one on the CPU, over CAF. deploy_test runs this on the
// emulated device, device_box_test on a GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>

#include "deploy/models/device_engine.h"
#include "deploy/node/local_node.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/testing/test_folder.h"
#include "runtime/actor/message_id.h"
#include "runtime/network/caf_host.h"
#ifdef TROUPE_EMULATED
#include "kernels/cuda/simt/device_emulated.h"
#endif

namespace troupe::deploy {
namespace {

#ifdef TROUPE_EMULATED
const std::string device_kind = "emulated";
#else
const std::string device_kind = "cuda";
#endif

kernels::DecoderConfig tiny_shape() {
  kernels::DecoderConfig shape;
  shape.layers = 2, shape.hidden = 16, shape.heads = 2, shape.kv_heads = 1, shape.head_dim = 32;
  shape.intermediate = 24, shape.vocabulary = 64, shape.positions_max = 96;
  shape.qkv_bias = true, shape.tied_embeddings = true;
  return shape;
}

void write_model(const std::filesystem::path& directory, const kernels::DecoderConfig& shape = tiny_shape()) {
  std::filesystem::create_directories(directory);
  kernels::write_decoder(kernels::random_decoder(shape, 1), directory, kernels::StoredAs::f32);
  std::ofstream(directory / "vocab.json") << R"({"<bos>":0,"<user>":1,"<disc>":2})";
  std::ofstream(directory / "prompt.json")
      << R"({"system":["<bos>",3],"user":["<user>"],"instruction":[],"discriminant":["<disc>"],)"
         R"("arrangements":["item_first","user_first"],"interchangeable":["item_first","user_first"]})";
}

using Settings = std::vector<std::pair<std::string, std::string>>;
const Settings on_cpu{{"pool.kv_format", "bf16"}};
const Settings on_device{{"pool.kv_format", "bf16"}, {"model.device", device_kind}};

Config config_of(const std::filesystem::path& folder, const Settings& settings) {
  Config config;
  config.set("model.directory", (folder / "model").string());
  config.set("node.data_dir", (folder / "data").string());
  config.set("pool.memory", "1MiB");
  config.set("inference.executors", "2");
  config.set("router.deadline", "30s");
  config.set("router.deadline_max", "60s");
  for (const auto& [name, value] : settings) config.set(name, value);
  return config;
}

// Node with sixteen items and four users; sends one request or several at once.
class RunningBox {
 public:
  explicit RunningBox(const Settings& settings) {
    write_model(folder_.path() / "model");
    box_ = std::make_unique<LocalNode>(config_of(folder_.path(), settings));
    std::vector<PutItem> items;
    for (int i = 0; i < 16; ++i) items.push_back({0, item(i), item(i), {4 + i, 40 - i, 5 + i}, 44 + i});
    box_->features().import_items(items);
    std::vector<PutUser> users;
    for (int u = 0; u < 4; ++u)
      users.push_back({0, "", user(u), {item(u), item(u + 3), item(2 * u + 5)}, {}});
    box_->features().import_users(users);
    host_ = std::make_unique<CafHost>(metrics_, [](auto&&...) {});
    box_->add_to(*host_);
    host_->set_server(LocalNode::address(Role::server), [this](Address, Message message) {
      const std::lock_guard lock(mutex_);
      answers_.emplace(id_of(message), std::move(message));
      changed_.notify_all();
    });
    host_->start();
  }
  ~RunningBox() { host_->stop(); }

  static std::string item(int i) { return "item-" + std::to_string(i); }
  static std::string user(int u) { return "user-" + std::to_string(u); }

  RequestId post_rank(int user_number, int first_item, const std::string& policy, int count = 6) {
    RankRequest request;
    request.id = ++last_id_;
    request.user = user(user_number);
    for (int i = 0; i < count; ++i) request.candidates.push_back(item((first_item + i) % 16));
    request.policy = policy;
    post(request);
    return last_id_;
  }
  Message answer(RequestId id) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return answers_.contains(id); }));
    return answers_.extract(id).mapped();
  }
  RankReply rank(int user_number, int first_item, const std::string& policy) {
    const Message message = answer(post_rank(user_number, first_item, policy));
    if (const auto* refused = std::get_if<Refused>(&message))
      FAIL(refused->refusal.code << ": " << refused->refusal.what);
    return std::get<RankReply>(message);
  }
  void wait_until_precomputed() {
    for (int round = 0; round < 100'000; ++round) {
      post(StatusRequest{++last_id_});
      const Message status = answer(last_id_);
      for (const StatusField& field : std::get<StatusReply>(status).fields)
        if (field.name == "precompute" && field.value == "done") return;
    }
    FAIL("the item blocks were not precomputed");
  }
  // Waits until the last reply's blocks are committed and in the index.
  void settle() {
    for (const Role role : {Role::inference_worker, Role::kv_worker, Role::cache_meta}) {
      host_->post(LocalNode::address(role), LocalNode::address(Role::server), StatusRequest{++last_id_});
      answer(last_id_);
    }
  }
  double metric(Metric metric) const { return metrics_.value(metric); }
  LocalNode& box() { return *box_; }

 private:
  void post(Message message) {
    host_->post(LocalNode::address(Role::router), LocalNode::address(Role::server), std::move(message));
  }

  kernels::TestFolder folder_;
  MetricRegistry metrics_;
  std::unique_ptr<LocalNode> box_;
  std::unique_ptr<Host> host_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Message> answers_;
  RequestId last_id_ = 0;
};

std::map<std::string, double> scores_of(const RankReply& reply) {
  std::map<std::string, double> scores;
  for (const RankedItem& item : reply.items) scores[item.id] = item.score;
  return scores;
}

// Returns the largest difference relative to the largest score.
double distance(const RankReply& a, const RankReply& b) {
  const auto as = scores_of(a), bs = scores_of(b);
  REQUIRE(as.size() == bs.size());
  double worst = 0, magnitude = 1e-9;
  for (const auto& [id, score] : as) {
    worst = std::max(worst, std::abs(score - bs.at(id)));
    magnitude = std::max(magnitude, std::abs(score));
  }
  return worst / magnitude;
}

// Weights, activations, keys and values have eight bits: several roundings of half a step in two
// layers.
constexpr double tolerance = 0x1p-9 * 12;

Settings with(Settings settings, const std::string& name, const std::string& value) {
  settings.emplace_back(name, value);
  return settings;
}

// Settings of a pool with this number of pages of the tiny model.
Settings with_pages(int pages) {
  const kernels::KvLayout layout = kernels::kv_layout(tiny_shape(), 4, kernels::KvFormat::bf16);
  return with(on_device, "pool.device_bytes", std::to_string(pages * layout.page_bytes()) + "B");
}

TEST_CASE("device node: ranks as the CPU does, also if the device holds a part of the reused blocks") {
  if (!kernels::cuda::have_device()) return;
  RunningBox cpu(on_cpu), device(with_pages(14));
  for (RunningBox* box : {&cpu, &device}) box->wait_until_precomputed();
  double reused = 0;
  for (const char* policy : {"user", "item", "recompute", "item", "user"}) {
    for (int u = 0; u < 4; ++u) {
      const RankReply expected = cpu.rank(u, 4 * u, policy), found = device.rank(u, 4 * u, policy);
      CHECK(distance(expected, found) < tolerance);
      CHECK(found.tokens_total == expected.tokens_total);
      CHECK(found.tokens_reused == expected.tokens_reused);
      reused += found.tokens_reused;
      cpu.settle(), device.settle();
    }
  }
  CHECK(reused > 0);
  CHECK(distance(cpu.rank(0, 0, "user"), device.rank(1, 0, "user")) > tolerance);
  for (const Metric metric :
       {Metric::device_blocks_hit, Metric::device_blocks_missed, Metric::device_blocks_evicted,
        Metric::device_bytes_in, Metric::device_bytes_out})
    CHECK(device.metric(metric) > 0);
  CHECK(device.metric(Metric::device_pages) == 14);
  CHECK(device.metric(Metric::blocks_corrupt) == 0);
  CHECK(cpu.metric(Metric::device_pages) == 0);
}

TEST_CASE("device node: concurrent requests share a device smaller than their blocks") {
  if (!kernels::cuda::have_device()) return;
  RunningBox device(with_pages(14));
  std::vector<RankReply> expected;
  for (int n = 0; n < 8; ++n) expected.push_back(device.rank(n % 4, 2 * n, "recompute"));
  std::vector<RequestId> ids;
  for (int n = 0; n < 8; ++n) ids.push_back(device.post_rank(n % 4, 2 * n, n % 2 ? "item" : "user"));
  for (int n = 0; n < 8; ++n) {
    const Message message = device.answer(ids[n]);
    REQUIRE(std::holds_alternative<RankReply>(message));
    CHECK(std::get<RankReply>(message).items.size() == 6);
  }
}

TEST_CASE("device node: damaged pool pages are detected on the way to the device and recomputed") {
  if (!kernels::cuda::have_device()) return;
  RunningBox device(with(with_pages(14), "pool.verify_on_read", "true"));
  device.wait_until_precomputed();
  std::vector<RankReply> expected;
  for (int first : {0, 4, 8, 12}) expected.push_back(device.rank(2, first, "item"));
  PageArena& arena = *device.box().arena();
  for (std::uint32_t page = 0; page < arena.pages(); ++page) arena.page(page)[5] ^= std::byte{0x40};
  for (const int n : {0, 1, 2, 3})  // all sixteen items, more than the device's pages
    CHECK(distance(expected[static_cast<std::size_t>(n)], device.rank(2, 4 * n, "item")) < tolerance);
  device.settle();
  CHECK(device.metric(Metric::blocks_corrupt) > 0);
}

TEST_CASE("device node: a request that can never fit onto the device is refused with the reason") {
  if (!kernels::cuda::have_device()) return;
  RunningBox device(with(with_pages(3), "pool.precompute_items", "false"));
  const Message message = device.answer(device.post_rank(0, 0, "item"));
  REQUIRE(std::holds_alternative<Refused>(message));
  CHECK(std::get<Refused>(message).refusal.kind == RefusalKind::unprocessable);
  CHECK(std::get<Refused>(message).refusal.where == "pool.device_bytes");
}

#ifdef TROUPE_EMULATED

TEST_CASE("device node: a failing device makes its requests unavailable and recovers") {
  RunningBox device(on_device);
  device.wait_until_precomputed();
  const RankReply expected = device.rank(0, 0, "item");
  kernels::cuda::emulator::fail_command(1);
  const Message message = device.answer(device.post_rank(0, 0, "item"));
  kernels::cuda::emulator::fail_command(0);
  REQUIRE(std::holds_alternative<Refused>(message));
  CHECK(std::get<Refused>(message).refusal.kind == RefusalKind::unavailable);
  const RankReply after = device.rank(0, 0, "item");
  CHECK(after.tokens_reused == expected.tokens_reused);
  CHECK(distance(expected, after) < tolerance);
}

std::string error_of(const Settings& settings, const kernels::DecoderConfig& shape = tiny_shape()) {
  const kernels::TestFolder folder;
  write_model(folder.path() / "model", shape);
  try {
    const LocalNode box(config_of(folder.path(), settings));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("device node: a missing or unsuitable device is an error with the reason") {
  const auto starts = [](const std::string& text, const char* with) {
    CHECK_MESSAGE(text.starts_with(with), text);
  };
  for (const char* word : {"gpu", "cuda:", "cuda:-1", "cuda:1x", "cpu:0", ""})
    CHECK(error_of({{"model.device", word}}) ==
          std::string("model.device is ") + word + "; expected cpu, cuda or cuda:N");
  starts(error_of({{"model.device", "cuda:1"}, {"pool.kv_format", "bf16"}}),
         "model.device is cuda; expected cpu or emulated");
  starts(error_of({{"model.device", "emulated"}}), "pool.kv_format is f32; expected bf16 or f16 on a GPU");
  starts(error_of(with(on_device, "model.weights", "int8")), "model.weights is int8; expected f32 on a GPU");
  kernels::DecoderConfig odd = tiny_shape();
  odd.head_dim = 24;
  starts(error_of(on_device, odd), "model.device emulated:0: head_dim 24");
  starts(error_of(with(on_device, "pool.device_bytes", "512B")),
         "pool.device_bytes is 512; expected at least");
  starts(error_of(with(on_device, "pool.device_bytes", "2TiB")), "pool.device_bytes is 2199023255552");
}

#endif

}  // namespace
}  // namespace troupe::deploy
