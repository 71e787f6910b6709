#pragma once
// Hosts run cores. CafHost uses threads and real time; SimHost uses one thread, virtual time and a
// seed. A program builds its actors against this interface, and `main` chooses the host. The
// simulation encodes every message, so the codec is exercised on every hop; CafHost encodes only
// messages that leave its process. Neither host promises more than core.h says: a core that needs
// order, a reply or an end to waiting sets a timer.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/core.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/metrics.h"
#include "runtime/actor/ports.h"
#include "runtime/wire/codec.h"

namespace troupe {

// An actor to run. `port` is null for a core that starts no jobs; it must live until stop() has
// returned. `slots` executors call it at a time, each with its own index in [0, slots). Jobs start
// in the order in which the core started them and end in any order. While `jobs_waiting_max` jobs
// wait for an executor, a further job is refused at once (unavailable). Jobs that the port does on
// threads of its own (Port::begin) take no executor.
struct ActorSpec {
  Address address;
  std::unique_ptr<Core> core;
  Port* port = nullptr;
  std::uint32_t slots = 1;
  std::uint32_t jobs_waiting_max = 4096;
};

class Host {
 public:
  // Receives the messages to one address, one at a time, not always on the same thread. Must not
  // block; may post.
  using ServerHandler = std::function<void(Address from, Message message)>;

  virtual ~Host() = default;

  // Call before start(). Each address has either one core or one server.
  virtual void add(ActorSpec actor) = 0;
  // Sets the receiver of messages to a role without a core: the HTTP server, a benchmark or a test.
  virtual void set_server(Address address, ServerHandler server) = 0;

  // Starts every core with its start_timer, before any other event.
  virtual void start() = 0;
  // Call after start(), from any thread (SimHost: from its own). Messages after stop() are dropped.
  virtual void post_encoded(Address to, Bytes envelope) = 0;
  virtual void post(Address to, Address from, Message message);
  // Waits for running jobs; drops waiting jobs and undelivered messages. Afterwards no core, port
  // or server is called. Must not be called from one of them. A second call does nothing.
  virtual void stop() = 0;
};

// Returns e.g. "cache_meta@3".
std::string name_of(Address address);

using LogSink = std::function<void(LogLevel level, std::string_view actor, std::string_view event,
                                   std::span<const LogField> fields)>;

// Metrics and log lines of both hosts. Thread-safe if the sink is. `metrics` must outlive the host.
class Journal {
 public:
  Journal(MetricRegistry& metrics, LogSink sink) : metrics_(&metrics), sink_(std::move(sink)) {}

  // Decodes an envelope. Returns nothing for invalid bytes, which it counts as a protocol error.
  std::optional<Envelope> open(Address to, const Bytes& bytes) const;
  // Counts a message to an address without a receiver as a protocol error.
  void report_no_receiver(Address to) const;
  void undelivered() const { metrics_->record(Metric::messages_undelivered, 1); }
  void record(const Effects::Count& count) const {
    metrics_->record(count.metric, count.amount, count.label_value, count.trace);
  }
  void write(Address who, const Effects::Log& line) const { write(name_of(who), line); }
  void write(std::string_view who, const Effects::Log& line) const;
  void protocol_error(std::string_view who, std::string_view event, std::string what) const;

 private:
  MetricRegistry* metrics_;
  LogSink sink_;
};

// Returns the refusal of a job while `jobs_waiting_max` jobs wait.
Refusal too_many_jobs(const ActorSpec& actor);

}  // namespace troupe
