#pragma once
// What the door knows of a request once its response is written: for the access log, the list of the slowest
// and the spans that a collector gets. It is told to whoever watches, and changes nothing.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe::server {

// How an answer was computed; of what is not computed, nothing.
struct SeenRun {
  std::string kind, plan;  // "rank", "item"
  NodeId node = 0;
  Timings timings;
  std::uint32_t tokens_total = 0, tokens_reused = 0;
};

struct SeenRequest {
  std::string request_id;    // as its client named it, or else its trace
  TraceContext trace;        // `span` is the door's
  std::uint64_t parent = 0;  // the span of its client; 0: none is known
  std::string method, route, tenant, model;
  unsigned status = 0;
  std::string code;                           // of a refusal
  std::int64_t began_us = 0;                  // since 1970
  std::int64_t took_us = 0;                   // from its head to its response
  std::uint64_t bytes_in = 0, bytes_out = 0;  // of bodies
  SeenRun run;
};

enum class AccessLog : std::uint8_t { off, errors, all };
AccessLog access_log(std::string_view name);  // of the knob http.access_log; another name is a bug
bool is_logged(AccessLog which, const SeenRequest& request);
std::vector<LogField> access_fields(const SeenRequest& request);

// One request's spans in OTLP's JSON: the door's, and below it one for each stage. Members of a list of
// spans, with commas between; "" if its client does not record it.
std::string spans_of(const SeenRequest& request);

}  // namespace troupe::server
