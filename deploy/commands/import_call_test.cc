#include "deploy/commands/import_call.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

using namespace troupe;
using namespace troupe::deploy;
using nlohmann::json;

namespace import_call_test {
namespace {

// A server that answers each line by a function of its id and of how often it came.
struct Server {
  std::function<json(const std::string& id, int times)> answer = [](const std::string&, int) {
    return json{{"status", 200}, {"version", 1}};
  };
  bool cuts_off = false;
  int waits = 0;
  std::vector<std::vector<std::string>> requests;  // ids
  std::map<std::string, int> times;

  server::HttpReply reply(const std::string& body) {
    std::string out;
    std::vector<std::string>& ids = requests.emplace_back();
    for (std::size_t at = 0; at < body.size();) {
      const std::size_t end = body.find('\n', at);
      const std::string id = json::parse(body.substr(at, end - at)).at("item");
      json line = answer(id, ++times[id]);
      line["line"] = ids.size() + 1;
      ids.push_back(id);
      out += line.dump() + "\n";
      at = end + 1;
    }
    if (!cuts_off) out += "{\"lines\":" + std::to_string(ids.size()) + ",\"failed\":0}\n";
    return {200, out};
  }
  ImportResult send(std::size_t count, const std::function<bool(const RefusedLine&)>& goes_on = {}) {
    const ImportLines lines{
        "/v1/items", count,
        [](std::size_t row) { return line_of(PutItem{.item = std::to_string(row), .tokens = {1}}); },
        [](std::size_t row, const std::string&) { return "t.csv:" + std::to_string(row + 2); }};
    return send_lines([this](const std::string&, const std::string& body) { return reply(body); }, lines,
                      [this] { ++waits; }, goes_on);
  }
};

json refusal(int status, const char* code) {
  return {{"status", status},
          {"error", {{"code", code}, {"message", "no"}, {"where", "history[0]"}, {"expected", "yes"}}}};
}

}  // namespace

TEST_SUITE("import call") {
  TEST_CASE("import call: rows become lines that the server reads") {
    CHECK(line_of(PutItem{.item = "a\"b", .title = "T", .tokens = {1, 2}, .identifier = 7}) ==
          R"({"item":"a\"b","title":"T","tokens":[1,2],"identifier":7})");
    PutItem later{.item = "a", .tokens = {1}};
    later.publish = false;
    CHECK(line_of(later) == R"({"item":"a","tokens":[1],"publish":false})");
    const PutUser user{.user = "u",
                       .history = {"a", "b"},
                       .features = {{"timestamps", {1, 2}}, {"actions", {5, 0}}},
                       .event_ids = {"e1", ""}};
    CHECK(line_of(user) ==
          R"({"user":"u","history":["a","b"],"features":[{"name":"timestamps","values":[1,2]},)"
          R"({"name":"actions","values":[5,0]}],"event_ids":["e1",""]})");
    CHECK(events_line_of(user) == R"({"user":"u","events":[{"id":"e1","item":"a","timestamp":1,"action":5},)"
                                  R"({"item":"b","timestamp":2,"action":0}]})");
    CHECK(line_of(PutUser{.user = "u"}) == R"({"user":"u","history":[]})");
  }

  TEST_CASE("import call: requests are bounded, and every row is sent once and in order") {
    Server server;
    const ImportResult result = server.send(2'500);
    CHECK(result.stored == 2'500);
    REQUIRE(server.requests.size() == 3);
    CHECK(server.requests[0].size() == 1'000);
    CHECK(server.requests[2].front() == "2000");
    CHECK(server.requests[2].back() == "2499");
    CHECK(server.send(0).stored == 0);
  }

  TEST_CASE("import call: rows that the server has no capacity for are sent again, after a wait") {
    Server server;
    server.answer = [](const std::string& id, int times) {
      const bool is_full = (id == "1" || id == "3") && times < 3;
      return is_full ? refusal(id == "1" ? 503 : 429, "overloaded")
                     : json{{"status", 200}, {"version", times}};
    };
    const ImportResult result = server.send(4);
    CHECK(result.stored == 4);
    CHECK(result.version == 3);
    CHECK(result.refused.empty());
    CHECK(server.waits == 2);
    CHECK(server.requests[2] == std::vector<std::string>{"1", "3"});
    server.answer = [](const std::string&, int) { return refusal(503, "overloaded"); };
    CHECK_THROWS_WITH_AS(
        server.send(2),
        "t.csv:2: the server has no capacity for this row and 1 more; expected an answer within 10 "
        "attempts. The others are stored: import again",
        std::runtime_error);
  }

  TEST_CASE("import call: a refused row ends the import behind its request, unless it may go on") {
    Server server;
    server.answer = [](const std::string& id, int) {
      return id == "5" || id == "7" ? refusal(422, "unknown_item") : json{{"status", 200}};
    };
    const ImportResult stopped = server.send(1'500);
    CHECK(server.requests.size() == 1);
    CHECK(stopped.stored == 998);
    REQUIRE(stopped.refused.size() == 2);
    CHECK(stopped.refused[1].row == 7);
    CHECK(stopped.refused[1].code == "unknown_item");
    CHECK(stopped.refused[1].where == "history[0]");
    std::set<std::size_t> seen;
    const ImportResult all =
        server.send(1'500, [&](const RefusedLine& line) { return seen.insert(line.row).second; });
    CHECK(all.stored == 1'498);
    CHECK(seen == std::set<std::size_t>{5, 7});
  }

  TEST_CASE("import call: requests that the server has no capacity for are sent again, after a wait") {
    Server server;
    const ImportLines lines{
        "/v1/items", 2'500,
        [](std::size_t row) { return line_of(PutItem{.item = std::to_string(row), .tokens = {1}}); },
        [](std::size_t row, const std::string&) { return "t.csv:" + std::to_string(row + 2); }};
    int requests = 0, full_from = 2, full_to = 3;
    const auto send = [&](auto&, const std::string& body) {
      ++requests;
      const bool is_full = requests >= full_from && requests <= full_to;
      return is_full ? server::HttpReply{503, refusal(503, "draining").dump()} : server.reply(body);
    };
    const ImportResult result = send_lines(send, lines, [&] { ++server.waits; });
    CHECK(result.stored == 2'500);
    CHECK(server.waits == 2);
    CHECK(requests == 5);  // 1,000 rows, two refusals, and the others
    requests = 0, full_to = 1'000;
    CHECK_THROWS_WITH_AS(
        send_lines(send, lines, [] {}),
        "t.csv:1002: the server has no capacity for this row and 1499 more (history[0]: no; expected yes); "
        "expected an answer within 10 attempts. The others are stored: import again",
        std::runtime_error);
  }

  TEST_CASE("import call: an import that ends in the middle tells what is stored") {
    Server server;
    ImportLines lines{
        "/v1/items", 1'500,
        [](std::size_t row) { return line_of(PutItem{.item = std::to_string(row), .tokens = {1}}); },
        [](std::size_t row, const std::string&) { return "t.csv:" + std::to_string(row + 2); },
        "import the others"};
    const auto error_of = [&](const std::function<server::HttpReply()>& second) -> std::string {
      try {
        const auto send = [&, requests = 0](auto&, const std::string& body) mutable {
          return ++requests == 2 ? second() : server.reply(body);
        };
        send_lines(send, lines, [] {});
      } catch (const std::runtime_error& error) {
        return error.what();
      }
      return "none";
    };
    CHECK(
        error_of([]() -> server::HttpReply { throw std::runtime_error("the connection was lost"); }) ==
        "the connection was lost. 1000 of 1500 rows are stored, and perhaps some from t.csv:1002 on: import "
        "the others");
    CHECK(error_of([] {
            return server::HttpReply{401, refusal(401, "key").dump()};
          }) == "history[0]: no; expected yes. 1000 of 1500 rows are stored: import the others");
  }

  TEST_CASE("import call: an answer that is cut off, or none of a troupe server, is an error") {
    Server server;
    server.cuts_off = true;
    CHECK_THROWS_WITH_AS(server.send(2), doctest::Contains("the server's answer was cut off"),
                         std::runtime_error);
    const ImportLines line{"/v1/items", 1, [](std::size_t) { return "{}"; },
                           [](std::size_t, const std::string&) { return "t:1"; }};
    const auto reply_of = [&](unsigned status, const std::string& body) {
      return send_lines([&](auto&, auto&) { return server::HttpReply{status, body}; }, line, [] {});
    };
    CHECK_THROWS_WITH_AS(
        reply_of(401, R"({"error":{"where":"authorization","message":"no key","expected":"a key"}})"),
        "authorization: no key; expected a key", std::runtime_error);
    const std::string perhaps = ". 0 of 1 rows are stored, and perhaps some from t:1 on: import again";
    for (const char* body : {"<html>", R"({"error":"bad gateway"})", R"({"error":{"message":7}})", "[]"})
      CHECK_THROWS_WITH_AS(reply_of(502, body),
                           ("/v1/items: status 502; expected a troupe server" + perhaps).c_str(),
                           std::runtime_error);
    CHECK(reply_of(200, "{\"status\":\"ok\"}\n{\"lines\":1}\n").refused.at(0).message == "status 0");
    CHECK_THROWS_WITH_AS(reply_of(200, "hello\nyou\n"), doctest::Contains("is no JSON"), std::runtime_error);
  }
}

}  // namespace import_call_test
