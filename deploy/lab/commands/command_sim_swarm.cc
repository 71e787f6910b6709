// `troupe-lab sim --seeds` and `--replay`: prints tables for people and JSON for programs.
#include <algorithm>
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "deploy/data/text_file.h"
#include "deploy/data/version.h"
#include "deploy/lab/commands/command_sim.h"
#include "deploy/reports/table.h"
#include "runtime/profiling/process_limits.h"
#include "sim/runs/run.h"
#include "sim/runs/swarm.h"

namespace troupe::deploy {

namespace {

std::uint64_t parse_number(const std::string& text, const std::string& option) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    throw std::invalid_argument(option + ": \"" + text +
                                "\" is not a number; expected a whole number of at least 0");
  return value;
}

void parse_seeds(const std::string& text, sim::SwarmOptions& swarm) {
  const std::size_t dots = text.find("..");
  swarm.first = parse_number(text.substr(0, dots), "--seeds");
  swarm.last = dots == text.npos ? swarm.first : parse_number(text.substr(dots + 2), "--seeds");
  if (swarm.last < swarm.first)
    throw std::invalid_argument("--seeds: " + text + " ends before it starts; expected A..B");
}

// Returns the positions of these faults in the scenario's list.
std::string numbers_of(const std::vector<sim::Fault>& some, const std::vector<sim::Fault>& all) {
  if (some.empty()) return "none";
  std::string text;
  std::size_t at = 0;
  for (const sim::Fault& fault : some) {
    while (at < all.size() && !(all[at] == fault)) ++at;
    text += (text.empty() ? "" : ",") + std::to_string(at++);
  }
  return text;
}

}  // namespace

std::string replay_command(const sim::Failure& failure, const SimCommandOptions& options) {
  std::string command = "troupe-lab sim --replay " + std::to_string(failure.seed);
  if (options.nodes) command += " --nodes " + std::to_string(*options.nodes);
  if (options.minutes) command += " --minutes " + nlohmann::json(*options.minutes).dump();
  if (!options.faults.empty()) command += " --faults " + options.faults;
  if (options.members) command += " --members";
  return command + " --keep " + numbers_of(failure.shrunk, failure.faults);
}

namespace {

void print_failure(std::ostream& out, const sim::Failure& failure, const SimCommandOptions& options) {
  out << "\nseed " << failure.seed << ", commit " << commit() << ": promise " << failure.violation.promise
      << " is broken at " << fixed(static_cast<double>(failure.violation.at.us) * 1e-6, 6) << " s\n  "
      << failure.violation.what << "\n  " << failure.shrunk.size() << " of " << failure.faults.size()
      << " faults are enough:\n";
  for (const sim::Fault& fault : failure.shrunk) out << "    " << describe(fault) << '\n';
  out << "  replay: " << replay_command(failure, options) << " --messages\n";
}

void print_meetings(std::ostream& out, const sim::SwarmResult& result) {
  std::vector<Table::Column> columns{{"fault"}, {"struck", Table::Align::right}};
  for (std::size_t phase = 0; phase < sim::phases; ++phase)
    columns.push_back({std::string(sim::name_of(static_cast<sim::Phase>(phase))), Table::Align::right});
  Table table(columns);
  for (std::size_t kind = 0; kind < sim::fault_kinds; ++kind) {
    if (result.injected[kind] == 0) continue;
    std::vector<std::string> row{std::string(sim::name_of(static_cast<sim::FaultKind>(kind))),
                                 std::to_string(result.injected[kind])};
    for (const std::uint64_t count : result.coverage[kind]) row.push_back(std::to_string(count));
    table.row(row);
  }
  table.print(out);
}

nlohmann::json to_json(const sim::SwarmResult& result, const SimCommandOptions& options) {
  nlohmann::json failures = nlohmann::json::array();
  for (const sim::Failure& failure : result.failures) {
    nlohmann::json shrunk = nlohmann::json::array();
    for (const sim::Fault& fault : failure.shrunk) shrunk.push_back(describe(fault));
    failures.push_back({{"seed", failure.seed},
                        {"promise", failure.violation.promise},
                        {"what", failure.violation.what},
                        {"faults", failure.faults.size()},
                        {"shrunk", shrunk},
                        {"replay", replay_command(failure, options)}});
  }
  nlohmann::json coverage;
  for (std::size_t kind = 0; kind < sim::fault_kinds; ++kind)
    for (std::size_t phase = 0; phase < sim::phases; ++phase)
      coverage[std::string(sim::name_of(static_cast<sim::FaultKind>(kind)))]
              [std::string(sim::name_of(static_cast<sim::Phase>(phase)))] = result.coverage[kind][phase];
  nlohmann::json missed = nlohmann::json::object();
  for (std::size_t kind = 0; kind < sim::fault_kinds; ++kind)
    if (result.missed[kind] > 0)
      missed[std::string(sim::name_of(static_cast<sim::FaultKind>(kind)))] = result.missed[kind];
  const sim::Tally& t = result.tally;
  nlohmann::json json = {{"commit", commit()},
                         {"seeds", result.seeds},
                         {"run_twice", result.twice},
                         {"events", result.events},
                         {"seconds", result.seconds},
                         {"median_faults", result.median_faults()},
                         {"requests", t.requests},
                         {"answered", t.answered},
                         {"answered_approximately", t.approximate},
                         {"answered_by_other_models", t.of_others},
                         {"refused", t.refused},
                         {"expired", t.expired},
                         {"cut_off", t.cut_off},
                         {"kills", t.kills},
                         {"swaps", t.swaps},
                         {"struck", t.struck},
                         {"after_kill", t.after_kill},
                         {"after_kill_answered", t.after_kill_ok},
                         {"long_after_kill", t.long_after_kill},
                         {"long_after_kill_answered", t.long_after_kill_ok},
                         {"kept_all_promises", result.kept_all()},
                         {"unsent", t.unsent},
                         {"unjudged", t.unjudged},
                         {"meetings", coverage},
                         {"did_not_act", missed},
                         {"never_met", result.never_met()},
                         {"failures", failures}};
  if (options.members)
    json.update({{"joined", t.joined},
                 {"left", t.left},
                 {"left_whole", t.left_whole},
                 {"users_handed_on", t.users_handed_on},
                 {"users_left_behind", t.users_left_behind}});
  return json;
}

void print_share(std::ostream& out, const sim::ShareCheck& check) {
  if (check.count == 0) return;
  out << "of " << check.count << ' ' << check.what << ' '
      << fixed(100.0 * static_cast<double>(check.good) / static_cast<double>(check.count), 3)
      << " % were answered";
  if (!check.judged()) out << " (not judged: fewer than " << check.count_min << ')';
  if (check.broken())
    out << ": promise " << check.promise << " is broken; expected " << fixed(100 * check.share_min, 1)
        << " %";
  out << '\n';
}

// Counts faults without effect: a dead process to kill, an empty disk to corrupt.
void print_missed(std::ostream& out, const sim::SwarmResult& result) {
  std::uint64_t all = 0;
  for (const std::uint64_t count : result.missed) all += count;
  if (all == 0) return;
  out << all << " more faults had no effect:";
  for (std::size_t kind = 0; kind < sim::fault_kinds; ++kind)
    if (result.missed[kind] > 0)
      out << ' ' << sim::name_of(static_cast<sim::FaultKind>(kind)) << ' ' << result.missed[kind];
  out << '\n';
}

void print_summary(std::ostream& out, const sim::SwarmResult& result) {
  const sim::Tally& t = result.tally;
  std::uint64_t faults = 0;
  for (const std::uint64_t count : result.injected) faults += count;
  const double seeds = static_cast<double>(std::max<std::uint64_t>(result.seeds, 1));
  out << result.seeds << " seeds, " << result.twice << " of them twice; " << fixed(result.seconds / seeds, 3)
      << " s each; " << result.events << " events; " << faults << " faults (median " << result.median_faults()
      << " per seed), " << t.kills << " kills, " << t.swaps << " swaps, " << t.struck
      << " answers from flipped bits that the scrubber had not found yet\n"
      << t.requests << " requests: " << t.answered << " answered (" << t.approximate << " approximately), "
      << t.refused << " refused, " << t.expired << " expired, " << t.cut_off << " lost with their router\n";
  if (t.joined > 0)
    out << t.joined << " workers joined; " << t.left << " left, " << t.left_whole
        << " of them after draining and migrating all their blocks, with " << t.users_handed_on
        << " user blocks migrated and " << t.users_left_behind << " left behind\n";
  print_missed(out, result);
  out << "skipped: " << t.unsent << " requests that nobody listened to, " << t.unjudged
      << " drills with too few replies to judge\n";
  for (const sim::ShareCheck& check : result.share_checks()) print_share(out, check);
  const auto never = result.never_met();
  out << (never.empty() ? "every fault occurred in every phase\n" : "never met: ");
  for (std::size_t i = 0; i < never.size(); ++i) out << never[i] << (i + 1 < never.size() ? ", " : "\n");
}

std::vector<sim::Fault> kept(const std::vector<sim::Fault>& faults, const std::string& keep) {
  if (keep.empty()) return faults;
  std::vector<sim::Fault> some;
  if (keep == "none") return some;
  std::istringstream numbers(keep);
  for (std::string number; std::getline(numbers, number, ',');) {
    const std::uint64_t index = parse_number(number, "--keep");
    if (index >= faults.size())
      throw std::invalid_argument("--keep: the seed has no fault " + number + "; expected 0.." +
                                  std::to_string(faults.size()) + " (exclusive)");
    some.push_back(faults[index]);
  }
  return some;
}

}  // namespace

int run_sim_swarm(const SimCommandOptions& options) {
  sim::SwarmOptions swarm;
  parse_seeds(options.seeds, swarm);
  swarm.limits = draw_limits(options);
  swarm.threads = options.threads > 0 ? options.threads : usable_cores();
  if (!options.json.empty()) check_output(options.json);
  sim::SwarmResult result;
  {
    Progress progress("seeds", swarm.last - swarm.first + 1);
    swarm.progress = [&](std::uint64_t done) { progress.at(done); };
    result = run_swarm(swarm);
  }
  std::ostream& out = options.json == "-" ? std::cerr : std::cout;
  print_meetings(out, result);
  print_summary(out, result);
  for (const sim::Failure& failure : result.failures) print_failure(out, failure, options);
  if (!options.json.empty()) write_output(options.json, to_json(result, options).dump(2) + "\n");
  return result.kept_all() ? 0 : 1;
}

int run_sim_replay(const SimCommandOptions& options) {
  sim::Scenario scenario = draw_scenario(*options.replay, draw_limits(options));
  std::cout << describe(scenario) << '\n';
  for (std::size_t i = 0; i < scenario.faults.size(); ++i)
    std::cout << "  fault " << i << ": " << describe(scenario.faults[i]) << '\n';
  scenario.faults = kept(scenario.faults, options.keep);
  sim::RunOptions run_options;
  if (options.messages) run_options.history = [](const std::string& line) { std::cout << line << '\n'; };
  run_options.figures = options.figures;
  const sim::RunResult result = run(scenario, run_options);
  for (const std::string& figure : result.figures) std::cout << figure << '\n';
  const sim::Tally& t = result.tally;
  std::cout << "events " << result.events << ", digest " << std::hex << result.digest << std::dec
            << "; requests " << t.requests << ", answered " << t.answered << ", refused " << t.refused
            << ", expired " << t.expired << ", lost with their router " << t.cut_off << '\n';
  for (const sim::Violation& violation : result.violations)
    std::cout << "promise " << violation.promise << " is broken at "
              << fixed(static_cast<double>(violation.at.us) * 1e-6, 6) << " s: " << violation.what << '\n';
  if (result.violations.empty()) std::cout << "all promises were kept\n";
  return result.violations.empty() ? 0 : 1;
}

}  // namespace troupe::deploy
