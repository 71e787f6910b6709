#pragma once
// Sends imported rows to a running server over HTTP, many lines in a request (POST /v1/items and /v1/users),
// and reads the result of each line.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "deploy/commands/server_call.h"
#include "deploy/data/dataset.h"

namespace troupe::deploy {

// Lines to send, and where each came from, for errors.
struct ImportLines {
  std::string path;  // "/v1/items", or "/v1/items?model=NAME" for a server of several models
  std::size_t count = 0;
  std::function<std::string(std::size_t row)> line;  // without its end
  // Returns a place such as "items.csv:17". `field`: of a refusal, such as "history[3]", or "".
  std::function<std::string(std::size_t row, const std::string& field)> where;
  std::string advice = "import again";  // for an import that ended early
};

// Refused row of an import. The others of its request were stored.
struct RefusedLine {
  std::size_t row = 0;
  std::string code, message, where, expected;
};

struct ImportResult {
  std::uint64_t stored = 0, version = 0;  // rows, and the largest version among the answers
  std::vector<RefusedLine> refused;
};

// Sends requests: tests replace it.
using SendRequest = std::function<server::HttpReply(const std::string& path, const std::string& body)>;
SendRequest requests_to(const ServerOptions& server);

// Sends all lines, up to 1,000 or 4 MiB in a request. Lines and requests that the server has no capacity for
// (429, 503) are sent again, up to ten times, after `wait`. Stops behind a request with refused lines unless
// `goes_on` is true for each of them. Throws std::runtime_error if a request fails or is refused as a whole,
// or its answer is cut off; the error says how many rows are stored.
ImportResult send_lines(const SendRequest& send, const ImportLines& lines, const std::function<void()>& wait,
                        const std::function<bool(const RefusedLine&)>& goes_on = {});

// One line each.
std::string line_of(const PutItem& item);  // with `publish`, if it is false
std::string line_of(const PutUser& user);
// Line of POST /v1/events, with the user's events to append.
std::string events_line_of(const PutUser& user);

}  // namespace troupe::deploy
