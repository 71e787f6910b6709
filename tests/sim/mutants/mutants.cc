// Checks that the judges find bugs (promise 18). Switches on one mutant after the other and runs the swarm
// until a violation of the mutant's own promise, or of one that its row allows, is found. Prints the seed,
// the shortest fault list and the violation, or what else is broken if the mutant is not found. Before
// that, the same seeds must be clean without a mutant, and again with block names cut to 8 bits. A file of
// seeds records which seed found each mutant last: that seed is tried first, then all seeds from 1 on.
// mutants [--seeds N] [--bug NAME] [--shrink] [--found FILE [--write]]
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "mutants.h"
#include "sim/runs/swarm.h"

namespace troupe {
namespace {

// Mutants that show only under one kind of fault, which few seeds draw; they are searched with that fault
// alone.
struct MutantFault {
  Mutant bug;
  sim::FaultKind kind;
};
constexpr MutantFault mutant_faults[] = {{Mutant::forget_suspects, sim::FaultKind::poison},
                                         {Mutant::keep_suspects_private, sim::FaultKind::poison},
                                         {Mutant::one_queue_for_all, sim::FaultKind::overload},
                                         {Mutant::unbounded_queue, sim::FaultKind::overload},
                                         {Mutant::unlimited_retries, sim::FaultKind::overload},
                                         {Mutant::drop_waiters, sim::FaultKind::overload},
                                         {Mutant::skip_generation_check, sim::FaultKind::pause},
                                         {Mutant::ignore_slowness, sim::FaultKind::slow_node},
                                         {Mutant::ignore_read_lease, sim::FaultKind::transfer_slow},
                                         {Mutant::wait_for_index, sim::FaultKind::isolate},
                                         {Mutant::drop_on_drain, sim::FaultKind::drain}};

// Mutants that show only while workers join and leave.
constexpr Mutant of_members[] = {Mutant::read_members_once, Mutant::keep_users_blocks};

struct SeedLimits {
  std::vector<sim::FaultKind> kinds = {};  // kinds of faults; none = all
  bool members = false;
  sim::DrawLimits limits() const { return {.kinds = kinds, .members = members}; }
};

struct Options {
  std::uint64_t seeds = 2'000, clean_seeds = 40;
  std::string only;
  bool shrink = false;
  std::vector<sim::FaultKind> kinds;  // kinds of faults; empty = all
  std::string found_file;             // one line per mutant: its name and the seed that found it last
  bool write = false;
  std::map<std::string, std::uint64_t> found;  // contents of that file
};

struct Seeds {
  std::uint64_t first = 1, last = 1;
};

sim::SwarmResult swarm(Seeds seeds, double twice_share, int shrink_runs, const SeedLimits& where = {},
                       std::vector<int> promises = {}) {
  sim::SwarmOptions options;
  options.promises = std::move(promises);
  options.limits = where.limits();
  options.first = seeds.first;
  options.last = seeds.last;
  options.threads = std::max(1U, std::thread::hardware_concurrency());
  options.failures_max = 1;
  options.twice_share = twice_share;
  options.shrink_runs = shrink_runs;
  return run_swarm(options);
}

bool check_clean(const char* what, std::uint64_t seeds) {
  const sim::SwarmResult result = swarm({1, seeds}, 0.1, 0);
  std::printf("%-26s %s after %llu seeds\n", what, result.kept_all() ? "clean" : "NOT CLEAN",
              static_cast<unsigned long long>(result.seeds));
  for (const sim::Failure& failure : result.failures)
    std::printf("    seed %llu, promise %d: %s\n", static_cast<unsigned long long>(failure.seed),
                failure.violation.promise, failure.violation.what.c_str());
  for (const sim::ShareCheck& check : result.share_checks())
    if (check.broken())
      std::printf("    promise %d: %llu of %llu %s\n", check.promise,
                  static_cast<unsigned long long>(check.good), static_cast<unsigned long long>(check.count),
                  check.what.c_str());
  return result.kept_all();
}

std::vector<int> promises_of(const MutantRow& row) {
  std::vector<int> promises{row.promise};
  for (int promise = 1; promise < 32; ++promise)
    if (row.also >> promise & 1U) promises.push_back(promise);
  return promises;
}

// Returns the options' kinds of faults if there are any, else the mutant's.
SeedLimits where_for(const MutantRow& row, const Options& options) {
  SeedLimits where{options.kinds, std::ranges::count(of_members, row.mutant) > 0};
  const auto* at = std::ranges::find(mutant_faults, row.mutant, &MutantFault::bug);
  if (where.kinds.empty() && at != std::end(mutant_faults)) where.kinds = {at->kind};
  return where;
}

// Prints which other promises the mutant breaks, while it is switched on.
void report_other_promises(const MutantRow& row, const Options& options, const SeedLimits& where) {
  const sim::SwarmResult result = swarm({1, std::min<std::uint64_t>(options.seeds, 200)}, 0, 0, where);
  for (const sim::Failure& failure : result.failures)
    std::printf("%-26s promise %2d  only through promise %d, seed %llu: %s\n", row.name, row.promise,
                failure.violation.promise, static_cast<unsigned long long>(failure.seed),
                failure.violation.what.c_str());
}

// Tries the seed that found the mutant last, then all seeds from the first on.
sim::SwarmResult seek(const MutantRow& row, const Options& options, const SeedLimits& where) {
  const double twice_share = row.mutant == Mutant::unseeded_choice ? 1.0 : 0.01;
  const int shrink_runs = options.shrink ? 100 : 0;
  const auto last_time = options.found.find(row.name);
  if (last_time != options.found.end()) {
    const std::uint64_t seed = last_time->second;
    sim::SwarmResult result = swarm({seed, seed}, twice_share, shrink_runs, where, promises_of(row));
    if (!result.failures.empty()) return result;
  }
  return swarm({1, options.seeds}, twice_share, shrink_runs, where, promises_of(row));
}

bool find(const MutantRow& row, const Options& options) {
  mutation::active = row.mutant;
  // An identity check only matters if names collide.
  mutation::name_bits = row.mutant == Mutant::skip_identity_check ? 8 : 256;
  const SeedLimits where = where_for(row, options);
  const sim::SwarmResult result = seek(row, options, where);
  if (result.failures.empty()) report_other_promises(row, options, where);
  mutation::active = Mutant::none;
  mutation::name_bits = 256;
  if (result.failures.empty()) {
    std::printf("%-26s promise %2d  NOT FOUND in %llu seeds\n", row.name, row.promise,
                static_cast<unsigned long long>(result.seeds));
    return false;
  }
  const sim::Failure& failure = result.failures.front();
  mutation::name_bits = row.mutant == Mutant::skip_identity_check ? 8 : 256;
  if (!sim::run(sim::draw_scenario(failure.seed, where.limits())).violations.empty()) {
    std::printf("%-26s promise %2d  seed %llu also fails without the mutant\n", row.name, row.promise,
                static_cast<unsigned long long>(failure.seed));
    return false;
  }
  std::printf("%-26s promise %2d  found by seed %llu through promise %d: %s\n", row.name, row.promise,
              static_cast<unsigned long long>(failure.seed), failure.violation.promise,
              failure.violation.what.c_str());
  if (options.write)
    std::ofstream(options.found_file, std::ios::app) << row.name << ' ' << failure.seed << '\n';
  if (options.shrink)
    for (const sim::Fault& fault : failure.shrunk) std::printf("    %s\n", describe(fault).c_str());
  std::fflush(stdout);
  return true;
}

// Runs the search in a child process, because a mutant may also be found by a TROUPE_CHECK, which stops the
// process.
bool find_in_child(const MutantRow& row, const Options& options) {
  const pid_t child = fork();
  if (child == 0) {
    const bool found = find(row, options);
    std::fflush(stdout);
    _exit(found ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return false;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) {
    std::printf("%-26s promise %2d  found by a TROUPE_CHECK, see above\n", row.name, row.promise);
    std::fflush(stdout);
    return true;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool read_found(Options& options) {
  std::ifstream file(options.found_file);
  std::string name;
  for (std::uint64_t seed; file >> name >> seed; name.clear()) options.found[name] = seed;
  return file.eof() && name.empty() && !options.found.empty();
}

int run_all(const Options& options) {
  bool good = true;
  if (options.only.empty()) {
    good = check_clean("no mutant", options.clean_seeds);
    mutation::name_bits = 8;
    good = check_clean("names of 8 bits", options.clean_seeds) && good;
    mutation::name_bits = 256;
  }
  int found = 0, asked = 0;
  std::fflush(stdout);
  for (const MutantRow& row : mutant_table) {
    if (!options.only.empty() && options.only != row.name) continue;
    ++asked;
    found += find_in_child(row, options);
  }
  std::printf("%d of %d mutants found\n", found, asked);
  return good && asked > 0 && found == asked ? 0 : 1;
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  troupe::Options options;
  CLI::App app("Runs the swarm against mutants: each must be found.");
  app.add_option("--seeds", options.seeds, "Maximum number of seeds per mutant");
  app.add_option("--clean-seeds", options.clean_seeds, "Seeds that must pass without a mutant");
  app.add_option("--bug", options.only, "Only this mutant");
  app.add_flag("--shrink", options.shrink, "Also shorten the fault list");
  auto* file = app.add_option("--found", options.found_file,
                              "File with the seed that found each mutant last; tried first");
  app.add_flag("--write", options.write, "Search all mutants from the first seed on and rewrite that file")
      ->needs(file);
  std::vector<std::string> faults;
  app.add_option("--faults", faults, "Only faults of these kinds")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  for (std::size_t kind = 0; kind < troupe::sim::fault_kinds; ++kind)
    if (std::ranges::count(faults, name_of(static_cast<troupe::sim::FaultKind>(kind))) > 0)
      options.kinds.push_back(static_cast<troupe::sim::FaultKind>(kind));
  if (options.kinds.size() != faults.size()) return std::fputs("--faults: unknown kind\n", stderr), 2;
  if (options.write && !options.only.empty())
    return std::fputs("--write searches all mutants; expected no --bug\n", stderr), 2;
  if (options.write)
    std::ofstream{options.found_file};  // empty
  else if (!options.found_file.empty() && !troupe::read_found(options))
    return std::fprintf(stderr, "--found %s: expected lines with a mutant's name and a seed\n",
                        options.found_file.c_str()),
           2;
  return troupe::run_all(options);
}
