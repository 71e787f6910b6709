// `troupe trace capture`: records the requests of a running node as a request trace. `troupe-lab
// trace` makes and measures traces.
#include <iostream>

#include "deploy/commands/commands.h"
#include "deploy/data/request_trace.h"
#include "deploy/data/text_file.h"
#include "deploy/reports/table.h"
#include "deploy/tracing/capture_socket.h"

namespace troupe::deploy {

namespace {

struct CaptureOptions {
  std::string out, data_dir, model;
  std::uint64_t requests = 10'000, seconds = 60;
};

int run_capture(const CaptureOptions& options) {
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
            << (left_out > 0 ? "; " + std::to_string(left_out) + " were left out, because too many waited"
                             : "")
            << '\n';
  return 0;
}

}  // namespace

void add_trace_capture(Command app) {
  auto options = std::make_shared<CaptureOptions>();
  Command trace = app.add_command("trace", "Record request traces").needs_command();
  Command command = trace.add_command("capture", "Record the requests of a running node with a router");
  command.add_option("--data-dir", options->data_dir, "Data folder of the node (node.data_dir)").required();
  command.add_option("--out", options->out, "File of the trace to write; .gz compresses it").required();
  command.add_option("--model", options->model, "Model whose requests are recorded, if the node has several");
  command.add_option("--requests", options->requests, "Maximum number of requests to record")
      .between(std::uint64_t{1}, TraceCapture::requests_max)
      .default_shown();
  command.add_option("--seconds", options->seconds, "Maximum duration in seconds")
      .between(1, 86'400)
      .default_shown();
  command.runs([options] { return run_capture(*options); });
}

}  // namespace troupe::deploy
