#pragma once
// Who floods is refused before his bodies are read as JSON: a tenant that the router has just refused, because it has
// as much there as one may, gets the same answer again for a moment. What waits there takes longer than
// that as a rule, so nothing stands idle for it; a bound of a few small requests may be done sooner. Without this the door's one thread is busy with what will be refused, and everybody
// waits for it. A request that comes after the moment goes to the router and says how things are.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/actor/messages.h"

namespace troupe::router {

class TenantPauses {
 public:
  // `pause_us` after each refusal by the router, of so many tenants at a time; further ones are not paused.
  TenantPauses(std::int64_t pause_us, std::size_t tenants_max) : pause_us_(pause_us), tenants_max_(tenants_max) {}

  void refused(const std::string& tenant, const Refusal& refusal, std::int64_t now_us);
  // What the tenant is told now; null: it may ask.
  const Refusal* find(const std::string& tenant, std::int64_t now_us);
  std::size_t size() const { return paused_.size(); }

 private:
  struct Paused {
    Refusal refusal;
    std::int64_t until_us = 0;
  };
  std::int64_t pause_us_;
  std::size_t tenants_max_;
  std::map<std::string, Paused> paused_;
};

}  // namespace troupe::router
