// Injects faults of clients and of the feature store: overload, malformed requests, flash crowds,
// poison, deletions, a slow or failing store.
#include "sim/injector/load_injector.h"

#include <algorithm>

#include "router/request/prompt.h"

namespace troupe::sim {
namespace {

constexpr Duration delete_every{40'000};
constexpr std::size_t gone_users_max = 8;  // at the same time; a quarter as many items

}  // namespace

bool LoadInjector::degrade_features(const FaultChange& change) {
  const NodeId router = change.fault.node;
  FeatureFaults& features = cluster_.node(router).features;
  features.slowness = 1 + 300 * faults_.strongest(FaultKind::features_slow, router);
  features.failing = faults_.count(FaultKind::features_failing, router) > 0;
  features.unreadable = faults_.strongest(FaultKind::features_unreadable, router);
  features.hung_until = faults_.last_end(FaultKind::features_hung, router);
  return cluster_.host().alive(router);
}

bool LoadInjector::flood(const FaultChange& change) {
  const Scenario& s = cluster_.scenario();
  clients_.set_rate(change.worst > 0 ? (2 + 8 * change.worst) * s.capacity_per_s / s.requests_per_s : 1);
  // If there are several tenants, mostly one of them floods: the seed selects it, and for a third of the
  // seeds no tenant does.
  const auto greedy = static_cast<std::uint32_t>(s.seed % s.tenants);
  clients_.set_greedy(greedy, change.worst > 0 && s.tenants > 1 && s.seed % 3 > 0 ? 0.9 : 0);
  return true;
}

bool LoadInjector::crowd(const FaultChange& change) {
  const Scenario& s = cluster_.scenario();
  const double share = change.worst > 0 ? 0.8 : 0;
  const auto first = static_cast<std::uint32_t>(change.worst * (s.users - 1));
  cluster_.world().user_flash = {share, first, 1};
  cluster_.world().item_flash = {share, first % s.items, s.candidates + 2};
  return true;
}

bool LoadInjector::send_malformed(const FaultChange& change) {
  clients_.set_malformed(change.worst > 0 ? 0.5 : 0);
  return true;
}

bool LoadInjector::storm_profiles(const FaultChange&) {
  refresh_writes();
  return true;
}

void LoadInjector::set_deposed_leaders(bool any) {
  deposed_leaders_ = any;
  refresh_writes();
}

void LoadInjector::refresh_writes() {
  const double usual = cluster_.scenario().writes_share;
  const double storm = faults_.count(FaultKind::profile_storm) > 0 ? 0.5 : 0;
  clients_.set_writes(std::max({usual, storm, deposed_leaders_ ? 0.3 : 0.0}));
}

// ---- poison ----

bool LoadInjector::send_poison(const FaultChange& change) {
  if (change.on) return start_poison(change);
  poisons_.erase(change.index);
  cluster_.poisons().clear();
  for (const auto& [other, content] : poisons_) cluster_.poisons().insert(content);
  return true;
}

// Requests the same content repeatedly, each time after the previous outcome is due.
bool LoadInjector::start_poison(const FaultChange& change) {
  const Scenario& s = cluster_.scenario();
  const auto& tenants = cluster_.world().options().tenants;
  const std::string tenant = tenants[change.random.below(tenants.size())];
  const std::uint64_t first = change.random.below(s.users);
  std::uint64_t step = 0;
  while (step < s.users && cluster_.world().is_twin((first + step) % s.users)) ++step;
  if (step == s.users) return false;  // twins are two contents for routers, but one for the device
  const std::string user = WorldData::user_id((first + step) % s.users);
  const auto profile = cluster_.world().profile(tenant, user);
  if (!profile) return false;
  const router::FittedHistory history = router::fit_history(cluster_.form(), *profile, 64);
  if (history.tokens.empty()) return false;  // other users without events would be poison, too
  cluster_.poisons().insert(poisons_[change.index] = poison_of(history.tokens));
  const RankRequest request = clients_.draw_for(tenant, user);
  const Duration gap{s.deadline.us + 4 * s.heartbeat.us};
  for (std::int64_t us = 0; us == 0 || us < change.fault.lasts.us; us += gap.us)
    cluster_.host().at(cluster_.now() + Duration{us}, [this, request] {
      if (!faults_.healed()) clients_.send_poison(request);
    });
  return true;
}

// A content may kill twice; after that every router knows it. In a storm, routers may lose what they knew
// or be cut off from those who know.
void LoadInjector::on_poison(NodeId node, std::uint64_t content) {
  if (!cluster_.host().alive(node)) return;
  const Scenario& s = cluster_.scenario();
  const std::uint32_t most =
      s.drill && !s.together ? 2 : 2 * (s.routers + static_cast<std::uint32_t>(s.faults.size()));
  if (++kills_by_poison_[content] > most)
    violations_.report(12, "one request has killed " + std::to_string(kills_by_poison_[content]) + " workers",
                       cluster_.now());
  processes_.kill_for(node, {300'000}, "poison kills node " + std::to_string(node));
}

// ---- deletes ----

bool LoadInjector::delete_owners(const FaultChange& change) {
  if (change.on)
    start_deletes(change.fault);
  else if (faults_.count(change.fault.kind) == 0)
    put_all_back(change.random);
  return true;
}

void LoadInjector::start_deletes(const Fault& fault) {
  const auto gap = static_cast<std::int64_t>(static_cast<double>(delete_every.us) / fault.intensity);
  for (std::int64_t us = 0; us == 0 || us < fault.lasts.us; us += gap)
    cluster_.host().at(cluster_.now() + Duration{us}, [this, &fault] {
      if (faults_.healed()) return;
      RandomStream random = faults_.draws(fault, cluster_.now());
      delete_one(random);
    });
}

// Deletes popular owners, since those are in use. An owner that is drawn again is restored, and all are
// restored at the end.
void LoadInjector::delete_one(RandomStream& random) {
  const WorldData& world = cluster_.world();
  const auto& tenants = world.options().tenants;
  if (chance(random, 0.3) && !cluster_.scenario().generates) {
    const std::string item = WorldData::item_id(world.draw_item(random));
    if (gone_items_.erase(item) > 0) return put_item(item, random);
    if (gone_items_.size() >= cluster_.scenario().items / 4) return;
    gone_items_.insert(item);
    return clients_.ask(DeleteItem{0, item});
  }
  const UserKey user{tenants[random.below(tenants.size())], WorldData::user_id(world.draw_user(random))};
  if (gone_users_.erase(user) > 0) return put_user(user, random);
  if (gone_users_.size() >= gone_users_max) return;
  gone_users_.insert(user);
  clients_.ask(DeleteUser{0, user.first, user.second});
}

void LoadInjector::put_user(const UserKey& user, RandomStream& random) {
  clients_.ask(PutUser{0, user.first, user.second, {}, draw_tokens(random)});
}

void LoadInjector::put_item(const std::string& item, RandomStream& random) {
  clients_.ask(
      PutItem{0, item, "again " + item, draw_tokens(random), static_cast<Token>(10 + random.below(500))});
}

void LoadInjector::put_all_back(RandomStream& random) {
  for (const UserKey& user : gone_users_) put_user(user, random);
  for (const std::string& item : gone_items_) put_item(item, random);
  gone_users_.clear();
  gone_items_.clear();
}

std::vector<Token> LoadInjector::draw_tokens(RandomStream& random) const {
  std::vector<Token> tokens;
  const auto tokens_max = static_cast<std::uint64_t>(std::min<Token>(500, cluster_.world().rows() - 10));
  for (std::uint64_t i = 2 + random.below(10); i > 0; --i)
    tokens.push_back(static_cast<Token>(10 + random.below(tokens_max)));
  return tokens;
}

}  // namespace troupe::sim
