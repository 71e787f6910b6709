// Parts that all hosts share: names of actors, and the log lines and counts of malformed
// messages. A host runs actors, either on threads in real time or in a simulation.
#include "runtime/host/host.h"

#include <utility>

namespace troupe {

void Host::post(Address to, Address from, Message message) {
  post_encoded(to, encode(Envelope{from, std::move(message)}));
}

namespace {

std::string_view name_of(Role role) {
  switch (role) {
    case Role::server:
      return "door";
    case Role::router:
      return "router";
    case Role::cache_meta:
      return "cache_meta";
    case Role::kv_worker:
      return "kv_worker";
    case Role::inference_worker:
      return "inference_worker";
    case Role::allocator:
      return "allocator";
  }
  return "unknown";
}

}  // namespace

std::string name_of(Address address) {
  return std::string(name_of(address.role)) + "@" + std::to_string(address.node);
}

std::optional<Envelope> Journal::open(Address to, const Bytes& bytes) const {
  auto decoded = decode(bytes);
  if (auto* envelope = std::get_if<Envelope>(&decoded)) return std::move(*envelope);
  protocol_error(name_of(to), "undecodable_envelope", std::get<std::string>(decoded));
  return std::nullopt;
}

void Journal::report_no_receiver(Address to) const {
  protocol_error(name_of(to), "no_receiver_at_address",
                 "no core and no server has this address; the message is dropped");
}

void Journal::write(std::string_view who, const Effects::Log& line) const {
  if (sink_) sink_(line.level, who, line.event, line.fields);
}

void Journal::protocol_error(std::string_view who, std::string_view event, std::string what) const {
  metrics_->record(Metric::protocol_errors, 1);
  write(who, {LogLevel::warning, std::string(event), {{"what", std::move(what)}}});
}

Refusal too_many_jobs(const ActorSpec& actor) {
  return {RefusalKind::unavailable, "overloaded",
          std::to_string(actor.jobs_waiting_max) + " jobs are already waiting", name_of(actor.address),
          "fewer jobs at a time"};
}

}  // namespace troupe
