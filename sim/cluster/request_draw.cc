// Draws requests of simulated clients. All draws come from one stream of the run's seed.
#include "sim/cluster/request_draw.h"

#include <algorithm>

#include "sim/cluster/expected_arrangement.h"

namespace troupe::sim {

RequestDraw::RequestDraw(Cluster& cluster)
    : cluster_(cluster),
      random_(cluster.scenario().seed, 31),
      writes_share_(cluster.scenario().writes_share) {}

std::string RequestDraw::tenant() {
  const auto& tenants = cluster_.world().options().tenants;
  if (greedy_share_ > 0 && chance(random_, greedy_share_)) return tenants.at(greedy_);
  return tenants[random_.below(tenants.size())];
}

RankRequest RequestDraw::rank() {
  RankRequest request;
  request.tenant = tenant();
  request.user = WorldData::user_id(cluster_.world().draw_user(random_));
  request.candidates = cluster_.world().draw_candidates(random_, cluster_.scenario().candidates,
                                                        cluster_.versions().catalog_version);
  if (chance(random_, 0.2)) request.top_k = 1 + static_cast<std::uint32_t>(random_.below(5));
  name_policy(request);
  name_arrangement(request);
  make_lenient(request);
  if (malformed_share_ == 0 && !refusal_of(request).empty()) name_nothing(request);
  return request;
}

// Makes one request in four lenient, by its content: with a recently read profile, or without waiting for
// one.
void RequestDraw::make_lenient(RankRequest& request) {
  if (!cluster_.scenario().lenient) return;
  const std::uint64_t drawn = mix(hash_of(request.user), hash_of(request.candidates.back()));
  if (drawn % 4 == 0) request.features = drawn / 4 % 3 == 0 ? Freshness::wait : Freshness::behind;
}

// Lets one request in eight name an arrangement, chosen by its content: mostly a declared one. Whether the
// request must be refused is found out by itself (`refusal_of`).
void RequestDraw::name_arrangement(RankRequest& request) {
  const std::uint64_t drawn = mix(hash_of(request.user), hash_of(request.candidates.front()) + 1);
  if (drawn % 8 != 0 || cluster_.scenario().generates) return;
  using enum Arrangement;
  constexpr Arrangement words[] = {causal, user_first, item_first, candidates_apart, history, towers};
  const std::vector<Arrangement>& declared = cluster_.form().arrangements;
  request.arrangement =
      drawn / 8 % 4 == 0 ? words[drawn / 32 % std::size(words)] : declared[drawn / 32 % declared.size()];
}

void RequestDraw::name_nothing(RankRequest& request) {
  request.policy.clear();
  request.approximate = -1;
  request.arrangement = Arrangement::unnamed;
}

std::string RequestDraw::refusal_of(const Message& request) const {
  const auto* rank = std::get_if<RankRequest>(&request);
  return rank && !cluster_.scenario().generates ? expected_refusal(*rank, cluster_.form()) : "";
}

// Chooses one request in sixteen by its content, so that no other draw of a run changes. Such a request
// names a policy: mostly one with blocks, or a planner that may choose them; a share of its prompt, none or
// all may be approximate. The form may not allow it.
void RequestDraw::name_policy(RankRequest& request) {
  const std::uint64_t drawn = mix(hash_of(request.user), hash_of(request.candidates.front()));
  if (drawn % 16 != 0 || cluster_.scenario().generates) return;
  constexpr std::string_view policies[] = {
      "blocks+30:tail:mean:layer2",
      "blocks+10:importance",
      "blocks+50:attention",
      "blocks+20:deviation:mean",
      "planner",
      "all_blocks+30:tail:mean:history20:window6",
      "planner+10:attention:history30:history-importance:lambda0.5:window8",
      "all_blocks+0:importance:history100",
      "user",
      "item",
      "bat",
      "recompute",
      "causal",
      "item+25",
      "item+40:tail:mean",
      "bat+30:importance:window4",
      "user+25"};
  constexpr double shares[] = {-1, 0, 0.25, 1};
  request.policy = policies[drawn / 16 % std::size(policies)];
  if (cluster_.scenario().prototypes && drawn / 1'024 % 2 == 0)
    request.policy = "all_blocks+30:attention:history20:prototypes";
  request.approximate = shares[drawn / 128 % std::size(shares)];
}

Message RequestDraw::request() {
  if (chance(random_, writes_share_)) return write();
  if (!chance(random_, 0.02)) return rank();
  ScoreRequest score;
  const auto tokens_max = static_cast<std::uint64_t>(std::min<Token>(500, cluster_.world().rows() - 12));
  for (int i = 0; i < 5; ++i) score.query.push_back(static_cast<Token>(10 + random_.below(tokens_max)));
  for (int i = 0; i < 3; ++i)
    score.items.push_back({{static_cast<Token>(10 + random_.below(tokens_max)), 4}});
  score.label_tokens = {11, 12};
  return score;
}

Message RequestDraw::write() {
  const std::string user = WorldData::user_id(cluster_.world().draw_user(random_));
  const std::string item = WorldData::item_id(cluster_.world().draw_item(random_));
  std::vector<Token> tokens;
  const auto tokens_max = static_cast<std::uint64_t>(std::min<Token>(500, cluster_.world().rows() - 10));
  for (std::uint64_t i = 2 + random_.below(12); i > 0; --i)
    tokens.push_back(static_cast<Token>(10 + random_.below(tokens_max)));
  if (cluster_.scenario().generates) return grow_or_put(user, std::move(tokens));
  if (chance(random_, 0.3)) return append(tenant(), user, std::move(tokens));
  if (!chance(random_, 0.3)) return PutUser{0, tenant(), user, {}, tokens};
  return PutItem{0, item, "new " + item, tokens, static_cast<Token>(10 + random_.below(500))};
}

// Appends to an existing profile, or replaces it. Blocks of a history also serve the history with events
// appended.
Message RequestDraw::grow_or_put(const std::string& user, std::vector<Token> tokens) {
  constexpr std::size_t grown_max = 200;
  const std::string owner = tenant();
  const auto profile = cluster_.world().profile(owner, user);
  const bool grows = profile && profile->tokens.size() < grown_max && chance(random_, 0.7);
  if (grows && chance(random_, 0.5)) return append(owner, user, std::move(tokens));
  if (grows) tokens.insert(tokens.begin(), profile->tokens.begin(), profile->tokens.end());
  return PutUser{0, owner, user, {}, std::move(tokens)};
}

// Repeats the last append in one of five cases, like a client that does not know whether it was done.
AppendEvents RequestDraw::append(const std::string& tenant, const std::string& user,
                                 std::vector<Token> tokens) {
  if (last_append_ && chance(random_, 0.2)) return *last_append_;
  AppendEvents events{.tenant = tenant, .user = user, .tokens = std::move(tokens)};
  for (std::size_t i = 0; i < events.tokens.size(); ++i)
    events.event_ids.push_back("e" + std::to_string(++events_drawn_));
  last_append_ = events;
  return events;
}

namespace {

// Returns an arrangement that the form does not declare. Prompts with a frame never have those of histories.
Arrangement undeclared(const PromptForm& form) {
  for (const Arrangement each :
       {Arrangement::causal, Arrangement::user_first, Arrangement::item_first, Arrangement::candidates_apart})
    if (!form.declares(each)) return each;
  return Arrangement::history;
}

}  // namespace

Message RequestDraw::malformed() {
  RankRequest request = rank();
  name_nothing(request);
  switch (random_.below(8)) {
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
    case 5:
      request.arrangement = undeclared(cluster_.form());
      return request;
    case 6:
      request.policy = "user+25";  // its plan has no blocks of items
      return request;
    default:
      return PutUser{0, "", "", {"i0"}, {1, 2, -7}};
  }
}

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
    // Drawn for the user: where a history names no items, the device cannot tell requests apart that differ
    // in this alone, and would count one request where routers count two.
    RandomStream of_user(hash_of(rank.tenant), hash_of(rank.user));
    request.exclude_seen = chance(of_user, 0.3);
    if (list < 0.5) request.deny = rank.candidates;
  }
  request.logprobs = chance(random, 0.25);
  RandomStream normalisation_of_user(hash_of(rank.tenant), hash_of(rank.user) + 1);  // likewise
  if (!request.among_allowed) request.normalised = static_cast<Normalised>(normalisation_of_user.below(3));
  return request;
}

}  // namespace troupe::sim
