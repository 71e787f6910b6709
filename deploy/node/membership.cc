// Reads and changes the list of the cluster's nodes in etcd. Polls it while the process serves, so
// that new nodes are connected and leaving nodes drain.
#include "deploy/node/membership.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "deploy/node/leave_progress.h"
#include "runtime/coordination/etcd_coordination.h"
#include "runtime/tls/login.h"
#include "runtime/tls/tls_client.h"

namespace troupe::deploy {
namespace {

constexpr std::chrono::seconds poll_interval{1}, arrival_timeout{10};
constexpr std::chrono::milliseconds arrival_poll_interval{50}, retry_interval{100};
constexpr Duration progress_ttl{60'000'000};  // time for `troupe leave` to read the last progress
constexpr int tries_max = 20;                 // other nodes may change the members at the same time

EtcdOptions etcd_options(const ClusterSettings& settings) {
  const std::string& urls = settings.coordination;
  EtcdOptions options{.endpoints = urls, .prefix = "/troupe/" + settings.name + "/"};
  const TlsClientFiles files{settings.coordination_authority, settings.coordination_certificate,
                             settings.coordination_key};
  const bool is_tls = urls.find("https://") != urls.npos;
  if (is_tls) options.tls = std::make_shared<const TlsClient>(files);
  if (!is_tls && files != TlsClientFiles{})
    throw ConfigError(
        "cluster.coordination_… names TLS files, but cluster.coordination has no https URL; expected both, "
        "or neither");
  const std::string& login = settings.coordination_login;
  if (!login.empty()) options.login = read_login(login);
  if (!login.empty() && options.login.user.empty())
    throw ConfigError(login + ": the login has no user; expected one line user:password");
  return options;
}

CoordinationReply answer_of(Coordination& coordination, const Coordinate& question) {
  const auto answer = coordination.ask(question);
  if (const auto* refusal = std::get_if<Refusal>(&answer))
    throw std::runtime_error(refusal->where + ": " + refusal->what + "; expected " + refusal->expected);
  return std::get<CoordinationReply>(answer);
}

ReadMembers members_in(const CoordinationReply& answer) {
  auto parsed = parse_members(answer.value);
  if (const auto* fault = std::get_if<std::string>(&parsed))
    throw std::runtime_error("the cluster's members in etcd: " + *fault +
                             "; expected a document that troupe node --join and troupe leave write");
  return {std::move(std::get<ClusterMembers>(parsed)), answer.revision};
}

}  // namespace

std::unique_ptr<Coordination> etcd_coordination(
    const ClusterSettings& settings,
    std::function<void(const std::string& what, const std::string& why)> on_loss) {
  if (settings.coordination.empty())
    throw ConfigError(
        "cluster.coordination is empty; expected the URLs of etcd, because there are other nodes");
  EtcdOptions options = etcd_options(settings);
  options.on_loss = std::move(on_loss);
  return std::make_unique<EtcdCoordination>(options);
}

MembersFile kept_members(const Config& config, Incarnation own) {
  return {config.node.data_dir, config.cluster.name, own};
}

void await_coordination(Coordination& coordination, std::chrono::milliseconds timeout,
                        const std::function<void(const std::string& why)>& on_wait) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (bool reported = false;; std::this_thread::sleep_for(retry_interval)) {
    const auto answer = coordination.ask({ReadKey{std::string(members_key)}});
    const auto* refusal = std::get_if<Refusal>(&answer);
    if (!refusal || std::chrono::steady_clock::now() >= end) return;
    if (!std::exchange(reported, true)) on_wait(refusal->where + ": " + refusal->what);
  }
}

ReadMembers read_members(Coordination& coordination) {
  return members_in(answer_of(coordination, {ReadKey{std::string(members_key)}}));
}

ReadMembers read_members(Coordination& coordination, const ClusterMembers& seen) {
  const ReadMembers known = change_members(coordination, [&](ClusterMembers now) -> MembersChange {
    return with_used_numbers(std::move(now), seen);
  });
  const std::string fault = find_contradiction(seen, known.members);
  if (fault.empty()) return known;
  throw std::runtime_error(
      "the cluster's members in etcd: " + fault +
      "; expected an etcd that has not lost its data, and a file \"members\" in this node's data folder that "
      "belongs to this cluster. If that file is from an earlier cluster, remove it; otherwise remove the "
      "other node (troupe leave --gone), start this one, and let the other join again");
}

ReadMembers change_members(Coordination& coordination,
                           const std::function<MembersChange(ClusterMembers)>& change) {
  ReadMembers known = read_members(coordination);
  for (int tries = 0; tries < tries_max; ++tries) {
    MembersChange changed = change(known.members);
    if (const auto* refused = std::get_if<std::string>(&changed)) throw std::runtime_error(*refused);
    ClusterMembers& next = std::get<ClusterMembers>(changed);
    if (next == known.members) return known;
    const CoordinationReply answer =
        answer_of(coordination, {WriteKey{std::string(members_key), members_text(next), known.revision}});
    if (answer.ok) return {std::move(next), answer.revision};
    known = members_in(answer);
  }
  throw std::runtime_error(
      "the cluster's members in etcd changed during every attempt to change them; expected one change at a "
      "time");
}

std::vector<Member> members_of(std::span<const ClusterNode> file) {
  std::vector<Member> members;
  for (const ClusterNode& node : file)
    members.push_back({node.node, node.name, node.host, node.port, node.roles});
  return members;
}

void validate_start(const Member& own, const ClusterMembers& members) {
  if (members.left.contains(own.node))
    throw std::runtime_error(
        "node " + own.name +
        " has left the cluster; expected --join HOST:PORT and a new name, to join again");
  const Member* const joined = members.find(own.node);
  if (joined && joined->name != own.name)
    throw std::runtime_error("node " + own.name + " has number " + std::to_string(own.node) +
                             " in the cluster's file, which is that of \"" + joined->name +
                             "\", which has joined; expected a number above " + std::to_string(members.last));
}

std::vector<PeerAddress> peers_of(std::span<const Member> file, const ClusterMembers& members, NodeId own) {
  std::vector<PeerAddress> peers;
  const auto add = [&](const Member& member) {
    if (member.node != own && !members.left.contains(member.node))
      peers.push_back({member.node, member.name, member.host, member.port});
  };
  // A joined node that was later added to the file is the same node. A joined node with another
  // name does not replace a file's node with the same number.
  const auto stands_in = [&](const Member& joined) {
    return std::ranges::any_of(
        file, [&](const Member& node) { return node.node == joined.node && node.name != joined.name; });
  };
  for (const Member& member : file) {
    const Member* const joined = members.find(member.node);
    if (!joined || stands_in(*joined)) add(member);
  }
  for (const Member& member : members.joined)
    if (!stands_in(member)) add(member);
  return peers;
}

void ConnectedPeers::start(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  await_until_ = now + await_time;
}

void ConnectedPeers::follow(std::vector<NodeId> routers) {
  const std::lock_guard lock(mutex_);
  routers_ = std::move(routers);
}

void ConnectedPeers::meet(NodeId node) {
  const std::lock_guard lock(mutex_);
  connected_.insert(node);
}

void ConnectedPeers::lose(NodeId node) {
  const std::lock_guard lock(mutex_);
  connected_.erase(node);
}

void ConnectedPeers::miss(NodeId node) {
  const std::lock_guard lock(mutex_);
  missed_.insert(node);
}

bool ConnectedPeers::has(NodeId node) const {
  const std::lock_guard lock(mutex_);
  return connected_.contains(node);
}

std::string ConnectedPeers::obstacle(Clock::time_point now) const {
  if (is_router_) return "";  // a router connects to its workers itself
  const std::lock_guard lock(mutex_);
  const auto is_awaited = [this](NodeId node) {
    return !connected_.contains(node) && !missed_.contains(node);
  };
  if (std::ranges::any_of(routers_, [this](NodeId node) { return connected_.contains(node); })) {
    const auto awaited = now < await_until_ ? std::ranges::count_if(routers_, is_awaited) : 0;
    return awaited == 0 ? ""
                        : std::to_string(awaited) + " of " + std::to_string(routers_.size()) +
                              " routers are not connected yet";
  }
  return "no router is connected out of " + std::to_string(routers_.size()) +
         "; peer_away and join_refused in the logs say why";
}

NodeId ConnectedPeers::router(NodeId wanted) const {
  if (is_router_) return wanted;
  const std::lock_guard lock(mutex_);
  const auto there =
      std::ranges::find_if(routers_, [this](NodeId node) { return connected_.contains(node); });
  return there == routers_.end() ? wanted : *there;
}

MembershipWatcher::MembershipWatcher(Coordination& coordination, NodeId own, std::vector<Member> file,
                                     ReadMembers known, MembersFile kept)
    : coordination_(coordination),
      own_(own),
      file_(std::move(file)),
      kept_(std::move(kept)),
      known_(std::move(known)),
      seen_(known_.members) {}

void MembershipWatcher::start(Callbacks calls) {
  calls_ = std::move(calls);
  thread_ = std::jthread([this](const std::stop_token& ended) { run(ended); });
}

void MembershipWatcher::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void MembershipWatcher::run(const std::stop_token& ended) {
  while (!ended.stop_requested()) {
    poll();
    if (known_.members.joining.contains(own_)) report_arrival();
    write_progress();
    const bool joins = known_.members.joining.contains(own_);
    std::unique_lock lock(mutex_);
    ended_.wait_for(
        lock, ended,
        joins ? std::chrono::milliseconds(arrival_poll_interval) : std::chrono::milliseconds(poll_interval),
        [] { return false; });
  }
}

bool MembershipWatcher::is_member(const ClusterMembers& members) const {
  if (members.left.contains(own_)) return false;
  return members.find(own_) || std::ranges::find(file_, own_, &Member::node) != file_.end();
}

// An unreachable etcd changes nothing. The first call always reports, because the members known
// before the start may already say that this node leaves.
void MembershipWatcher::poll() {
  const auto answer = coordination_.ask({ReadKey{std::string(members_key)}});
  const auto* read = std::get_if<CoordinationReply>(&answer);
  const bool is_new =
      read && read->revision != known_.revision && std::exchange(read_, read->revision) != read->revision;
  if (std::exchange(polled_, true) && !is_new) return;
  try {
    if (is_new) take(*read);
  } catch (const std::runtime_error& error) {
    calls_.on_fault(error.what());
  }
  follow();
}

void MembershipWatcher::take(const CoordinationReply& read) {
  ReadMembers fresh = members_in(read);
  if (const std::string fault = find_contradiction(known_.members, fresh.members); !fault.empty())
    throw std::runtime_error("the cluster's members in etcd: " + fault +
                             "; expected a successor of the members that were read before");
  known_ = std::move(fresh);
}

std::vector<NodeId> MembershipWatcher::there(NodeRole role) const {
  std::vector<NodeId> file;
  for (const Member& member : file_)
    if (member.has(role)) file.push_back(member.node);
  const std::lock_guard lock(mutex_);
  return nodes_of(seen_, file, role);
}

std::vector<NodeId> MembershipWatcher::staying(NodeRole role) const {
  std::vector<NodeId> nodes = there(role);
  const std::lock_guard lock(mutex_);
  std::erase_if(nodes, [this](NodeId node) { return node == own_ || seen_.leaving.contains(node); });
  return nodes;
}

void MembershipWatcher::follow() {
  {
    const std::lock_guard lock(mutex_);
    seen_ = known_.members;
  }
  if (const std::string fault = kept_.write(known_.members); !fault.empty()) calls_.on_not_kept(fault);
  calls_.on_peers(peers_of(file_, known_.members, own_));
  if (!known_.members.leaving.contains(own_) && is_member(known_.members)) return;
  if (leaves_since_.exchange(known_.revision) == 0) calls_.on_leave();
}

// Marks this node as arrived. If etcd does not answer, the next round tries again.
void MembershipWatcher::report_arrival() {
  const bool late = std::chrono::steady_clock::now() - began_ > arrival_timeout;
  if (!late && !calls_.has_connected(peers_of(file_, known_.members, own_))) return;
  try {
    known_ = change_members(coordination_, [this](ClusterMembers members) -> MembersChange {
      return arrived(std::move(members), own_);
    });
    follow();  // reports changes that others made meanwhile
  } catch (const std::runtime_error& error) {
    calls_.on_fault(error.what());
  }
}

void MembershipWatcher::publish(std::string progress) {
  const std::lock_guard lock(mutex_);
  progress_ = std::move(progress);
}

// An unreachable etcd keeps the former progress; the next round tries again. The lease ends when this
// process does, and the key with it.
void MembershipWatcher::write_progress() {
  std::string progress;
  {
    const std::lock_guard lock(mutex_);
    progress = progress_;
  }
  if (progress.empty()) return;
  const auto ask = [this](Coordinate question) {
    const auto answer = coordination_.ask(std::move(question));
    const auto* reply = std::get_if<CoordinationReply>(&answer);
    return reply ? *reply : CoordinationReply{};
  };
  if (progress_lease_ != 0 && !ask({KeepLease{progress_lease_}}).ok) progress_lease_ = 0;
  if (progress_lease_ != 0 && progress == progress_written_) return;
  if (progress_lease_ == 0) progress_lease_ = ask({OpenLease{progress_ttl.us}}).lease;
  if (progress_lease_ == 0) return;
  const CoordinationReply written =
      ask({WriteKey{leave_key(own_), progress, progress_revision_, progress_lease_}});
  progress_revision_ = written.revision;
  if (written.ok) progress_written_ = std::move(progress);
}

std::string MembershipWatcher::end(std::string progress) {
  publish(std::move(progress));
  write_progress();
  try {
    change_members(coordination_, [this](ClusterMembers members) -> MembersChange {
      return without(std::move(members), file_, own_);
    });
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace troupe::deploy
