// `troupe-lab trace`: makes request traces from data sets or stated distributions, and measures
// them. `troupe trace capture` records those of running nodes.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "deploy/data/dataset.h"
#include "deploy/data/request_trace.h"
#include "deploy/data/text_file.h"
#include "deploy/lab/commands/lab_commands.h"
#include "deploy/lab/traces/trace_makers.h"
#include "deploy/lab/traces/trace_stats.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

struct TraceCommandOptions {
  DataTraceOptions data;
  GeneratedTraceOptions generated;
  TraceMakerOptions common;
  std::uint64_t requests = 0;
  std::string out, file, json, catalog;
};

// ---- description of a trace's source ----

std::string short_number(double value) { return nlohmann::json(value).dump(); }

std::string describe(const TraceMakerOptions& common) {
  std::ostringstream text;
  const std::string& arrivals = common.arrivals;
  text << "; arrivals " << (arrivals.find('/') == arrivals.npos ? arrivals : name_of_path(arrivals)) << " at "
       << short_number(common.per_second) << " per second, "
       << (common.generates ? "items asked for, " : std::to_string(common.candidates) + " candidates, ")
       << short_number(common.views) << " views per event";
  if (common.returns.share > 0)
    text << ", returns " << short_number(common.returns.share) << " after "
         << short_number(common.returns.median_s) << " s (sigma " << short_number(common.returns.sigma)
         << ")";
  text << "; seed " << common.seed;
  return text.str();
}

std::string describe(const DataTraceOptions& options) {
  std::string users = options.users > 0 ? std::to_string(options.users) + " users of " : "";
  return "troupe-lab trace convert: " + users + name_of_path(options.data.string()) + ", from event " +
         std::to_string(options.start) + " on" +
         (options.history_median > 0 ? ", histories lengthened to " + short_number(options.history_median) +
                                           " events (sigma " + short_number(options.history_sigma) + ")"
                                     : "") +
         describe(options.common);
}

std::string describe(const GeneratedTraceOptions& options, const std::string& catalog) {
  return "troupe-lab trace generate: " + std::to_string(options.users) + " users by Zipf " +
         short_number(options.user_exponent) + ", " + std::to_string(options.items) + " items" +
         (catalog.empty() ? "" : " of " + name_of_path(catalog)) + " by Zipf " +
         short_number(options.item_exponent) + ", histories of " + short_number(options.history_median) +
         " events (sigma " + short_number(options.history_sigma) + ")" + describe(options.common);
}

// ---- commands ----

template <class Maker>
int write_trace(Maker& maker, const TraceCommandOptions& options, const std::string& source,
                std::uint64_t requests) {
  TraceWriter writer(options.out, source);
  Progress progress("requests", requests);
  TracedRequest request;
  std::uint64_t done = 0;
  while (done < requests && maker.next(request)) {
    writer.write(request);
    progress.at(++done);
  }
  writer.close();
  std::cout << done << " requests in " << options.out << '\n';
  return 0;
}

int run_convert(TraceCommandOptions& options) {
  options.data.common = options.common;
  DataTrace maker(options.data);
  if (options.requests > maker.requests())
    throw std::invalid_argument("--requests is " + std::to_string(options.requests) + "; expected at most " +
                                std::to_string(maker.requests()) +
                                ", the maximum of this data (events × views)");
  return write_trace(maker, options, describe(options.data),
                     options.requests > 0 ? options.requests : maker.requests());
}

// Shuffles the catalog's items, so that popularity does not follow the catalog's order.
std::vector<std::string> catalog_ids(const std::string& folder, std::uint64_t seed) {
  std::vector<std::string> ids;
  for (const auto& [id, title] : read_titles(folder)) ids.push_back(id);
  if (ids.empty()) throw ImportError(folder + ": the catalog is empty; expected items");
  RandomStream random(seed, 0xca7a);
  for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[random.below(i)]);
  return ids;
}

int run_generate(TraceCommandOptions& options) {
  options.generated.common = options.common;
  if (options.common.arrivals == "own")
    throw std::invalid_argument(
        "--arrivals own: only trace convert has times in its data; expected constant, poisson or a file");
  if (!options.catalog.empty()) {
    options.generated.catalog = catalog_ids(options.catalog, options.common.seed);
    options.generated.items = static_cast<std::uint32_t>(options.generated.catalog.size());
  }
  GeneratedTrace maker(options.generated);
  return write_trace(maker, options, describe(options.generated, options.catalog), options.requests);
}

int run_stats(const TraceCommandOptions& options) {
  if (!options.json.empty()) check_output(options.json);
  TraceReader reader(options.file);
  const TraceStats stats = measure_trace(reader);
  print(options.json == "-" ? std::cerr : std::cout, stats);
  if (!options.json.empty()) write_output(options.json, to_json(stats).dump(2) + "\n");
  return 0;
}

// ---- options ----

void add_making(Command command, TraceCommandOptions& options, const std::string& arrivals) {
  TraceMakerOptions& common = options.common;
  command.add_option("--out", options.out, "File of the trace to write; .gz compresses it").required();
  command.add_option("--arrivals", common.arrivals, arrivals).default_shown();
  command.add_option("--rate", common.per_second, "Mean requests per second")
      .between(1e-6, 1e6)
      .default_shown();
  command.add_option("--candidates", common.candidates, "Number of candidates per request")
      .between(1, 100'000)
      .default_shown();
  command.add_flag("--generate", common.generates, "Make generation requests instead of rankings");
  command
      .add_option("--top", common.top_k,
                  "With --generate: number of items per reply; 0: the server's default")
      .between(0, 4'096)
      .default_shown();
  command.add_option("--width", common.width, "With --generate: beam width; 0: the server's default")
      .between(0, 4'096)
      .default_shown();
  command.add_option("--views", common.views, "Mean number of a user's requests before they take an item")
      .between(1.0, 1e4)
      .default_shown();
  command
      .add_option("--return-share", common.returns.share,
                  "Fraction of requests whose user returns soon, 0 to 0.99")
      .between(0.0, 0.99)
      .default_shown();
  command.add_option("--return-after", common.returns.median_s, "Median seconds until such a user returns")
      .between(1e-3, 1e8)
      .default_shown();
  command
      .add_option("--return-sigma", common.returns.sigma,
                  "Standard deviation of the logarithm of these seconds")
      .between(0.0, 5.0)
      .default_shown();
  command.add_option("--tenant", common.tenant, "Tenant of all requests");
  command.add_option("--seed", common.seed, "Seed; the same seed makes the same trace").default_shown();
}

void add_convert(Command trace, const std::shared_ptr<TraceCommandOptions>& options) {
  Command command = trace.add_command("convert", "Make a trace from the histories of a data set");
  command.add_option("--data", options->data.data, "Data folder as for import, with users").required();
  add_making(
      command, *options,
      "Arrival times: constant, poisson, own (the times of ratings.tsv), or a file of recorded arrivals");
  command.add_option("--requests", options->requests, "Number of requests; default: events × views")
      .between(1ULL, 1'000'000'000'000ULL);
  command.add_option("--users", options->data.users, "Number of users to draw; default: all");
  command.add_option("--start", options->data.start, "Number of a user's events before their first request")
      .between(1, 10'000)
      .default_shown();
  command
      .add_option("--history", options->data.history_median,
                  "Median number of history events at a user's first request, lengthened by older events; 0: "
                  "do not lengthen")
      .between(0.0, 10'000.0)
      .default_shown();
  command
      .add_option("--history-sigma", options->data.history_sigma,
                  "Standard deviation of the logarithm of these numbers")
      .between(0.0, 5.0)
      .default_shown();
  command.runs([options] { return run_convert(*options); });
}

void add_generate(Command trace, const std::shared_ptr<TraceCommandOptions>& options) {
  GeneratedTraceOptions& made = options->generated;
  Command command = trace.add_command("generate", "Make a trace from stated distributions");
  add_making(command, *options, "Arrival times: constant, poisson, or a file of recorded arrivals");
  command.add_option("--requests", options->requests, "Number of requests")
      .required()
      .between(1ULL, 1'000'000'000'000ULL);
  const int most = 1'000'000'000;
  command.add_option("--users", made.users, "Number of users").between(1, most).default_shown();
  command.add_option("--items", made.items, "Number of items").between(1, most).default_shown();
  command.add_option("--user-skew", made.user_exponent, "Zipf exponent for drawing users")
      .between(0.0, 3.0)
      .default_shown();
  command.add_option("--item-skew", made.item_exponent, "Zipf exponent for drawing items")
      .between(0.0, 3.0)
      .default_shown();
  command.add_option("--history", made.history_median, "Median number of events at a user's first request")
      .between(1.0, 10'000.0)
      .default_shown();
  command
      .add_option("--history-sigma", made.history_sigma,
                  "Standard deviation of the logarithm of these numbers")
      .between(0.0, 5.0)
      .default_shown();
  command.add_option("--catalog", options->catalog,
                     "Catalog folder, as for import, whose items are used instead of --items");
  command.runs([options] { return run_generate(*options); });
}

}  // namespace

void add_trace_making(Command app) {
  Command trace = app.add_command("trace", "Make and measure request traces").needs_command();
  add_convert(trace, std::make_shared<TraceCommandOptions>());
  add_generate(trace, std::make_shared<TraceCommandOptions>());
  auto options = std::make_shared<TraceCommandOptions>();
  Command stats =
      trace.add_command("stats", "Print statistics of a trace; refuses a trace that contradicts itself");
  stats.add_option("file", options->file, "File of the trace").required();
  stats.add_option("--json", options->json, "Write the figures to this file, or - for standard output");
  stats.runs([options] { return run_stats(*options); });
}

}  // namespace troupe::deploy
