// Plays the clients of the simulated cluster: sends random requests or those of a trace to routers, and
// hands the outcomes to the judge.
#include "sim/cluster/clients.h"

#include <algorithm>
#include <cmath>

#include "runtime/actor/message_id.h"
#include "runtime/actor/user_home.h"

namespace troupe::sim {
namespace {

constexpr double copied_share = 0.01;  // share of requests that their clients send twice
constexpr std::size_t ended_max = 100'000;

void remember(std::deque<RequestId>& ids, RequestId id) {
  ids.push_back(id);
  if (ids.size() > ended_max) ids.pop_front();
}

}  // namespace

Clients::Clients(Cluster& cluster, Violations& violations)
    : cluster_(cluster), violations_(violations), draw_(cluster), judge_(cluster, violations) {
  for (auto& [id, node] : cluster_.nodes())
    if (node.is_router)
      cluster_.host().set_server({id, Role::server}, [this, id = id](Address, Message message) {
        on_answer(id, std::move(message));
      });
}

void Clients::start(Instant from, Instant until) {
  until_ = until;
  cluster_.host().at(from, [this] { arrive(); });
}

void Clients::arrive() {
  if (cluster_.now() >= until_) return;
  const double rate = std::max(1e-3, cluster_.scenario().requests_per_s * rate_factor_);
  const auto gap = static_cast<std::int64_t>(-std::log(unit(draw_.random())) * 1e6 / rate);
  const Instant next = cluster_.now() + Duration{std::clamp<std::int64_t>(gap, 1, 10'000'000)};
  SentRequest asked;
  if (draw_.is_malformed()) asked.kind = SentRequest::Kind::malformed;
  asked.request = asked.kind == SentRequest::Kind::malformed ? draw_.malformed() : draw_.request();
  asked.refusal = draw_.refusal_of(asked.request);
  if (!asked.refusal.empty()) asked.kind = SentRequest::Kind::malformed;
  send(std::move(asked));
  if (next < until_) cluster_.host().at(next, [this] { arrive(); });
}

void Clients::follow(TracedRequests requests) {
  traced_ = std::move(requests);
  expect_traced();
}

void Clients::run_closed_loop(TracedRequests requests, std::size_t in_flight) {
  traced_ = std::move(requests);
  closed_ = true;
  for (std::size_t i = 0; i < in_flight; ++i) ask_next();
}

void Clients::ask_next() {
  if (traced_ && traced_(next_traced_)) ask_traced();
}

void Clients::ask_traced() {
  const TracedRequest& t = next_traced_;
  if (cluster_.scenario().served) write_profile(t);
  if (t.generates)
    ask(GenerateRequest{.tenant = t.tenant, .user = t.user, .top_k = t.top_k, .width = t.width});
  else
    ask(RankRequest{.tenant = t.tenant, .user = t.user, .candidates = t.candidates});
}

void Clients::run_open_loop(TracedRequests requests) {
  traced_ = std::move(requests);
  expect_next(cluster_.now());
}

void Clients::expect_next(Instant since) {
  if (!traced_ || !traced_(next_traced_)) return;
  const Instant at = std::max(since + (next_traced_.at - Instant{}), cluster_.now());
  cluster_.host().at(at, [this, since] {
    if (!traced_) return;
    ask_traced();
    expect_next(since);
  });
}

void Clients::expect_traced() {
  if (!traced_ || !traced_(next_traced_)) return;
  cluster_.host().at(std::max(next_traced_.at, cluster_.now()), [this] { arrive_traced(); });
}

void Clients::arrive_traced() {
  if (!traced_) return;
  if (!cluster_.scenario().served) write_profile(next_traced_);
  ask_traced();
  expect_traced();
}

void Clients::write_profile(const TracedRequest& t) {
  WorldData& world = cluster_.world();
  const bool is_new = world.profile_version(t.tenant, t.user) == 1;  // still the generated profile
  if (is_new || !t.events.empty()) world.append(t.tenant, t.user, t.events);
}

// ---- sending ----

NodeId Clients::draw_router() {
  std::vector<NodeId> alive;
  for (auto& [id, node] : cluster_.nodes())
    if (node.is_router && !node.draining && cluster_.host().alive(id)) alive.push_back(id);
  return alive.empty() ? 0 : alive[draw_.random().below(alive.size())];
}

// Chooses the model by the request's content, so that no other draw changes: half of the requests name a
// model, the others get the one of their user's share. Writes apply to all models and go to the first
// model's routers. So do lenient requests, because each router has its own profile cache.
std::uint32_t Clients::model_of(const SentRequest& asked) const {
  const std::uint32_t models = cluster_.scenario().models;
  if (models <= 1 || asked.kind != SentRequest::Kind::usual) return 0;
  if (const auto* score = std::get_if<ScoreRequest>(&asked.request))
    return static_cast<std::uint32_t>(hash_of(score->query) % models);
  const auto* rank = std::get_if<RankRequest>(&asked.request);
  if (!rank || rank->features != Freshness::configured || rank->candidates.empty()) return 0;
  const std::uint64_t drawn = mix(hash_of(rank->user), hash_of(rank->candidates.back()), 0x5e7);
  const std::uint64_t of_user = mix(user_hash(rank->tenant, rank->user), 0xab);
  return static_cast<std::uint32_t>((drawn % 2 == 0 ? drawn / 2 : of_user) % models);
}

void Clients::send(SentRequest asked) {
  asked.router = draw_router();
  if (asked.router == 0) {  // no router listens: the connection is refused immediately
    ++tally().unsent;
    return;
  }
  if (const auto* rank = std::get_if<RankRequest>(&asked.request);
      rank && cluster_.scenario().generates && asked.kind != SentRequest::Kind::malformed)
    asked.request = generate_of(*rank);
  asked.model = model_of(asked);
  const RequestId id = next_id_++;
  set_id(asked.request, id);
  asked.sent = cluster_.now();
  asked.budget = cluster_.scenario().deadline;
  asked.edition = cluster_.world().edition();
  asked.must_succeed = must_succeed_ && asked.kind == SentRequest::Kind::usual;
  if (asked.kind == SentRequest::Kind::usual) asked.since_kill = since_kill_;
  judge_.note_sent(asked);
  const NodeId number = cluster_.actor_ids().number(asked.router, asked.model);
  post(number, asked.request);
  if (!cluster_.scenario().served && chance(draw_.random(), copied_share))
    post_again(number, asked.request, draw_.random().between({0}, asked.budget));
  open_.emplace(id, std::move(asked));
}

void Clients::post(NodeId router, const Message& request) {
  const Instant now = cluster_.now();
  while (!posted_.empty() && posted_.front().at + cluster_.scenario().link.latency_max < now)
    posted_.pop_front();
  const NodeId node = cluster_.actor_ids().node_of(router);
  posted_.push_back({id_of(request), node, now});
  cluster_.host().post({router, Role::router}, {node, Role::server}, request);
}

// Sends the request once more, before or after its outcome, unless the connection is gone.
void Clients::post_again(NodeId router, const Message& request, Duration after) {
  const Incarnation process = cluster_.host().incarnation(router);
  cluster_.host().at(cluster_.now() + after, [this, router, request, process] {
    if (cluster_.host().alive(router) && cluster_.host().incarnation(router) == process)
      post(router, request);
  });
}

RankRequest Clients::draw_for(const std::string& tenant, const std::string& user) {
  RankRequest request = draw_.rank();
  request.tenant = tenant;
  request.user = user;
  request.features = Freshness::configured;  // drawn for another user
  if (!draw_.refusal_of(request).empty()) RequestDraw::name_nothing(request);
  return request;
}

void Clients::ask(const Message& request) {
  SentRequest asked;
  asked.request = request;
  send(std::move(asked));
}

void Clients::send_poison(const RankRequest& request) {
  SentRequest asked;
  asked.request = request;
  asked.kind = SentRequest::Kind::poison;
  send(std::move(asked));
}

void Clients::reload(const std::string& model_version, const std::string& catalog_version, double share) {
  SentRequest asked;
  asked.request = Reload{0, model_version, catalog_version, share};
  asked.kind = SentRequest::Kind::reload;
  asked.alone = true;
  for (auto& [id, other] : open_)
    if (std::holds_alternative<Reload>(other.request)) asked.alone = other.alone = false;
  send(std::move(asked));
}

// ---- outcomes ----

void Clients::on_answer(NodeId router, Message message) {
  const RequestId id = id_of(message);
  const auto at = open_.find(id);
  if (at == open_.end()) return on_unexpected(router, id);
  const SentRequest asked = std::move(at->second);
  open_.erase(at);
  remember(ended_, id);
  if (asked.router != router) judge_.report(1, asked, "is answered by another router");
  if (cluster_.now() > judge_.due(asked))
    judge_.report(
        1, asked,
        "has its outcome " + std::to_string((cluster_.now() - judge_.due(asked)).us) + " us too late");
  judge_.judge(asked, message);
  if (closed_) cluster_.host().at(cluster_.now(), [this] { ask_next(); });
}

void Clients::on_unexpected(NodeId router, RequestId id) {
  if (stray_.contains(id)) return;
  const std::string who = "request " + std::to_string(id);
  if (std::ranges::find(ended_, id) != ended_.end())
    return violations_.report(1, who + " has two outcomes", cluster_.now());
  if (std::ranges::find(cut_, id) != cut_.end())
    return violations_.report(1, who + " was lost with its router, and has an outcome", cluster_.now());
  if (id == 0 || id >= next_id_)
    violations_.report(1, who + " was never asked, but has an outcome at node " + std::to_string(router),
                       cluster_.now());
}

// Messages in flight to the killed process reach the next process of that node.
void Clients::cut_off(NodeId router) {
  for (const Posted& posted : posted_)
    if (posted.router == router && posted.at + cluster_.scenario().link.latency_max >= cluster_.now())
      stray_.insert(posted.id);
  for (auto at = open_.begin(); at != open_.end();) {
    const bool theirs = at->second.router == router;
    tally().cut_off += theirs;
    if (theirs) remember(cut_, at->first);
    at = theirs ? open_.erase(at) : std::next(at);
  }
}

std::string Clients::open_refusal(RequestId id) const {
  const auto at = open_.find(id);
  return at == open_.end() ? "" : at->second.refusal;
}

std::size_t Clients::open_at(NodeId router) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(open_, [&](const auto& entry) { return entry.second.router == router; }));
}

void Clients::check_overdue() {
  for (auto& [id, asked] : open_) {
    if (asked.overdue || cluster_.now() <= judge_.due(asked) || cluster_.host().paused(asked.router))
      continue;
    asked.overdue = true;
    judge_.report(1, asked, "has no outcome long after its deadline");
  }
}

}  // namespace troupe::sim
