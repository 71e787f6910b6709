#pragma once
// Tracks the tenants that have requests here: their ids, weights and load. Names come from outside,
// so the number of separate tenants is bounded. Tenants with their own weight always count
// separately; of the others only a limited number at a time. Requests of further tenants count as
// one tenant, "(others)". A name without requests can be replaced by a new one. Work is in
// microseconds of one executor slot.
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

using TenantWeights = std::map<std::string, double, std::less<>>;  // weights other than 1

// Parses "search=4,ads=0.5": a name and a weight each; "" = none. Throws std::invalid_argument that
// says what is wrong and what was expected.
TenantWeights parse_tenant_weights(std::string_view text);

struct TenantsConfig {
  TenantWeights weights;
  std::uint32_t tenants_max = 256;  // separate tenants without their own weight
  std::uint32_t requests_max = 0;   // requests of one tenant without an outcome; 0 = no limit per tenant
  std::int64_t work_us_max = 10'000'000;  // waiting work of one tenant, per executor slot of the workers
};

class Tenants {
 public:
  struct Tenant {
    std::string name;
    double weight = 1;
    bool listed = false;       // has its own weight, and is never replaced
    std::size_t requests = 0;  // without an outcome
    std::size_t waiting = 0;   // those of them that wait in a queue
    double work_us = 0;        // work of the waiting requests
    bool idle = false;         // is in `idle_`: its id may be reused
  };
  static constexpr TenantId others = 0;

  explicit Tenants(TenantsConfig config);

  // Returns the id for that name: it stays the name's while the tenant has a request.
  TenantId id_of(std::string_view name);
  void enter(TenantId tenant) { ++at(tenant).requests; }
  void leave(TenantId tenant);
  void wait(TenantId tenant, double work_us);
  void stop_waiting(TenantId tenant, double work_us);

  const Tenant& operator[](TenantId tenant) const { return tenants_[tenant]; }
  // Returns the tenant with most requests for its weight, among those with a waiting request.
  std::optional<TenantId> heaviest() const;
  // Returns at most `most` tenants with requests: most waiting first, then by name.
  std::vector<const Tenant*> busiest(std::size_t most) const;
  std::size_t size() const { return tenants_.size(); }
  const TenantsConfig& config() const { return config_; }
  // Executor slots of all live workers at the last heartbeat, to which the limit on work applies.
  double slots() const { return slots_; }
  void set_slots(double slots) { slots_ = slots; }

 private:
  Tenant& at(TenantId tenant) { return tenants_.at(tenant); }
  std::optional<TenantId> id_for_new();

  const TenantsConfig config_;
  std::deque<Tenant> tenants_;  // by id
  std::map<std::string, TenantId, std::less<>> ids_;
  std::deque<TenantId> idle_;  // longest idle first; some have requests again
  double slots_ = 1;
};

}  // namespace troupe::router
