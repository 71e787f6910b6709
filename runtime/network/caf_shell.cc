#include "runtime/network/caf_shell.h"

#include <chrono>
#include <string>
#include <utility>

#include "kernels/base/check.h"

namespace troupe {

using caf_local::Encoded;
using caf_local::Launch;
using caf_local::Lost;
using caf_local::Parcel;
using caf_local::Wake;

namespace {

thread_local caf::execution_unit* unit_of_door = nullptr;

Instant steady_now() {
  return {std::chrono::duration_cast<std::chrono::microseconds>(
              std::chrono::steady_clock::now().time_since_epoch())
              .count()};
}

// Decodes an envelope and refuses one whose sender is not an actor of the peer that sent it.
std::optional<Envelope> open(const Journal& journal, Address to, const Encoded& parcel, const Seats& seats) {
  auto envelope = journal.open(to, *parcel.envelope);
  if (!envelope || parcel.peer == 0) return envelope;
  const Address from = envelope->from;
  if ((is_of_model(from.role) ? seats.node_of(from.node) : from.node) == parcel.peer) return envelope;
  journal.protocol_error(name_of(to), "forged_sender",
                         "node " + std::to_string(parcel.peer) + " sends as " + name_of(from));
  return std::nullopt;
}

}  // namespace

caf::execution_unit* door_unit(const caf::actor_system& system) {
  return unit_of_door && &unit_of_door->system() == &system ? unit_of_door : nullptr;
}

void Routes::send(Address from, Address to, Message message, caf::execution_unit* unit,
                  const Journal& journal) const {
  const auto route = inside.find(to);
  const bool leads_out = lead_out(to);
  if (route == inside.end() && !leads_out) return journal.nobody_at(to);
  if (!leads_out && !encode_inside)
    return hand(route->second, Parcel{Received{from, std::move(message)}}, unit);
  auto bytes = std::make_shared<const Bytes>(encode(Envelope{from, std::move(message)}));
  if (leads_out) return links->send(to, std::move(bytes));
  hand(route->second, Encoded{std::move(bytes)}, unit);
}

CpuRoom room_of(Role role) {
  switch (role) {
    case Role::door:
      return CpuRoom::door;
    case Role::router:
      return CpuRoom::router;
    case Role::cache_meta:
      return CpuRoom::cache_meta;
    case Role::kv_worker:
      return CpuRoom::kv_worker;
    case Role::inference_worker:
      return CpuRoom::inference_worker;
    case Role::allocator:
      return CpuRoom::allocator;
  }
  return CpuRoom::none;
}

CpuRoom room_of_port(Role role) {
  if (role == Role::inference_worker) return CpuRoom::executor_port;
  return role == Role::kv_worker ? CpuRoom::block_port : CpuRoom::feature_port;
}

// ---- cores ----

// CAF calls this when the first message wakes the actor, before any message is handled. So
// start_timer comes first, even if another core has already sent a message.
caf::behavior Shell::make_behavior() {
  const Event begin = TimerFired{start_timer};
  handle(&begin);
  return {[this](const Parcel& parcel) noexcept { handle(&parcel.event); },
          [this](const Encoded& parcel) noexcept { receive(parcel); },
          [this](const Lost& lost) noexcept {
            const Event event = PeerLost{lost.node};
            handle(&event);
          },
          [this](const Wake& wake) noexcept {
            if (woken_at_ == wake.at) woken_at_.reset();
            handle(nullptr);
          },
          [](const Launch&) {}};
}

void Shell::receive(const Encoded& parcel) {
  auto envelope = open(*journal_, actor_->spec.address, parcel, routes_->seats);
  if (!envelope) return;
  const Event event = Received{envelope->from, std::move(envelope->message)};
  handle(&event);
}

// Fires due timers, then handles the event; null = only the timers.
void Shell::handle(const Event* event) noexcept {
  const CpuScope host(CpuRoom::host);
  now_ = steady_now();
  while (const auto timer = timers_.take_due(now_)) step(TimerFired{*timer});
  if (event) step(*event);
  ask_to_be_woken();
}

void Shell::step(const Event& event) {
  {
    const CpuScope core(room_of(actor_->spec.address.role));
    actor_->spec.core->step(now_, event, effects_);
  }
  for (auto& effect : effects_.list) std::visit([this](auto& one) { apply(one); }, effect);
  effects_.list.clear();
}

// Uses CAF's clock itself instead of delayed_send, which would add the time since `now`.
void Shell::ask_to_be_woken() {
  const auto at = timers_.wake_at();
  if (!at || (woken_at_ && *woken_at_ <= *at)) return;
  woken_at_ = at;
  if (*at <= now_) return hand(caf::actor{this}, Wake{*at}, context());
  system().clock().schedule_message(
      caf::actor_clock::time_point{std::chrono::microseconds{at->us}}, caf::strong_actor_ptr{ctrl()},
      caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, Wake{*at}));
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
  if (result) hand(caf::actor{this}, Parcel{Done{effect.job, std::move(*result)}}, context());
}

std::optional<JobResult> Shell::run_now(const Job& job) const {
  const CpuScope port(room_of_port(actor_->spec.address.role));
  return actor_->spec.port->run_now(job);
}

// ---- servers ----

caf::behavior DoorShell::make_behavior() {
  return {[this](Parcel& parcel) noexcept {
            auto& received = std::get<Received>(parcel.event);
            deliver(received.from, std::move(received.message));
          },
          [this](const Encoded& parcel) noexcept {
            auto envelope = open(*journal_, address_, parcel, routes_->seats);
            if (envelope) deliver(envelope->from, std::move(envelope->message));
          },
          [](const Launch&) {}, [](const Lost&) {}};
}

void DoorShell::deliver(Address from, Message message) noexcept {
  const CpuScope door(CpuRoom::door);
  unit_of_door = context();
  door_(from, std::move(message));
  unit_of_door = nullptr;
}

}  // namespace troupe
