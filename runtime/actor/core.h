#pragma once
// The contract of every actor. A core is a plain object: it gets one event and the time, changes
// its own state and returns effects. It has no thread, clock, random source, socket, file or lock.
// The same inputs always give the same outputs, and the CAF host and the simulation run the same
// code.
//
// Rules for cores: timers cannot be cancelled, so a firing is a hint and the core checks the
// deadline again. Messages may be lost, late, doubled and reordered. Effects are applied in order
// after `step` returns. A core never iterates over unordered containers.
#include <compare>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/actor/messages.h"
#include "runtime/actor/metrics.h"
#include "runtime/actor/ports.h"

namespace troupe {

struct Instant {
  std::int64_t us = 0;  // microseconds on this process's monotonic clock; never sent to another host
  auto operator<=>(const Instant&) const = default;
};
struct Duration {
  std::int64_t us = 0;
  auto operator<=>(const Duration&) const = default;
};
constexpr Instant operator+(Instant t, Duration d) { return {t.us + d.us}; }
constexpr Duration operator-(Instant a, Instant b) { return {a.us - b.us}; }

struct Received {
  Address from;
  Message message;
};
struct TimerFired {
  std::uint64_t timer = 0;
};
struct PeerLost {
  NodeId node = 0;
};
// A job of this core has ended. Exactly one event per job.
struct JobDone {
  std::uint64_t job = 0;
  JobResult result;
};
using AnyEvent = std::variant<Received, TimerFired, PeerLost, JobDone>;
struct Event : AnyEvent {
  template <class Kind>
  requires(!std::derived_from<std::remove_cvref_t<Kind>, AnyEvent> && std::constructible_from<AnyEvent, Kind>)
      Event(Kind&& kind)
      : AnyEvent(std::forward<Kind>(kind)) {}
  Event();
  Event(const Event&);
  Event(Event&&) noexcept;
  Event& operator=(const Event&);
  Event& operator=(Event&&) noexcept;
  ~Event();
};

enum class LogLevel : std::uint8_t { debug, info, warning, error };
// Field of a log line: a number is written as a JSON number, everything else as text.
struct LogField {
  std::string name, value;
  bool is_number = false;

  LogField(std::string n, std::string text) : name(std::move(n)), value(std::move(text)) {}
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) LogField(std::string n, Number number)
      : name(std::move(n)), value(std::to_string(number)), is_number(true) {}
};

struct Effects {
  struct Send {
    Address to;
    Message message;
  };
  struct SetTimer {
    std::uint64_t timer;
    Instant at;
  };
  struct Start {
    std::uint64_t job;
    Job work;
  };
  // Records a metric: counters add, gauges set, histograms observe. `label_value`: label value of a
  // metric that has one sample per value. `trace`: exemplar of a histogram's observation.
  struct Count {
    Metric metric;
    double amount;
    std::string label_value = {};
    TraceContext trace = {};
  };
  struct Log {
    LogLevel level;
    std::string event;
    std::vector<LogField> fields;
  };
  using Effect = std::variant<Send, SetTimer, Start, Count, Log>;

  std::vector<Effect> list;  // applied in order

  Effects();
  Effects(const Effects&);
  Effects(Effects&&) noexcept;
  Effects& operator=(const Effects&);
  Effects& operator=(Effects&&) noexcept;
  ~Effects();

  void send(Address to, Message message);
  void set_timer(std::uint64_t timer, Instant at);
  void start(std::uint64_t job, Job work);
  void count(Metric metric, double amount = 1);
  void count(Metric metric, double amount, std::string label_value);
  void count(Metric metric, double amount, const TraceContext& trace);
  void log(LogLevel level, std::string event, std::vector<LogField> fields = {});
};

class Core {
 public:
  virtual ~Core() = default;
  // Handles one event at time `now` and appends the effects. The event belongs to the core, which
  // moves out of it what it keeps. The first event is TimerFired{start_timer}.
  virtual void step(Instant now, Event&& event, Effects& effects) = 0;
};

// The host fires this timer once for every core, before any other event.
inline constexpr std::uint64_t start_timer = 0;

}  // namespace troupe
