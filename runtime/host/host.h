#pragma once
// A host runs cores. Two exist: CafHost (threads, real time) and SimHost (one thread, virtual time, a seed);
// a program builds its actors against this interface and `main` chooses the world. The simulation encodes
// every message, so the codec is exercised on every hop; the other encodes what leaves its process. Neither
// host promises more than core.h says: whoever needs order, a reply or an end to waiting sets a timer.
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

// `port` is null for a core that starts no jobs. It outlives the host's stop(), and is run by `lanes`
// executors at a time, each with its own index in [0, lanes); jobs start in the order in which the core asked
// for them and end in any order. When `jobs_waiting_max` of them wait for a lane, a further one ends at once
// with a Refusal (503).
struct ActorSpec {
  Address address;
  std::unique_ptr<Core> core;
  Port* port = nullptr;
  std::uint32_t lanes = 1;
  std::uint32_t jobs_waiting_max = 4096;
};

class Host {
 public:
  // Called for one message at a time (not always on the same thread); must not block, and may post.
  using Door = std::function<void(Address from, Message message)>;

  virtual ~Host() = default;

  // Before start(). One core or one door per address.
  virtual void add(ActorSpec actor) = 0;
  // A sink for messages to a role without a core: the HTTP front door, a bench, a test.
  virtual void set_door(Address address, Door door) = 0;

  // Gives every core its start_timer, before anything else.
  virtual void start() = 0;
  // After start(), from any thread (SimHost: from its own). What comes after stop() is dropped.
  virtual void post_encoded(Address to, Bytes envelope) = 0;
  virtual void post(Address to, Address from, Message message);
  // Running jobs end, waiting ones and undelivered messages are dropped; then no core, port or door is called
  // again. Not from a core, port or door. A second call does nothing.
  virtual void stop() = 0;
};

// "cache_meta@3"
std::string name_of(Address address);

using LogSink = std::function<void(LogLevel level, std::string_view actor, std::string_view event,
                                   std::span<const LogField> fields)>;

// What both hosts write down, and how. Thread-safe if the sink is. `metrics` outlives the host.
class Journal {
 public:
  Journal(MetricRegistry& metrics, LogSink sink) : metrics_(&metrics), sink_(std::move(sink)) {}

  // The envelope in these bytes; none if they are no envelope, which is a protocol error.
  std::optional<Envelope> open(Address to, const Bytes& bytes) const;
  // Nobody is at `to`: a protocol error.
  void nobody_at(Address to) const;
  void undelivered() const { metrics_->record(Metric::messages_undelivered, 1); }
  void record(const Effects::Count& count) const {
    metrics_->record(count.metric, count.amount, count.whose, count.trace);
  }
  void write(Address who, const Effects::Log& line) const { write(name_of(who), line); }
  void write(std::string_view who, const Effects::Log& line) const;
  void protocol_error(std::string_view who, std::string_view event, std::string what) const;

 private:
  MetricRegistry* metrics_;
  LogSink sink_;
};

// The answer to a job that finds `jobs_waiting_max` before it.
Refusal too_many_jobs(const ActorSpec& actor);

}  // namespace troupe
