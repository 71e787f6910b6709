// Parses a connection to the HTTP server from its first byte: heads, bodies by length or in chunks, the
// requests, and where the next one begins. The result must not depend on how the bytes are divided into
// pieces.
#include <optional>

#include "server/http/http_head.h"
#include "server/http/http_routes.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

using namespace server;

// Small limits, so that inputs soon exceed them.
constexpr HeadLimits limits{.header_bytes_max = 512,
                            .body = {.body_bytes_max = 96,
                                     .extension_bytes_max = 16,
                                     .extensions_bytes_max = 64,
                                     .trailers_bytes_max = 64,
                                     .trailers_max = 4}};
constexpr std::size_t kept_max =
    32 << 10;  // memory for a head's fields and texts, and a body; the parsers' own memory is not counted

// The result of parsing one request.
struct Outcome {
  RequestHead::HeadFields asked;
  std::string body, fault;  // body; code of a refusal
  std::size_t bytes = 0;    // bytes taken from the connection
  bool whole = false;
};

void check_fault(const Refusal& fault) {
  TROUPE_CHECK(!fault.code.empty(), "a refusal that is none");
  check_words(fault.what, 256);
  check_words(fault.expected, 256);
}

// A session's loop: bytes that were not taken come again, with the next `step` bytes after them.
template <class Part>
std::size_t feed(Part& part, std::string_view bytes, std::size_t step) {
  std::size_t taken = 0;
  for (std::size_t come = 0; come < bytes.size() && !part.done() && !part.fault();) {
    come = std::min(bytes.size(), come + step);
    taken += part.take(bytes.substr(taken, come - taken));
  }
  return taken;
}

Outcome read_request(std::string_view bytes, std::size_t step) {
  const MemoryWatch memory;
  Outcome outcome;
  RequestHead head(limits);
  outcome.bytes = feed(head, bytes, step);
  TROUPE_CHECK(outcome.bytes <= limits.header_bytes_max + 2, "a head beyond its limit was read");
  outcome.asked = head.asked();
  if (head.fault()) return check_fault(*head.fault()), outcome.fault = head.fault()->code, outcome;
  if (!head.done()) return outcome;
  RequestBody body = head.body();
  outcome.bytes += feed(body, bytes.substr(outcome.bytes), step);
  TROUPE_CHECK(body.held_bytes() <= limits.body.body_bytes_max + 16, "more is kept than a body may have");
  TROUPE_CHECK(memory.most() <= kept_max, "a request takes more than it may");
  if (body.fault()) return check_fault(*body.fault()), outcome.fault = body.fault()->code, outcome;
  outcome.whole = body.done();
  outcome.body = body.text();
  return outcome;
}

void check_route(const Outcome& asked) {
  ServerLimits server;
  server.admin_routes = true;
  const HttpRoute routed =
      route({asked.asked.method, asked.asked.target, asked.body, asked.asked.tenant}, server);
  if (const auto kind = bulk_kind(asked.asked.method, asked.asked.target, asked.asked.content_type))
    route_line(*kind, {asked.asked.method, asked.asked.target, asked.body, asked.asked.tenant}, server,
               nullptr);
  if (const auto* refusal = std::get_if<Refusal>(&routed))
    TROUPE_CHECK(!refusal->code.empty() && !refusal->what.empty(), "a refusal that is none");
}

// Compares two outcomes. A faulty head may or may not be waited for to its end; a whole request is the
// same in any pieces.
void check_same(const Outcome& one, const Outcome& other) {
  TROUPE_CHECK(one.whole == other.whole, "pieces change what becomes of a request");
  if (!one.whole) return;
  TROUPE_CHECK(one.bytes == other.bytes && one.body == other.body, "pieces change where a request ends");
  TROUPE_CHECK(one.asked.method == other.asked.method && one.asked.target == other.asked.target &&
                   one.asked.tenant == other.asked.tenant && one.asked.keep_alive == other.asked.keep_alive,
               "pieces change what is asked for");
}

void run(Input input) {
  const std::size_t step = take_choice(input) % 64 + 1;
  std::string_view left = text_of(input);
  for (int requests = 0; requests < 4 && !left.empty(); ++requests) {
    const Outcome whole = read_request(left, left.size()), pieces = read_request(left, step);
    check_same(whole, pieces);
    if (!whole.whole) return;
    check_route(whole);
    left.remove_prefix(whole.bytes);
  }
}

std::vector<std::string> seeds() {
  const std::string host = " HTTP/1.1\r\nHost: a\r\n";
  std::string eights;  // one more chunk exceeds the limit
  for (std::uint32_t bytes = 0; bytes < limits.body.body_bytes_max; bytes += 8) eights += "8\r\n{      }\r\n";
  return {"0GET /v2/health/live" + host + "\r\n",
          "1POST /v1/rank" + host + "X-Troupe-Tenant: t\r\nContent-Length: 32\r\n\r\n" +
              R"({"user":"ana","candidates":["i"])" + "GET /metrics" + host + "Connection: close\r\n\r\n",
          "\x05POST /v1/score" + host +
              "Transfer-Encoding: chunked\r\n\r\n4;a=b\r\n{\"qu\r\n1\r\ne\r\n0\r\nT: x\r\n\r\n",
          "7PUT http://a/v1/users/a%C3%A9" + host +
              "Expect: 100-continue\r\nContent-Length: 14\r\n\r\n{\"history\":[]}",
          "9PUT /v1/users/a" + host + "Transfer-Encoding: chunked\r\n\r\n" + eights + "0\r\n\r\n",
          "3\r\nDELETE /v1/items/x HTTP/1.0\r\n\r\n",
          "2POST /v1/models/reload" + host + "Content-Length: 14\r\n\r\n{\"model\":\"m2\"}"};
}

}  // namespace

const Target http_target{"http", run, seeds, true};

}  // namespace troupe::fuzz
