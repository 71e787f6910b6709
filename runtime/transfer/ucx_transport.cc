// Moves pages between processes over the network library UCX. It sends requests to the owner of
// the pages, answers those of other nodes, and ends a pull whose peer fails or stays silent.
#include "runtime/transfer/ucx_transport.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/transfer/link_transport.h"
#include "runtime/transfer/page_seal.h"
#include "runtime/transfer/pull_table.h"
#include "runtime/transfer/ucx_address.h"
#include "runtime/transfer/ucx_connection.h"
#include "runtime/transfer/ucx_library.h"
#include "runtime/transfer/ucx_replies.h"
#include "runtime/transfer/ucx_worker.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

// Connections not closed by then end with the worker.
constexpr std::chrono::milliseconds closing_max(2'000);
constexpr std::size_t requests_unsent_max = 1'024;  // to one peer
static_assert(sealed_header_bytes + piece_bytes <= 64 * 1024, "a piece and its header fit into one segment");

// Returns the message as sent: the seal, then the sealed request.
Bytes sealed(PageSealer& sealer, const Bytes& request) {
  Bytes message(sizeof(Seal) + request.size());
  const PageSealer::Part all(request);
  const Seal seal = sealer.seal({}, {&all, 1}, message.data() + sizeof(Seal));
  std::copy(seal.begin(), seal.end(), message.begin());
  return message;
}
std::optional<Bytes> opened(PageOpener& opener, std::span<const std::uint8_t> message) {
  if (message.size() <= sizeof(Seal) || message.size() > sizeof(Seal) + request_bytes_max)
    return std::nullopt;
  Seal seal;
  std::copy_n(message.begin(), sizeof(Seal), seal.begin());
  Bytes request(message.size() - sizeof(Seal));
  if (!opener.open(seal, {}, message.subspan(sizeof(Seal)), request.data())) return std::nullopt;
  return request;
}

UcxVersion version() {
  unsigned major = 0, minor = 0, release = 0;
  ucx().ucp_get_version(&major, &minor, &release);
  return {static_cast<std::uint16_t>(major), static_cast<std::uint16_t>(minor)};
}

}  // namespace

// Members below `address` belong to the worker's thread.
class UcxTransport::Wire {
 public:
  Wire(UcxOptions options, Incarnation incarnation, PageArena& arena, MetricRegistry& metrics);
  ~Wire();

  PullTable pulls;
  Bytes address;

  void drop(NodeId node, Incarnation incarnation_max);
  void begin(std::shared_ptr<IncomingPull> pull, const Bytes& address);
  void finish(const std::shared_ptr<IncomingPull>& pull, bool timed_out);
  void post(std::function<void()> command) { worker_.post(std::move(command)); }
  void malformed() { metrics_.record(Metric::protocol_errors, 1); }

 private:
  struct Running {
    std::shared_ptr<IncomingPull> pull;
    UcxConnection* connection = nullptr;  // to the peer; null: it has ended
  };
  struct Peer {
    std::unique_ptr<UcxConnection> connection;
    std::optional<Clock::time_point> silent_since;  // time of the first request without any reply
    std::optional<PageSealer> requests;             // if the peer's address had keys
    std::optional<PageOpener> replies;
  };
  Peer& peer_of(const IncomingPull& pull, const UcxAddress& address);
  bool open(Peer& peer, UcxWorker::Message& message);
  void ask(Running& running);
  void on_request(const UcxWorker::Message& message);
  void on_reply(UcxWorker::Message message);
  void close(Peer& peer, const std::string& why);
  void close_everything();
  UcxWorker::RoundResult on_round();

  const std::chrono::milliseconds silence_max_;
  const std::function<void()> before_answer_;
  MetricRegistry& metrics_;
  std::map<std::uint64_t, Running> running_;
  std::map<NodeId, Peer> peers_;
  std::vector<std::unique_ptr<UcxConnection>> closing_;
  const std::optional<SealKeys> keys_;  // this process's own
  std::optional<PageOpener> requests_;
  UcxReplies replies_;
  std::vector<std::uint8_t> open_piece_;
  bool stopping_ = false;
  Clock::time_point stop_by_;
  UcxWorker worker_;  // last, because it may still use the members above
};

UcxTransport::Wire::Wire(UcxOptions options, Incarnation incarnation, PageArena& arena,
                         MetricRegistry& metrics)
    : pulls(incarnation, arena),
      silence_max_(options.silence_max),
      before_answer_(std::move(options.before_answer)),
      metrics_(metrics),
      keys_(options.sealed ? std::optional(generate_seal_keys()) : std::nullopt),
      replies_(arena, incarnation, metrics, keys_ ? &keys_->replies : nullptr),
      open_piece_(piece_bytes),
      worker_({options.transports, options.devices}) {
  if (keys_) requests_.emplace(keys_->requests);
  address = pack_ucx_address(version(), {worker_.address(), keys_});
  worker_.on(
      request_message, [this](const auto& message) { on_request(message); }, [this] { malformed(); });
  worker_.on(
      reply_message, [this](const auto& message) { on_reply(message); }, [this] { malformed(); });
  worker_.start([this] { return on_round(); });
}

UcxTransport::Wire::~Wire() {
  pulls.stop();
  pulls.await_closed();
  post([this] { close_everything(); });
  worker_.join();
}

void UcxTransport::Wire::drop(NodeId node, Incarnation incarnation_max) {
  const auto at = peers_.find(node);
  if (at == peers_.end() || at->second.connection->incarnation() > incarnation_max) return;
  close(at->second, "was lost");
  peers_.erase(at);
}

// Also ends the pulls over this connection, in case UCX noticed the failure first.
void UcxTransport::Wire::close(Peer& peer, const std::string& why) {
  for (auto& [id, running] : running_) {
    if (running.connection != peer.connection.get()) continue;
    running.connection = nullptr;
    running.pull->end(pull_refused("peer_lost", running.pull->node(), why, "a peer that lives"));
  }
  peer.connection->close();
  closing_.push_back(std::move(peer.connection));
}

// Keeps one endpoint per incarnation. The older one's pulls have ended, or the process running
// there now refuses them.
UcxTransport::Wire::Peer& UcxTransport::Wire::peer_of(const IncomingPull& pull, const UcxAddress& address) {
  const auto at = peers_.find(pull.node());
  if (at != peers_.end()) {
    const UcxConnection& connection = *at->second.connection;
    if (connection.incarnation() == pull.incarnation() && !connection.failed()) return at->second;
    close(at->second, "was replaced");
  }
  Peer& peer = peers_[pull.node()] = {};
  peer.connection =
      std::make_unique<UcxConnection>(worker_.handle(), pull.node(), pull.incarnation(), address.worker);
  if (address.keys) {
    peer.requests.emplace(address.keys->requests, PageSealer::Nonces::drawn);
    peer.replies.emplace(address.keys->replies);
  }
  return peer;
}

void UcxTransport::Wire::begin(std::shared_ptr<IncomingPull> pull, const Bytes& address) {
  if (pull->ended() || stopping_) return;
  const auto ucx_address = unpack_ucx_address(version(), address);
  if (!ucx_address) return;  // meet() has checked it
  Peer& peer = peer_of(*pull, *ucx_address);
  if (peer.connection->sending() >= requests_unsent_max)
    return pull->end(pull_refused("peer_overloaded", pull->node(), "takes no requests", "a later try"));
  if (!peer.silent_since) peer.silent_since = Clock::now();
  const std::uint64_t id = pull->id();
  ask(running_[id] = {std::move(pull), peer.connection.get()});
}

void UcxTransport::Wire::ask(Running& running) {
  while (running.connection) {
    const auto request = running.pull->next_request();
    if (!request) return;
    Peer& peer = peers_.at(running.pull->node());  // belongs to the running connection
    running.connection->send(request_message,
                             peer.requests ? sealed(*peer.requests, encode(*request)) : encode(*request));
  }
}

void UcxTransport::Wire::finish(const std::shared_ptr<IncomingPull>& pull, bool timed_out) {
  running_.erase(pull->id());
  const auto peer = peers_.find(pull->node());
  if (!timed_out || peer == peers_.end()) return;
  const auto& since = peer->second.silent_since;
  if (!since || Clock::now() - *since < silence_max_) return;
  close(peer->second, "was silent");
  peers_.erase(peer);
}

void UcxTransport::Wire::on_request(const UcxWorker::Message& message) {
  if (stopping_) return;
  if (before_answer_) before_answer_();
  const auto in_clear = requests_ ? opened(*requests_, message.body) : std::nullopt;
  if (requests_ && !in_clear) return malformed();
  const auto request = parse_request(in_clear ? std::span<const std::uint8_t>(*in_clear) : message.body);
  if (!request || !message.header.empty() || !message.reply_to) return malformed();
  replies_.answer(*request, message.reply_to);
}

// Returns false if the message was not sealed by its sender.
bool UcxTransport::Wire::open(Peer& peer, UcxWorker::Message& message) {
  if (!peer.replies) return message.header.size() == reply_header_bytes;
  if (message.header.size() != sealed_header_bytes || message.body.size() > piece_bytes) return false;
  Seal seal;
  std::copy_n(message.header.begin() + reply_header_bytes, sizeof(Seal), seal.begin());
  message.header = message.header.first(reply_header_bytes);
  if (!peer.replies->open(seal, message.header, message.body, open_piece_.data())) return false;
  message.body = std::span(open_piece_).first(message.body.size());
  return true;
}

void UcxTransport::Wire::on_reply(UcxWorker::Message message) {
  const auto reply = parse_reply(message.header.first(std::min(message.header.size(), reply_header_bytes)));
  if (!reply) return malformed();
  const auto at = running_.find(reply->pull);
  if (at == running_.end()) return;  // late
  Running& running = at->second;
  if (!running.connection) return;  // late: it has ended
  Peer& peer = peers_.at(running.pull->node());
  if (!open(peer, message)) {
    running.pull->end(pull_refused("transfer_damaged", running.pull->node(),
                                   "sent a message that its key does not open",
                                   "messages sealed with the peer's key"));
    return malformed();
  }
  peer.silent_since.reset();
  switch (running.pull->land(*reply, message.body)) {
    case IncomingPull::PieceResult::chunk:
      return ask(running);
    case IncomingPull::PieceResult::malformed:
      return malformed();
    default:
      return;
  }
}

UcxWorker::RoundResult UcxTransport::Wire::on_round() {
  for (auto at = peers_.begin(); at != peers_.end();) {
    if (at->second.connection->failed()) {
      close(at->second, "cannot be reached: " + at->second.connection->failure());
      at = peers_.erase(at);
    } else {
      ++at;
    }
  }
  std::erase_if(closing_, [](const auto& connection) { return connection->is_gone(); });
  const bool gone = closing_.empty() && replies_.empty();
  return {false, stopping_ && (gone || Clock::now() >= stop_by_)};
}

void UcxTransport::Wire::close_everything() {
  stopping_ = true;
  stop_by_ = Clock::now() + closing_max;
  for (auto& [node, peer] : peers_) close(peer, "is no longer needed");
  peers_.clear();
}

UcxTransport::UcxTransport(UcxOptions options, Incarnation incarnation, PageArena& arena,
                           MetricRegistry& metrics)
    : wire_(std::make_unique<Wire>(std::move(options), incarnation, arena, metrics)) {}

UcxTransport::~UcxTransport() = default;

Bytes UcxTransport::address() const { return wire_->address; }

void UcxTransport::meet(NodeId node, Incarnation incarnation, Bytes address) {
  if (!unpack_ucx_address(version(), address)) {
    if (!LinkTransport::is_address(address)) wire_->malformed();
    address.clear();
  }
  wire_->pulls.meet(node, incarnation, std::move(address));
  wire_->post([wire = wire_.get(), node, incarnation] {
    if (incarnation > 0) wire->drop(node, incarnation - 1);
  });
}

void UcxTransport::lose(NodeId node, Incarnation incarnation) {
  wire_->pulls.lose(node, incarnation);
  wire_->post([wire = wire_.get(), node, incarnation] { wire->drop(node, incarnation); });
}

void UcxTransport::stop() { wire_->pulls.stop(); }

std::variant<PullResult, Refusal> UcxTransport::pull(const PullBlocks& work) {
  Wire& wire = *wire_;
  auto opened = wire.pulls.open(work);
  if (auto* refusal = std::get_if<Refusal>(&opened)) return *refusal;
  const auto& [pull, address] = std::get<PullTable::Open>(opened);
  wire.post([&wire, pull = pull, address = address] { wire.begin(pull, address); });
  auto outcome = wire.pulls.await(work, *pull);
  const auto* refusal = std::get_if<Refusal>(&outcome);
  const bool timed_out = refusal && refusal->code == "transfer_timeout";
  wire.post([&wire, pull = pull, timed_out] { wire.finish(pull, timed_out); });
  wire.pulls.close(pull);
  return outcome;
}

}  // namespace troupe
