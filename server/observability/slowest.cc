// Keeps the slowest requests of the last minutes for the status page, in bounded memory.
#include "server/observability/slowest.h"

#include <algorithm>

#include "runtime/wire/json_text.h"

namespace troupe::server {

namespace {

void put_text(std::string& out, const char* name, std::string_view value) {
  append_json_string(out.append(out.back() == '{' ? "\"" : ",\"").append(name).append("\":"), value);
}
void put_number(std::string& out, const char* name, std::int64_t value) {
  out.append(out.back() == '{' ? "\"" : ",\"").append(name).append("\":") += std::to_string(value);
}

void append_timings(std::string& out, const Timings& t) {
  out += ",\"timings\":{";
  for (const auto& [name, us] : {std::pair{"features", t.features},
                                 {"lookup", t.lookup},
                                 {"turn", t.turn},
                                 {"blocks", t.blocks},
                                 {"pull", t.pull},
                                 {"queue", t.queue},
                                 {"compute", t.compute}})
    put_number(out, name, us);
  out += '}';
}

void append_request(std::string& out, const ObservedRequest& request, std::int64_t ago_us) {
  out += '{';
  put_text(out, "request", request.request_id);
  put_text(out, "trace", trace_id(request.trace));
  put_text(out, "kind", request.run.kind.empty() ? request.route : request.run.kind);
  put_text(out, "tenant", request.tenant);
  put_text(out, "model", request.model);
  put_text(out, "code", request.code);
  put_text(out, "plan", request.run.plan);
  put_number(out, "status", request.status);
  put_number(out, "node", request.run.node);
  put_number(out, "ago_ms", ago_us / 1000);
  put_number(out, "us", request.took_us);
  put_number(out, "tokens_total", request.run.tokens_total);
  put_number(out, "tokens_reused", request.run.tokens_reused);
  append_timings(out, request.run.timings);
  out += '}';
}

}  // namespace

void SlowestRequests::add(std::int64_t now_us, ObservedRequest request) {
  const std::int64_t number = now_us / slot_us;
  Slot& slot = slots_[static_cast<std::size_t>(number) % slots];
  if (slot.number != number) slot = {number, {}};
  if (slot.kept.size() == of_slot_max) {
    if (request.took_us <= slot.kept.back().request.took_us) return;
    slot.kept.pop_back();
  }
  const auto after = std::ranges::find_if(
      slot.kept, [&](const Kept& kept) { return kept.request.took_us < request.took_us; });
  slot.kept.insert(after, {now_us, std::move(request)});
}

std::string SlowestRequests::to_json(std::int64_t now_us, const std::optional<std::string>& tenant) const {
  std::vector<const Kept*> all;
  for (const Slot& slot : slots_)
    for (const Kept& kept : slot.kept)
      if (now_us / slot_us - slot.number < static_cast<std::int64_t>(slots) &&
          (!tenant || kept.request.tenant == *tenant))
        all.push_back(&kept);
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const Kept* kept) { return kept->request.took_us; });
  all.resize(std::min(all.size(), shown));
  std::string out = "{\"requests\":[";
  for (const Kept* kept : all) {
    if (out.back() != '[') out += ',';
    append_request(out, kept->request, now_us - kept->at_us);
  }
  return out + "]}";
}

}  // namespace troupe::server
