#include "tests/fuzz/tiny_world.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "runtime/network/caf_host.h"
#include "server/http/http_client.h"

namespace troupe::fuzz {

namespace {

constexpr int plain_items = 12, steady_items = 8;

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

std::string steady_request() {
  std::string body = R"({"user":"steady","candidates":[)";
  for (int i = 0; i < steady_items; ++i) body += (i ? ",\"steady-" : "\"steady-") + std::to_string(i) + "\"";
  return body + "]}";
}

PutItem item(const std::string& id, int n) {
  PutItem put;
  put.item = id;
  put.title = "A thing called " + id;
  put.tokens = {4 + n, 30 - n};
  put.identifier = 40 + n;
  return put;
}

server::HttpServerConfig server_config(const Config& config, const deploy::LocalNode& box) {
  server::HttpServerConfig http_server;
  http_server.port = 0;
  http_server.body_bytes_max = ServedNode::body_bytes_max;
  http_server.answer_us_max = config.router.deadline_max.us + 400'000;
  http_server.limits.candidates_max = ServedNode::candidates_max;
  http_server.limits.admin_routes = config.http.admin_routes;
  http_server.actors = box.actors();
  http_server.router = deploy::LocalNode::address(Role::router);
  return http_server;
}

}  // namespace

kernels::DecoderConfig tiny_shape() {
  kernels::DecoderConfig shape;
  shape.layers = 2, shape.hidden = 16, shape.heads = 2, shape.kv_heads = 1, shape.head_dim = 8;
  shape.intermediate = 24, shape.vocabulary = 64, shape.positions_max = 96;
  shape.qkv_bias = true, shape.tied_embeddings = true;
  return shape;
}

void write_tiny_model(const std::filesystem::path& directory, const kernels::DecoderConfig& shape,
                      std::uint64_t seed) {
  std::filesystem::create_directories(directory);
  kernels::write_decoder(kernels::random_decoder(shape, seed), directory, kernels::StoredAs::f32);
  write(directory / "vocab.json",
        R"({"<bos>":0,"<user>":1,"<disc>":2,"<a_1>":4,"<b_2>":5,"<item_0>":40,"<item_1>":41})");
  write(directory / "prompt.json",
        R"({"system":["<bos>",3],"user":["<user>"],"instruction":[],"discriminant":["<disc>"],)"
        R"("arrangements":["item_first","user_first","causal"],)"
        R"("interchangeable":["item_first","user_first"]})");
}

std::vector<PutItem> tiny_items() {
  std::vector<PutItem> items;
  for (int i = 0; i < plain_items; ++i) items.push_back(item("item-" + std::to_string(i), i));
  for (int i = 0; i < steady_items; ++i)
    items.push_back(item("steady-" + std::to_string(i), plain_items + i));
  return items;
}

std::vector<PutUser> tiny_users() {
  return {{0, "", "ana", {"item-0", "item-1", "item-2"}, {}},
          {0, "", "bob", {}, {7, 8, 9, 10}},
          {0, "", "steady", {"steady-0", "steady-3"}, {}}};
}

Config tiny_config(const std::filesystem::path& folder, const SettingTexts& settings) {
  Config config;
  config.set("model.directory", (folder / "model").string());
  config.set("node.data_dir", (folder / "data").string());
  config.set("pool.memory", "1MiB");
  config.set("router.candidates_max", std::to_string(ServedNode::candidates_max));
  config.set("router.deadline", "20s");
  config.set("router.deadline_max", "30s");
  config.set("inference.executors", "2");
  for (const auto& [name, value] : settings) config.set(name, value);
  return config;
}

ServedNode::ServedNode(const SettingTexts& settings, const std::filesystem::path& data_dir,
                       const ServedModel& model) {
  model.write(folder_.path() / "model");
  config_ = tiny_config(folder_.path(), settings);
  if (!data_dir.empty()) config_.set("node.data_dir", data_dir.string());
  box_ = std::make_unique<deploy::LocalNode>(config_, deploy::NodeRoles{}, nullptr, model.families);
  box_->features().import_items(tiny_items());
  box_->features().import_users(tiny_users());
  host_ = std::make_unique<CafHost>(metrics_, [](auto&&...) {});
  box_->add_to(*host_);
  const Address address = deploy::LocalNode::address(Role::server);
  server_ = std::make_unique<server::HttpServer>(
      server_config(config_, *box_),
      [this, address](Address to, Message message) { host_->post(to, address, std::move(message)); },
      metrics_);
  host_->set_server(address, [this](Address, Message answer) { server_->deliver(std::move(answer)); });
  host_->start();
  server_->open();
  if (!box_->prompt().generates()) steady_at_start_ = steady_scores();
}

ServedNode::~ServedNode() {
  server_->close();
  host_->stop();
}

Reply ServedNode::ask(const std::string& method, const std::string& target, const std::string& body) const {
  server::HttpCall call;
  call.server = "127.0.0.1:" + std::to_string(port());
  call.method = method;
  call.target = target;
  call.body = body;
  const server::HttpReply reply = server::http_call(call);
  return {reply.status, nlohmann::json::parse(reply.body)};
}

std::vector<std::pair<std::string, double>> ServedNode::steady_scores() const {
  const Reply reply = ask("POST", "/v1/rank", steady_request());
  REQUIRE_MESSAGE(reply.status == 200, reply.body.dump());
  std::vector<std::pair<std::string, double>> scores;
  double probability = 0;
  for (const auto& item : reply.body.at("items")) {
    scores.emplace_back(item.at("id").get<std::string>(), item.at("score").get<double>());
    probability += item.at("probability").get<double>();
  }
  REQUIRE(scores.size() == steady_items);
  CHECK(std::abs(probability - 1) < 1e-9);
  return scores;
}

void ServedNode::check_steady() const {
  const auto scores = steady_scores();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    CHECK(scores[i].first == steady_at_start_[i].first);
    CHECK(std::abs(scores[i].second - steady_at_start_[i].second) < 1e-4);
  }
}

}  // namespace troupe::fuzz
