#pragma once
// The tenants that have requests here: who is whose, with which weight, and how much of each there is. Names
// come from outside, so how many are told apart is bounded: those with a weight of their own always, of
// others so many at a time. What further ones send counts as one tenant's, "(others)". A name that has no
// request left makes room for a new one. Work is in microseconds of a lane.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "router/tenants/fair_queue.h"

namespace troupe::router {

using TenantWeights = std::map<std::string, double, std::less<>>;  // of those that do not have 1

// "search=4,ads=0.5": one name and weight for each; "" is none. Throws std::invalid_argument that says what
// is wrong and what was expected.
TenantWeights parse_tenant_weights(std::string_view text);

struct TenantsConfig {
  TenantWeights weights;
  std::uint32_t tenants_max = 256;        // without a weight of their own, that are told apart
  std::uint32_t requests_max = 0;         // of one tenant that have no outcome yet; 0: as many as of all
  std::int64_t work_us_max = 10'000'000;  // of one tenant's that waits, for each lane of a worker
};

class Tenants {
 public:
  struct Tenant {
    std::string name;
    double weight = 1;
    bool listed = false;       // has a weight of its own, and stays
    std::size_t requests = 0;  // without an outcome
    std::size_t waiting = 0;   // of those, for their turn
    double work_us = 0;        // of those that wait
    bool idle = false;         // in the line of those whose place may be taken
  };
  static constexpr TenantId others = 0;

  explicit Tenants(TenantsConfig config);

  // Whose a request of that name would be: an id stays the name's while it has a request.
  TenantId id_of(std::string_view name);
  void enter(TenantId tenant) { ++at(tenant).requests; }
  void leave(TenantId tenant);
  void wait(TenantId tenant, double work_us);
  void go_on(TenantId tenant, double work_us);

  const Tenant& operator[](TenantId tenant) const { return tenants_[tenant]; }
  // Who has most requests for its weight, of those that have something waiting.
  std::optional<TenantId> heaviest() const;
  // Those with requests, most waiting first, then by name: `most` of them.
  std::vector<const Tenant*> busiest(std::size_t most) const;
  std::size_t size() const { return tenants_.size(); }
  const TenantsConfig& config() const { return config_; }

 private:
  Tenant& at(TenantId tenant) { return tenants_.at(tenant); }
  std::optional<TenantId> place_for_new();

  const TenantsConfig config_;
  std::deque<Tenant> tenants_;  // by id
  std::map<std::string, TenantId, std::less<>> ids_;
  std::deque<TenantId> idle_;  // longest first; some have requests again
};

}  // namespace troupe::router
