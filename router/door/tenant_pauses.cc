#include "router/door/tenant_pauses.h"

namespace troupe::router {

void TenantPauses::refused(const std::string& tenant, const Refusal& refusal, std::int64_t now_us) {
  if (refusal.code != "tenant_overloaded") return;
  if (paused_.size() >= tenants_max_)
    std::erase_if(paused_, [&](const auto& entry) { return entry.second.until_us <= now_us; });
  if (paused_.size() < tenants_max_ || paused_.contains(tenant))
    paused_[tenant] = {refusal, now_us + pause_us_};
}

const Refusal* TenantPauses::find(const std::string& tenant, std::int64_t now_us) {
  const auto at = paused_.find(tenant);
  if (at == paused_.end()) return nullptr;
  if (at->second.until_us > now_us) return &at->second.refusal;
  paused_.erase(at);
  return nullptr;
}

}  // namespace troupe::router
