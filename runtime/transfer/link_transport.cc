// Moves pages between processes over connections that the links have opened and authenticated. It
// sends requests to the owner of the pages, answers those of other nodes, and ends a pull whose peer
// fails or stays silent.
#include "runtime/transfer/link_transport.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/transfer/page_connection.h"
#include "runtime/transfer/page_loop.h"
#include "runtime/transfer/page_replies.h"
#include "runtime/transfer/pull_table.h"
#include "runtime/transfer/ucx_address.h"

namespace troupe {
namespace {

using LinkClock = std::chrono::steady_clock;

constexpr std::array<std::uint8_t, 4> link_address_mark{'T', 'P', 'L', '1'};
constexpr std::size_t requests_waiting_max = 1'024;   // to one peer
constexpr std::size_t messages_at_once = 16;          // of one connection, then others have a turn
constexpr std::size_t connections_of_reader_max = 4;  // one is in use; others may be broken unnoticed
constexpr std::size_t reply_message_max = reply_header_bytes + piece_bytes;

Bytes marked_address(std::span<const std::uint8_t> detail) {
  Bytes bytes(link_address_mark.size() + detail.size());
  std::ranges::copy(detail, std::ranges::copy(link_address_mark, bytes.begin()).out);
  return bytes;
}

}  // namespace

// Members below dial_ are used under state_mutex_. The loop's thread holds it except while it sleeps and
// while it reports outcomes. Another thread begins a pull itself if it gets the mutex at once; otherwise
// it leaves that to the loop's thread.
class LinkTransport::Wire {
 public:
  Wire(LinkTransportOptions options, Incarnation incarnation, PageArena& arena, MetricRegistry& metrics);
  ~Wire();

  PullTable pulls;
  const Bytes address;

  // The command runs under state_mutex_.
  void post(std::function<void()> command) {
    loop_.commands()->post([this, command = std::move(command)] {
      std::lock_guard lock(state_mutex_);
      command();
    });
  }
  void malformed() { metrics_.record(Metric::protocol_errors, 1); }
  void set_dial(Dial dial) {
    std::lock_guard lock(dial_mutex_);
    dial_ = std::move(dial);
  }
  // A pull for which no thread waits.
  struct Started {
    PullBlocks work;
    Done done;  // empty: it has been called
    std::shared_ptr<IncomingPull> pull;
  };
  void start(PullBlocks work, const Done& done);
  // `started`: null if a thread waits for the pull.
  void begin(std::shared_ptr<IncomingPull> pull, std::shared_ptr<Started> started, const Bytes& address);
  void finish(const std::shared_ptr<IncomingPull>& pull, bool timed_out);
  void drop(NodeId node, Incarnation incarnation_max);
  void drop_readers(NodeId node, Incarnation incarnation_max);
  void accept(NodeId node, Incarnation incarnation, PageSocket socket);

 private:
  using Key = std::uint64_t;  // of a connection, in the loop
  struct Running {
    std::shared_ptr<IncomingPull> pull;
    Key connection = 0;  // to the peer; 0: it has ended
    std::shared_ptr<Started> started;
  };
  struct Owner {  // a process whose pages this one pulls
    Key key = 0;
    Incarnation incarnation = 0;
    std::optional<PageConnection> connection;           // nullopt: it is being opened
    bool writes = false;                                // the loop waits until it can be written
    std::deque<Bytes> requests;                         // not sent yet
    std::optional<LinkClock::time_point> silent_since;  // time of the first request without any reply
  };
  struct Reader {  // a process that pulls this one's pages
    NodeId node = 0;
    Incarnation incarnation = 0;
    PageConnection connection;
    PageReplies::Pending pending = {};
    bool writes = false;
  };
  using Readers = std::map<Key, Reader>;

  Owner& owner_of(const IncomingPull& pull, const Bytes& address);
  void dial(NodeId node, Owner& owner, const Bytes& address);
  void take(NodeId node, Key key, PageSocket socket, const std::string& fault);
  void ask(Running& running, Owner& owner);
  bool begin_here(const std::shared_ptr<Started>& started, const Bytes& address);
  void complete(Started& started);
  void complete_ready();
  void close(NodeId node, Owner& owner, const std::string& why);
  Readers::iterator close(Readers::iterator reader);
  template <class Is>
  void close_readers(const Is& is);
  void send(Key key, Owner& owner);
  void send(Key key, Reader& reader);
  void on_ready(Key key);
  void on_replies(Owner& owner);
  void on_reply(Owner& owner, std::span<const std::uint8_t> message);
  void on_requests(Key key, Reader& reader);
  void close_everything();
  PageLoop::Round on_round();
  PageLoop::Round run_round();

  const std::chrono::milliseconds silence_max_;
  const std::function<void()> before_answer_;
  MetricRegistry& metrics_;
  std::mutex dial_mutex_;  // held while dial_ is called
  Dial dial_;
  std::mutex state_mutex_;
  std::map<std::uint64_t, Running> running_;
  std::map<NodeId, Owner> owners_;
  std::map<Key, NodeId> owner_keys_;
  Readers readers_;
  PageReplies replies_;
  std::vector<std::shared_ptr<Started>> ready_;         // all their blocks have arrived
  std::vector<std::pair<Done, PullOutcome>> outcomes_;  // to report after the round
  std::set<Key> unread_;  // connections with bytes that the loop would not report again
  Key last_key_ = 0;
  bool stopping_ = false;
  PageLoop loop_;  // last, because it may still use the members above
};

LinkTransport::Wire::Wire(LinkTransportOptions options, Incarnation incarnation, PageArena& arena,
                          MetricRegistry& metrics)
    : pulls(incarnation, arena),
      address(marked_address(options.address_detail)),
      silence_max_(options.silence_max),
      before_answer_(std::move(options.before_answer)),
      metrics_(metrics),
      replies_(arena, incarnation, metrics) {
  const auto on_socket = [this](Key key) {
    std::lock_guard lock(state_mutex_);
    on_ready(key);
  };
  loop_.start(on_socket, [this] { return run_round(); });
}

LinkTransport::Wire::~Wire() {
  pulls.stop();
  pulls.await_closed();
  post([this] { close_everything(); });
  loop_.join();
}

// ---- owners, from which this process pulls ----

// Also ends the pulls over this connection. The caller removes the owner.
void LinkTransport::Wire::close(NodeId node, Owner& owner, const std::string& why) {
  for (auto& [id, running] : running_) {
    if (running.connection != owner.key) continue;
    running.connection = 0;
    running.pull->end(pull_refused("peer_lost", node, why, "a peer that lives"));
  }
  owner_keys_.erase(owner.key);
  unread_.erase(owner.key);
}

void LinkTransport::Wire::drop(NodeId node, Incarnation incarnation_max) {
  const auto at = owners_.find(node);
  if (at == owners_.end() || at->second.incarnation > incarnation_max) return;
  close(node, at->second, "was lost");
  owners_.erase(at);
}

// Keeps one connection per incarnation. The older one's pulls have ended, or the process running
// there now refuses them.
LinkTransport::Wire::Owner& LinkTransport::Wire::owner_of(const IncomingPull& pull, const Bytes& address) {
  const auto at = owners_.find(pull.node());
  if (at != owners_.end()) {
    const auto& connection = at->second.connection;
    const bool failed = connection && !connection->failure().empty();
    if (at->second.incarnation == pull.incarnation() && !failed) return at->second;
    close(pull.node(), at->second, failed ? connection->failure() : "was replaced");
    owners_.erase(at);
  }
  Owner& owner = owners_[pull.node()];
  owner.key = ++last_key_;
  owner.incarnation = pull.incarnation();
  owner_keys_[owner.key] = pull.node();
  dial(pull.node(), owner, address);
  return owner;
}

// The answer may come after this transport's end, when the commands are not run any more.
void LinkTransport::Wire::dial(NodeId node, Owner& owner, const Bytes& address) {
  auto taken = [commands = loop_.commands(), this, node, key = owner.key](PageSocket socket,
                                                                          const std::string& fault) {
    auto shared = std::make_shared<PageSocket>(std::move(socket));
    commands->post([this, node, key, shared, fault] {
      std::lock_guard lock(state_mutex_);
      take(node, key, std::move(*shared), fault);
    });
  };
  std::lock_guard lock(dial_mutex_);
  if (!dial_) return taken({}, "this process has no links");
  dial_(node, owner.incarnation, address, std::move(taken));
}

void LinkTransport::Wire::take(NodeId node, Key key, PageSocket socket, const std::string& fault) {
  const auto at = owners_.find(node);
  if (at == owners_.end() || at->second.key != key) return;  // it was lost meanwhile
  Owner& owner = at->second;
  if (!socket.is_open()) {
    close(node, owner, "cannot be reached: " + fault);
    owners_.erase(at);
    return;
  }
  owner.connection.emplace(std::move(socket), reply_message_max);
  loop_.watch(owner.connection->fd(), key);
  send(key, owner);
}

void LinkTransport::Wire::begin(std::shared_ptr<IncomingPull> pull, std::shared_ptr<Started> started,
                                const Bytes& address) {
  if (pull->ended() || stopping_) return;
  Owner& owner = owner_of(*pull, address);
  if (owner.requests.size() >= requests_waiting_max)
    return pull->end(pull_refused("peer_overloaded", pull->node(), "takes no requests", "a later try"));
  if (!owner.silent_since) owner.silent_since = LinkClock::now();
  if (started && pull->has_all()) ready_.push_back(started);  // a pull of nothing
  const auto deadline = started ? std::optional(pull->deadline()) : std::nullopt;
  const std::uint64_t id = pull->id();
  ask(running_[id] = {std::move(pull), owner.key, std::move(started)}, owner);
  if (deadline) loop_.wake_at(*deadline);
}

// The pull's end is reported by a command, since other threads end pulls as well. The command that
// begins the pull, and then running_, keep `started` until it is completed.
void LinkTransport::Wire::start(PullBlocks work, const Done& done) {
  const auto started = std::make_shared<Started>(Started{std::move(work), done, nullptr});
  auto opened = pulls.open(started->work);
  if (auto* refusal = std::get_if<Refusal>(&opened))
    return post(
        [this, started, refusal = std::move(*refusal)] { outcomes_.emplace_back(started->done, refusal); });
  auto& open = std::get<PullTable::Open>(opened);
  started->pull = open.pull;
  started->pull->on_end([this, weak = std::weak_ptr(started)] {
    if (auto ended = weak.lock()) post([this, ended] { complete(*ended); });
  });
  if (begin_here(started, open.address)) return;
  post([this, started, address = std::move(open.address)] { begin(started->pull, started, address); });
}

// Begins the pull on the calling thread, whose wake-up of the loop's thread would delay the request.
// Returns false if the loop's thread is at work.
bool LinkTransport::Wire::begin_here(const std::shared_ptr<Started>& started, const Bytes& address) {
  std::unique_lock lock(state_mutex_, std::try_to_lock);
  if (!lock) return false;
  begin(started->pull, started, address);
  const auto at = owners_.find(started->pull->node());
  const bool failed =
      at != owners_.end() && at->second.connection && !at->second.connection->failure().empty();
  if (failed || !ready_.empty()) post([] {});  // for on_round()
  return true;
}

// Reports the outcome of a pull that has all its blocks, has ended or is at its deadline.
void LinkTransport::Wire::complete(Started& started) {
  const Done done = std::exchange(started.done, nullptr);
  if (!done) return;
  auto outcome = pulls.await(started.work, *started.pull);
  const auto* refusal = std::get_if<Refusal>(&outcome);
  finish(started.pull, refusal && refusal->code == "transfer_timeout");
  pulls.close(started.pull);
  outcomes_.emplace_back(done, std::move(outcome));
}

void LinkTransport::Wire::complete_ready() {
  std::optional<LinkClock::time_point> now;
  for (const auto& [id, running] : running_) {
    if (!running.started) continue;
    if (!now) now = LinkClock::now();
    const auto deadline = running.pull->deadline();
    *now >= deadline ? ready_.push_back(running.started) : loop_.wake_at(deadline);
  }
  for (const auto& started : std::exchange(ready_, {})) complete(*started);
}

void LinkTransport::Wire::ask(Running& running, Owner& owner) {
  while (const auto request = running.pull->next_request()) owner.requests.push_back(encode(*request));
  send(owner.key, owner);
}

// A failure is noticed by on_round().
void LinkTransport::Wire::send(Key key, Owner& owner) {
  if (!owner.connection || !owner.connection->failure().empty()) return;
  const bool more = owner.connection->send([&](PageConnection::Outgoing& outgoing) {
    if (owner.requests.empty()) return false;
    const Bytes& request = owner.requests.front();
    outgoing.head.insert(outgoing.head.end(), request.begin(), request.end());
    owner.requests.pop_front();
    return true;
  });
  if (more != std::exchange(owner.writes, more)) loop_.change(owner.connection->fd(), key, more);
}

void LinkTransport::Wire::finish(const std::shared_ptr<IncomingPull>& pull, bool timed_out) {
  running_.erase(pull->id());
  const auto at = owners_.find(pull->node());
  if (!timed_out || at == owners_.end()) return;
  const auto& since = at->second.silent_since;
  if (!since || LinkClock::now() - *since < silence_max_) return;
  close(pull->node(), at->second, "was silent");
  owners_.erase(at);
}

void LinkTransport::Wire::on_replies(Owner& owner) {
  for (std::size_t count = 0; count < messages_at_once; ++count) {
    const auto message = owner.connection->receive();
    if (!message) return void(unread_.erase(owner.key));
    on_reply(owner, *message);
  }
  unread_.insert(owner.key);
}

void LinkTransport::Wire::on_reply(Owner& owner, std::span<const std::uint8_t> message) {
  const auto reply = parse_reply(message.first(std::min(message.size(), reply_header_bytes)));
  if (!reply) return malformed();
  owner.silent_since.reset();
  const auto at = running_.find(reply->pull);
  if (at == running_.end() || at->second.connection != owner.key) return;  // late
  switch (at->second.pull->land(*reply, message.subspan(reply_header_bytes))) {
    case IncomingPull::PieceResult::chunk:
      if (at->second.started && at->second.pull->has_all()) return ready_.push_back(at->second.started);
      return ask(at->second, owner);
    case IncomingPull::PieceResult::malformed:
      return malformed();
    default:
      return;
  }
}

// ---- readers, which pull from this process ----

void LinkTransport::Wire::accept(NodeId node, Incarnation incarnation, PageSocket socket) {
  if (stopping_ || !socket.is_open()) return;
  std::vector<Key> of_node;  // oldest first
  for (const auto& [key, reader] : readers_)
    if (reader.node == node) of_node.push_back(key);
  if (of_node.size() >= connections_of_reader_max) close(readers_.find(of_node.front()));
  const Key key = ++last_key_;
  const auto added =
      readers_.emplace(key, Reader{node, incarnation, {std::move(socket), request_bytes_max}}).first;
  loop_.watch(added->second.connection.fd(), key);
}

LinkTransport::Wire::Readers::iterator LinkTransport::Wire::close(Readers::iterator reader) {
  replies_.drop(reader->second.pending);
  unread_.erase(reader->first);
  return readers_.erase(reader);
}

template <class Is>
void LinkTransport::Wire::close_readers(const Is& is) {
  for (auto at = readers_.begin(); at != readers_.end();) is(at->second) ? void(at = close(at)) : void(++at);
}

void LinkTransport::Wire::drop_readers(NodeId node, Incarnation incarnation_max) {
  close_readers(
      [&](const Reader& reader) { return reader.node == node && reader.incarnation <= incarnation_max; });
}

void LinkTransport::Wire::on_requests(Key key, Reader& reader) {
  std::size_t count = 0;
  for (; count < messages_at_once; ++count) {
    const auto message = reader.connection.receive();
    if (!message) break;
    if (before_answer_) before_answer_();
    auto request = parse_request(*message);
    request ? replies_.answer(std::move(*request), reader.pending) : malformed();
  }
  count == messages_at_once ? void(unread_.insert(key)) : void(unread_.erase(key));
  send(key, reader);
}

void LinkTransport::Wire::send(Key key, Reader& reader) {
  if (!reader.connection.failure().empty()) return;
  const bool more = reader.connection.send(
      [&](PageConnection::Outgoing& outgoing) { return replies_.next(reader.pending, outgoing); });
  if (more != std::exchange(reader.writes, more)) loop_.change(reader.connection.fd(), key, more);
}

// ---- the loop ----

void LinkTransport::Wire::on_ready(Key key) {
  if (const auto owner_key = owner_keys_.find(key); owner_key != owner_keys_.end()) {
    Owner& owner = owners_.at(owner_key->second);
    if (!owner.connection) return;
    on_replies(owner);
    return send(key, owner);
  }
  if (const auto reader = readers_.find(key); reader != readers_.end()) on_requests(key, reader->second);
}

PageLoop::Round LinkTransport::Wire::on_round() {
  const std::vector<Key> unread(unread_.begin(), unread_.end());
  for (const Key key : unread) on_ready(key);
  for (auto at = owners_.begin(); at != owners_.end();) {
    const bool failed = at->second.connection && !at->second.connection->failure().empty();
    if (!failed) {
      ++at;
      continue;
    }
    if (at->second.connection->malformed()) malformed();
    close(at->first, at->second, at->second.connection->failure());
    at = owners_.erase(at);
  }
  close_readers([&](const Reader& reader) {
    if (reader.connection.malformed()) malformed();
    return !reader.connection.failure().empty();
  });
  complete_ready();
  return {!unread_.empty(), stopping_};
}

// Reports outcomes without the lock: what hears of them may start the next pull.
PageLoop::Round LinkTransport::Wire::run_round() {
  std::unique_lock lock(state_mutex_);
  const PageLoop::Round round = on_round();
  auto outcomes = std::exchange(outcomes_, {});
  lock.unlock();
  for (auto& [done, outcome] : outcomes) done(std::move(outcome));
  return round;
}

void LinkTransport::Wire::close_everything() {
  stopping_ = true;
  for (auto& [node, owner] : owners_) close(node, owner, "is no longer needed");
  owners_.clear();
  close_readers([](const Reader&) { return true; });
}

// ---- public interface ----

LinkTransport::LinkTransport(LinkTransportOptions options, Incarnation incarnation, PageArena& arena,
                             MetricRegistry& metrics)
    : wire_(std::make_unique<Wire>(std::move(options), incarnation, arena, metrics)) {}

LinkTransport::~LinkTransport() = default;

void LinkTransport::dial_with(Dial dial) { wire_->set_dial(std::move(dial)); }

void LinkTransport::accept(NodeId reader, Incarnation incarnation, PageSocket socket) {
  auto shared = std::make_shared<PageSocket>(std::move(socket));
  wire_->post([wire = wire_.get(), reader, incarnation, shared] {
    wire->accept(reader, incarnation, std::move(*shared));
  });
}

Bytes LinkTransport::address() const { return wire_->address; }

bool LinkTransport::is_address(std::span<const std::uint8_t> address) {
  return address.size() >= link_address_mark.size() &&
         std::equal(link_address_mark.begin(), link_address_mark.end(), address.begin());
}

void LinkTransport::meet(NodeId node, Incarnation incarnation, Bytes address) {
  if (!is_address(address)) {
    if (!is_ucx_address(address)) wire_->malformed();
    address.clear();
  }
  wire_->pulls.meet(node, incarnation, std::move(address));
  wire_->post([wire = wire_.get(), node, incarnation] {
    if (incarnation > 0) {
      wire->drop(node, incarnation - 1);
      wire->drop_readers(node, incarnation - 1);
    }
  });
}

void LinkTransport::lose(NodeId node, Incarnation incarnation) {
  wire_->pulls.lose(node, incarnation);
  wire_->post([wire = wire_.get(), node, incarnation] {
    wire->drop(node, incarnation);
    wire->drop_readers(node, incarnation);
  });
}

void LinkTransport::stop() {
  wire_->pulls.stop();
  wire_->set_dial({});
}

bool LinkTransport::start_pull(PullBlocks& work, const Done& done) {
  if (work.parts > 1) return false;
  wire_->start(std::move(work), done);
  return true;
}

std::variant<PullResult, Refusal> LinkTransport::pull(const PullBlocks& work) {
  Wire& wire = *wire_;
  auto opened = wire.pulls.open(work);
  if (auto* refusal = std::get_if<Refusal>(&opened)) return *refusal;
  const auto& [pull, address] = std::get<PullTable::Open>(opened);
  wire.post([&wire, pull = pull, address = address] { wire.begin(pull, nullptr, address); });
  auto outcome = wire.pulls.await(work, *pull);
  const auto* refusal = std::get_if<Refusal>(&outcome);
  const bool timed_out = refusal && refusal->code == "transfer_timeout";
  wire.post([&wire, pull = pull, timed_out] { wire.finish(pull, timed_out); });
  wire.pulls.close(pull);
  return outcome;
}

}  // namespace troupe
