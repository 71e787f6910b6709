#pragma once
// CAF actors around cores and servers, and the messages between them. Within a process a message
// travels as its struct: the sender moves it, and only the receiver has it. Bytes come only from
// other processes, or if a test asks for them.
#include <caf/all.hpp>
#include <map>
#include <memory>
#include <optional>

#include "runtime/host/host.h"
#include "runtime/network/job_runner.h"
#include "runtime/network/links.h"
#include "runtime/network/mailbox_order.h"
#include "runtime/network/timer_queue.h"
#include "runtime/profiling/cpu_components.h"

namespace troupe::caf_local {
struct StartSignal {};
struct LocalMessage {  // a message of this process, or the result of a job
  Event event;
};
struct EncodedMessage {
  std::shared_ptr<const Bytes> envelope;
  NodeId peer = 0;  // node whose connection it came by; 0 = this process
};
struct PeerLossSignal {
  NodeId node = 0;
};
struct TimerSignal {
  Instant at;
};
}  // namespace troupe::caf_local

CAF_BEGIN_TYPE_ID_BLOCK(troupe_local, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::StartSignal))
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::LocalMessage))
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::EncodedMessage))
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::PeerLossSignal))
CAF_ADD_TYPE_ID(troupe_local, (troupe::caf_local::TimerSignal))
CAF_END_TYPE_ID_BLOCK(troupe_local)
// CAF never serialises these types.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::StartSignal)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::LocalMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::EncodedMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::PeerLossSignal)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::caf_local::TimerSignal)

namespace troupe {

struct Routes {  // written before the first actor runs, then only read
  std::map<Address, caf::actor> inside;
  std::unique_ptr<Links> links;  // links to other nodes; null = no cluster
  NodeId node = 0;               // this process's node; only with links
  ModelActorIds actor_ids;       // actor ids of the cluster's models
  bool encode_inside = false;

  bool is_remote(Address to) const { return links && actor_ids.node_of(to.node) != node; }
  // Sends a message from an actor that `unit` runs, or from outside (null).
  void send(Address from, Address to, Message message, caf::execution_unit* unit,
            const Journal& journal) const;
};

// Enqueues a message. `unit` runs the receiver if it was idle; null = a thread of the pool does.
template <class What>
void post_to(const caf::actor& to, What&& what, caf::execution_unit* unit) {
  note_mailbox_send(caf::actor_cast<caf::abstract_actor*>(to));
  to->enqueue(caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::forward<What>(what)), unit);
}

// Returns the execution unit of the server that is called on this thread; null if there is none, or
// if it belongs to another host.
caf::execution_unit* server_unit(const caf::actor_system& system);

struct CafActor {
  ActorSpec spec;
  std::unique_ptr<JobRunner> jobs;  // null = no port
};

CpuComponent component_of(Role role);
CpuComponent component_of_port(Role role);

// Runs a core as a CAF actor. Its handlers are noexcept: a core that throws is a bug and stops the
// process.
class Shell : public caf::event_based_actor {
 public:
  Shell(caf::actor_config& config, CafActor* actor, const Routes* routes, const Journal* journal)
      : caf::event_based_actor(config), actor_(actor), routes_(routes), journal_(journal) {}

  caf::behavior make_behavior() override;

  void apply(Effects::Send& effect);
  void apply(Effects::SetTimer& effect) { timers_.add(now_, effect.timer, effect.at); }
  void apply(Effects::Start& effect);
  void apply(Effects::Count& effect) { journal_->record(effect); }
  void apply(Effects::Log& effect) { journal_->write(actor_->spec.address, effect); }

 private:
  template <class Step>
  void in_turn(Step&& step) {
    turns_.run(static_cast<caf::abstract_actor*>(this), std::forward<Step>(step));
  }
  void receive(const caf_local::EncodedMessage& parcel);
  void handle(Event* event) noexcept;
  void step(Event&& event);
  void request_wake();
  std::optional<JobResult> run_now(const Job& job) const;

  CafActor* actor_;
  const Routes* routes_;
  const Journal* journal_;
  Instant now_;  // time of the current event
  Effects effects_;
  TimerQueue timers_;
  std::optional<Instant> wake_requested_at_;  // earliest time requested from the clock
  MailboxTurns turns_;
};

class ServerShell : public caf::event_based_actor {
 public:
  ServerShell(caf::actor_config& config, Address address, Host::ServerHandler server, const Routes* routes,
              const Journal* journal)
      : caf::event_based_actor(config),
        address_(address),
        server_(std::move(server)),
        routes_(routes),
        journal_(journal) {}

  caf::behavior make_behavior() override;

 private:
  template <class Step>
  void in_turn(Step&& step) {
    turns_.run(static_cast<caf::abstract_actor*>(this), std::forward<Step>(step));
  }
  void deliver(Address from, Message message) noexcept;

  Address address_;
  Host::ServerHandler server_;
  const Routes* routes_;
  const Journal* journal_;
  MailboxTurns turns_;
};

}  // namespace troupe
