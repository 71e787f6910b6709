// Sends thousands of malformed requests to a running server: every one gets a well-formed, typed answer.
// In between and at the end the server ranks as at the start.
#include <doctest/doctest.h>

#include <map>

#include "tests/fuzz/damage.h"
#include "tests/fuzz/raw_http.h"
#include "tests/fuzz/tiny_world.h"

using namespace troupe;
using namespace troupe::fuzz;

namespace {

constexpr std::uint64_t seed = 20'251'121;
constexpr int requests = 5'000, check_every = 50;

struct Call {
  std::string method, target, version = "HTTP/1.1", headers, body;

  std::string bytes(const std::string& length) const {
    return method + " " + target + " " + version + "\r\nhost: door\r\n" + headers + length + "\r\n" + body;
  }
  std::string bytes() const { return bytes("content-length: " + std::to_string(body.size()) + "\r\n"); }
};

const std::vector<Call>& sound_calls() {
  static const std::vector<Call> calls{
      {"POST", "/v1/rank", "HTTP/1.1", "",
       R"({"user":"ana","candidates":["item-1","item-2","item-3"],"top_k":2,"policy":"bat","budget_us":0})"},
      {"POST", "/v1/rank", "HTTP/1.1", "",
       R"({"user":"bob","candidates":["item-4","item-5"],"policy":"item"})"},
      {"POST", "/v1/score", "HTTP/1.1", "",
       R"({"query":[1,2,3],"items":[{"tokens":[4,5]},{"tokens":[6]}],"label_tokens":[7,8],)"
       R"("apply_softmax":true})"},
      {"PUT", "/v1/users/ana", "HTTP/1.1", "", R"({"history":["item-1","item-2"]})"},
      {"PUT", "/v1/users/bob", "HTTP/1.1", "x-troupe-tenant: acme\r\n", R"({"tokens":[10,11,12]})"},
      {"PUT", "/v1/items/item-9", "HTTP/1.1", "", R"({"title":"A lamp","tokens":[12,13],"identifier":40})"},
      {"DELETE", "/v1/users/carl", "HTTP/1.1", "", ""},
      {"GET", "/v1/cluster", "HTTP/1.1", "", ""}};
  return calls;
}

std::string repeated(const std::string& part, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += (i ? "," : "") + part;
  return out;
}

// Bodies that are well-formed JSON and ask for unknown or forbidden things.
const std::vector<Call>& hostile_calls() {
  static const std::string post = "POST", put = "PUT", rank = "/v1/rank", score = "/v1/score",
                           user = "/v1/users/ana", item = "/v1/items/item-8", http = "HTTP/1.1";
  static const std::vector<Call> calls{
      {post, rank, http, "", R"({"user":"nobody","candidates":["item-1"]})"},
      {post, rank, http, "", R"({"user":"ana","candidates":["no-such-item"]})"},
      {post, rank, http, "", R"({"user":"ana","candidates":[]})"},
      {post, rank, http, "", R"({"user":"ana"})"},
      {post, rank, http, "", R"({"user":"ana","candidates":["item-1","item-1"]})"},
      {post, rank, http, "", R"({"user":"ana","candidates":[)" + repeated("\"item-1\"", 65) + "]}"},
      {post, rank, http, "", R"({"user":"ana","candidates":["item-1"],"budget_us":1})"},
      {post, rank, http, "", R"({"user":"ana","candidates":["item-1"],"budget_us":-9223372036854775808})"},
      {post, rank, http, "", R"({"user":"ana","candidates":["item-1"],"budget_us":9223372036854775807})"},
      {post, rank, http, "", R"({"user":"ana","candidates":["item-1"],"top_k":4294967295})"},
      {post, rank, http, "", R"({"user":"ana","user":"bob","candidates":["item-1"]})"},
      {post, rank, http, "", R"({"user":")" + std::string(2'000, 'u') + R"(","candidates":["item-1"]})"},
      {post, rank, http, "x-troupe-tenant: " + std::string(2'000, 't') + "\r\n",
       R"({"user":"a","candidates":["b"]})"},
      {post, score, http, "", R"({"query":[64],"items":[{"tokens":[1]}],"label_tokens":[1]})"},
      {post, score, http, "", R"({"query":[-1],"items":[{"tokens":[1]}],"label_tokens":[1]})"},
      {post, score, http, "", R"({"query":[],"items":[{"tokens":[1]}],"label_tokens":[1]})"},
      {post, score, http, "", R"({"query":[1],"items":[{"tokens":[]}],"label_tokens":[1]})"},
      {post, score, http, "",
       R"({"query":[)" + repeated("1", 96) + R"(],"items":[{"tokens":[1]}],"label_tokens":[1]})"},
      {post, score, http, "",
       R"({"query":[1],"items":[)" + repeated(R"({"tokens":[1]})", 2'000) + R"(],"label_tokens":[1]})"},
      {put, user, http, "", R"({"history":["no-such-item"]})"},
      {put, user, http, "", R"({"history":["item-1"],"tokens":[1]})"},
      {put, user, http, "", R"({"tokens":[64]})"},
      {put, user, http, "", R"({"tokens":[)" + repeated("9", 5'000) + "]}"},
      {put, user, http, "", R"({"history":[)" + repeated("\"item-2\"", 5'000) + "]}"},
      {put, user, http, "", R"({"user":"bob","history":[]})"},
      {put, item, http, "", R"({"tokens":[1,2]})"},
      {put, item, http, "", R"({"tokens":[],"identifier":1})"},
      {put, item, http, "", R"({"tokens":[)" + repeated("9", 96) + R"(],"identifier":1})"},
      {put, item, http, "", R"({"title":")" + std::string(6'000, 't') + R"(","tokens":[1],"identifier":1})"},
      {post, rank, http, "", std::string(ServedNode::body_bytes_max + 1, ' ')},
      {post, rank, http, "", std::string(ServedNode::body_bytes_max, '[')},
      {post, rank, http, "", std::string("{\"user\":\"ana\"}\0{}", 16)},
      {post, rank, http, "", "{\"user\":\"\xff\xfe\",\"candidates\":[\"item-1\"]}"}};
  return calls;
}

const std::vector<std::string> methods{"GET",   "HEAD",    "PUT",  "POST", "DELETE", "PATCH", "OPTIONS",
                                       "TRACE", "CONNECT", "BREW", "get",  "",       "G T",   "\x01"};
const std::vector<std::string> targets{"/",
                                       "",
                                       "*",
                                       "//v1/rank",
                                       "/v1/rank/",
                                       "/v1/rank?x=1#y",
                                       "http://x/v1/rank",
                                       "/v1/users/",
                                       "/v1/users/%00",
                                       "/v1/users/%",
                                       "/v1/items/%ff",
                                       "/v1/items/a/b",
                                       "/v1/users/" + std::string(300, 'x'),
                                       "/" + std::string(9'000, 'x'),
                                       "/v1/users/..%2f..%2fx",
                                       "/v1/users/%F0%9F%98%80",
                                       "/\x01",
                                       "/ /",
                                       "/\xff",
                                       "/metrics",
                                       "/tokenize",
                                       "/rerank",
                                       "/readyz",
                                       "/v2/health/ready"};
const std::vector<std::string> versions{"HTTP/1.0", "HTTP/1.1", "HTTP/0.9", "HTTP/2.0", "HTTP/1.10",
                                        "HTTP/1",   "ICY",      "",         "http/1.1"};
const std::vector<std::string> header_lines{"expect: 100-continue\r\n",
                                            "expect: miracles\r\n",
                                            "connection: close\r\n",
                                            "connection: upgrade\r\nupgrade: h2c\r\n",
                                            "transfer-encoding: chunked\r\n",
                                            "transfer-encoding: gzip\r\n",
                                            "transfer-encoding: gzip, chunked\r\n",
                                            "content-length: 0\r\n",
                                            "content-length: 3\r\n",
                                            "no colon\r\n",
                                            ": no name\r\n",
                                            " folded: x\r\n",
                                            "x:\r\n",
                                            "x y: z\r\n",
                                            "x: \x01\r\n",
                                            std::string("x: a\0b\r\n", 8),
                                            "x: a\nb\r\n",
                                            "x: \xff\xfe\r\n",
                                            "\r\n",
                                            "\n",
                                            "\r",
                                            "x: " + std::string(9'000, 'h') + "\r\n",
                                            "x-troupe-tenant: a\r\nx-troupe-tenant: b\r\n",
                                            "x-troupe-tenant: \xff\r\n",
                                            "host: another\r\n",
                                            "content-type: text/plain\r\n",
                                            "content-encoding: gzip\r\n"};
const std::vector<std::string> lengths{"",
                                       "content-length: 1\r\n",
                                       "content-length: 70000\r\n",
                                       "content-length: -1\r\n",
                                       "content-length: 0x10\r\n",
                                       "content-length: 18446744073709551615\r\n",
                                       "content-length: 18446744073709551616\r\n",
                                       "content-length: 9, 9\r\n",
                                       "content-length:\r\n",
                                       "content-length: 5\r\ncontent-length: 6\r\n",
                                       "transfer-encoding: chunked\r\n"};
const std::vector<std::string> chunks{"0\r\n\r\n",
                                      "5\r\nabcde\r\n0\r\n\r\n",
                                      "5\r\nabc",
                                      "ffffffffffffffff\r\nx",
                                      "-1\r\n",
                                      "zz\r\n",
                                      "2\r\n{}\r\n0\r\nx: y\r\n\r\n",
                                      "11170\r\n",
                                      "1;a=b\r\n{\r\n1\r\n}\r\n0\r\n\r\n"};

std::string envelope_damage(Call call, Chance& chance) {
  switch (draw(chance, 6)) {
    case 0:
      call.method = pick(chance, methods);
      return call.bytes();
    case 1:
      call.target = pick(chance, targets);
      return call.bytes();
    case 2:
      call.version = pick(chance, versions);
      return call.bytes();
    case 3:
      for (std::size_t lines = draw(chance, 3) + 1; lines > 0; --lines)
        call.headers += pick(chance, header_lines);
      return call.bytes();
    case 4:
      call.body = pick(chance, chunks);
      return call.bytes("transfer-encoding: chunked\r\n");
    default:
      return call.bytes(pick(chance, lengths));
  }
}

// Returns the bytes of one hostile request: a body that lies, an envelope that lies, damage anywhere, or
// several.
std::string hostile_bytes(Chance& chance) {
  Call call = pick(chance, sound_calls());
  switch (draw(chance, 8)) {
    case 0:
      return pick(chance, hostile_calls()).bytes();
    case 1:
      return envelope_damage(pick(chance, hostile_calls()), chance);
    case 2:
      return envelope_damage(call, chance);
    case 3: {
      std::string bytes = call.bytes();
      for (std::size_t times = draw(chance, 3) + 1; times > 0; --times) damage_bytes(bytes, chance);
      return bytes;
    }
    case 4:
      damage_bytes(call.body, chance);
      return call.bytes();
    default:
      for (std::size_t times = draw(chance, 3) + 1; times > 0; --times) damage_text(call.body, chance);
      return call.bytes();
  }
}

void check_error(const Response& response) {
  const auto body = nlohmann::json::parse(response.body, nullptr, false);
  REQUIRE_MESSAGE(body.is_object(), response.body);
  const auto error = body.value("error", nlohmann::json::object());
  CAPTURE(response.body);
  CHECK(error.value("status", 0u) == response.status);
  for (const char* key : {"code", "message"}) CHECK_FALSE(error.value(key, "").empty());
  for (const char* key : {"where", "expected"}) CHECK(error.contains(key));
}

void check_response(const Response& response, bool has_body) {
  CHECK((response.status == 200 || (response.status >= 400 && response.status < 600)));
  CHECK(response.status != 500);  // 500 would blame the server for the client's fault
  if (!has_body) return;
  if (response.status != 200) return check_error(response);
  if (response.type == "application/json") CHECK(nlohmann::json::accept(response.body));
}

// Restores what hostile requests may have changed, so that later ones get as far.
void restock(const ServedNode& box) {
  CHECK(box.ask("PUT", "/v1/users/ana", R"({"history":["item-0","item-1","item-2"]})").status == 200);
  CHECK(box.ask("PUT", "/v1/users/bob", R"({"tokens":[7,8,9,10]})").status == 200);
  for (const PutItem& item : tiny_items()) {
    if (!item.item.starts_with("item-")) continue;
    const nlohmann::json body{
        {"title", item.title}, {"tokens", item.tokens}, {"identifier", item.identifier}};
    CHECK(box.ask("PUT", "/v1/items/" + item.item, body.dump()).status == 200);
  }
}

std::string reported(const std::map<unsigned, int>& by_status) {
  std::string text;
  for (const auto& [status, count] : by_status)
    text += " " + std::to_string(status) + ": " + std::to_string(count);
  return text;
}

}  // namespace

TEST_SUITE("door fuzz") {
  TEST_CASE("HTTP fuzz: every hostile request gets a typed answer, and rankings stay the same") {
    CAPTURE(seed);
    const ServedNode box;
    std::map<unsigned, int> by_status;  // 0 = closed without an answer
    for (int i = 0; i < requests; ++i) {
      CAPTURE(i);
      Chance chance(seed + static_cast<std::uint64_t>(i));
      const std::string bytes = hostile_bytes(chance);
      const bool head = bytes.starts_with("HEAD ");
      const std::string answer = exchange(box.port(), bytes);
      const Responses responses = parse_responses(answer, head);
      CAPTURE(bytes.substr(0, 300));
      CHECK_MESSAGE(responses.fault.empty(), responses.fault, ": ", answer.substr(0, 300));
      if (responses.list.empty()) ++by_status[0];
      CHECK((!responses.list.empty() || bytes.empty()));
      for (const Response& response : responses.list) {
        ++by_status[response.status];
        check_response(response, !(head && &response == &responses.list.front()));
      }
      if (i % check_every == check_every - 1) {
        box.check_steady();
        restock(box);
      }
    }
    MESSAGE("seed ", seed, ", ", requests, " hostile requests; responses by status:", reported(by_status));
    CHECK(by_status[200] > requests / 50);  // requests with harmless damage are served
    CHECK(by_status[400] > requests / 10);
    for (const unsigned typed : {404u, 405u, 413u, 422u}) CHECK(by_status[typed] > 0);
    CHECK(box.metrics().value(Metric::protocol_errors) == 0);
    CHECK(box.ask("GET", "/v2/health/ready").status == 200);
    CHECK(box.ask("GET", "/v1/cluster").body.at("actors").size() == 5);
  }
}
