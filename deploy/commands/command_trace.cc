// `troupe trace`: makes request traces from data sets or from stated distributions, and says what one is
// like.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "deploy/commands/commands.h"
#include "deploy/data/dataset.h"
#include "deploy/data/text_file.h"
#include "deploy/lab/traces/request_trace.h"
#include "deploy/lab/traces/trace_makers.h"
#include "deploy/lab/traces/trace_stats.h"
#include "deploy/reports/table.h"
#include "deploy/tracing/capture_socket.h"

namespace troupe::deploy {

namespace {

struct TraceCommandOptions {
  DataTraceOptions data;
  GeneratedTraceOptions generated;
  TraceMaking making;
  std::uint64_t requests = 0;
  std::string out, file, json, catalog, data_dir, model;
  std::uint64_t seconds = 60;
};

// ---- where a trace comes from, in words ----

std::string name_of_path(const std::string& path) {
  const std::filesystem::path given(path);
  return (given.has_filename() ? given : given.parent_path()).filename().string();
}

std::string short_number(double value) { return nlohmann::json(value).dump(); }

std::string describe(const TraceMaking& making) {
  std::ostringstream text;
  const std::string& arrivals = making.arrivals;
  text << "; arrivals " << (arrivals.find('/') == arrivals.npos ? arrivals : name_of_path(arrivals)) << " at "
       << short_number(making.per_second) << " per second, "
       << (making.generates ? "items asked for, " : std::to_string(making.candidates) + " candidates, ")
       << short_number(making.views) << " views per event";
  if (making.returns.share > 0)
    text << ", returns " << short_number(making.returns.share) << " after "
         << short_number(making.returns.median_s) << " s (sigma " << short_number(making.returns.sigma)
         << ")";
  text << "; seed " << making.seed;
  return text.str();
}

std::string describe(const DataTraceOptions& options) {
  std::string users = options.users > 0 ? std::to_string(options.users) + " users of " : "";
  return "troupe trace convert: " + users + name_of_path(options.data.string()) + ", from event " +
         std::to_string(options.start) + " on" +
         (options.history_median > 0 ? ", histories lengthened to " + short_number(options.history_median) +
                                           " events (sigma " + short_number(options.history_sigma) + ")"
                                     : "") +
         describe(options.making);
}

std::string describe(const GeneratedTraceOptions& options, const std::string& catalog) {
  return "troupe trace generate: " + std::to_string(options.users) + " users by Zipf " +
         short_number(options.user_exponent) + ", " + std::to_string(options.items) + " items" +
         (catalog.empty() ? "" : " of " + name_of_path(catalog)) + " by Zipf " +
         short_number(options.item_exponent) + ", histories of " + short_number(options.history_median) +
         " events (sigma " + short_number(options.history_sigma) + ")" + describe(options.making);
}

// ---- what the commands do ----

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
  options.data.making = options.making;
  DataTrace maker(options.data);
  if (options.requests > maker.requests())
    throw std::invalid_argument("--requests is " + std::to_string(options.requests) + "; expected at most " +
                                std::to_string(maker.requests()) +
                                ", which is all that the data has (events × views)");
  return write_trace(maker, options, describe(options.data),
                     options.requests > 0 ? options.requests : maker.requests());
}

// Which item is how popular is drawn: the catalog's order means nothing.
std::vector<std::string> catalog_ids(const std::string& folder, std::uint64_t seed) {
  std::vector<std::string> ids;
  for (const auto& [id, title] : read_titles(folder)) ids.push_back(id);
  if (ids.empty()) throw ImportError(folder + ": the catalog is empty; expected items");
  SimRandom random(seed, 0xca7a);
  for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[random.below(i)]);
  return ids;
}

int run_generate(TraceCommandOptions& options) {
  options.generated.making = options.making;
  if (options.making.arrivals == "own")
    throw std::invalid_argument(
        "--arrivals own: only data has times of its own; expected constant, poisson or a file");
  if (!options.catalog.empty()) {
    options.generated.catalog = catalog_ids(options.catalog, options.making.seed);
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

int run_capture(const TraceCommandOptions& options) {
  TraceWriter writer(options.out, "troupe trace capture: " + name_of_path(options.data_dir) +
                                      (options.model.empty() ? "" : ", model " + options.model) +
                                      ", at most " + std::to_string(options.requests) + " requests in " +
                                      std::to_string(options.seconds) + " s");
  Progress progress("requests", options.requests);
  std::uint64_t done = 0;
  const CaptureLimits limits{options.requests, static_cast<std::int64_t>(options.seconds) * 1'000'000};
  const std::uint64_t left_out =
      capture_trace(options.data_dir, options.model, limits, [&](const TracedRequest& request) {
        writer.write(request);
        progress.at(++done);
      });
  writer.close();
  std::cout << done << " requests in " << options.out
            << (left_out > 0 ? "; " + std::to_string(left_out) + " were left out, for too many waited" : "")
            << '\n';
  return 0;
}

// ---- what they take ----

void add_capture(Command trace, const std::shared_ptr<TraceCommandOptions>& options) {
  Command command =
      trace.add_command("capture", "Records the requests of a running box, or of a node with a router");
  command.add_option("--data-dir", options->data_dir, "Its data folder (node.data_dir)").required();
  command.add_option("--out", options->out, "The trace to write; .gz packs it").required();
  command.add_option("--model", options->model,
                     "Of a box with several models, the one whose requests are recorded");
  options->requests = 10'000;
  command.add_option("--requests", options->requests, "At most so many")
      .between(std::uint64_t{1}, TraceCapture::requests_max)
      .default_shown();
  command.add_option("--seconds", options->seconds, "For so long at most").between(1, 86'400).default_shown();
  command.runs([options] { return run_capture(*options); });
}

void add_making(Command command, TraceCommandOptions& options, const std::string& arrivals) {
  TraceMaking& making = options.making;
  command.add_option("--out", options.out, "The trace to write; .gz packs it").required();
  command.add_option("--arrivals", making.arrivals, arrivals).default_shown();
  command.add_option("--rate", making.per_second, "Requests per second, in the mean")
      .between(1e-6, 1e6)
      .default_shown();
  command.add_option("--candidates", making.candidates, "Candidates of a request")
      .between(1, 100'000)
      .default_shown();
  command.add_flag("--generate", making.generates, "Items are asked for, not ranked");
  command.add_option("--top", making.top_k, "With --generate: so many items; 0: as is usual")
      .between(0, 4'096)
      .default_shown();
  command.add_option("--width", making.width, "With --generate: by a search of so many paths; 0: as is usual")
      .between(0, 4'096)
      .default_shown();
  command.add_option("--views", making.views, "Requests of a user until he takes something, in the mean")
      .between(1.0, 1e4)
      .default_shown();
  command.add_option("--return-share", making.returns.share, "Share of requests whose user comes back soon")
      .between(0.0, 0.99)
      .default_shown();
  command.add_option("--return-after", making.returns.median_s, "Seconds until he does, the median")
      .between(1e-3, 1e8)
      .default_shown();
  command.add_option("--return-sigma", making.returns.sigma, "Deviation of the logarithm of these seconds")
      .between(0.0, 5.0)
      .default_shown();
  command.add_option("--tenant", making.tenant, "Of all requests");
  command.add_option("--seed", making.seed, "The same seed makes the same trace").default_shown();
}

void add_convert(Command trace, const std::shared_ptr<TraceCommandOptions>& options) {
  Command command = trace.add_command("convert", "Makes a trace from the histories of a data set");
  command.add_option("--data", options->data.data, "Folder as for import, with users").required();
  add_making(command, *options,
             "When requests come: constant, poisson, own (the times of ratings.tsv), or a file of recorded "
             "arrivals");
  command.add_option("--requests", options->requests, "So many; default: events × views")
      .between(1ULL, 1'000'000'000'000ULL);
  command.add_option("--users", options->data.users, "Only so many users, drawn; default: all");
  command.add_option("--start", options->data.start, "Events of a user before his first request")
      .between(1, 10'000)
      .default_shown();
  command
      .add_option("--history", options->data.history_median,
                  "Lengthen histories by older events to so many at the first request, the median; 0: do not")
      .between(0.0, 10'000.0)
      .default_shown();
  command
      .add_option("--history-sigma", options->data.history_sigma,
                  "Deviation of the logarithm of these events")
      .between(0.0, 5.0)
      .default_shown();
  command.runs([options] { return run_convert(*options); });
}

void add_generate(Command trace, const std::shared_ptr<TraceCommandOptions>& options) {
  GeneratedTraceOptions& made = options->generated;
  Command command = trace.add_command("generate", "Makes a trace from stated distributions");
  add_making(command, *options, "When requests come: constant, poisson, or a file of recorded arrivals");
  command.add_option("--requests", options->requests, "So many")
      .required()
      .between(1ULL, 1'000'000'000'000ULL);
  const int most = 1'000'000'000;
  command.add_option("--users", made.users, "Users").between(1, most).default_shown();
  command.add_option("--items", made.items, "Items").between(1, most).default_shown();
  command.add_option("--user-skew", made.user_exponent, "Zipf exponent of the users")
      .between(0.0, 3.0)
      .default_shown();
  command.add_option("--item-skew", made.item_exponent, "Zipf exponent of the items")
      .between(0.0, 3.0)
      .default_shown();
  command.add_option("--history", made.history_median, "Events at a user's first request, the median")
      .between(1.0, 10'000.0)
      .default_shown();
  command.add_option("--history-sigma", made.history_sigma, "Deviation of the logarithm of these events")
      .between(0.0, 5.0)
      .default_shown();
  command.add_option("--catalog", options->catalog,
                     "Take the items of this folder, as for import, not --items");
  command.runs([options] { return run_generate(*options); });
}

}  // namespace

void add_trace(Command app) {
  Command trace = app.add_command("trace", "Request traces: make them, measure them").needs_command();
  add_convert(trace, std::make_shared<TraceCommandOptions>());
  add_generate(trace, std::make_shared<TraceCommandOptions>());
  add_capture(trace, std::make_shared<TraceCommandOptions>());
  auto options = std::make_shared<TraceCommandOptions>();
  Command stats = trace.add_command("stats", "What a trace is like; refuses one that contradicts itself");
  stats.add_option("file", options->file, "The trace").required();
  stats.add_option("--json", options->json, "Write the figures to this file, or - for standard output");
  stats.runs([options] { return run_stats(*options); });
}

}  // namespace troupe::deploy
