#include "server/http/model_choice.h"

#include <doctest/doctest.h>

#include "server/formats/http_refusal.h"

using namespace troupe;
using namespace troupe::server;

namespace {
namespace model_choice_test {

const std::vector<ServerModel> two{{"games", "rank, score"}, {"news", "generate, complete, score"}};

std::string asked(std::string_view method, std::string_view target, std::string_view body = "",
                  const std::vector<ServerModel>& models = two) {
  const auto chosen = choose_model({method, target, body, ""}, models);
  if (const auto* refusal = std::get_if<Refusal>(&chosen))
    return std::to_string(http_status(refusal->kind)) + " " + refusal->code;
  const auto& of = std::get<ChosenModel>(chosen);
  return of.model ? of.model->name : "none";
}
Refusal refusal_of(std::string_view target, std::string_view body) {
  const auto chosen = choose_model({"POST", target, body, ""}, two);
  REQUIRE(std::holds_alternative<Refusal>(chosen));
  return std::get<Refusal>(chosen);
}
std::string rest_of(std::string_view body) {
  const auto chosen = choose_model({"POST", "/v1/score", body, ""}, two);
  REQUIRE(std::holds_alternative<ChosenModel>(chosen));
  return std::get<ChosenModel>(chosen).body;
}

}  // namespace model_choice_test
using namespace model_choice_test;
}  // namespace

TEST_SUITE("model choice") {
  TEST_CASE("model choice: a request without a name goes to the one model that serves its kind") {
    CHECK(asked("POST", "/v1/rank", R"({"user":"u"})") == "games");
    CHECK(asked("POST", "/v1/generate", R"({"user":"u"})") == "news");
    CHECK(asked("POST", "/v1/completions", "{}") == "news");
    CHECK(asked("POST", "/v1/rank", "no JSON") == "games");
  }

  TEST_CASE("model choice: a request that several models could serve must name one") {
    CHECK(asked("POST", "/v1/score", "{}") == "400 which_model");
    CHECK(asked("POST", "/v1/score", R"({"model":"news"})") == "news");
    CHECK(asked("PUT", "/v1/users/a") == "400 which_model");
    CHECK(asked("PUT", "/v1/users/a?model=games") == "games");
    CHECK(asked("DELETE", "/v1/items/a?x=1&model=news") == "news");
    CHECK(asked("POST", "/v1/catalog/reload", R"({"catalog":"c2"})") == "400 which_model");
    CHECK(asked("POST", "http://host/v1/score?model=news", "{}") == "news");
    CHECK(refusal_of("/v1/score", "{}").expected == "one of games, news, as `model` in the body");
    CHECK(asked("PUT", "/v1/users/a", "", {{"games", "rank"}}) == "games");
  }

  TEST_CASE(
      "model choice: a model that does not serve the kind is refused, naming what it and others serve") {
    const Refusal wrong = refusal_of("/v1/generate", R"({"user":"u","model":"games"})");
    CHECK(wrong.kind == RefusalKind::unprocessable);
    CHECK(wrong.code == "not_a_generator");
    CHECK(wrong.what == "model \"games\" does not generate items, it serves rank, score");
    CHECK(wrong.where == "model");
    CHECK(wrong.expected == "one of news");
    CHECK(asked("POST", "/v1/rank", R"({"model":"news"})") == "422 not_a_ranker");
    CHECK(asked("POST", "/v1/rank", "{}", {{"news", "generate"}}) == "422 not_a_ranker");
    CHECK(asked("POST", "/v1/score", "{}", {{"films", "rank"}}) == "422 not_a_scorer");
  }

  TEST_CASE("model choice: an unknown name is refused with the known names") {
    const Refusal unknown = refusal_of("/v1/rank", R"({"model":"gmaes"})");
    CHECK(unknown.kind == RefusalKind::not_found);
    CHECK(unknown.code == "unknown_model");
    CHECK(unknown.what == "no model is named \"gmaes\"");
    CHECK(unknown.expected == "one of games, news");
    CHECK(asked("PUT", "/v1/users/a?model=") == "404 unknown_model");
  }

  TEST_CASE("model choice: a request that needs no model gets none") {
    CHECK(asked("GET", "/v1/models") == "none");
    CHECK(asked("GET", "/v1/rank") == "none");
    CHECK(asked("POST", "/v1/users/a") == "none");
    CHECK(asked("POST", "/nowhere") == "none");
    CHECK(asked("POST", "/v1/score", "{}", {}) == "none");
  }

  TEST_CASE("model choice: a body that has a name of the one model loses it, all others stay") {
    const std::vector<std::string> names{"Qwen/Reranker", "small"};
    const auto body_of = [&](const char* target, const char* body) {
      const ChosenModel chosen = without_served_name({"POST", target, body, ""}, names);
      CHECK(chosen.model == nullptr);
      return chosen.in_body ? chosen.body : "";
    };
    CHECK(body_of("/v1/rank", R"({"model":"small","a":1})") == R"({                "a":1})");
    CHECK(body_of("/v1/rerank", R"({"model":"Qwen/Reranker"})") == R"({                       })");
    CHECK(body_of("/tokenize", R"({"model":"small"})") == R"({               })");
    CHECK(body_of("/v1/rank", R"({"model":"other","a":1})") == "");
    CHECK(body_of("/v1/rank", R"({"model":null})") == "");
    CHECK(body_of("/v1/rank", R"({"model":"small","model":"small"})") == "");
    CHECK(body_of("/v1/users", R"({"model":"small"})") == "");
    CHECK_FALSE(without_served_name({"POST", "/v1/rank", R"({"model":"small"})", ""}, {}).in_body);
  }

  TEST_CASE("model choice: removing the member keeps the body's length and its validity") {
    CHECK(rest_of(R"({"model":"news","a":1})") == R"({               "a":1})");
    CHECK(rest_of(R"({"a":1, "model" : "news" })") == R"({"a":1                   })");
    CHECK(rest_of(R"({"model":"news"})") == R"({              })");
    CHECK(rest_of(R"({"a":{"model":"x","b":["}",{"c":","}]},"model":"news","d":"model"})") ==
          R"({"a":{"model":"x","b":["}",{"c":","}]},               "d":"model"})");
    CHECK(rest_of(R"({"a\"":"\\","model":"news"})") == R"({"a\"":"\\"               })");
  }

  TEST_CASE(
      "model choice: a name of the wrong type or given twice is refused, invalid JSON is left to its "
      "parser") {
    CHECK(asked("POST", "/v1/score", R"({"model":7})") == "400 wrong_type");
    CHECK(asked("POST", "/v1/score", R"({"model":["news"]})") == "400 wrong_type");
    CHECK(asked("POST", "/v1/score", R"({"model":"news","model":"games"})") == "400 malformed_json");
    for (const char* body :
         {"", "{", "[", R"({"model)", R"({"model")", R"({"model":)", R"({"model":"news)", R"({"a":"\)",
          R"({"model":"news")", R"({"model":"news",})", R"({"model":"news",,"a":1})", "{]", R"({"a":]]]])"})
      CHECK(asked("POST", "/v1/rank", body) == "games");
  }
}
