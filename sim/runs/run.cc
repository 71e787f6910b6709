// Runs one scenario: cluster, clients, faults, recovery and all judges. The result says whether a
// promise was broken, and why.
#include "sim/runs/run.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "sim/cluster/clients.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/inspector.h"
#include "sim/cluster/membership_operator.h"
#include "sim/injector/injector.h"
#include "sim/runs/history.h"

namespace troupe::sim {
namespace {

constexpr Duration inspect_every{100'000}, look_every{20'000}, precomputing_max{120'000'000};

class Run {
 public:
  Run(const Scenario& scenario, const RunOptions& options)
      : scenario_(scenario),
        options_(options),
        cluster_(scenario, violations_),
        clients_(cluster_, violations_),
        injector_(cluster_, clients_, violations_),
        inspector_(cluster_, clients_, violations_),
        membership_(cluster_, violations_) {
    if (options.figures)
      cluster_.on_log = [this](LogLevel, std::string_view, std::string_view event,
                               std::span<const LogField> fields) { count(event, fields); };
    if (!options.history) return;
    print_history(cluster_.host(), options.history);
    injector_.history = [this](const std::string& line) {
      options_.history(time_text(cluster_.now()) + "  " + line);
    };
  }

  RunResult go() {
    cluster_.start();
    const Instant calm = Instant{} + scenario_.warm_up + scenario_.safety;
    const Instant judged = calm + scenario_.recovery, end = judged + scenario_.liveness;
    clients_.start(Instant{} + Duration{scenario_.warm_up.us / 4}, end);
    injector_.schedule_all();
    membership_.schedule_all();
    watch_kills();
    SimHost& host = cluster_.host();
    host.at(calm, [this] { injector_.heal(); });
    host.at(calm, [this] { clients_.set_must_succeed(scenario_.harmless); });
    host.at(judged, [this] { clients_.set_must_succeed(true); });
    if (scenario_.harmless)
      host.at(Instant{} + scenario_.warm_up, [this] { clients_.set_must_succeed(true); });
    for (Instant at{}; at < end + inspector_.quiet(); at = at + inspect_every)
      host.at(at, [this] {
        cluster_.follow_catalog();
        inspector_.look();
      });
    if (advance(end + inspector_.quiet()) && end_precomputing()) judge_end();
    return result();
  }

 private:
  void judge_end() {
    inspector_.judge_end();
    membership_.judge_end();
  }

  // Promise 6 covers requests sent five heartbeats or more after a kill while nothing else is wrong; the
  // swarm judges their share.
  void watch_kills() {
    for (const Fault& fault : scenario_.faults) {
      if (!scenario_.drill || (fault.kind != FaultKind::kill && fault.kind != FaultKind::wipe)) return;
      const Instant at = Instant{} + fault.at;
      using Since = SentRequest::SinceKill;
      for (const auto& [beats, since] :
           {std::pair{0, Since::unknown}, std::pair{5, Since::a_while}, std::pair{10, Since::long_ago}})
        cluster_.host().at(at + Duration{beats * scenario_.heartbeat.us},
                           [this, since = since] { clients_.set_since_kill(since); });
    }
  }

  // Returns false if the run was stopped by a violation.
  bool advance(Instant end) {
    while (cluster_.now() < end) {
      cluster_.host().run_until(std::min(end, cluster_.now() + look_every));
      if (options_.first_violation_ends && violations_.count() > 0) return false;
    }
    return true;
  }

  // No request waits for the blocks of the whole catalog or for verifications, so slow devices may compute
  // them long after the last request. That work ends by itself; leftovers are judged after it.
  bool end_precomputing() {
    if (!cluster_.works_in_background()) return true;
    const Instant latest = cluster_.now() + precomputing_max;
    while (cluster_.works_in_background() && cluster_.now() < latest)
      if (!advance(cluster_.now() + inspect_every)) return false;
    return advance(cluster_.now() + inspector_.quiet());
  }

  void count(std::string_view event, std::span<const LogField> fields) {
    Logged& logged = logged_[std::string(event)];
    ++logged.times;
    for (const LogField& field : fields) {
      std::int64_t number = 0;
      const char* const end = field.value.data() + field.value.size();
      if (field.is_number && std::from_chars(field.value.data(), end, number).ptr == end)
        logged.sum += number;
    }
  }

  std::vector<std::string> figures() {
    std::vector<std::string> lines;
    const std::string metrics = cluster_.metrics().render();
    for (std::size_t at = 0, end = 0; at < metrics.size(); at = end + 1) {
      end = std::min(metrics.find('\n', at), metrics.size());
      const std::string line = metrics.substr(at, end - at);
      if (!line.starts_with('#') && !line.ends_with(" 0")) lines.push_back(line);
    }
    for (const auto& [event, logged] : logged_)
      lines.push_back("logged " + event + " " + std::to_string(logged.times) + " " +
                      std::to_string(logged.sum));
    return lines;
  }

  RunResult result() {
    RunResult result;
    if (options_.figures) result.figures = figures();
    result.seed = scenario_.seed;
    result.digest = cluster_.host().digest();
    result.events = cluster_.host().events();
    result.violations = violations_.kept();
    result.injected = injector_.injected();
    result.missed = injector_.missed();
    result.coverage = injector_.coverage();
    result.tally = clients_.tally();
    membership_.add_to(result.tally);
    for (auto& [id, node] : cluster_.nodes()) result.tally.kills += node.kills;
    return result;
  }

  struct Logged {
    std::uint64_t times = 0;
    std::int64_t sum = 0;
  };

  const Scenario scenario_;
  const RunOptions options_;
  std::map<std::string, Logged> logged_;
  Violations violations_;
  Cluster cluster_;
  Clients clients_;
  Injector injector_;
  Inspector inspector_;
  MembershipOperator membership_;
};

}  // namespace

RunResult run(const Scenario& scenario, const RunOptions& options) { return Run(scenario, options).go(); }

}  // namespace troupe::sim
