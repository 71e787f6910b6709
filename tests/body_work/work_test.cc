// Bodies of every route are read in time linear in their size: four times the body takes at most five times
// the work, whether it is accepted or refused. Work is counted, not timed (work_count.h).
#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/http/http_routes.h"
#include "server/http/model_choice.h"
#include "server/http/request_body.h"
#include "tests/body_work/work_count.h"

using namespace troupe;
using namespace troupe::server;

namespace work_test {

using MakeBody = std::function<std::string(std::size_t)>;

// Limits beyond every body here, so that all of each body is read.
ServerLimits wide_limits() {
  constexpr std::uint32_t most = 1'000'000;
  ServerLimits limits;
  limits.candidates_max = limits.history_events_max = limits.score_items_max = limits.score_labels_max =
      limits.request_tokens_max = limits.prompt_tokens_max = limits.pass_tokens_max = most;
  limits.admin_routes = true;
  return limits;
}

// Joins n copies of `one`, in which # becomes the number of the copy.
std::string list(std::size_t n, const std::string& one) {
  std::string out = "[";
  const std::size_t mark = one.find('#');
  for (std::size_t i = 0; i < n; ++i) {
    if (i > 0) out += ',';
    if (mark == one.npos)
      out += one;
    else
      out.append(one, 0, mark).append(std::to_string(100'000 + i)).append(one, mark + 1);
  }
  return out + "]";
}

// Makes bodies with a list in the middle.
MakeBody around(std::string before, std::string one, std::string after) {
  return [=](std::size_t n) { return before + list(n, one) + after; };
}

struct Shape {
  const char* method;
  const char* target;
  MakeBody body;
};

const std::vector<Shape>& served_shapes() {
  static const std::vector<Shape> shapes{
      {"POST", "/v1/rank", around(R"({"user":"u","candidates":)", "\"item #\"", "}")},
      {"POST", "/v1/rank", around(R"({"user":"u","candidates":["a"],"history":)", "\"item #\"", "}")},
      {"POST", "/v1/score", around(R"({"label_tokens":[1],"query":[1],"items":)", R"({"tokens":[#]})", "}")},
      {"POST", "/v1/score", around(R"({"query":[1],"items":[{"tokens":[2]}],"label_tokens":)", "#", "}")},
      {"POST", "/score", around(R"({"text_1":"u","text_2":)", "\"text #\"", "}")},
      {"POST", "/generative_scoring", around(R"({"query":[1],"label_token_ids":[1],"items":)", "[#]", "}")},
      {"POST", "/v1/generate", around(R"({"user":"u","allow":)", "\"item #\"", "}")},
      {"POST", "/v1/completions", around(R"({"prompt":)", "#", "}")},
      {"POST", "/v1/rerank", around(R"({"query":"u","documents":)", "\"item #\"", "}")},
      {"POST", "/v1/rerank", around(R"({"query":"u","documents":)", R"({"id":"item #"})", "}")},
      {"POST", "/rerank", around(R"({"query":"u","texts":)", "\"item #\"", "}")},
      {"POST", "/tokenize", around(R"({"prompt":)", "\"text #\"", "}")},
      {"POST", "/v2/models/m/infer",
       around(
           R"({"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["u"]},{"name":"candidates",)"
           R"("shape":[1],"datatype":"BYTES","data":)",
           "\"item #\"", "}]}")},
      {"POST", "/v2/models/m/infer",
       around(R"({"inputs":)", R"({"name":"t#","shape":[1],"datatype":"INT64","data":[1]})", "}")},
      {"PUT", "/v1/users/u", around(R"({"history":)", "\"item #\"", "}")},
      {"PUT", "/v1/users/u", around(R"({"tokens":[1],"event_ids":)", "\"event #\"", "}")},
      {"PUT", "/v1/users/u", around(R"({"history":["a"],"features":)", R"({"name":"f#","values":[1]})", "}")},
      {"PUT", "/v1/items/i", around(R"({"identifier":1,"tokens":)", "#", "}")},
      {"PUT", "/v1/items/i", around(R"({"identifier":1,"tokens":)", "\"<a_1>\"", "}")},
      {"POST", "/v1/users/u/events", around(R"({"events":)", R"({"id":"e#","item":"a"})", "}")},
      {"POST", "/v1/users/u/events", around(R"({"events":)", R"({"tokens":["<a_1>"],"timestamp":#})", "}")},
      {"POST", "/v1/models/reload", around(R"({"model":"m","x":)", "#", "}")},
      {"POST", "/v1/replay", around(R"({"request_id":"r","x":)", "#", "}")},
  };
  return shapes;
}

const std::vector<const char*>& list_members() {
  static const std::vector<const char*> names{"candidates", "history",   "items",  "events",
                                              "tokens",     "documents", "inputs", "allow",
                                              "prompt",     "text_2",    "user",   "x"};
  return names;
}

// Hostile bodies for any route: tiny values, repeated keys, depth, long strings.
std::vector<MakeBody> hostile_bodies() {
  std::vector<MakeBody> bodies;
  for (const char* name : list_members())
    for (const char* one : {"{}", "[]", "null", "\"\"", "{\"a\":{}}", "[[]]", "1e5"})
      bodies.push_back(around("{\"" + std::string(name) + "\":", one, "}"));
  const auto members = [](const char* one) {
    return [one](std::size_t n) {
      std::string text = list(n, one);
      text.front() = '{', text.back() = '}';
      return text;
    };
  };
  bodies.push_back(members("\"key #\":1"));
  bodies.push_back(members("\"same\":1"));
  bodies.push_back(members("\"model\":\"m\""));
  bodies.push_back([=](std::size_t n) { return "{\"events\":[" + members("\"key #\":1")(n) + "]}"; });
  for (const char* part : {"[", "{\"a\":", "\\u0041", "\\\"", "\xc3\xa9", ",", ":", " ", "\x1f"})
    for (const char* before : {"", "{\"user\":\"", "{\"prompt\":\"", "{\"tokens\":\""})
      bodies.push_back([=](std::size_t n) {
        std::string body = before;
        for (std::size_t i = 0; i < n; ++i) body += part;
        return body;
      });
  return bodies;
}

std::uint64_t work_of(const std::function<void()>& run) {
  const std::uint64_t before = work_so_far();
  run();
  return work_so_far() - before;
}

constexpr std::size_t few = 300, times = 4;
constexpr std::uint64_t constant_work = 3'000;  // of a request, whatever its size

bool is_linear(const std::function<void(const std::string&)>& read, const MakeBody& make) {
  const std::string small = make(few), large = make(times * few);
  read(small);  // what is made once
  const std::uint64_t least = work_of([&] { read(small); }), most = work_of([&] { read(large); });
  CAPTURE(least);
  CAPTURE(most);
  CHECK(most <= (times + 1) * (least + constant_work));
  return most <= (times + 1) * (least + constant_work);
}

TEST_SUITE("work") {
  TEST_CASE("work: the count tells quadratic work from linear work") {
    const auto count = [](std::size_t n) {
      RequestBody body(n, {.by_lines = true});
      return work_of([&] { body.take(std::string(n, 'x')), body.next_line(); });
    };
    CHECK(count(1'000) > 0);
    const auto read = [](const std::string& body) {
      const HttpRequest request{"PUT", "/v1/users/u", body, ""};
      for (std::size_t i = 0; i < body.size(); ++i) route(request, wide_limits());
    };
    const MakeBody make = [](std::size_t n) { return around(R"({"history":)", "\"a\"", "}")(n / 10); };
    const std::string small = make(few), large = make(times * few);
    const std::uint64_t least = work_of([&] { read(small); }), most = work_of([&] { read(large); });
    CHECK(most > (times + 1) * (least + constant_work));
  }

  TEST_CASE("work: a body of each route is read in linear time") {
    const kernels::Vocabulary words =
        kernels::vocabulary_of("vocab.json", nlohmann::json::parse(R"({"<bos>":1,"<a_1>":2})"), 10);
    const ModelText text(&words);
    for (const Shape& shape : served_shapes()) {
      CAPTURE(shape.target);
      CAPTURE(shape.body(3));
      is_linear(
          [&](const std::string& body) {
            route({shape.method, shape.target, body, ""}, wide_limits(), text);
          },
          shape.body);
    }
  }

  TEST_CASE("work: a hostile body of each route is read in linear time") {
    const std::vector<MakeBody> bodies = hostile_bodies();
    std::string last;
    for (const Shape& shape : served_shapes()) {
      if (last == shape.target) continue;
      last = shape.target;
      for (const MakeBody& body : bodies) {
        CAPTURE(shape.target);
        CAPTURE(body(3));
        is_linear(
            [&](const std::string& b) {
              route({shape.method, shape.target, b, ""}, wide_limits());
            },
            body);
      }
    }
  }

  TEST_CASE("work: a line of each bulk request is read in linear time") {
    const std::vector<MakeBody> bodies = hostile_bodies();
    for (const BulkKind kind : {BulkKind::users, BulkKind::items, BulkKind::events, BulkKind::rankings})
      for (const MakeBody& body : bodies) {
        CAPTURE(static_cast<int>(kind));
        CAPTURE(body(3));
        is_linear(
            [&](const std::string& b) {
              route_line(kind, {"POST", "/v1/users", b, ""}, wide_limits(), {});
            },
            body);
      }
  }

  TEST_CASE("work: the model of a body is found in linear time") {
    std::vector<ServerModel> models(2);
    models[0].name = "m", models[1].name = "n";
    for (ServerModel& model : models) model.serves = "rank";
    for (const MakeBody& body : hostile_bodies()) {
      CAPTURE(body(3));
      is_linear([&](const std::string& b) { choose_model({"POST", "/v1/rank", b, ""}, models); }, body);
    }
  }
}

}  // namespace work_test
