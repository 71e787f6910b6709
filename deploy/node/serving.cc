// Runs a node with its server of HTTP and gRPC from the start until a signal. Reloads log level,
// certificates and keys and reopens its logs at SIGHUP, and drains the node at SIGTERM.
#include "deploy/node/serving.h"

#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <mutex>

#include "deploy/data/text_file.h"
#include "deploy/data/version.h"
#include "deploy/node/control_socket.h"
#include "deploy/node/feature_ownership.h"
#include "deploy/node/node_drain.h"
#include "deploy/node/node_watch.h"
#include "deploy/node/request_forwarder.h"
#include "deploy/node/server_configs.h"
#include "deploy/node/service_notifier.h"
#include "deploy/node/shared_keys.h"
#include "deploy/node/signals.h"
#include "deploy/node/standard_files.h"
#include "deploy/node/store_reports.h"
#include "deploy/node/version_names.h"
#include "deploy/tracing/capture_socket.h"
#include "deploy/tracing/span_exporter.h"
#include "runtime/config/log.h"
#include "runtime/network/caf_host.h"
#include "runtime/profiling/process_figures.h"
#include "runtime/profiling/process_limits.h"
#include "server/http/http_server.h"

namespace troupe::deploy {
namespace {

using LogFields = std::vector<LogField>;

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

LogOptions log_options(const NodeSettings& settings, const std::string& name) {
  return {.least = settings.log_level,
          .node = name,
          .file = settings.log_file,
          .file_bytes_max = settings.log_file_max,
          .files_max = settings.log_files};
}

// Returns the folders that this process writes to and whose disks may fill.
std::vector<WatchedFolder> watched_folders(const NodeSettings& settings) {
  std::vector<WatchedFolder> folders;
  if (!settings.data_dir.empty()) folders.push_back({"data", settings.data_dir});
  if (!settings.log_file.empty())
    folders.push_back({"log", std::filesystem::path(settings.log_file).parent_path()});
  return folders;
}

void log_no_items(const Log& log, const ServedModel& model) {
  std::vector<LogField> fields{
      {"where", features_location(model.config)},
      {"expected", "a catalog (troupe import or PUT /v1/items), or another node.data_dir"}};
  if (!model.name.empty()) fields.push_back({"model", model.name});
  log(LogLevel::warning, "main", "catalog_empty", fields);
}

std::vector<std::string> names_of_models(const LocalNode& node) {
  std::vector<std::string> names;
  for (const auto& model : node.models()) names.push_back(model->name);
  return names;
}

VersionNames::Folders version_folders(const LocalNode& node) {
  VersionNames::Folders folders;
  for (const auto& model : node.models()) folders.push_back(model->versions);
  return folders;
}

constexpr std::chrono::seconds leave_log_interval{10};
// Time that a leaving node asks its service manager for with each report of its progress.
constexpr std::chrono::microseconds leave_extension{60'000'000};

// Tells what the surroundings of the process leave it, where that is less than the machine.
void log_limits(const Log& log) {
  const CpuLimits cores = cpu_limits();
  const std::optional<MemoryLimit> memory = memory_limit();
  if (cores.reason().empty() && !memory) return;
  LogFields fields{{"cores", cores.usable()}, {"cores_of_machine", cores.machine}};
  if (!cores.reason().empty()) fields.push_back({"because_of", cores.reason()});
  if (memory) {
    fields.push_back({"memory_limit", memory->bytes});
    fields.push_back({"memory_free", memory->free()});
    fields.push_back({"memory_file", memory->file});
  }
  log(LogLevel::info, "main", "limits", fields);
}

// Puts an IPv6 address into brackets, as URLs have it.
std::string url_host(const std::string& address) {
  return address.find(':') == address.npos ? address : "[" + address + "]";
}

class ServingProcess {
 public:
  ServingProcess(ServingOptions serving, const Signals& signals)
      : serving_(std::move(serving)),
        signals_(signals),
        peers_(serving_.place.router, serving_.place.routers),
        log_(log_options(serving_.config.node, serving_.name)),
        watch_(watched_folders(serving_.config.node), metrics_, log_),
        exporter_(make_exporter()),
        shared_keys_(make_shared_keys()),
        box_(serving_.config, serving_.place, &metrics_, all_families(), log_, std::move(serving_.models)),
        forwarder_(box_.actor_ids(), peers_,
                   [this](Address to, Message message) { post(to, std::move(message)); }),
        version_names_(
            version_folders(box_), box_.actor_ids(),
            [this](Address to, Message message) { forwarder_.forward(to, std::move(message)); },
            [this](Message answer) { http_server_.deliver(std::move(answer)); }),
        drain_(
            serving_.place, names_of_models(box_),
            [this](Address to, Message message) { post(to, std::move(message)); },
            [this](std::chrono::microseconds time) { return signals_.arrived_within(time); }),
        host_(metrics_, log_),
        http_server_(
            make_http_config(),
            [this](Address to, Message message) { version_names_.forward(to, std::move(message)); }, metrics_,
            log_) {
    log_damage(log_, metrics_, box_.store_damage());
    if (!box_.coordination_damage().empty())
      log_(LogLevel::error, "main", "coordination_set_aside", LogFields{{"why", box_.coordination_damage()}});
    if (box_.keeps_features())
      for (const auto& model : box_.models())
        open_control(model->config.node.data_dir, model->store ? *model->store : *box_.store());
    for (const auto& model : box_.models()) {
      if (serving_.place.router) log_rows_left_out(log_, model->features->bad_records());
      if (serving_.place.router && model->features->items() == 0) log_no_items(log_, *model);
    }
    if (serving_.place.router) open_capture();
    log_limits(log_);
    if (serving_.cluster) name_nodes(std::map(serving_.names)), join();
    box_.add_to(host_, [this] { return watch_.degraded(); });
    host_.set_server(http_address(), [this](Address, Message answer) {
      auto* status = std::get_if<StatusReply>(&answer);
      if (status && status->role == Role::router && status->node == serving_.place.node)
        add_store_health(*status);
      if (status) version_names_.add_names(*status);
      forwarder_.note_reply(answer);
      if (!drain_.take(answer)) http_server_.deliver(std::move(answer));
    });
  }
  // On every way out, stops requests first, then replies to an HTTP server that is being destroyed.
  ~ServingProcess() {
    notifier_.stop();
    if (membership_) membership_->stop();
    capture_socket_.reset();  // reads profiles
    if (shared_keys_) shared_keys_->stop();
    version_names_.stop();
    http_server_.close();
    if (box_.transport()) box_.transport()->stop();  // threads of the host call it
    host_.stop();
  }

  void run() {
    watch_certificates(true, true);
    watch_.start();
    peers_.start(ConnectedPeers::Clock::now());
    host_.start();
    if (membership_) follow_members();
    http_server_.open();
    if (shared_keys_)
      shared_keys_->start([this](SharedKeys::Keys keys) { http_server_.renew(std::move(keys)); });
    print_started();
    notifier_.ready([this] { http_server_.run([this] { notifier_.alive(); }); });
    int signal = signals_.wait();
    for (; signal == SIGHUP; signal = signals_.wait()) {
      notifier_.reloading();
      reload();
      notifier_.reloaded();
    }
    notifier_.stopping();
    log_(LogLevel::info, "main", "stopping", std::vector<LogField>{{"signal", signal}});
    drain_and_stop();
  }

 private:
  Address http_address() const { return {serving_.place.node, Role::server}; }
  void post(Address to, Message message) { host_.post(to, http_address(), std::move(message)); }

  server::HttpServerConfig make_http_config() {
    server::HttpServerConfig http_server =
        http_config(serving_.config, serving_.place, box_, [this] { return peers_.obstacle(); });
    if (shared_keys_) http_server.keys = shared_keys_->keys();
    http_server.degraded = [this] { return watch_.degraded(); };
    http_server.metrics = [this](MetricForm form) {
      record_process(metrics_);
      metrics_.follow(Metric::log_lines_dropped, static_cast<double>(log_.dropped()));
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
    const std::string& url = serving_.config.telemetry.collector;
    return url.empty() ? nullptr
                       : std::make_unique<SpanExporter>(parse_collector(url), serving_.name, metrics_, log_);
  }

  std::unique_ptr<SharedKeys> make_shared_keys() {
    const std::string& place = serving_.config.http.api_keys;
    if (!keys_in_redis(place)) return nullptr;
    const std::chrono::microseconds refresh(serving_.config.http.api_keys_refresh.us);
    return std::make_unique<SharedKeys>(shared_keys_options(serving_.config, place), refresh, log_,
                                        keys_command(serving_.config, place));
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
      models.push_back({model->name, &forwarder_.capture_of(model->number),
                        [&model] { return model->features->present_catalog(); },
                        [this, &model](const std::string& tenant, const std::string& user) {
                          return box_.find_profile(*model, tenant, user);
                        }});
    try {
      capture_socket_ =
          std::make_unique<CaptureSocket>(required_data_dir(serving_.config.node), std::move(models));
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
    cluster.on_away = [this](NodeId node) { peers_.miss(node); };
    cluster.on_lost = [this, transport](NodeId node, Incarnation incarnation) {
      peers_.lose(node);
      if (transport) transport->lose(node, incarnation);
    };
    LinkTransport* const pages = box_.link_transport();
    if (pages)
      cluster.on_pages = [pages](NodeId node, Incarnation incarnation, PageSocket socket) {
        pages->accept(node, incarnation, std::move(socket));
      };
    host_.join(cluster);
    if (pages)  // until it stops, which is before the host ends
      pages->dial_with([this](NodeId node, Incarnation incarnation, const Bytes&, auto take) {
        host_.open_pages(node, incarnation, std::move(take));
      });
    if (!serving_.place.is_alone())
      membership_ = std::make_unique<MembershipWatcher>(box_.coordination(), serving_.place.node,
                                                        serving_.file, serving_.place.members,
                                                        kept_members(serving_.config, box_.incarnation()));
  }

  std::string node_name(NodeId node) const {
    const std::lock_guard lock(names_mutex_);
    const auto name = serving_.names.find(node);
    return name == serving_.names.end() ? std::to_string(node) : name->second;
  }

  // Makes the log name nodes, also where it has the number of an actor of one of several models.
  void name_nodes(const std::map<NodeId, std::string>& names) {
    std::map<NodeId, std::string> known;
    const ModelActorIds ids = box_.actor_ids();
    for (const auto& [node, name] : names)
      for (std::uint32_t model = 0; model < ids.models; ++model) known[ids.number(node, model)] = name;
    log_.name_nodes(std::move(known));
    const std::lock_guard lock(names_mutex_);
    serving_.names = names;
  }

  // Updates the nodes and actors that the HTTP server shows.
  void publish_members(const std::vector<PeerAddress>& peers) {
    std::map<NodeId, std::string> names{{serving_.place.node, serving_.name}};
    for (const PeerAddress& peer : peers) names[peer.node] = peer.name;
    NodeRoles place = serving_.place;
    place.routers = membership_->there(NodeRole::router);
    place.cache_metas = membership_->there(NodeRole::cache_meta);
    place.workers = membership_->there(NodeRole::worker);
    name_nodes(names);
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
    LogLevel& level = serving_.config.node.log_level;
    std::string fault;
    try {
      if (serving_.reload) level = serving_.reload().node.log_level;
    } catch (const std::exception& error) {
      fault = error.what();
    }
    const std::string bad_certificates = host_.renew_certificates(), http_fault = renew_http_server();
    watch_certificates(bad_certificates.empty(), http_fault.empty());
    log_.set_least(level);
    const std::string log_fault = reopen_logs();
    for (const std::string& why : {fault, bad_certificates, http_fault, log_fault})
      if (!why.empty()) log_(LogLevel::error, "main", "reload_failed", std::vector<LogField>{{"why", why}});
    const bool has_certificates = serving_.cluster && serving_.cluster->tls;
    log_(LogLevel::warning, "main", "reloaded",
         std::vector<LogField>{{"log_level", std::string(name_of(level))},
                               {"certificates", !has_certificates          ? "none"
                                                : bad_certificates.empty() ? "read again, for new connections"
                                                                           : "as before"},
                               {"door", http_fault.empty() ? "certificate and keys read again" : "as before"},
                               {"other_knobs", "with the next start"}});
  }

  // Opens the log file and redirected standard streams by their names, which logrotate may have given to
  // new files. Returns "" or the errors; what failed stays as it was.
  std::string reopen_logs() {
    std::string fault = standard_files_.reopen();
    try {
      log_.reopen();
    } catch (const LogError& error) {
      fault += (fault.empty() ? "" : "; ") + std::string(error.what());
    }
    return fault;
  }

  // Tells the watch which certificates are in use now; `nodes` and `http` say which files were just read.
  void watch_certificates(bool nodes, bool http) {
    const auto& tls = serving_.cluster ? serving_.cluster->tls : std::nullopt;
    try {
      if (nodes && tls) watch_.set("authority", validity_of(read_pem(tls->authority)));
      if (nodes && tls) watch_.set("node", validity_of(read_pem(tls->certificate)));
      const std::string& chain = serving_.config.http.tls_certificate;
      if (http && !chain.empty()) watch_.set("http", validity_of(read_pem(chain)));
    } catch (const std::exception& error) {  // it was replaced in this moment; SIGHUP reads it again
      log_(LogLevel::warning, "main", "certificate_unread", LogFields{{"why", error.what()}});
    }
  }

  // Reads again the files that were named at the start. Returns "" or the error, with which nothing
  // changes. Keys of a Redis come from their thread alone: keys read here might be older than those
  // that the thread gave the HTTP server meanwhile, and would stay.
  std::string renew_http_server() {
    try {
      const server::ServerCertificate certificate = http_certificate(serving_.config.http);
      shared_keys_ ? http_server_.renew(certificate)
                   : http_server_.renew(certificate, http_keys(serving_.config.http));
      if (shared_keys_) shared_keys_->read_now();
      return "";
    } catch (const std::exception& error) {
      return std::string("HTTP server: ") + error.what();
    }
  }

  void print_started() const {
    const bool tls = !serving_.config.http.tls_certificate.empty();
    std::cout << "troupe serves on " << (tls ? "https://" : "http://") << url_host(http_server_.address())
              << ":" << http_server_.port();
    if (http_server_.rpc_port() > 0) std::cout << ", over gRPC on port " << http_server_.rpc_port() << ",";
    if (serving_.cluster)
      std::cout << " as node " << serving_.name << " (" << role_words(serving_.place) << "), port "
                << host_.port();
    std::cout << " with " << box_.executors() << " executors, " << box_.pool_pages() << " pages";
    if (!box_.has_names() && serving_.place.router) std::cout << " and " << box_.items() << " items";
    const CpuLimits cores = cpu_limits();
    if (const std::string reason = cores.reason(); !reason.empty())
      std::cout << ", on " << cores.usable() << " of " << cores.machine << " cores because of " << reason;
    if (box_.has_names())
      for (const auto& model : box_.models())
        std::cout << "\n  " << model->name << " serves " << model->serves()
                  << (model->features ? " with " + std::to_string(model->features->items()) + " items" : "");
    std::cout << "\n" << std::flush;
    std::cout.clear();  // whoever started the node may have stopped reading
    if (!serving_.port_file.empty())
      write_output(serving_.port_file, std::to_string(http_server_.port()) + "\n");
  }

  // Tells `troupe leave` and `troupe members` what is waited for, and the log from time to time. A leave
  // takes up to node.leave_time_max, so the service manager must not end the process as after other stops.
  void report_leave(const LeaveProgress& progress) {
    membership_->publish(json_of(progress).dump());
    std::chrono::microseconds time = leave_extension;
    if (progress.phase == LeaveProgress::Phase::drains)
      time += std::chrono::microseconds(serving_.config.node.drain_notice.us +
                                        serving_.config.node.drain_limit.us);
    notifier_.extend(time, "leaves: " + text_of(progress));
    const auto now = std::chrono::steady_clock::now();
    if (progress.phase != LeaveProgress::Phase::migrates || now < leave_logged_ + leave_log_interval) return;
    leave_logged_ = now;
    log_(LogLevel::info, "main", "leave_waits", LogFields{{"why", text_of(progress)}});
  }

  NodeDrain::ClusterView cluster_view() {
    return {.staying = [this](NodeRole role) { return membership_->staying(role); },
            .is_connected = [this](NodeId node) { return peers_.has(node); },
            .leaves_since = [this] { return membership_->leaves_since(); },
            .name_of = [this](NodeId node) { return node_name(node); },
            .report = [this](const LeaveProgress& progress) { report_leave(progress); }};
  }

  void drain_and_stop() {
    ending_ = true;
    if (membership_ && membership_->leaves_since() != 0) report_leave({});
    http_server_.retire();
    const std::chrono::microseconds notice(serving_.config.node.drain_notice.us);
    const bool hurried = (notice.count() > 0 && signals_.arrived_within(notice)) ||
                         !drain_.drain_all(serving_.config.node.drain_limit);
    if (!membership_ || membership_->leaves_since() == 0) return;
    const bool whole = !hurried && (!serving_.place.worker ||  // only workers have blocks to migrate
                                    drain_.migrate_blocks(cluster_view(), serving_.config.node));
    membership_->stop();
    const LeaveProgress last{.phase = LeaveProgress::Phase::left, .whole = whole};
    const std::string fault = membership_->end(json_of(last).dump());
    log_(fault.empty() ? LogLevel::info : LogLevel::error, "main", "left",
         LogFields{{"handed_on", whole ? "yes" : "no"}, {"why", fault.empty() ? "asked to" : fault}});
  }

  ServingOptions serving_;
  mutable std::mutex names_mutex_;  // guards serving_.names once the members are followed
  const StandardFiles standard_files_;
  const Signals& signals_;
  ConnectedPeers peers_;
  Log log_;
  MetricRegistry metrics_;
  ServiceNotifier notifier_;  // the HTTP server's thread uses it, so it outlives the server
  NodeWatch watch_;
  std::unique_ptr<SpanExporter> exporter_;   // null: no spans are sent
  std::unique_ptr<SharedKeys> shared_keys_;  // null: keys are in a file, or there are none
  LocalNode box_;
  std::atomic<bool> ending_ = false;                    // draining, or about to drain
  std::chrono::steady_clock::time_point leave_logged_;  // when `leave_waits` was logged last
  RequestForwarder forwarder_;
  VersionNames version_names_;
  NodeDrain drain_;
  CafHost host_;
  server::HttpServer http_server_;
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
