// Plays the clients of the simulated cluster: draws rankings, writes and malformed requests, sends
// them to routers, or replays a trace. client_judge.cc judges the outcomes.
#include "sim/cluster/clients.h"

#include <algorithm>
#include <cmath>

#include "runtime/actor/message_id.h"
#include "runtime/actor/user_home.h"

namespace troupe::sim {
namespace {

constexpr double copied_share = 0.01;  // share of requests that their clients send twice

// Returns the generate request that replaces this ranking for generators; the same ranking gives the same
// request.
GenerateRequest generate_of(const RankRequest& rank) {
  std::uint64_t seed = hash_of(rank.user);
  for (const std::string& candidate : rank.candidates) seed = mix(seed, hash_of(candidate));
  RandomStream random(seed, rank.top_k);
  GenerateRequest request{.tenant = rank.tenant, .user = rank.user, .top_k = rank.top_k};
  if (chance(random, 0.7))
    request.width = std::max(rank.top_k, 1 + static_cast<std::uint32_t>(random.below(40)));
  request.among_allowed = chance(random, 0.3);
  const double list = unit(random);
  if (list < 0.2) {
    request.allow = rank.candidates;
  } else {
    request.exclude_seen = chance(random, 0.3);
    if (list < 0.5) request.deny = rank.candidates;
  }
  request.logprobs = chance(random, 0.25);
  return request;
}

}  // namespace

Clients::Clients(Cluster& cluster, Violations& violations)
    : cluster_(cluster),
      violations_(violations),
      random_(cluster.scenario().seed, 31),
      writes_share_(cluster.scenario().writes_share) {
  for (std::uint32_t model = 0; model < cluster.scenario().models; ++model)
    oracles_.emplace_back(cluster.world(), cluster.form(), cluster.family(model),
                          cluster.scenario().approximate);
  served_.resize(oracles_.size());
  cluster_.coordination().on_change = [this] { note_versions(); };
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
  const auto gap = static_cast<std::int64_t>(-std::log(unit(random_)) * 1e6 / rate);
  const Instant next = cluster_.now() + Duration{std::clamp<std::int64_t>(gap, 1, 10'000'000)};
  SentRequest asked;
  if (chance(random_, malformed_share_)) asked.kind = SentRequest::Kind::malformed;
  asked.request = asked.kind == SentRequest::Kind::malformed ? malformed(draw_rank()) : draw_request();
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

// ---- requests ----

std::string Clients::draw_tenant() {
  const auto& tenants = cluster_.world().options().tenants;
  if (greedy_share_ > 0 && chance(random_, greedy_share_)) return tenants.at(greedy_);
  return tenants[random_.below(tenants.size())];
}

RankRequest Clients::draw_rank() {
  RankRequest request;
  request.tenant = draw_tenant();
  request.user = WorldData::user_id(cluster_.world().draw_user(random_));
  request.candidates = cluster_.world().draw_candidates(random_, cluster_.scenario().candidates,
                                                        cluster_.versions().catalog_version);
  if (chance(random_, 0.2)) request.top_k = 1 + static_cast<std::uint32_t>(random_.below(5));
  make_approximate(request);
  make_lenient(request);
  return request;
}

// Makes one request in four lenient, by its content: with a recently read profile, or without waiting for
// one.
void Clients::make_lenient(RankRequest& request) {
  if (!cluster_.scenario().lenient) return;
  const std::uint64_t drawn = mix(hash_of(request.user), hash_of(request.candidates.back()));
  if (drawn % 4 == 0) request.features = drawn / 4 % 3 == 0 ? "wait" : "behind";
}

std::uint64_t Clients::known_stored(const RankRequest& request, Instant at) const {
  const auto known = stored_when_.find({request.tenant, request.user});
  if (known == stored_when_.end()) return 0;
  std::uint64_t version = 0;
  for (const auto& [when, stored] : known->second)
    if (when <= at) version = stored;
  return version;
}

std::uint64_t Clients::stored_by(NodeId router, const RankRequest& request) const {
  const auto known = stored_by_.find({request.tenant, request.user, router});
  return known != stored_by_.end() ? known->second : 0;
}

// Sets the lowest allowed profile versions of a lenient request.
void Clients::set_allowed_ages(const RankRequest& request, SentRequest& asked) const {
  asked.profile_stale = asked.profile_known;
  if (request.features.empty()) return;
  const ExpiryOptions& expiry = cluster_.scenario().expiry;
  const auto before = [&](Duration time) { return known_stored(request, {asked.sent.us - time.us}); };
  const std::uint64_t own = stored_by(asked.router, request);
  asked.profile_known = std::max(own, before(expiry.expiry));
  asked.profile_stale = std::max(own, before({expiry.expiry.us + expiry.stale_for.us}));
  const std::int64_t longest_us = std::max(expiry.expiry.us + expiry.stale_for.us, expiry.unknown_expiry.us);
  asked.profile_since = std::max<std::uint64_t>(1, before({longest_us}));
}

// Chooses one request in sixteen by its content, so that no other draw of a run changes. Such a request
// asks for plans with blocks, or for a planner that may choose them; a share of its prompt, none or all may
// be approximate.
void Clients::make_approximate(RankRequest& request) {
  const std::uint64_t drawn = mix(hash_of(request.user), hash_of(request.candidates.front()));
  if (drawn % 16 != 0 || cluster_.scenario().generates) return;
  constexpr std::string_view policies[] = {"blocks+30:tail:mean:layer2",
                                           "blocks+10:importance",
                                           "blocks+50:attention",
                                           "blocks+20:deviation:mean",
                                           "planner",
                                           "all_blocks+30:tail:mean:history20:window6",
                                           "planner+10:attention:window8",
                                           "all_blocks+0:importance:history100"};
  constexpr double shares[] = {-1, 0, 0.25, 1};
  request.policy = policies[drawn / 16 % std::size(policies)];
  if (cluster_.scenario().prototypes && drawn / 1'024 % 2 == 0)
    request.policy = "all_blocks+30:attention:history20:prototypes";
  request.approximate = shares[drawn / 128 % std::size(shares)];
}

Message Clients::draw_request() {
  if (chance(random_, writes_share_)) return draw_write();
  if (!chance(random_, 0.02)) return draw_rank();
  ScoreRequest score;
  const auto tokens_max = static_cast<std::uint64_t>(std::min<Token>(500, cluster_.world().rows() - 12));
  for (int i = 0; i < 5; ++i) score.query.push_back(static_cast<Token>(10 + random_.below(tokens_max)));
  for (int i = 0; i < 3; ++i)
    score.items.push_back({{static_cast<Token>(10 + random_.below(tokens_max)), 4}});
  score.label_tokens = {11, 12};
  return score;
}

Message Clients::draw_write() {
  const std::string user = WorldData::user_id(cluster_.world().draw_user(random_));
  const std::string item = WorldData::item_id(cluster_.world().draw_item(random_));
  std::vector<Token> tokens;
  const auto tokens_max = static_cast<std::uint64_t>(std::min<Token>(500, cluster_.world().rows() - 10));
  for (std::uint64_t i = 2 + random_.below(12); i > 0; --i)
    tokens.push_back(static_cast<Token>(10 + random_.below(tokens_max)));
  if (cluster_.scenario().generates) return grow_or_put(user, std::move(tokens));
  if (chance(random_, 0.3)) return draw_append(draw_tenant(), user, std::move(tokens));
  if (!chance(random_, 0.3)) return PutUser{0, draw_tenant(), user, {}, tokens};
  return PutItem{0, item, "new " + item, tokens, static_cast<Token>(10 + random_.below(500))};
}

// Appends to an existing profile, or replaces it. Blocks of a history also serve the history with events
// appended.
Message Clients::grow_or_put(const std::string& user, std::vector<Token> tokens) {
  constexpr std::size_t grown_max = 200;
  const std::string tenant = draw_tenant();
  const auto profile = cluster_.world().profile(tenant, user);
  const bool grows = profile && profile->tokens.size() < grown_max && chance(random_, 0.7);
  if (grows && chance(random_, 0.5)) return draw_append(tenant, user, std::move(tokens));
  if (grows) tokens.insert(tokens.begin(), profile->tokens.begin(), profile->tokens.end());
  return PutUser{0, tenant, user, {}, std::move(tokens)};
}

// Repeats the last append in one of five cases, like a client that does not know whether it was done.
AppendEvents Clients::draw_append(const std::string& tenant, const std::string& user,
                                  std::vector<Token> tokens) {
  if (last_append_ && chance(random_, 0.2)) return *last_append_;
  AppendEvents events{.tenant = tenant, .user = user, .tokens = std::move(tokens)};
  for (std::size_t i = 0; i < events.tokens.size(); ++i)
    events.event_ids.push_back("e" + std::to_string(++events_drawn_));
  last_append_ = events;
  return events;
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

// Chooses the model by the request's content, so that no other draw changes: half of the requests name a
// model, the others get the one of their user's share. Writes apply to all models and go to the first
// model's routers. So do lenient requests, because each router has its own profile cache.
std::uint32_t Clients::model_of(const SentRequest& asked) const {
  const std::uint32_t models = cluster_.scenario().models;
  if (models <= 1 || asked.kind != SentRequest::Kind::usual) return 0;
  if (const auto* score = std::get_if<ScoreRequest>(&asked.request))
    return static_cast<std::uint32_t>(hash_of(score->query) % models);
  const auto* rank = std::get_if<RankRequest>(&asked.request);
  if (!rank || !rank->features.empty() || rank->candidates.empty()) return 0;
  const std::uint64_t drawn = mix(hash_of(rank->user), hash_of(rank->candidates.back()), 0x5e7);
  const std::uint64_t of_user = mix(user_hash(rank->tenant, rank->user), 0xab);
  return static_cast<std::uint32_t>((drawn % 2 == 0 ? drawn / 2 : of_user) % models);
}

void Clients::send(SentRequest asked) {
  asked.router = draw_router();
  if (asked.router == 0) {  // no router listens: the connection is refused immediately
    ++tally_.unsent;
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
  note_versions();
  asked.must_succeed = must_succeed_ && asked.kind == SentRequest::Kind::usual;
  if (asked.kind == SentRequest::Kind::usual) asked.since_kill = since_kill_;
  const auto note_profile = [&](const auto& request) {
    const auto known = stored_.find({request.tenant, request.user});
    if (known != stored_.end()) asked.profile_known = known->second;
    asked.profile_since = cluster_.world().profile_version(request.tenant, request.user);
  };
  if (const auto* rank = std::get_if<RankRequest>(&asked.request)) {
    note_profile(*rank);
    set_allowed_ages(*rank, asked);
  } else {
    asked.profile_stale = asked.profile_known;
  }
  if (const auto* generate = std::get_if<GenerateRequest>(&asked.request)) note_profile(*generate);
  if (const auto* put = std::get_if<PutUser>(&asked.request)) put_.emplace(put->tenant, put->user);
  if (const auto* gone = std::get_if<DeleteUser>(&asked.request)) put_.emplace(gone->tenant, gone->user);
  ++tally_.requests;
  ++second(asked.sent).sent;
  const NodeId number = cluster_.actor_ids().number(asked.router, asked.model);
  post(number, asked.request);
  if (!cluster_.scenario().served && chance(random_, copied_share))
    post_again(number, asked.request, random_.between({0}, asked.budget));
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
  RankRequest request = draw_rank();
  request.tenant = tenant;
  request.user = user;
  request.features.clear();  // drawn for another user
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

}  // namespace troupe::sim
