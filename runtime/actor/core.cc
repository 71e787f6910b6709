// Events and effects of cores. A core holds an actor's decisions: it gets an event and returns
// effects, such as messages to send and timers to set. Constructors of both large types are
// compiled here, once.
#include "runtime/actor/core.h"

namespace troupe {

Event::Event() = default;
Event::Event(const Event&) = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(const Event&) = default;
Event& Event::operator=(Event&&) noexcept = default;
Event::~Event() = default;

Effects::Effects() = default;
Effects::Effects(const Effects&) = default;
Effects::Effects(Effects&&) noexcept = default;
Effects& Effects::operator=(const Effects&) = default;
Effects& Effects::operator=(Effects&&) noexcept = default;
Effects::~Effects() = default;

// Clang 14, which builds the fuzz targets, cannot initialize these structs inside the list.
void Effects::send(Address to, Message message) { list.emplace_back(Send{to, std::move(message)}); }
void Effects::set_timer(std::uint64_t timer, Instant at) { list.emplace_back(SetTimer{timer, at}); }
void Effects::start(std::uint64_t job, Job work) { list.emplace_back(Start{job, std::move(work)}); }
void Effects::count(Metric metric, double amount) { list.emplace_back(Count{metric, amount}); }
void Effects::count(Metric metric, double amount, std::string label_value) {
  list.emplace_back(Count{metric, amount, std::move(label_value)});
}
void Effects::count(Metric metric, double amount, const TraceContext& trace) {
  list.emplace_back(Count{metric, amount, {}, trace});
}
void Effects::log(LogLevel level, std::string event, std::vector<LogField> fields) {
  list.emplace_back(Log{level, std::move(event), std::move(fields)});
}

}  // namespace troupe
