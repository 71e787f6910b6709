// Runs a whole node over CAF that verifies all of its answers: a bit that is flipped in a cached page
// is reported by the id of the request that met it, and nothing else is.
#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "deploy/node/local_node.h"
#include "kernels/checkpoint/model.h"
#include "kernels/testing/test_folder.h"
#include "runtime/actor/message_id.h"
#include "runtime/network/caf_host.h"

namespace troupe::deploy {
namespace verified_answers_test {

void write_model(const std::filesystem::path& directory) {
  kernels::DecoderConfig shape;
  shape.layers = 2, shape.hidden = 16, shape.heads = 2, shape.kv_heads = 1, shape.head_dim = 32;
  shape.intermediate = 24, shape.vocabulary = 64, shape.positions_max = 96;
  shape.qkv_bias = true, shape.tied_embeddings = true;
  std::filesystem::create_directories(directory);
  kernels::write_decoder(kernels::random_decoder(shape, 1), directory, kernels::StoredAs::f32);
  std::ofstream(directory / "vocab.json") << R"({"<bos>":0,"<user>":1,"<disc>":2})";
  std::ofstream(directory / "prompt.json")
      << R"({"system":["<bos>",3],"user":["<user>"],"instruction":[],"discriminant":["<disc>"],)"
         R"("arrangements":["item_first","user_first"],"interchangeable":["item_first","user_first"]})";
}

// Only verifications compare pages with anything: checksums are off after a block's first use.
Config config_of(const std::filesystem::path& folder) {
  Config config;
  config.set("model.directory", (folder / "model").string());
  config.set("node.data_dir", (folder / "data").string());
  config.set("pool.memory", "1MiB");
  config.set("pool.check_reads", "0");
  config.set("pool.scrub_interval", "0s");
  config.set("pool.precompute_items", "false");
  config.set("inference.executors", "1");
  config.set("router.deadline", "30s");
  config.set("router.deadline_max", "60s");
  config.set("verify.share", "1");
  return config;
}

struct LogLine {
  std::string event;
  std::map<std::string, std::string> fields;
};

class VerifyingNode {
 public:
  VerifyingNode() {
    write_model(folder_.path() / "model");
    node_ = std::make_unique<LocalNode>(config_of(folder_.path()));
    std::vector<PutItem> items;
    for (int i = 0; i < 8; ++i) items.push_back({0, item(i), item(i), {4 + i, 40 - i, 5 + i}, 44 + i});
    node_->features().import_items(items);
    node_->features().import_users(std::vector<PutUser>{{0, "", "ann", {item(1), item(4), item(6)}, {}}});
    host_ = std::make_unique<CafHost>(metrics_, [this](LogLevel, std::string_view, std::string_view event,
                                                       std::span<const LogField> fields) {
      LogLine line{std::string(event), {}};
      for (const LogField& field : fields) line.fields[field.name] = field.value;
      const std::lock_guard lock(mutex_);
      lines_.push_back(std::move(line));
    });
    node_->add_to(*host_);
    host_->set_server(LocalNode::address(Role::server), [this](Address, Message message) {
      const std::lock_guard lock(mutex_);
      answers_.emplace(id_of(message), std::move(message));
      changed_.notify_all();
    });
    host_->start();
  }
  ~VerifyingNode() { host_->stop(); }

  RankReply rank(const std::string& request_id) {
    RankRequest request{.id = ++last_id_, .user = "ann"};
    for (int i = 0; i < 4; ++i) request.candidates.push_back(item(i));
    request.policy = "user";
    request.client_request_id = request_id;
    host_->post(LocalNode::address(Role::router), LocalNode::address(Role::server), std::move(request));
    const Message message = answer(last_id_);
    if (const auto* refused = std::get_if<Refused>(&message))
      FAIL(refused->refusal.code << ": " << refused->refusal.what);
    settle();
    return std::get<RankReply>(message);
  }
  // Waits until so many verifications have had this result.
  bool await(Metric result, double count) const {
    for (int round = 0; round < 3'000 && metrics_.value(result) < count; ++round)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return metrics_.value(result) == count;
  }
  double metric(Metric metric) const { return metrics_.value(metric); }
  std::vector<LogLine> reported() {
    const std::lock_guard lock(mutex_);
    std::vector<LogLine> found;
    for (const LogLine& line : lines_)
      if (line.event == "answer_differs" || line.event == "recomputation_differs") found.push_back(line);
    return found;
  }
  // Flips one bit of the exponent of a cached key or value, such that the number becomes large and
  // results stay finite. Returns false if no page has such a number.
  bool flip_bit() {
    PageArena& arena = *node_->arena();
    for (std::uint32_t page = 0; page < arena.pages(); ++page)
      for (std::size_t at = 0; at + 4 <= arena.page_bytes(); at += 4) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, arena.page(page) + at, 4);
        const float before = std::abs(std::bit_cast<float>(bits));
        for (int bit = 24; before > 1e-3F && before < 4 && bit < 30; ++bit) {
          const std::uint32_t flipped = bits ^ (1U << bit);
          const float after = std::abs(std::bit_cast<float>(flipped));
          if (!(after > 16 && after < 2'000)) continue;
          std::memcpy(arena.page(page) + at, &flipped, 4);
          return true;
        }
      }
    return false;
  }

 private:
  static std::string item(int i) { return "item-" + std::to_string(i); }
  Message answer(RequestId id) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return answers_.contains(id); }));
    return answers_.extract(id).mapped();
  }
  // Waits until the last reply's blocks are committed and in the index.
  void settle() {
    for (const Role role : {Role::inference_worker, Role::kv_worker, Role::cache_meta}) {
      host_->post(LocalNode::address(role), LocalNode::address(Role::server), StatusRequest{++last_id_});
      answer(last_id_);
    }
  }

  kernels::TestFolder folder_;
  MetricRegistry metrics_;
  std::unique_ptr<LocalNode> node_;
  std::unique_ptr<Host> host_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Message> answers_;
  std::vector<LogLine> lines_;
  RequestId last_id_ = 0;
};

double largest_difference(const RankReply& a, const RankReply& b) {
  std::map<std::string, double> scores;
  for (const RankedItem& item : a.items) scores[item.id] = item.score;
  double largest = 0;
  for (const RankedItem& item : b.items)
    largest = std::max(largest, std::abs(item.score - scores.at(item.id)));
  return largest;
}

TEST_CASE("verified answers: a bit flipped in a cached page is reported by the request that met it") {
  VerifyingNode node;
  const RankReply cold = node.rank("r-cold"), warm = node.rank("r-warm");
  REQUIRE(warm.tokens_reused > 0);
  CHECK(largest_difference(cold, warm) < 1e-4);
  CHECK(node.await(Metric::verified_equal, 2));
  CHECK(node.reported().empty());

  REQUIRE(node.flip_bit());
  const RankReply damaged = node.rank("r-damaged");
  REQUIRE(damaged.tokens_reused == warm.tokens_reused);
  REQUIRE(largest_difference(warm, damaged) > 1e-3);
  CHECK(node.await(Metric::verified_different, 1));
  const std::vector<LogLine> reported = node.reported();
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].event == "answer_differs");
  CHECK(reported[0].fields.at("request_id") == "r-damaged");
  CHECK(reported[0].fields.at("kind") == "rank");
  CHECK(reported[0].fields.at("node") == "1");
  CHECK(reported[0].fields.at("by") == "1");
  CHECK(std::stod(reported[0].fields.at("largest")) > std::stod(reported[0].fields.at("bound")));
  CHECK(std::stoi(reported[0].fields.at("blocks_reused")) > 0);
  CHECK(node.metric(Metric::verified_equal) == 2);
}

TEST_CASE("verified answers: without damage nothing is reported, cold and warm") {
  VerifyingNode node;
  for (int i = 0; i < 6; ++i) node.rank("r-" + std::to_string(i));
  CHECK(node.await(Metric::verified_equal, 6));
  CHECK(node.reported().empty());
  CHECK(node.metric(Metric::verified_different) == 0);
  CHECK(node.metric(Metric::verified_unstable) == 0);
  CHECK(node.metric(Metric::verified_dropped) == 0);
  CHECK(node.metric(Metric::requests_rank) == 6);  // verifications are no requests
}

}  // namespace verified_answers_test
}  // namespace troupe::deploy
