// Runs a node with its HTTP and gRPC servers from the start until a signal. Reloads log level,
// certificates and keys at SIGHUP, and drains the node at SIGTERM.
#include "deploy/node/serving.h"

#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <iterator>
#include <mutex>

#include "deploy/data/text_file.h"
#include "deploy/data/version.h"
#include "deploy/node/control_socket.h"
#include "deploy/node/drain_reports.h"
#include "deploy/node/feature_ownership.h"
#include "deploy/node/shared_keys.h"
#include "deploy/node/store_reports.h"
#include "deploy/tracing/capture_socket.h"
#include "deploy/tracing/span_exporter.h"
#include "runtime/config/log.h"
#include "runtime/config/whole_file.h"
#include "runtime/network/caf_host.h"
#include "runtime/network/certificates.h"
#include "runtime/profiling/process_figures.h"
#include "server/grpc/grpc_server.h"
#include "server/http/http_server.h"

namespace troupe::deploy {
namespace {

using LogFields = std::vector<LogField>;

constexpr std::chrono::milliseconds drain_question{50}, leave_question{500};
constexpr std::chrono::seconds router_start_time{10};

std::string role_words(const NodeRoles& place) {
  std::string words;
  const auto add = [&](bool has, const char* word) {
    if (has) words += (words.empty() ? "" : ", ") + std::string(word);
  };
  add(place.router, "router");
  add(place.cache_meta, "cache-meta");
  add(place.worker, "worker");
  return words;
}

// Returns this node's router, or else the first one; then the HTTP server forwards requests
// (ConnectedPeers::router).
NodeId router_of(const NodeRoles& place) { return place.router ? place.node : place.routers.front(); }

server::ServerLimits http_limits(const Config& config, const ModelFacts& model) {
  const auto number = [&](const char* setting) {
    return static_cast<std::uint32_t>(config.integer(setting));
  };
  server::ServerLimits limits;
  limits.candidates_max = number("router.candidates_max");
  limits.score_items_max = number("router.score_items_max");
  limits.score_labels_max = number("router.score_labels_max");
  limits.request_tokens_max = number("router.request_tokens_max");
  limits.history_events_max = number("router.history_events_max");
  limits.prompt_tokens_max = static_cast<std::uint32_t>(model.limits.positions_max);
  if (model.pass_tokens_max > 0)
    limits.pass_tokens_max =
        static_cast<std::uint32_t>(std::min<std::size_t>(model.pass_tokens_max, UINT32_MAX));
  limits.admin_routes = config.boolean("http.admin_routes");
  limits.catalog_tenant = config.text("http.catalog_tenant");
  return limits;
}

// Resolves a host name of this machine, such as localhost.
std::string address_of(const std::string& name) {
  const addrinfo hints{.ai_flags = AI_PASSIVE, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0 || !found)
    throw ConfigError("http.address is \"" + name +
                      "\", which is neither an IP address nor a name that this machine can look up; expected "
                      "an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them");
  char text[NI_MAXHOST] = {};
  getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  freeaddrinfo(found);
  return text;
}

// Throws ConfigError, FileError or KeysError.
server::ServerCertificate http_certificate(const Config& config) {
  const std::string &chain = config.text("http.tls_certificate"), &key = config.text("http.tls_key");
  if (chain.empty() != key.empty())
    throw ConfigError(
        "only one of http.tls_certificate and http.tls_key is set; expected both, or neither for plain HTTP");
  if (chain.empty()) return {};
  return {read_pem(chain), read_pem(key)};
}

std::shared_ptr<const server::ApiKeys> http_keys(const Config& config) {
  const std::string& file = config.text("http.api_keys");
  if (file.empty() || keys_in_redis(file)) return nullptr;
  try {
    return std::make_shared<const server::ApiKeys>(server::ApiKeys::parse(
        read_whole_file(file, server::ApiKeys::file_bytes_max, "a file of troupe keys")));
  } catch (const server::KeysError& error) {
    throw ConfigError(file + ":" + error.what());
  }
}

// `router` is the node whose routers are asked.
std::vector<server::ServerModel> http_models(const LocalNode& box, NodeId router) {
  std::vector<server::ServerModel> models;
  for (const auto& model : box.models())
    if (box.has_names())
      models.push_back({model->name,
                        std::string(model->serves()),
                        http_limits(model->config, model->facts),
                        model->text(),
                        {box.actor_ids().number(router, model->place), Role::router}});
  return models;
}

// Promise 1: one outcome by the deadline and two heartbeats.
std::int64_t answer_us_max(const Config& config) {
  return config.duration_us("router.deadline_max") + 2 * config.duration_us("cluster.heartbeat");
}

server::HttpServerConfig http_config(const Config& config, const NodeRoles& place, const LocalNode& box,
                                     std::function<std::string()> obstacle) {
  server::HttpServerConfig http_server;
  http_server.address = address_of(config.text("http.address"));
  http_server.obstacle = std::move(obstacle);
  http_server.port = static_cast<std::uint16_t>(config.integer("http.port"));
  http_server.connections_max = static_cast<std::uint32_t>(config.integer("http.connections_max"));
  http_server.connections_per_address_max =
      static_cast<std::uint32_t>(config.integer("http.connections_per_address_max"));
  http_server.memory_bytes_max = static_cast<std::uint64_t>(config.size_bytes("http.memory_max"));
  http_server.header_bytes_max = static_cast<std::uint32_t>(config.size_bytes("http.header_bytes_max"));
  http_server.body_bytes_max = static_cast<std::uint32_t>(config.size_bytes("http.body_bytes_max"));
  http_server.timeout_us = config.duration_us("http.timeout");
  http_server.answer_us_max = answer_us_max(config);
  http_server.certificate = http_certificate(config);
  http_server.keys = http_keys(config);
  http_server.tenant_limit = {config.real("http.tenant_rate"),
                              static_cast<std::uint32_t>(config.integer("http.tenant_requests_max"))};
  http_server.limits = http_limits(config, box.model());
  http_server.text = box.text();
  http_server.actors = box.actors();
  std::ranges::copy_if(http_server.actors, std::back_inserter(http_server.must_be_ready),
                       [&](Address actor) { return box.actor_ids().node_of(actor.node) == place.node; });
  http_server.models = http_models(box, router_of(place));
  http_server.actor_ids = box.actor_ids();
  http_server.router = {router_of(place), Role::router};
  http_server.version = version();
  http_server.last_id = box.incarnation();
  http_server.access_log = server::access_log(config.text("http.access_log"));
  http_server.sampled_share = config.real("telemetry.sampled");
  return http_server;
}

// The gRPC server has the limits of the HTTP server.
server::GrpcConfig grpc_config(const Config& config, const NodeRoles& place, const LocalNode& box) {
  return {.listen = config.text("grpc.listen"),
          .certificate = http_certificate(config),
          .message_bytes_max = static_cast<std::uint32_t>(config.size_bytes("http.body_bytes_max")),
          .metadata_bytes_max = static_cast<std::uint32_t>(config.size_bytes("http.header_bytes_max")),
          .calls_max = static_cast<std::uint32_t>(config.integer("http.connections_max")),
          .memory_bytes_max = static_cast<std::uint64_t>(config.size_bytes("http.memory_max")),
          .idle_us_max = config.duration_us("http.timeout"),
          .answer_us_max = answer_us_max(config),
          .limits = http_limits(config, box.model()),
          .models = http_models(box, router_of(place))};
}

// Blocks the signals in all threads, so that only its own calls receive them. Constructed before
// any thread starts.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    sigset_t all = set_;
    sigaddset(&all, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
  }
  // Waits for any signal, including SIGHUP.
  int wait() const {
    sigset_t all = set_;
    sigaddset(&all, SIGHUP);
    int signal = 0;
    sigwait(&all, &signal);
    return signal;
  }
  // True if a signal that ends the process arrives within `time`.
  bool arrived_within(std::chrono::microseconds time) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
    const timespec limit{seconds.count(), std::chrono::nanoseconds(time - seconds).count()};
    return sigtimedwait(&set_, nullptr, &limit) > 0;
  }

 private:
  sigset_t set_;  // signals that end the process
};

void log_rows_left_out(const Log& log, std::uint64_t rows) {
  if (rows == 0) return;
  const std::vector<LogField> fields{{"rows", rows},
                                     {"why", "damaged, or imported with another model"},
                                     {"expected", "a data folder that was imported with this model"}};
  log(LogLevel::warning, "main", "rows_left_out", fields);
}

void log_damage(const Log& log, MetricRegistry& metrics, const std::string& damage) {
  if (damage.empty()) return;
  metrics.record(Metric::blocks_corrupt, 1);  // the number of lost blocks is unknown
  log(LogLevel::warning, "main", "store_set_aside", std::vector<LogField>{{"why", damage}});
}

void record_process(MetricRegistry& metrics) {
  const ProcessFigures process = process_figures();
  metrics.follow(Metric::process_cpu_seconds, process.cpu_seconds);
  for (const auto& [metric, amount] : {std::pair{Metric::process_resident_bytes, process.resident_bytes},
                                       {Metric::process_virtual_bytes, process.virtual_bytes},
                                       {Metric::process_open_files, process.open_files},
                                       {Metric::process_files_max, process.files_max},
                                       {Metric::process_threads, process.threads}})
    metrics.record(metric, static_cast<double>(amount));
  metrics.record(Metric::process_start_seconds, process.start_seconds);
}

LogOptions log_options(const Config& config, const std::string& name) {
  return {.least = log_level(config.text("node.log_level")),
          .node = name,
          .file = config.text("node.log_file"),
          .file_bytes_max = static_cast<std::uint64_t>(config.size_bytes("node.log_file_max")),
          .files_max = static_cast<std::size_t>(config.integer("node.log_files"))};
}

void log_no_items(const Log& log, const ServedModel& model) {
  std::vector<LogField> fields{
      {"where", features_location(model.config)},
      {"expected", "a catalog (troupe import or PUT /v1/items), or another node.data_dir"}};
  if (!model.name.empty()) fields.push_back({"model", model.name});
  log(LogLevel::warning, "main", "catalog_empty", fields);
}

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class ServingProcess {
 public:
  ServingProcess(ServingOptions serving, const Signals& signals)
      : serving_(std::move(serving)),
        signals_(signals),
        peers_(serving_.place.router, serving_.place.routers),
        log_(log_options(serving_.config, serving_.name)),
        exporter_(make_exporter()),
        shared_keys_(make_shared_keys()),
        box_(serving_.config, serving_.place, &metrics_, all_families(), log_, std::move(serving_.models)),
        host_(metrics_, log_),
        http_server_(
            make_http_config(),
            [this](Address to, Message message) {
              if (to.role == Role::router && !std::holds_alternative<StatusRequest>(message))
                to = connected_router(to);
              if (const auto of = captures_.find(to.node); of != captures_.end())
                of->second.on_request(message, now_us());
              host_.post(to, http_address(), std::move(message));
            },
            metrics_, log_) {
    log_damage(log_, metrics_, box_.store_damage());
    if (!box_.coordination_damage().empty())
      log_(LogLevel::error, "main", "coordination_set_aside", LogFields{{"why", box_.coordination_damage()}});
    if (box_.keeps_features())
      for (const auto& model : box_.models())
        open_control(model->config.text("node.data_dir"), model->store ? *model->store : *box_.store());
    for (const auto& model : box_.models()) {
      if (serving_.place.router) log_rows_left_out(log_, model->features->bad_records());
      if (serving_.place.router && model->features->items() == 0) log_no_items(log_, *model);
    }
    if (serving_.place.router) open_capture();
    if (serving_.cluster) join();
    box_.add_to(host_);
    host_.set_server(http_address(), [this](Address, Message answer) {
      auto* status = std::get_if<StatusReply>(&answer);
      if (status && status->role == Role::router && status->node == serving_.place.node)
        add_store_health(*status);
      for (auto& [node, capture] : captures_) capture.on_reply(answer);
      if (!reports_.take(answer)) http_server_.deliver(std::move(answer));
    });
  }
  // On every way out, stops requests first, then replies to an HTTP server that is being destroyed.
  ~ServingProcess() {
    if (membership_) membership_->stop();
    capture_socket_.reset();  // reads profiles
    if (shared_keys_) shared_keys_->stop();
    http_server_.close();
    grpc_.reset();
    if (box_.transport()) box_.transport()->stop();  // threads of the host call it
    host_.stop();
  }

  void run() {
    host_.start();
    if (membership_) follow_members();
    http_server_.open();
    if (shared_keys_)
      shared_keys_->start([this](SharedKeys::Keys keys) { http_server_.renew(std::move(keys)); });
    if (!serving_.config.text("grpc.listen").empty())
      grpc_ =
          std::make_unique<server::GrpcServer>(grpc_config(serving_.config, serving_.place, box_),
                                               [this](server::ServerCall call, server::OnServerReply then) {
                                                 http_server_.ask(std::move(call), std::move(then));
                                               });
    print_started();
    int signal = signals_.wait();
    for (; signal == SIGHUP; signal = signals_.wait()) reload();
    log_(LogLevel::info, "main", "stopping", std::vector<LogField>{{"signal", signal}});
    drain_and_stop();
  }

 private:
  Address http_address() const { return {serving_.place.node, Role::server}; }
  Address connected_router(Address router) const {
    const ModelActorIds actor_ids = box_.actor_ids();
    return {actor_ids.number(peers_.router(actor_ids.node_of(router.node)), actor_ids.model_of(router.node)),
            Role::router};
  }

  server::HttpServerConfig make_http_config() {
    server::HttpServerConfig http_server =
        http_config(serving_.config, serving_.place, box_, [this] { return peers_.obstacle(); });
    if (shared_keys_) http_server.keys = shared_keys_->keys();
    http_server.metrics = [this](MetricForm form) {
      record_process(metrics_);
      if (shared_keys_) metrics_.record(Metric::api_keys_age, shared_keys_->age_seconds());
      return box_.render_metrics(metrics_, form);
    };
    http_server.names = serving_.names;
    if (exporter_)
      http_server.on_sampled = [this](const server::ObservedRequest& request) { exporter_->take(request); };
    metrics_.record(Metric::build_info, 1, std::string(version()) + "\t" + std::string(commit()));
    return http_server;
  }

  std::unique_ptr<SpanExporter> make_exporter() {
    const std::string& url = serving_.config.text("telemetry.collector");
    return url.empty() ? nullptr
                       : std::make_unique<SpanExporter>(parse_collector(url), serving_.name, metrics_, log_);
  }

  std::unique_ptr<SharedKeys> make_shared_keys() {
    const std::string& place = serving_.config.text("http.api_keys");
    if (!keys_in_redis(place)) return nullptr;
    const std::chrono::microseconds refresh(serving_.config.duration_us("http.api_keys_refresh"));
    return std::make_unique<SharedKeys>(shared_keys_options(serving_.config, place), refresh, log_);
  }

  void add_store_health(StatusReply& router) {
    for (const auto& model : box_.models()) {
      const Store* store = model->store ? model->store.get() : box_.store();
      if (store && model->name == model_of(router)) add_health(store->health(), router.fields);
    }
  }

  // Some file systems have no sockets; a node can serve without backups.
  void open_control(const std::string& data_dir, Store& store) {
    try {
      controls_.push_back(std::make_unique<ControlSocket>(data_dir, store));
    } catch (const std::runtime_error& error) {
      log_(LogLevel::warning, "main", "no_control_socket", LogFields{{"why", error.what()}});
    }
  }

  // Captures requests that this node's HTTP server sends to this node's own routers.
  void open_capture() {
    std::vector<CapturedModel> models;
    for (const auto& model : box_.models())
      models.push_back({model->name, &captures_[model->number],
                        [&model] { return model->features->present_catalog(); },
                        [this, &model](const std::string& tenant, const std::string& user) {
                          return box_.find_profile(*model, tenant, user);
                        }});
    try {
      capture_socket_ =
          std::make_unique<CaptureSocket>(required_text(serving_.config, "node.data_dir"), std::move(models));
    } catch (const std::runtime_error& error) {
      log_(LogLevel::warning, "main", "no_control_socket", LogFields{{"why", error.what()}});
    }
  }

  void join() {
    ClusterOptions& cluster = *serving_.cluster;
    cluster.incarnation = box_.incarnation();
    Transport* transport = box_.transport();
    if (transport) cluster.greeting = transport->address();
    cluster.on_met = [this, transport](NodeId node, Incarnation incarnation, const Bytes& address) {
      peers_.meet(node);
      if (transport && !address.empty()) transport->meet(node, incarnation, address);
    };
    cluster.on_lost = [this, transport](NodeId node, Incarnation incarnation) {
      peers_.lose(node);
      if (transport) transport->lose(node, incarnation);
    };
    host_.join(cluster);
    if (!serving_.place.is_alone())
      membership_ = std::make_unique<MembershipWatcher>(box_.coordination(), serving_.place.node,
                                                        serving_.file, serving_.place.members,
                                                        kept_members(serving_.config, box_.incarnation()));
  }

  // Updates the nodes and actors that the HTTP server shows.
  void publish_members(const std::vector<PeerAddress>& peers) {
    std::map<NodeId, std::string> names{{serving_.place.node, serving_.name}};
    for (const PeerAddress& peer : peers) names[peer.node] = peer.name;
    NodeRoles place = serving_.place;
    place.routers = membership_->there(NodeRole::router);
    place.cache_metas = membership_->there(NodeRole::cache_meta);
    place.workers = membership_->there(NodeRole::worker);
    http_server_.follow(box_.actors(place), std::move(names));
  }

  void follow_members() {
    membership_->start(
        {.on_peers =
             [this](std::vector<PeerAddress> peers) {
               peers_.follow(membership_->staying(NodeRole::router));
               publish_members(peers);
               host_.follow(std::move(peers));
             },
         .on_leave =
             [this] {
               if (ending_.exchange(true)) return;  // a signal came first; running work is draining already
               log_(LogLevel::warning, "main", "leaving",
                    LogFields{{"why", "the cluster's members mark this node as leaving (troupe leave)"}});
               ::kill(::getpid(), SIGTERM);
             },
         .on_fault =
             [this](const std::string& why) {
               log_(LogLevel::error, "main", "bad_members", LogFields{{"why", why}});
             },
         .on_not_kept =
             [this](const std::string& why) {
               log_(LogLevel::error, "main", "members_not_kept",
                    LogFields{{"why", why}, {"expected", "a writable data folder"}});
             },
         .has_connected =
             [this](const std::vector<PeerAddress>& peers) {
               return std::ranges::all_of(peers,
                                          [this](const PeerAddress& peer) { return peers_.has(peer.node); });
             }});
  }

  // Reloads what can change without a restart.
  void reload() {
    std::string level = serving_.config.text("node.log_level"), fault;
    try {
      if (serving_.reload) level = serving_.reload().text("node.log_level");
    } catch (const std::exception& error) {
      fault = error.what();
    }
    const std::string bad_certificates = host_.renew_certificates(), http_fault = renew_http_server();
    serving_.config.set("node.log_level", level);
    log_.set_least(log_level(level));
    for (const std::string& why : {fault, bad_certificates, http_fault})
      if (!why.empty()) log_(LogLevel::error, "main", "reload_failed", std::vector<LogField>{{"why", why}});
    const bool has_certificates = serving_.cluster && serving_.cluster->tls;
    log_(LogLevel::warning, "main", "reloaded",
         std::vector<LogField>{{"log_level", level},
                               {"certificates", !has_certificates          ? "none"
                                                : bad_certificates.empty() ? "read again, for new connections"
                                                                           : "as before"},
                               {"door", http_fault.empty() ? "certificate and keys read again" : "as before"},
                               {"other_knobs", "with the next start"}});
  }

  // Reads again the files that were named at the start. Returns "" or the error, with which nothing
  // changes. Keys of a Redis come from their thread alone: keys read here might be older than those
  // that the thread gave the HTTP server meanwhile, and would stay.
  std::string renew_http_server() {
    try {
      const server::ServerCertificate certificate = http_certificate(serving_.config);
      shared_keys_ ? http_server_.renew(certificate)
                   : http_server_.renew(certificate, http_keys(serving_.config));
      if (grpc_) grpc_->renew(certificate);
      if (shared_keys_) shared_keys_->read_now();
      return "";
    } catch (const std::exception& error) {
      return std::string("HTTP server: ") + error.what();
    }
  }

  void print_started() const {
    const bool tls = !serving_.config.text("http.tls_certificate").empty();
    std::cout << "troupe serves on " << (tls ? "https://" : "http://") << serving_.config.text("http.address")
              << ":" << http_server_.port();
    if (grpc_) std::cout << ", over gRPC on port " << grpc_->port() << ",";
    if (serving_.cluster)
      std::cout << " as node " << serving_.name << " (" << role_words(serving_.place) << "), port "
                << host_.port();
    std::cout << " with " << box_.executors() << " executors, " << box_.pool_pages() << " pages";
    if (!box_.has_names() && serving_.place.router) std::cout << " and " << box_.items() << " items";
    if (box_.has_names())
      for (const auto& model : box_.models())
        std::cout << "\n  " << model->name << " serves " << model->serves()
                  << (model->features ? " with " + std::to_string(model->features->items()) + " items" : "");
    std::cout << "\n" << std::flush;
    if (!serving_.port_file.empty())
      write_output(serving_.port_file, std::to_string(http_server_.port()) + "\n");
  }

  void drain_and_stop() {
    ending_ = true;
    http_server_.retire();
    const std::chrono::microseconds notice(serving_.config.duration_us("node.drain_notice"));
    const bool hurried = (notice.count() > 0 && signals_.arrived_within(notice)) || !drain_all();
    if (!membership_ || membership_->leaves_since() == 0) return;
    const bool whole =
        !hurried && (!serving_.place.worker || migrate_blocks());  // only workers have blocks to migrate
    membership_->stop();
    const std::string fault = membership_->end();
    log_(fault.empty() ? LogLevel::info : LogLevel::error, "main", "left",
         LogFields{{"handed_on", whole ? "yes" : "no"}, {"why", fault.empty() ? "asked to" : fault}});
  }

  // Drains the roles one after the other: the router's running requests need the worker, and both
  // need the leading cache-meta. Returns false if another signal asks for an immediate end.
  bool drain_all() {
    const auto limit = std::chrono::steady_clock::now() +
                       std::chrono::microseconds(serving_.config.duration_us("node.drain_limit"));
    const NodeRoles& place = serving_.place;
    const std::pair<bool, Role> order[] = {{place.router, Role::router},
                                           {place.worker, Role::inference_worker}};
    for (const auto& [is_here, role] : order)
      for (const auto& model : box_.models())
        if (is_here && !drain({model->number, role}, model->name, limit)) return false;
    return !place.cache_meta || drain({place.node, Role::cache_meta}, "", limit);
  }

  // Migrates this node's blocks: routers copy item blocks to their new workers, and the KV-cache
  // worker offers user blocks to the users' new homes. Returns true if all are migrated; another
  // signal ends the wait.
  bool migrate_blocks() {
    const auto begin = std::chrono::steady_clock::now();
    const auto after = [&](const char* setting) {
      return begin + std::chrono::microseconds(serving_.config.duration_us(setting));
    };
    bool whole = false;
    while (!(whole = is_migrated(begin)) || std::chrono::steady_clock::now() < after("node.leave_time_min")) {
      if (std::chrono::steady_clock::now() >= after("node.leave_time_max")) break;
      for (const NodeId router : membership_->staying(NodeRole::router))
        for (const auto& model : box_.models())
          host_.post({box_.actor_ids().number(router, model->place), Role::router}, http_address(),
                     StatusRequest{next_drain_++});
      if (serving_.place.worker)
        host_.post({serving_.place.node, Role::kv_worker}, http_address(),
                   Drain{next_drain_++, true, workers_that_stay()});
      if (signals_.arrived_within(leave_question)) break;
    }
    return whole;
  }

  // Returns the workers that stay in the cluster and are connected.
  std::vector<NodeId> workers_that_stay() const {
    std::vector<NodeId> nodes = membership_->staying(NodeRole::worker);
    std::erase_if(nodes, [this](NodeId node) { return !peers_.has(node); });
    return nodes;
  }

  // For the first 10 s, also awaits routers that are not connected: they may be about to start.
  bool is_migrated(std::chrono::steady_clock::time_point since) {
    std::vector<std::string> models;
    for (const auto& model : box_.models()) models.push_back(model->name);
    const bool awaits_all = std::chrono::steady_clock::now() < since + router_start_time;
    const bool users = !serving_.place.worker || reports_.have(Role::kv_worker, "");
    return users &&
           reports_.handed_on(membership_->staying(NodeRole::router), models, membership_->leaves_since(),
                              [&](NodeId router) { return awaits_all || peers_.has(router); });
  }

  // Waits until the actor has drained or `limit` has passed. Returns false if another signal came.
  bool drain(Address actor, const std::string& model, std::chrono::steady_clock::time_point limit) {
    while (!reports_.have(actor.role, model) && std::chrono::steady_clock::now() < limit) {
      host_.post(actor, http_address(), Drain{next_drain_++, true});
      if (signals_.arrived_within(drain_question)) return false;
    }
    return true;
  }

  ServingOptions serving_;
  const Signals& signals_;
  ConnectedPeers peers_;
  Log log_;
  MetricRegistry metrics_;
  std::unique_ptr<SpanExporter> exporter_;   // null: no spans are sent
  std::unique_ptr<SharedKeys> shared_keys_;  // null: keys are in a file, or there are none
  LocalNode box_;
  DrainReports reports_;
  RequestId next_drain_ = first_own_id;
  std::atomic<bool> ending_ = false;         // draining, or about to drain
  std::map<NodeId, TraceCapture> captures_;  // by actor id of the model's router
  CafHost host_;
  server::HttpServer http_server_;
  std::unique_ptr<server::GrpcServer> grpc_;       // null: no gRPC
  std::unique_ptr<MembershipWatcher> membership_;  // null: a single node
  std::vector<std::unique_ptr<ControlSocket>> controls_;
  std::unique_ptr<CaptureSocket> capture_socket_;
};

}  // namespace

// Blocks of at least this size are mapped separately and return to the system when freed. Otherwise
// a few large requests raise glibc's dynamic threshold, and the process keeps its peak size.
constexpr int large_block_bytes = 128 << 10;

int serve_until_signal(ServingOptions serving) {
  mallopt(M_MMAP_THRESHOLD, large_block_bytes);
  const Signals signals;
  ServingProcess(std::move(serving), signals).run();
  return 0;
}

}  // namespace troupe::deploy
