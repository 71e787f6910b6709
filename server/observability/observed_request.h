#pragma once
// Facts about a request, known once its response is written: for the access log, the list of the
// slowest requests, and the spans for a collector. It is for observers only.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe::server {

// Facts about the computation of an answer; empty if nothing was computed.
struct ObservedRun {
  std::string kind, plan;  // for example "rank", "item"
  NodeId node = 0;
  Timings timings;
  std::uint32_t tokens_total = 0, tokens_reused = 0;
};

struct ObservedRequest {
  std::string request_id;    // the client's, else the trace id
  TraceContext trace;        // `span` is the server's
  std::uint64_t parent = 0;  // the client's span; 0 = unknown
  std::string method, route, tenant, model;
  unsigned status = 0;
  std::string code;                           // error code of a refusal
  std::int64_t began_us = 0;                  // microseconds since 1970
  std::int64_t took_us = 0;                   // from the head to the response
  std::uint64_t bytes_in = 0, bytes_out = 0;  // of bodies
  ObservedRun run;
};

enum class AccessLog : std::uint8_t { off, errors, all };
AccessLog access_log(std::string_view name);  // values of http.access_log; another name is a bug
bool is_logged(AccessLog which, const ObservedRequest& request);

// Bounds the lines about errors, so that a flood of refusals does not fill the disk: a burst, and then a
// few per second. The next line tells how many were left out.
class ErrorLines {
 public:
  static constexpr std::uint32_t burst = 100, per_second = 10;

  bool take(std::int64_t now_us);  // false = this one is left out, and counted
  std::uint64_t take_left_out();   // number since the last call

 private:
  double left_ = burst;
  std::int64_t last_us_ = 0;
  std::uint64_t left_out_ = 0;
};

std::vector<LogField> access_fields(const ObservedRequest& request);

// Formats a request's spans as OTLP JSON: the server's span, with one child per stage. Returns
// members of a list of spans, separated by commas; "" if the trace is not sampled.
std::string spans_of(const ObservedRequest& request);

}  // namespace troupe::server
