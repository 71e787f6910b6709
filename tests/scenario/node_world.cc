#include "tests/scenario/node_world.h"

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "runtime/actor/message_id.h"
#include "runtime/network/caf_host.h"
#include "sim/host/sim_host.h"

namespace troupe::scenario {

namespace {

const Address server = deploy::LocalNode::address(Role::server);
constexpr Duration answer_virtual_max{60'000'000};
constexpr std::chrono::seconds answer_real_max{60};

std::unique_ptr<Host> make_host(World world, MetricRegistry& metrics, std::uint64_t seed) {
  const LogSink silent = [](auto&&...) {};
  if (world != World::simulation) {
    const auto inside = world == World::caf_bytes ? CafHost::Inside::bytes : CafHost::Inside::structs;
    return std::make_unique<CafHost>(metrics, silent, 0, inside);
  }
  SimOptions options;
  options.seed = seed;
  return std::make_unique<SimHost>(metrics, silent, options);
}

}  // namespace

struct RunningNode::Inbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<RequestId, Message> answers;
};

const DemoWorld& demo_world() {
  static const DemoWorld world = [] {
    const std::filesystem::path demo = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo";
    return DemoWorld{demo / "model", demo / "world",
                     deploy::read_evaluation(demo / "world" / "requests.jsonl")};
  }();
  return world;
}

Config node_config(const TestFolder& folder, const std::vector<std::string>& settings) {
  Config config;
  config.set("model.directory", demo_world().model.string());
  config.set("node.data_dir", folder.path().string());
  config.set("pool.memory", "64MiB");
  config.set("inference.executors", "2");
  config.set("router.deadline", "30s");
  config.set("router.deadline_max", "60s");
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    config.set(setting.substr(0, equals), setting.substr(equals + 1));
  }
  return config;
}

void import_demo(deploy::LocalNode& box) {
  box.features().import_items(deploy::read_items(demo_world().data, box.vocabulary()));
  box.features().import_users(deploy::read_users(demo_world().data, deploy::HistoryPart::all));
}

RunningNode::RunningNode(World world, const Config& config, bool import, std::uint64_t seed)
    : box_(config),
      inbox_(std::make_unique<Inbox>()),
      host_(make_host(world, metrics_, seed)),
      world_(world) {
  if (import) import_demo(box_);
  box_.add_to(*host_);
  host_->set_server(server, [this](Address, Message message) {
    const std::lock_guard lock(inbox_->mutex);
    const RequestId id = id_of(message);
    CHECK_MESSAGE(!inbox_->answers.contains(id), "a request was answered twice");
    inbox_->answers.emplace(id, std::move(message));
    inbox_->changed.notify_all();
  });
  host_->start();
}

RunningNode::~RunningNode() { host_->stop(); }

void RunningNode::post(Message message) {
  host_->post(deploy::LocalNode::address(Role::router), server, std::move(message));
}

Message RunningNode::answer(RequestId id) {
  if (world_ == World::simulation) {
    auto& sim = static_cast<SimHost&>(*host_);
    const Instant end = sim.now() + answer_virtual_max;
    while (!inbox_->answers.contains(id) && sim.now() < end) sim.run_until(sim.now() + Duration{1'000});
  }
  std::unique_lock lock(inbox_->mutex);
  REQUIRE(inbox_->changed.wait_for(lock, answer_real_max, [&] { return inbox_->answers.contains(id); }));
  return inbox_->answers.extract(id).mapped();
}

Message RunningNode::ask(Message message) {
  const RequestId id = id_of(message);
  post(std::move(message));
  return answer(id);
}

Message RunningNode::ask_worker(Message message) {
  const RequestId id = id_of(message);
  host_->post(deploy::LocalNode::address(Role::inference_worker), server, std::move(message));
  return answer(id);
}

void RunningNode::set_split(std::uint64_t epoch, std::vector<AreaSplit> areas) {
  host_->post(deploy::LocalNode::address(Role::kv_worker), deploy::LocalNode::address(Role::allocator),
              SetSplit{box_.incarnation(), epoch, std::move(areas)});
}

void RunningNode::run_for(Duration virtual_time) {
  REQUIRE(world_ == World::simulation);
  auto& sim = static_cast<SimHost&>(*host_);
  sim.run_until(sim.now() + virtual_time);
}

RankReply RunningNode::rank(RequestId id, const std::string& user, const std::vector<std::string>& candidates,
                            const std::string& policy) {
  RankRequest request;
  request.id = id;
  request.user = user;
  request.candidates = candidates;
  request.policy = policy;
  const Message message = ask(std::move(request));
  if (const auto* refused = std::get_if<Refused>(&message))
    FAIL(refused->refusal.code << ": " << refused->refusal.what);
  return std::get<RankReply>(message);
}

void RunningNode::wait_until_precomputed() {
  for (int round = 0; round < 100'000; ++round) {
    const Message message = ask(StatusRequest{++status_id_});
    std::string stage, at_rest;
    for (const StatusField& field : std::get<StatusReply>(message).fields) {
      if (field.name == "precompute") stage = field.value;
      if (field.name == "precompute_at_rest") at_rest = field.value;
    }
    if (stage == "full" || stage == "off" || (stage == "done" && at_rest == "yes")) return;
  }
  FAIL("the item blocks were not precomputed");
}

// Sends a status request to each actor in the order in which they report to each other. An actor reads its
// messages in order, so an answer means that earlier messages were handled.
void RunningNode::settle() {
  for (const Role role : {Role::inference_worker, Role::kv_worker, Role::cache_meta}) {
    const RequestId id = ++status_id_;
    host_->post(deploy::LocalNode::address(role), server, StatusRequest{id});
    answer(id);
  }
}

void RunningNode::flip_bit_of_each_page() {
  PageArena& arena = *box_.arena();
  for (std::uint32_t page = 0; page < arena.pages(); ++page) arena.page(page)[79] ^= std::byte{0x40};
}

}  // namespace troupe::scenario
