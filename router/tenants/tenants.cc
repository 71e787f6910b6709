// Keeps the weights and the current load of tenants that have requests at this router. The number
// is bounded; tenants beyond it share one entry, "(others)".
#include "router/tenants/tenants.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "kernels/base/check.h"

namespace troupe::router {
namespace {

constexpr double weight_least = 0.01, weight_most = 100;

std::invalid_argument bad_weight(std::string_view entry) {
  return std::invalid_argument(
      "\"" + std::string(entry) +
      "\"; expected TENANT=WEIGHT, with commas between, each tenant once and a weight of "
      "0.01..100, such as search=4,ads=0.5");
}

}  // namespace

TenantWeights parse_tenant_weights(std::string_view text) {
  TenantWeights weights;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    const bool ends_in_comma = entry.size() + 1 == text.size();
    text.remove_prefix(std::min(entry.size() + 1, text.size()));
    if (ends_in_comma) throw bad_weight("");
    const std::size_t equals = entry.rfind('=');
    if (equals == entry.npos) throw bad_weight(entry);
    double weight = 0;
    const std::string_view number = entry.substr(equals + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
    const bool in_range = weight >= weight_least && weight <= weight_most;
    if (error != std::errc() || end != number.data() + number.size() || !in_range) throw bad_weight(entry);
    if (!weights.emplace(entry.substr(0, equals), weight).second) throw bad_weight(entry);
  }
  return weights;
}

Tenants::Tenants(TenantsConfig config) : config_(std::move(config)) {
  tenants_.push_back({.name = "(others)", .listed = true});
  for (const auto& [name, weight] : config_.weights) {
    ids_[name] = static_cast<TenantId>(tenants_.size());
    tenants_.push_back({.name = name, .weight = weight, .listed = true});
  }
}

TenantId Tenants::id_of(std::string_view name) {
  if (const auto at = ids_.find(name); at != ids_.end()) return at->second;
  const std::optional<TenantId> place = id_for_new();
  if (!place) return others;
  at(*place) = {.name = std::string(name), .idle = true};
  idle_.push_back(*place);  // until its first request arrives
  ids_.emplace(name, *place);
  return *place;
}

// Returns an unused id, or that of the tenant that has had no request for longest.
std::optional<TenantId> Tenants::id_for_new() {
  if (tenants_.size() < 1 + config_.weights.size() + config_.tenants_max) {
    tenants_.emplace_back();
    return static_cast<TenantId>(tenants_.size() - 1);
  }
  while (!idle_.empty()) {
    const TenantId longest = idle_.front();
    idle_.pop_front();
    at(longest).idle = false;
    if (at(longest).requests > 0) continue;
    ids_.erase(at(longest).name);
    return longest;
  }
  return std::nullopt;
}

void Tenants::leave(TenantId tenant) {
  Tenant& gone = at(tenant);
  TROUPE_CHECK(gone.requests > 0, "a tenant that leaves has a request");
  if (--gone.requests > 0 || gone.listed || std::exchange(gone.idle, true)) return;
  idle_.push_back(tenant);
}

void Tenants::wait(TenantId tenant, double work_us) {
  ++at(tenant).waiting;
  at(tenant).work_us += work_us;
}

void Tenants::stop_waiting(TenantId tenant, double work_us) {
  Tenant& waits = at(tenant);
  TROUPE_CHECK(waits.waiting > 0, "a tenant that continues has a waiting request");
  --waits.waiting;
  waits.work_us = waits.waiting > 0 ? std::max(0.0, waits.work_us - work_us) : 0;
}

std::optional<TenantId> Tenants::heaviest() const {
  std::optional<TenantId> heaviest;
  double most = 0;
  for (TenantId id = 0; id < tenants_.size(); ++id) {
    const Tenant& tenant = tenants_[id];
    const double load = static_cast<double>(tenant.requests) / tenant.weight;
    if (tenant.waiting == 0 || load <= most) continue;
    heaviest = id;
    most = load;
  }
  return heaviest;
}

std::vector<const Tenants::Tenant*> Tenants::busiest(std::size_t most) const {
  std::vector<const Tenant*> busy;
  for (const Tenant& tenant : tenants_)
    if (tenant.requests > 0) busy.push_back(&tenant);
  std::ranges::sort(busy, [](const Tenant* a, const Tenant* b) {
    return a->waiting != b->waiting ? a->waiting > b->waiting : a->name < b->name;
  });
  busy.resize(std::min(busy.size(), most));
  return busy;
}

}  // namespace troupe::router
