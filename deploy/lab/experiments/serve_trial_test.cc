#include "deploy/lab/experiments/serve_trial.h"

#include <doctest/doctest.h>

#include "deploy/data/request_trace.h"
#include "deploy/data/text_file.h"
#include "deploy/lab/traces/trace_makers.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

// Writes a trace of requests with 20 candidates each.
TrialOptions made_trace(const kernels::TestFolder& folder, double per_second, double seconds) {
  GeneratedTraceOptions common;
  common.common.per_second = per_second;
  common.common.candidates = 20;
  common.users = 200;
  common.items = 300;
  GeneratedTrace trace(common);
  TrialOptions options;
  options.trace = folder.path() / "trace.jsonl";
  options.memory_bytes = 1'000'000'000;
  TraceWriter writer(options.trace, "a test");
  TracedRequest request;
  while (trace.next(request) && static_cast<double>(request.at.us) < seconds * 1e6) writer.write(request);
  writer.close();
  return options;
}

}  // namespace

TEST_CASE("served trace: its sizes are measured, and a trace that is too short is refused") {
  const kernels::TestFolder folder;
  const TrialOptions options = made_trace(folder, 50, 6);
  const ServedTrace trace(options);
  CHECK(trace.requests() > 250);
  CHECK(trace.candidates_mean() == 20);
  CHECK(trace.seconds() > 5);
  TracedRequest first;
  REQUIRE(trace.replay({7'000'000})(first));
  CHECK(first.at.us >= 7'000'000);
  CHECK(first.user == "u0");
  CHECK_THROWS_WITH_AS(ServedTrace(made_trace(folder, 50, 2)), doctest::Contains("expected at least 4 s"),
                       ImportError);
}

TEST_CASE("try_serving: the nodes found hold the latency target, and one node fewer does not") {
  const kernels::TestFolder folder;
  const TrialOptions options = made_trace(folder, 260, 8);
  const ServedTrace trace(options);
  const NodeType type{"A100-40G", 2.5};
  const CapacityTarget target{.p99_ms = 60, .nodes_max = 8};
  const Capacity found = find_capacity(type, target, [&](const NodeType& of, std::uint32_t nodes) {
    return try_serving(trace, options, of, nodes);
  });
  REQUIRE(found.least);
  CHECK(found.least->nodes > 1);
  CHECK(found.price() == 2.5 * found.least->nodes);
  CHECK(try_serving(trace, options, type, found.least->nodes).holds(target));
  CHECK_FALSE(try_serving(trace, options, type, found.least->nodes - 1).holds(target));
}

TEST_CASE("try_serving: memory too small for one request's items is refused with the needed size") {
  const kernels::TestFolder folder;
  TrialOptions options = made_trace(folder, 50, 6);
  options.memory_bytes = 1'000'000;
  CHECK_THROWS_WITH_AS(try_serving(ServedTrace(options), options, {"A100-40G", 1}, 1),
                       doctest::Contains("at least one request's items"), std::invalid_argument);
}
