// Connects cores, the plain objects that decide, to CAF (C++ Actor Framework). It passes
// messages, timers and job results to a core as events, and carries out the effects that it
// returns. Messages within the process stay structs; only those for other nodes are encoded.
#include "runtime/network/caf_shell.h"

#include <chrono>
#include <string>
#include <utility>

#include "kernels/base/check.h"

namespace troupe {

using caf_local::EncodedMessage;
using caf_local::LocalMessage;
using caf_local::PeerLossSignal;
using caf_local::StartSignal;
using caf_local::TimerSignal;

namespace {

thread_local caf::execution_unit* unit_of_server = nullptr;

Instant steady_now() {
  return {std::chrono::duration_cast<std::chrono::microseconds>(
              std::chrono::steady_clock::now().time_since_epoch())
              .count()};
}

// Decodes an envelope and refuses one whose sender is not an actor of the peer that sent it.
std::optional<Envelope> open(const Journal& journal, Address to, const EncodedMessage& parcel,
                             const ModelActorIds& actor_ids) {
  auto envelope = journal.open(to, *parcel.envelope);
  if (!envelope || parcel.peer == 0) return envelope;
  const Address from = envelope->from;
  if ((is_of_model(from.role) ? actor_ids.node_of(from.node) : from.node) == parcel.peer) return envelope;
  journal.protocol_error(name_of(to), "forged_sender",
                         "node " + std::to_string(parcel.peer) + " sends as " + name_of(from));
  return std::nullopt;
}

}  // namespace

caf::execution_unit* server_unit(const caf::actor_system& system) {
  return unit_of_server && &unit_of_server->system() == &system ? unit_of_server : nullptr;
}

void Routes::send(Address from, Address to, Message message, caf::execution_unit* unit,
                  const Journal& journal) const {
  const auto route = inside.find(to);
  const bool leads_out = is_remote(to);
  if (route == inside.end() && !leads_out) return journal.report_no_receiver(to);
  if (!leads_out && !encode_inside)
    return post_to(route->second, LocalMessage{Received{from, std::move(message)}}, unit);
  auto bytes = std::make_shared<const Bytes>(encode(Envelope{from, std::move(message)}));
  if (leads_out) return links->send(to, std::move(bytes));
  post_to(route->second, EncodedMessage{std::move(bytes)}, unit);
}

CpuComponent component_of(Role role) {
  switch (role) {
    case Role::server:
      return CpuComponent::server;
    case Role::router:
      return CpuComponent::router;
    case Role::cache_meta:
      return CpuComponent::cache_meta;
    case Role::kv_worker:
      return CpuComponent::kv_worker;
    case Role::inference_worker:
      return CpuComponent::inference_worker;
    case Role::allocator:
      return CpuComponent::allocator;
  }
  return CpuComponent::none;
}

CpuComponent component_of_port(Role role) {
  if (role == Role::inference_worker) return CpuComponent::executor_port;
  return role == Role::kv_worker ? CpuComponent::block_port : CpuComponent::feature_port;
}

// ---- cores ----

// CAF calls this when the first message wakes the actor, before any message is handled. So
// start_timer comes first, even if another core has already sent a message.
caf::behavior Shell::make_behavior() {
  in_turn([this] {
    Event begin = TimerFired{start_timer};
    handle(&begin);
  });
  // not const, so that the event can be moved: the shell is its only receiver
  return {[this](LocalMessage& parcel) noexcept { in_turn([&] { handle(&parcel.event); }); },
          [this](const EncodedMessage& parcel) noexcept { in_turn([&] { receive(parcel); }); },
          [this](const PeerLossSignal& lost) noexcept {
            in_turn([&] {
              Event event = PeerLost{lost.node};
              handle(&event);
            });
          },
          [this](const TimerSignal& wake) noexcept {
            in_turn([&] {
              if (wake_requested_at_ == wake.at) wake_requested_at_.reset();
              handle(nullptr);
            });
          },
          [](const StartSignal&) {}};
}

void Shell::receive(const EncodedMessage& parcel) {
  auto envelope = open(*journal_, actor_->spec.address, parcel, routes_->actor_ids);
  if (!envelope) return;
  Event event = Received{envelope->from, std::move(envelope->message)};
  handle(&event);
}

// Fires due timers, then handles the event; null = only the timers.
void Shell::handle(Event* event) noexcept {
  const CpuScope host(CpuComponent::host);
  now_ = steady_now();
  while (const auto timer = timers_.take_due(now_)) step(TimerFired{*timer});
  if (event) step(std::move(*event));
  request_wake();
}

void Shell::step(Event&& event) {
  {
    const CpuScope core(component_of(actor_->spec.address.role));
    actor_->spec.core->step(now_, std::move(event), effects_);
  }
  for (auto& effect : effects_.list) std::visit([this](auto& one) { apply(one); }, effect);
  effects_.list.clear();
}

// Uses CAF's clock itself instead of delayed_send, which would add the time since `now`.
void Shell::request_wake() {
  const auto at = timers_.wake_at();
  if (!at || (wake_requested_at_ && *wake_requested_at_ <= *at)) return;
  wake_requested_at_ = at;
  if (*at <= now_) return post_to(caf::actor{this}, TimerSignal{*at}, context());
  system().clock().schedule_message(
      caf::actor_clock::time_point{std::chrono::microseconds{at->us}}, caf::strong_actor_ptr{ctrl()},
      caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, TimerSignal{*at}));
}

void Shell::apply(Effects::Send& effect) {
  routes_->send(actor_->spec.address, effect.to, std::move(effect.message), context(), *journal_);
}

void Shell::apply(Effects::Start& effect) {
  TROUPE_CHECK(actor_->jobs, "a core without a port started a job");
  std::optional<JobResult> result = run_now(effect.work);
  if (!result && !actor_->jobs->start(effect.job, std::move(effect.work)))
    result = too_many_jobs(actor_->spec);
  // The result goes through the mailbox, because a core may start the next job at once, again and
  // again.
  if (result) post_to(caf::actor{this}, LocalMessage{JobDone{effect.job, std::move(*result)}}, context());
}

std::optional<JobResult> Shell::run_now(const Job& job) const {
  const CpuScope port(component_of_port(actor_->spec.address.role));
  return actor_->spec.port->run_now(job);
}

// ---- servers ----

caf::behavior ServerShell::make_behavior() {
  return {[this](LocalMessage& parcel) noexcept {
            in_turn([&] {
              auto& received = std::get<Received>(parcel.event);
              deliver(received.from, std::move(received.message));
            });
          },
          [this](const EncodedMessage& parcel) noexcept {
            in_turn([&] {
              auto envelope = open(*journal_, address_, parcel, routes_->actor_ids);
              if (envelope) deliver(envelope->from, std::move(envelope->message));
            });
          },
          [](const StartSignal&) {}, [](const PeerLossSignal&) {}};
}

void ServerShell::deliver(Address from, Message message) noexcept {
  const CpuScope server(CpuComponent::server);
  unit_of_server = context();
  server_(from, std::move(message));
  unit_of_server = nullptr;
}

}  // namespace troupe
