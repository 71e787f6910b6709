#include "sim/clients.h"

#include <algorithm>
#include <cmath>

namespace troupe::sim {
namespace {

constexpr std::size_t ended_max = 100'000;

RequestId id_of(const Message& message) {
  return std::visit(
      [](const auto& m) -> RequestId {
        if constexpr (requires { m.id; }) return m.id;
        return 0;
      },
      message);
}

void set_id(Message& message, RequestId id) {
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.id; }) m.id = id;
      },
      message);
}

std::string text_of(const Message& request) {
  if (const auto* rank = std::get_if<RankRequest>(&request))
    return "rank request " + std::to_string(rank->id) + " of user " + rank->tenant + "/" + rank->user;
  return "request " + std::to_string(id_of(request));
}

}  // namespace

Clients::Clients(Cluster& cluster, Violations& violations)
    : cluster_(cluster),
      violations_(violations),
      oracle_(cluster.world(), cluster.form()),
      random_(cluster.scenario().seed, 31),
      writes_share_(cluster.scenario().writes_share) {
  for (auto& [id, node] : cluster_.nodes())
    if (node.is_router)
      cluster_.host().set_door(
          {id, Role::door}, [this, id = id](Address, Message message) { on_answer(id, std::move(message)); });
}

void Clients::start(Instant from, Instant until) {
  until_ = until;
  cluster_.host().at(from, [this] { arrive(); });
}

void Clients::arrive() {
  if (cluster_.now() >= until_) return;
  const double rate = std::max(1e-3, cluster_.scenario().requests_per_s * rate_factor_);
  const auto gap = static_cast<std::int64_t>(-std::log(unit(random_)) * 1e6 / rate);
  const Instant next = cluster_.now() + Duration{std::clamp<std::int64_t>(gap, 1, 10'000'000)};
  Asked asked;
  asked.strange = chance(random_, malformed_share_);
  asked.request = asked.strange ? malformed(draw_rank()) : draw_request();
  send(std::move(asked));
  if (next < until_) cluster_.host().at(next, [this] { arrive(); });
}

// ---- requests ----

std::string Clients::draw_tenant() {
  const auto& tenants = cluster_.world().options().tenants;
  return tenants[random_.below(tenants.size())];
}

RankRequest Clients::draw_rank() {
  RankRequest request;
  request.tenant = draw_tenant();
  request.user = WorldData::user_id(cluster_.world().draw_user(random_));
  request.candidates = cluster_.world().draw_candidates(random_, cluster_.scenario().candidates,
                                                        cluster_.versions().catalog_version);
  if (chance(random_, 0.2)) request.top_k = 1 + static_cast<std::uint32_t>(random_.below(5));
  return request;
}

Message Clients::draw_request() {
  if (chance(random_, writes_share_)) return draw_write();
  if (!chance(random_, 0.02)) return draw_rank();
  ScoreRequest score;
  for (int i = 0; i < 5; ++i) score.query.push_back(static_cast<Token>(10 + random_.below(500)));
  for (int i = 0; i < 3; ++i) score.items.push_back({{static_cast<Token>(10 + random_.below(500)), 4}});
  score.label_tokens = {11, 12};
  return score;
}

Message Clients::draw_write() {
  const std::string user = WorldData::user_id(cluster_.world().draw_user(random_));
  const std::string item = WorldData::item_id(cluster_.world().draw_item(random_));
  std::vector<Token> tokens;
  for (std::uint64_t i = 2 + random_.below(12); i > 0; --i)
    tokens.push_back(static_cast<Token>(10 + random_.below(500)));
  if (!chance(random_, 0.3)) return PutUser{0, draw_tenant(), user, {}, tokens};
  return PutItem{0, item, "new " + item, tokens, static_cast<Token>(10 + random_.below(500))};
}

Message Clients::malformed(RankRequest request) {
  switch (random_.below(6)) {
    case 0:
      request.candidates.clear();
      return request;
    case 1:
      request.user.clear();
      return request;
    case 2:
      request.candidates.assign(5'000, "i1");
      return request;
    case 3:
      request.policy = "no such policy";
      return request;
    case 4:
      request.user.assign(3'000, 'x');
      return request;
    default:
      return PutUser{0, "", "", {"i0"}, {1, 2, -7}};
  }
}

NodeId Clients::draw_router() {
  std::vector<NodeId> alive;
  for (auto& [id, node] : cluster_.nodes())
    if (node.is_router && !node.draining && cluster_.host().alive(id)) alive.push_back(id);
  return alive.empty() ? 0 : alive[random_.below(alive.size())];
}

void Clients::send(Asked asked) {
  asked.router = draw_router();
  if (asked.router == 0) return;  // nobody listens: a connection refused, and known at once
  const RequestId id = next_id_++;
  set_id(asked.request, id);
  asked.sent = cluster_.now();
  asked.budget = cluster_.scenario().deadline;
  asked.edition = cluster_.world().edition();
  note_versions();
  asked.must_succeed = must_succeed_ && !asked.strange;
  asked.kill_watch = kill_watch_ && !asked.strange;
  if (const auto* rank = std::get_if<RankRequest>(&asked.request)) {
    const auto known = stored_.find({rank->tenant, rank->user});
    if (known != stored_.end()) asked.profile_known = known->second;
  }
  ++tally_.requests;
  tally_.after_kill += asked.kill_watch;
  ++second(asked.sent).sent;
  const Address router{asked.router, Role::router}, door{asked.router, Role::door};
  cluster_.host().post(router, door, asked.request);
  if (chance(random_, 0.01)) cluster_.host().post(router, door, asked.request);  // a client that sends twice
  open_.emplace(id, std::move(asked));
}

RankRequest Clients::draw_for(const std::string& tenant, const std::string& user) {
  RankRequest request = draw_rank();
  request.tenant = tenant;
  request.user = user;
  return request;
}

void Clients::ask(const Message& request) {
  Asked asked;
  asked.request = request;
  send(std::move(asked));
}

void Clients::ask_strange(const RankRequest& request) {
  Asked asked;
  asked.request = request;
  asked.strange = true;
  send(std::move(asked));
}

void Clients::reload(const std::string& model_version, const std::string& catalog_version) {
  Asked asked;
  asked.request = Reload{0, model_version, catalog_version};
  asked.strange = true;
  send(std::move(asked));
}

// ---- outcomes ----

Second& Clients::second(Instant at) {
  const auto index = static_cast<std::size_t>(at.us / 1'000'000);
  if (seconds_.size() <= index) seconds_.resize(index + 1);
  return seconds_[index];
}

void Clients::on_answer(NodeId router, Message message) {
  const RequestId id = id_of(message);
  const auto at = open_.find(id);
  if (at == open_.end()) {
    const bool again = std::ranges::find(ended_, id) != ended_.end();
    if (again) violations_.report(1, "request " + std::to_string(id) + " has two outcomes", cluster_.now());
    return;  // else: one whose connection was cut, answered by nobody's business
  }
  const Asked asked = std::move(at->second);
  open_.erase(at);
  ended_.push_back(id);
  if (ended_.size() > ended_max) ended_.pop_front();
  if (asked.router != router) report(1, asked, "is answered at another door");
  judge(asked, message);
}

void Clients::judge(const Asked& asked, const Message& answer) {
  const auto* refused = std::get_if<Refused>(&answer);
  Second& now = second(cluster_.now());
  if (refused) {
    const bool late = refused->refusal.status == 504;
    ++(late ? tally_.expired : tally_.refused);
    ++(late ? now.expired : now.refused);
    return judge_refusal(asked, refused->refusal);
  }
  ++tally_.answered;
  ++now.answered;
  tally_.after_kill_ok += asked.kill_watch;
  now.latency_ms.push_back(static_cast<float>((cluster_.now() - asked.sent).us) * 1e-3F);
  if (const auto* stored = std::get_if<Stored>(&answer)) return learn_stored(asked, *stored);
  if (const auto* rank = std::get_if<RankReply>(&answer)) return judge_rank(asked, *rank);
  const auto* score = std::get_if<ScoreReply>(&answer);
  const auto* request = std::get_if<ScoreRequest>(&asked.request);
  if (!score || !request) return report(1, asked, "gets an answer of another kind");
  if (const std::string fault = oracle_.find_fault(*request, *score); !fault.empty()) report(1, asked, fault);
  judge_versions(asked, score->model_version, "");
}

void Clients::judge_rank(const Asked& asked, const RankReply& reply) {
  const auto* request = std::get_if<RankRequest>(&asked.request);
  if (!request) return report(1, asked, "gets a ranking");
  const std::string fault = oracle_.find_fault(*request, reply, asked.edition, cluster_.world().edition());
  if (!fault.empty()) report(1, asked, fault);
  if (reply.profile_version < asked.profile_known)
    report(1, asked,
           "is answered from profile " + std::to_string(reply.profile_version) + ", stored before it was " +
               std::to_string(asked.profile_known));
  tally_.tokens_total += reply.tokens_total;
  tally_.tokens_reused += reply.tokens_reused;
  judge_versions(asked, reply.model_version, reply.catalog_version);
}

void Clients::note_versions() {
  const Versions now = cluster_.versions();
  if (served_.empty() || served_.back().versions.epoch != now.epoch) served_.push_back({now, cluster_.now()});
}

// Nothing is answered from versions that were replaced before the request was sent, nor from any that were
// not served. Routers have a few heartbeats to hear of it; one that is cut off or stopped may need longer.
void Clients::judge_versions(const Asked& asked, const std::string& model, const std::string& catalog) {
  note_versions();
  const std::int64_t grace = 4 * cluster_.scenario().heartbeat.us;
  for (std::size_t i = 0; i < served_.size(); ++i) {
    const bool replaced =
        asked.must_succeed && i + 1 < served_.size() && served_[i + 1].from.us + grace < asked.sent.us;
    const Versions& versions = served_[i].versions;
    if (!replaced && model == versions.model_version &&
        (catalog.empty() || catalog == versions.catalog_version))
      return;
  }
  report(4, asked,
         "is answered by model " + model + " from catalog " + catalog + ", which were not served then");
}

void Clients::judge_refusal(const Asked& asked, const Refusal& refusal) {
  if (refusal.code.empty() || refusal.status < 400 || refusal.status > 599)
    return report(1, asked, "gets a refusal without status or code");
  if (!asked.must_succeed) return;
  const bool may_be_convicted = refusal.code == "poison" && !cluster_.scenario().faults.empty();
  if (refusal.status == 404 || may_be_convicted) return;
  report(6, asked, "is refused though the cluster has what it needs: " + refusal.code + ", " + refusal.what);
}

void Clients::learn_stored(const Asked& asked, const Stored& stored) {
  if (const auto* put = std::get_if<PutUser>(&asked.request)) {
    std::uint64_t& known = stored_[{put->tenant, put->user}];
    known = std::max(known, stored.version);
  } else if (const auto* gone = std::get_if<DeleteUser>(&asked.request)) {
    std::uint64_t& known = stored_[{gone->tenant, gone->user}];
    known = std::max(known, stored.version);
  } else if (std::holds_alternative<Reload>(asked.request)) {
    ++tally_.swaps;
  }
}

void Clients::cut_off(NodeId router) {
  for (auto at = open_.begin(); at != open_.end();) {
    const bool theirs = at->second.router == router;
    tally_.cut_off += theirs;
    at = theirs ? open_.erase(at) : std::next(at);
  }
}

std::size_t Clients::open_at(NodeId router) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(open_, [&](const auto& entry) { return entry.second.router == router; }));
}

// The deadline is kept by the router's own clock, which a fault may have made slow.
void Clients::check_overdue() {
  const std::int64_t grace = 2 * cluster_.scenario().heartbeat.us;
  for (auto at = open_.begin(); at != open_.end();) {
    const Asked& asked = at->second;
    const std::int64_t budget = std::holds_alternative<Reload>(asked.request) ? 60'000'000 : asked.budget.us;
    const std::int64_t due = asked.sent.us + (cluster_.scenario().drifts ? budget * 11 / 10 : budget) + grace;
    if (cluster_.now().us <= due) {
      ++at;
      continue;
    }
    const Node& node = cluster_.node(asked.router);
    const bool undisturbed = node.disturbed.us < asked.sent.us && !cluster_.host().paused(asked.router);
    if (undisturbed) report(1, asked, "has no outcome long after its deadline");
    ++tally_.cut_off;
    at = open_.erase(at);
  }
}

void Clients::report(int promise, const Asked& asked, const std::string& what) {
  violations_.report(promise,
                     text_of(asked.request) + " (sent at " + std::to_string(asked.sent.us) + " us to node " +
                         std::to_string(asked.router) + ") " + what,
                     cluster_.now());
}

}  // namespace troupe::sim
