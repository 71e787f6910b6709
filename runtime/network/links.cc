// Keeps one connection to every other node of the cluster. It accepts or opens connections,
// checks who joins, reconnects after a loss, delivers messages, and tells the actors which peers
// are lost.
#include "runtime/network/links.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "runtime/network/certificates.h"
#include "runtime/network/link_connection.h"
#include "runtime/network/reconnect_pause.h"
#include "runtime/network/unjoined_peers.h"

namespace troupe {

namespace asio = boost::asio;
using link::Connection;
using link::Frame;
using link::Join;
using link::Kind;
using Tcp = Connection::Tcp;
using Error = boost::system::error_code;
template <class T>
using Task = Connection::Task<T>;
using ConnectionPtr = std::shared_ptr<Connection>;

namespace {

constexpr auto quietly = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds join_limit{3'000}, pause_min{50}, pause_max{400};
constexpr std::chrono::milliseconds first_byte_limit{1'000};  // peers send at once after connecting
constexpr std::chrono::seconds names_pause{30}, crowd_pause{10};
constexpr int heartbeats_to_death = 5;
constexpr std::size_t unknown_max = 64;

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string who(NodeId node) { return "node " + std::to_string(node); }

asio::ssl::context make_security(const TlsFiles& files) {
  asio::ssl::context security(asio::ssl::context::tls);
  SSL_CTX_set_min_proto_version(security.native_handle(), TLS1_3_VERSION);
  // Otherwise OpenSSL would ask for a passphrase on the terminal, and wait.
  SSL_CTX_set_default_passwd_cb(security.native_handle(), [](char*, int, int, void*) { return 0; });
  const auto check = [](const Error& error, const char* what, const std::string& file) {
    if (error)
      throw std::runtime_error(file + ": " + error.message() + "; expected " + what + " in PEM form");
  };
  Error error;
  const std::string authority = read_pem(files.authority), certificate = read_pem(files.certificate);
  const std::string key = read_pem(files.key);
  check(security.add_certificate_authority(asio::buffer(authority), error), "the authority's certificate",
        files.authority);
  check(security.use_certificate_chain(asio::buffer(certificate), error), "a certificate", files.certificate);
  check(security.use_private_key(asio::buffer(key), asio::ssl::context::pem, error),
        "the certificate's key, without a passphrase,", files.key);
  security.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  return security;
}

}  // namespace

void check_tls_files(const TlsFiles& files) { make_security(files); }

struct Links::World {
  struct Peer {
    PeerAddress address;
    ConnectionPtr connection;  // while joined
    Incarnation incarnation = 0;
    std::string last_trouble;
    std::chrono::steady_clock::time_point reported;  // time of the last report that it is unconnected
    bool called = false;                             // a task keeps calling it
    bool member = true;                              // false = it has left
  };

  World(ClusterOptions options, Inside inside, const Journal& journal);
  ~World() { close(); }

  void open();
  void finish_sending();
  void close();
  void route(Address to, std::shared_ptr<const Bytes> envelope);

  Task<void> accept();
  Task<void> learn_addresses();
  void follow(const std::vector<PeerAddress>& fresh);
  void start_connecting();
  void take(Tcp::socket socket);
  Task<void> await_first_byte(std::shared_ptr<Tcp::socket> socket, link::UnjoinedPeers::Ticket ticket);
  Task<void> accept_join(ConnectionPtr connection, link::UnjoinedPeers::Ticket ticket);
  Task<std::string> read_join(ConnectionPtr connection, Join& join);
  Task<void> keep_connecting(NodeId node);
  Task<std::string> call(NodeId node);
  Task<void> call_for_pages(NodeId node, Incarnation incarnation, TakeSocket take);
  Task<std::string> stay(ConnectionPtr connection, Join join);

  ConnectionPtr make_connection(Tcp::socket socket);
  Join own_join(NodeId wanted) const;
  std::string validate(const Join& join) const;
  std::string validate_pages(const Join& join) const;
  std::string validate(const Join& join, const Connection& connection, bool called) const;
  void meet(Peer& peer, const Join& join, ConnectionPtr connection);
  void lose(Peer& peer, const std::string& why);
  void report_unconnected(NodeId node, std::chrono::steady_clock::time_point& reported);
  void log_trouble(Peer& peer, const std::string& why);
  void log(LogLevel level, const char* event, std::vector<LogField> fields) const;

  const ClusterOptions options;
  const Inside inside;
  const Journal& journal;
  std::optional<asio::ssl::context> security;
  std::map<NodeId, Peer> peers;
  // Numbers that are not peers, and when that was last reported.
  std::map<NodeId, std::chrono::steady_clock::time_point> unknown;
  link::UnjoinedPeers unjoined;
  std::chrono::steady_clock::time_point crowd_logged;
  std::string last_refusal;
  std::uint64_t learning = 0;
  std::uint16_t port = 0;
  asio::io_context io{1};  // is destroyed before the members that its tasks use
  std::optional<Tcp::acceptor> acceptor;
  std::thread thread;
};

Links::World::World(ClusterOptions p, Inside i, const Journal& j)
    : options(std::move(p)), inside(std::move(i)), journal(j) {
  const std::string fault = troupe::validate(options);
  if (!fault.empty()) throw std::runtime_error("cluster: " + fault);
  if (options.tls) security.emplace(make_security(*options.tls));
  for (const PeerAddress& peer : options.peers) peers[peer.node].address = peer;
}

void Links::World::open() {
  try {
    const Tcp::endpoint endpoint(asio::ip::make_address(options.address), options.port);
    acceptor.emplace(io, endpoint, true);
    port = acceptor->local_endpoint().port();
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error("cannot listen on " + options.address + " port " + std::to_string(options.port) +
                             ": " + error.code().message() +
                             "; expected an address of this host and a free port");
  }
  asio::co_spawn(io, learn_addresses(), link::expect_no_exception);
  asio::co_spawn(io, accept(), link::expect_no_exception);
  start_connecting();
  thread = std::thread([this] { io.run(); });
}

void Links::World::start_connecting() {
  for (auto& [node, peer] : peers)
    if (node < options.node && peer.member && !std::exchange(peer.called, true))
      asio::co_spawn(io, keep_connecting(node), link::expect_no_exception);
}

// A former peer keeps its entry with its last incarnation: tasks refer to it, and its number is
// never reused for another node.
void Links::World::follow(const std::vector<PeerAddress>& fresh) {
  if (fresh.size() > peers_max)
    return log(LogLevel::error, "bad_members",
               {{"why", "there are " + std::to_string(fresh.size()) + " peers; expected at most " +
                            std::to_string(peers_max)}});
  for (auto& [node, peer] : peers) {
    peer.member =
        std::ranges::any_of(fresh, [id = node](const PeerAddress& address) { return address.node == id; });
    if (!peer.member && peer.connection) lose(peer, "it is no longer a member");
  }
  std::set<NodeId> seen{options.node};
  for (const PeerAddress& address : fresh) {
    std::string fault = troupe::validate(options, address);
    if (fault.empty() && !seen.insert(address.node).second) fault = who(address.node) + " is listed twice";
    if (!fault.empty()) {
      log(LogLevel::error, "bad_members", {{"why", fault}});
      continue;
    }
    unknown.erase(address.node);
    Peer& peer = peers[address.node];
    peer.address = address;
    peer.member = true;
  }
  start_connecting();
  asio::co_spawn(io, learn_addresses(), link::expect_no_exception);
}

// Waits up to a heartbeat until all messages are sent: the last one is often an answer that a
// client waits for.
void Links::World::finish_sending() {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::microseconds(options.heartbeat.us);
  for (bool quiet = false; !quiet && std::chrono::steady_clock::now() < limit;) {
    std::promise<bool> answer;
    asio::post(io, [&] {
      answer.set_value(std::ranges::all_of(peers, [](const auto& entry) {
        return !entry.second.connection || entry.second.connection->is_quiet();
      }));
    });
    quiet = answer.get_future().get();
    if (!quiet) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// The tasks stay suspended and are destroyed with `io`.
void Links::World::close() {
  if (thread.joinable()) finish_sending();
  io.stop();
  if (thread.joinable()) thread.join();
  acceptor.reset();
  unjoined.clear();  // their sockets belong to `io`, which is destroyed before
  for (auto& [node, peer] : peers) peer.connection.reset();
}

ConnectionPtr Links::World::make_connection(Tcp::socket socket) {
  auto connection = std::make_shared<Connection>(std::move(socket), security ? &*security : nullptr);
  connection->start(join_limit);
  return connection;
}

// ---- incoming connections ----

Task<void> Links::World::accept() {
  asio::steady_timer pause(io);
  for (;;) {
    auto [error, socket] = co_await acceptor->async_accept(quietly);
    if (error) {  // most likely too many open files
      log(LogLevel::error, "accept_failed", {{"why", error.message()}});
      pause.expires_after(pause_max);
      co_await pause.async_wait(quietly);
    } else {
      take(std::move(socket));
    }
  }
}

// Resolves the addresses of peers, whose slots other connections cannot take. A name may move, so
// names are resolved again.
Task<void> Links::World::learn_addresses() {
  Tcp::resolver resolver(io);
  asio::steady_timer pause(io);
  const std::uint64_t own = ++learning;  // an earlier task ends
  for (bool has_names = true; has_names && own == learning; co_await pause.async_wait(quietly)) {
    has_names = false;
    std::set<std::string> addresses;
    for (const auto& [node, peer] : peers) {
      Error no_address;
      const auto address = asio::ip::make_address(peer.address.host, no_address);
      if (!no_address) {
        addresses.insert(address.to_string());
        continue;
      }
      has_names = true;
      const auto [unknown, endpoints] = co_await resolver.async_resolve(peer.address.host, "", quietly);
      if (!unknown)
        for (const auto& options : endpoints) addresses.insert(options.endpoint().address().to_string());
    }
    unjoined.set_peer_addresses(std::move(addresses));
    pause.expires_after(has_names ? names_pause : std::chrono::seconds(0));
  }
}

void Links::World::take(Tcp::socket accepted) {
  Error gone;
  const auto from = accepted.remote_endpoint(gone);
  if (gone) return;
  const std::string address = from.address().to_string();
  auto socket = std::make_shared<Tcp::socket>(std::move(accepted));
  link::UnjoinedPeers::Ticket ticket = 0;
  const auto leave = [socket] {
    Error ignored;
    socket->close(ignored);
  };
  const std::string displaced = unjoined.add(address, leave, ticket);
  const auto now = std::chrono::steady_clock::now();
  if (!displaced.empty() && now > crowd_logged + crowd_pause) {
    crowd_logged = now;
    log(LogLevel::warning, "unjoined_peer_displaced",
        {{"address", displaced}, {"why", "too many connections that have not joined"}});
  }
  asio::co_spawn(io, await_first_byte(std::move(socket), ticket), link::expect_no_exception);
}

// Waits for the first byte: until then a connection costs no more than its socket.
Task<void> Links::World::await_first_byte(std::shared_ptr<Tcp::socket> socket,
                                          link::UnjoinedPeers::Ticket ticket) {
  asio::steady_timer limit(io, first_byte_limit);
  limit.async_wait([socket](const Error& cancelled) {
    Error ignored;
    if (!cancelled) socket->close(ignored);
  });
  const auto [error] = co_await socket->async_wait(Tcp::socket::wait_read, quietly);
  limit.cancel();
  if (error || !socket->is_open() || !unjoined.has(ticket)) co_return unjoined.remove(ticket);
  const ConnectionPtr connection = make_connection(std::move(*socket));
  unjoined.on_first_byte(ticket,
                         [connection] { connection->close("its slot is needed for other connections"); });
  co_await accept_join(connection, ticket);
  unjoined.remove(ticket);
}

Task<void> Links::World::accept_join(ConnectionPtr connection, link::UnjoinedPeers::Ticket ticket) {
  Join join;
  std::string fault = co_await connection->shake_hands(false);
  if (fault.empty()) fault = co_await read_join(connection, join);
  if (fault.empty()) fault = validate(join, *connection, true);
  unjoined.remove(ticket);
  if (!fault.empty()) {
    if (fault != std::exchange(last_refusal, fault)) log(LogLevel::warning, "join_refused", {{"why", fault}});
    if (connection->is_open()) co_await connection->write_now({Kind::rejection}, bytes_of(fault));
    co_return connection->close(fault);
  }
  fault = co_await connection->write_now({Kind::join}, encode(own_join(join.node)));
  if (fault.empty() && join.for_pages) {
    // The peer may have been lost while the answer was sent.
    fault = validate_pages(join);
    if (fault.empty()) {
      options.on_pages(join.node, join.incarnation, connection->release());
      co_return;
    }
  }
  // The peer may refuse us: then it closes the connection without a ping.
  if (fault.empty()) fault = (co_await connection->read(true)).fault;
  if (fault.empty()) fault = co_await stay(connection, std::move(join));
  connection->close(fault);
}

Task<std::string> Links::World::read_join(ConnectionPtr connection, Join& join) {
  const Connection::ReadResult got = co_await connection->read(false);
  if (!got.fault.empty()) co_return got.fault;
  if (got.frame.kind == Kind::rejection)
    co_return "refused by the peer: " + std::string(got.body.begin(), got.body.end());
  auto decoded = link::decode_join(got.body);
  if (auto* fault = std::get_if<std::string>(&decoded)) co_return *fault;
  join = std::move(std::get<Join>(decoded));
  co_return "";
}

// ---- outgoing connections ----

Task<void> Links::World::keep_connecting(NodeId node) {
  Peer& peer = peers.at(node);
  asio::steady_timer timer(io);
  link::ReconnectPause pause(pause_min, pause_max);
  while (peer.member) {
    const Incarnation before = peer.incarnation;
    const std::string fault = co_await call(node);
    log_trouble(peer, fault);
    timer.expires_after(pause.after(fault, peer.incarnation != before));
    co_await timer.async_wait(quietly);
  }
  peer.called = false;
}

// Runs until the connection ends. Returns "" if the peer had joined.
Task<std::string> Links::World::call(NodeId node) {
  const PeerAddress address = peers.at(node).address;
  const ConnectionPtr connection = make_connection(Tcp::socket(io));
  Join join;
  std::string fault = co_await connection->call(address.host, address.port);
  if (fault.empty()) fault = co_await connection->shake_hands(true);
  if (fault.empty()) fault = co_await connection->write_now({Kind::join}, encode(own_join(node)));
  if (fault.empty()) fault = co_await read_join(connection, join);
  if (fault.empty()) fault = validate(join, *connection, false);
  if (fault.empty() && join.node != node) fault = who(join.node) + " answers at this address";
  if (fault.empty()) fault = co_await connection->write_now({Kind::ping}, {});
  if (fault.empty()) {
    co_await stay(connection, std::move(join));
    co_return "";
  }
  connection->close(fault);
  co_return fault;
}

// Opens a connection like call(), but it stays apart from the link and ends with it.
Task<void> Links::World::call_for_pages(NodeId node, Incarnation incarnation, TakeSocket take) {
  const auto at = peers.find(node);
  if (at == peers.end() || !at->second.connection) {
    take(PageSocket(), who(node) + " is not connected");
    co_return;
  }
  const PeerAddress address = at->second.address;
  const ConnectionPtr connection = make_connection(Tcp::socket(io));
  Join own = own_join(node), join;
  own.greeting.clear();
  own.for_pages = true;
  std::string fault = co_await connection->call(address.host, address.port);
  if (fault.empty()) fault = co_await connection->shake_hands(true);
  if (fault.empty()) fault = co_await connection->write_now({Kind::join}, encode(own));
  if (fault.empty()) fault = co_await read_join(connection, join);
  if (fault.empty()) fault = validate(join, *connection, false);
  if (fault.empty() && (join.node != node || join.incarnation != incarnation))
    fault = who(join.node) + " with incarnation " + std::to_string(join.incarnation) + " answers; expected " +
            who(node) + " with incarnation " + std::to_string(incarnation);
  PageSocket socket;
  if (fault.empty()) socket = connection->release();
  connection->close(fault);
  take(std::move(socket), fault.empty() ? connection->why() : fault);
}

// ---- joining ----

Join Links::World::own_join(NodeId wanted) const {
  return {link::wire_version, options.node,     wanted, options.incarnation,
          options.cluster,    options.greeting, true,   options.name};
}

// Returns why a peer may not join, or "".
std::string Links::World::validate(const Join& join) const {
  if (join.wire != link::wire_version)
    return who(join.node) + " speaks version " + std::to_string(join.wire) + "; expected " +
           std::to_string(link::wire_version);
  if (join.cluster != options.cluster)
    return who(join.node) + " belongs to another cluster; expected \"" + options.cluster + "\"";
  if (join.wanted != options.node)
    return who(join.node) + " looks for " + who(join.wanted) + "; this is " + who(options.node);
  const auto at = peers.find(join.node);
  if (at == peers.end() || !at->second.member)
    return who(join.node) + " is not in the configuration of " + who(options.node);
  if (join.incarnation == 0 || join.incarnation < at->second.incarnation)
    return who(join.node) + " has an older incarnation than the last one that joined";
  // An etcd that has lost its data may assign a number again, and an incarnation may be larger.
  const std::string& name = at->second.address.name;
  if (!join.name.empty() && !name.empty() && join.name != name)
    return who(join.node) + " is called \"" + join.name + "\"; expected \"" + name +
           "\", which has that number";
  return "";
}

std::string Links::World::validate(const Join& join, const Connection& connection, bool called) const {
  if (std::string fault = validate(join); !fault.empty()) return fault;
  if (called && join.for_pages) {
    if (std::string fault = validate_pages(join); !fault.empty()) return fault;
  } else if (called && join.node < options.node)
    return who(join.node) + " calls; expected the node with the higher number to call";
  const std::string& name = peers.at(join.node).address.name;
  if (!connection.is_certified_for(name))
    return who(join.node) + " shows a certificate that is not for \"" + name + "\"";
  return "";
}

// Returns why a peer may not open a connection for pages, or "". It ends with the peer's link, so
// there has to be one.
std::string Links::World::validate_pages(const Join& join) const {
  if (!options.on_pages) return who(options.node) + " has no pages; expected a worker whose pages travel so";
  const Peer& peer = peers.at(join.node);
  if (!peer.connection || peer.incarnation != join.incarnation)
    return who(join.node) + " has not joined; expected it to ask for pages afterwards";
  return "";
}

// Serves a joined connection until it ends. Returns the reason of its end.
Task<std::string> Links::World::stay(ConnectionPtr connection, Join join) {
  Peer& peer = peers.at(join.node);
  if (join.incarnation < peer.incarnation) co_return "a newer process of that node has joined meanwhile";
  if (!peer.member) co_return "it is no longer a member";
  meet(peer, join, connection);
  for (;;) {
    Connection::ReadResult got = co_await connection->read(true);
    if (!got.fault.empty()) {
      connection->close(got.fault);
      break;
    }
    if (got.frame.kind == Kind::ping) continue;
    if (options.actor_ids.node_of(got.frame.to.node) != options.node) {
      journal.report_no_receiver(got.frame.to);
      continue;
    }
    inside.deliver(join.node, got.frame.to, std::make_shared<const Bytes>(std::move(got.body)));
  }
  if (peer.connection == connection) lose(peer, connection->why());
  co_return connection->why();
}

void Links::World::meet(Peer& peer, const Join& join, ConnectionPtr connection) {
  if (peer.connection) lose(peer, "it has joined again");
  connection->join(std::chrono::microseconds(options.heartbeat.us), heartbeats_to_death, join.supports_seals);
  peer.connection = std::move(connection);
  peer.incarnation = join.incarnation;
  peer.last_trouble.clear();
  log(LogLevel::info, "peer_met", {{"node", join.node}, {"incarnation", join.incarnation}});
  if (options.on_met) options.on_met(join.node, join.incarnation, join.greeting);
}

// The process may be gone, or only the connection to it: neither this node nor its cores can tell.
void Links::World::lose(Peer& peer, const std::string& why) {
  std::exchange(peer.connection, nullptr)->close(why);
  const NodeId node = peer.address.node;
  log(LogLevel::warning, "peer_lost", {{"node", node}, {"incarnation", peer.incarnation}, {"why", why}});
  if (options.on_lost) options.on_lost(node, peer.incarnation);
  inside.report_lost(node);
}

// Logs a problem once.
void Links::World::log_trouble(Peer& peer, const std::string& why) {
  if (!why.empty() && options.on_away) options.on_away(peer.address.node);
  if (why.empty() || peer.last_trouble == why) return;
  peer.last_trouble = why;
  log(LogLevel::warning, "peer_away",
      {{"node", peer.address.node},
       {"address", peer.address.host + ":" + std::to_string(peer.address.port)},
       {"why", why}});
}

void Links::World::log(LogLevel level, const char* event, std::vector<LogField> fields) const {
  journal.write("links@" + std::to_string(options.node), {level, event, std::move(fields)});
}

void Links::World::route(Address to, std::shared_ptr<const Bytes> envelope) {
  const NodeId node = options.actor_ids.node_of(to.node);
  const auto at = peers.find(node);
  if (at == peers.end()) {
    journal.report_no_receiver(to);
    if (unknown.size() >= unknown_max && !unknown.contains(node)) unknown.clear();
    return report_unconnected(node, unknown[node]);
  }
  const ConnectionPtr& connection = at->second.connection;
  const bool taken = connection && envelope->size() + link::seal_bytes <= message_bytes_max &&
                     connection->send(to, std::move(envelope), options.waiting_bytes_max);
  if (taken) return;
  journal.undelivered();
  if (!connection) report_unconnected(node, at->second.reported);
}

// Reports the loss at once, at most once per heartbeat, to the core that has just sent a message
// there.
void Links::World::report_unconnected(NodeId node, std::chrono::steady_clock::time_point& reported) {
  const auto now = std::chrono::steady_clock::now();
  if (now < reported + std::chrono::microseconds(options.heartbeat.us)) return;
  reported = now;
  inside.report_lost(node);
}

// ---- public interface ----

Links::Links(ClusterOptions options, Inside inside, const Journal& journal)
    : world_(std::make_unique<World>(std::move(options), std::move(inside), journal)) {}

Links::~Links() = default;

void Links::open() { world_->open(); }
std::uint16_t Links::port() const { return world_->port; }
void Links::close() { world_->close(); }

void Links::follow(std::vector<PeerAddress> peers) {
  asio::post(world_->io, [world = world_.get(), peers = std::move(peers)] { world->follow(peers); });
}

void Links::open_pages(NodeId node, Incarnation incarnation, TakeSocket take) {
  asio::post(world_->io, [world = world_.get(), node, incarnation, take = std::move(take)]() mutable {
    asio::co_spawn(world->io, world->call_for_pages(node, incarnation, std::move(take)),
                   link::expect_no_exception);
  });
}

std::string Links::renew_certificates() {
  if (!world_->options.tls) return "";
  try {
    auto fresh = std::make_shared<asio::ssl::context>(make_security(*world_->options.tls));
    asio::post(world_->io, [world = world_.get(), fresh] { world->security.emplace(std::move(*fresh)); });
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

void Links::send(Address to, std::shared_ptr<const Bytes> envelope) {
  asio::post(world_->io, [world = world_.get(), to, envelope = std::move(envelope)]() mutable {
    world->route(to, std::move(envelope));
  });
}

}  // namespace troupe
