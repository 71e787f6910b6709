#pragma once
// State of a request of many lines. A limited number of lines is with the actors at a time. When
// all of them have results, these are written and the next lines are read. A client that does not
// read its results gets no more. What is kept for the request counts in http.memory_max as it comes,
// together with the results that are expected; a line is taken only while they fit. Before each of
// these steps the key is looked up again if the keys have changed.
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/http/http_server_state.h"

namespace troupe::server {

struct HttpServer::Exchange::Bulk {
  static constexpr std::size_t lines_at_once = 32, bytes_at_once = 256 << 10;
  struct LineResult {
    std::string text;
    std::size_t expected_bytes = 0;  // while the line has no result
  };

  // Bytes kept for the request beside the connection's buffer and the body, and bytes expected.
  std::size_t held_bytes() const;
  // Moves the results to `out`, between `head` and `end`; `last`: nothing follows them.
  void write_part(std::string head, const std::string& end, bool chunked, bool last);
  // Keeps the lines that were not routed for the next batch.
  void keep_lines(Batch& batch);
  // Counts a line that is being answered, and makes room for its result. Returns its index in `results`.
  std::size_t begin_line() {
    ++lines, ++open;
    results.push_back({.expected_bytes = result_bytes});
    return results.size() - 1;
  }
  bool waits(const RequestBody& body) const { return !later.empty() || !body.text().empty(); }

  BulkKind kind = BulkKind::users;
  std::uint64_t lines = 0, failed = 0;  // lines so far, and failed ones among them
  std::size_t open = 0;                 // current lines without a result
  bool asks = false;                    // lines are being sent: more may follow those that are open
  std::size_t result_bytes = 8 << 10;   // expected of the next line's result: the largest so far
  std::vector<LineResult> results;      // of the current lines
  std::size_t read_bytes = 0;           // of lines that are being read
  std::deque<std::string> later;  // lines that wait because the first changes what a current one changes
  std::string out;                // bytes being written
  std::size_t bytes = 0;          // written so far, including `out`
  std::shared_ptr<const ApiKeys> keys;  // with which the caller was identified last; null = no keys
  std::optional<Refusal> refusal;       // of all further lines: the key is gone, or has fewer rights
  bool begun = false;                   // the response has begun
};

// Lines that are routed together, and what came of the first of them.
struct HttpServer::Exchange::Batch {
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const std::string& line : lines) sum += line.size();
    return sum;
  }

  std::vector<std::string> lines;
  std::vector<RoutedBody> routed;
  // Answer to all lines, and their number: their tenant floods. Their texts are freed, since the answer may
  // wait for long.
  std::optional<Answer> refused;
  std::size_t refused_lines = 0;
};

}  // namespace troupe::server
