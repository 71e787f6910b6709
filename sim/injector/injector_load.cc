// Injects faults of clients and of the feature store: overload, malformed requests, flash crowds,
// poison, deletions, a slow or failing store.
#include <algorithm>

#include "router/request/prompt.h"
#include "sim/injector/injector.h"

namespace troupe::sim {
namespace {

constexpr Duration delete_every{40'000};
constexpr std::size_t gone_users_max = 8;  // at the same time; a quarter as many items

}  // namespace

bool Injector::degrade_features(const FaultChange& change) {
  const NodeId router = change.fault.node;
  FeatureFaults& features = cluster_.node(router).features;
  features.slowness = 1 + 300 * strongest(FaultKind::features_slow, router);
  features.failing = active(FaultKind::features_failing, router) > 0;
  features.unreadable = strongest(FaultKind::features_unreadable, router);
  features.hung_until = last_end(FaultKind::features_hung, router);
  return alive(router);
}

bool Injector::flood(const FaultChange& change) {
  const Scenario& s = cluster_.scenario();
  clients_.set_rate(change.worst > 0 ? (2 + 8 * change.worst) * s.capacity_per_s / s.requests_per_s : 1);
  // If there are several tenants, mostly one of them floods: the seed selects it, and for a third of the
  // seeds no tenant does.
  const auto greedy = static_cast<std::uint32_t>(s.seed % s.tenants);
  clients_.set_greedy(greedy, change.worst > 0 && s.tenants > 1 && s.seed % 3 > 0 ? 0.9 : 0);
  return true;
}

bool Injector::crowd(const FaultChange& change) {
  const Scenario& s = cluster_.scenario();
  const double share = change.worst > 0 ? 0.8 : 0;
  const auto first = static_cast<std::uint32_t>(change.worst * (s.users - 1));
  cluster_.world().user_flash = {share, first, 1};
  cluster_.world().item_flash = {share, first % s.items, s.candidates + 2};
  return true;
}

bool Injector::send_malformed(const FaultChange& change) {
  clients_.set_malformed(change.worst > 0 ? 0.5 : 0);
  return true;
}

bool Injector::storm_profiles(const FaultChange&) {
  refresh_writes();
  return true;
}

// Former leaders send commands only after writes.
void Injector::refresh_writes() {
  const double usual = cluster_.scenario().writes_share;
  const double storm = active(FaultKind::profile_storm) > 0 ? 0.5 : 0;
  clients_.set_writes(std::max({usual, storm, deposed_.empty() ? 0.0 : 0.3}));
}

// ---- poison ----

bool Injector::send_poison(const FaultChange& change) {
  if (change.on) return start_poison(change.index);
  poisons_.erase(change.index);
  cluster_.poisons().clear();
  for (const auto& [other, content] : poisons_) cluster_.poisons().insert(content);
  return true;
}

// Requests the same content repeatedly, each time after the previous outcome is due.
bool Injector::start_poison(std::size_t index) {
  const Scenario& s = cluster_.scenario();
  const auto& tenants = cluster_.world().options().tenants;
  const std::string tenant = tenants[random_.below(tenants.size())];
  const std::uint64_t first = random_.below(s.users);
  std::uint64_t step = 0;
  while (step < s.users && cluster_.world().is_twin((first + step) % s.users)) ++step;
  if (step == s.users) return false;  // twins are two contents for routers, but one for the device
  const std::string user = WorldData::user_id((first + step) % s.users);
  const auto profile = cluster_.world().profile(tenant, user);
  if (!profile) return false;
  const router::FittedHistory history = router::fit_history(cluster_.form(), *profile, 64);
  cluster_.poisons().insert(poisons_[index] = poison_of(history.tokens));
  const RankRequest request = clients_.draw_for(tenant, user);
  const Duration gap{s.deadline.us + 4 * s.heartbeat.us};
  for (std::int64_t us = 0; us == 0 || us < faults_[index].lasts.us; us += gap.us)
    cluster_.host().at(cluster_.now() + Duration{us}, [this, request] {
      if (!healed_) clients_.send_poison(request);
    });
  return true;
}

// A content may kill twice; after that every router knows it. In a storm, routers may lose what they knew
// or be cut off from those who know.
void Injector::on_poison(NodeId node, std::uint64_t content) {
  if (!alive(node)) return;
  if (history) history("poison kills node " + std::to_string(node));
  const Scenario& s = cluster_.scenario();
  const std::uint32_t most =
      s.drill && !s.together ? 2 : 2 * (s.routers + static_cast<std::uint32_t>(s.faults.size()));
  if (++kills_by_poison_[content] > most)
    violations_.report(12, "one request has killed " + std::to_string(kills_by_poison_[content]) + " workers",
                       cluster_.now());
  kill(node);
  cluster_.host().at(cluster_.now() + Duration{300'000}, [this, node] { restart(node); });
}

// ---- deletes ----

bool Injector::delete_owners(const FaultChange& change) {
  if (change.on)
    start_deletes(change.fault);
  else if (active(change.fault.kind) == 0)
    put_all_back();
  return true;
}

void Injector::start_deletes(const Fault& fault) {
  const auto gap = static_cast<std::int64_t>(static_cast<double>(delete_every.us) / fault.intensity);
  for (std::int64_t us = 0; us == 0 || us < fault.lasts.us; us += gap)
    cluster_.host().at(cluster_.now() + Duration{us}, [this, &fault] {
      if (healed_) return;
      seed_draws(fault);
      delete_one();
    });
}

// Deletes popular owners, since those are in use. An owner that is drawn again is restored, and all are
// restored at the end.
void Injector::delete_one() {
  const WorldData& world = cluster_.world();
  const auto& tenants = world.options().tenants;
  if (chance(random_, 0.3) && !cluster_.scenario().generates) {
    const std::string item = WorldData::item_id(world.draw_item(random_));
    if (gone_items_.erase(item) > 0) return put_item(item);
    if (gone_items_.size() >= cluster_.scenario().items / 4) return;
    gone_items_.insert(item);
    return clients_.ask(DeleteItem{0, item});
  }
  const UserKey user{tenants[random_.below(tenants.size())], WorldData::user_id(world.draw_user(random_))};
  if (gone_users_.erase(user) > 0) return put_user(user);
  if (gone_users_.size() >= gone_users_max) return;
  gone_users_.insert(user);
  clients_.ask(DeleteUser{0, user.first, user.second});
}

void Injector::put_user(const UserKey& user) {
  clients_.ask(PutUser{0, user.first, user.second, {}, draw_tokens()});
}

void Injector::put_item(const std::string& item) {
  clients_.ask(PutItem{0, item, "again " + item, draw_tokens(), static_cast<Token>(10 + random_.below(500))});
}

void Injector::put_all_back() {
  for (const UserKey& user : gone_users_) put_user(user);
  for (const std::string& item : gone_items_) put_item(item);
  gone_users_.clear();
  gone_items_.clear();
}

std::vector<Token> Injector::draw_tokens() {
  std::vector<Token> tokens;
  const auto tokens_max = static_cast<std::uint64_t>(std::min<Token>(500, cluster_.world().rows() - 10));
  for (std::uint64_t i = 2 + random_.below(10); i > 0; --i)
    tokens.push_back(static_cast<Token>(10 + random_.below(tokens_max)));
  return tokens;
}

}  // namespace troupe::sim
