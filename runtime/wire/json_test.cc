#include "runtime/wire/json.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>

using namespace troupe;

namespace {

// Returns the refusal of this body as "code where"; "" if it is accepted.
template <class M = RankRequest>
std::string refusal_of(std::string_view body) {
  M message;
  const auto refusal = from_json(body, message);
  if (!refusal) return "";
  CHECK(refusal->kind == RefusalKind::malformed);
  CHECK(message == M{});
  return refusal->code + " " + refusal->where;
}

std::string repeated(std::string_view part, int n) {
  std::string out;
  while (n-- > 0) out += part;
  return out;
}

}  // namespace

TEST_CASE("JSON: a rank request is read from its snake_case members") {
  RankRequest request;
  const auto refusal = from_json(
      R"( {"user": "u1", "candidates": ["a", "b"], "top_k": 4294967295, "policy": "bat",
           "budget_us": 9223372036854775807} )",
      request);
  REQUIRE_MESSAGE(!refusal, refusal->what);
  CHECK(request == RankRequest{.user = "u1",
                               .candidates = {"a", "b"},
                               .top_k = 4294967295,
                               .policy = "bat",
                               .budget_us = 9223372036854775807});
  CHECK(refusal_of("{}") == "");
}

TEST_CASE("JSON: options are read from their words, and an unknown word is refused") {
  RankRequest request;
  CHECK(!from_json(R"({"features":"behind","unknown":"skip"})", request));
  CHECK(request == RankRequest{.features = Freshness::behind, .unknown = UnknownCandidates::skip});
  CHECK(!from_json(R"({"features":"","unknown":"refuse"})", request));
  CHECK(request == RankRequest{});
  GenerateRequest generate;
  CHECK(!from_json(R"({"features":"exact"})", generate));
  CHECK(generate.features == Freshness::exact);
  CHECK(refusal_of(R"({"features":"new"})") == "unknown_freshness features");
  CHECK(refusal_of<GenerateRequest>(R"({"features":"Wait"})") == "unknown_freshness features");
  CHECK(refusal_of<GenerateRequest>(R"({"normalised":"all"})") == "unknown_normalisation normalised");
  CHECK(refusal_of(R"({"unknown":"drop"})") == "bad_unknown unknown");
}

TEST_CASE("JSON: a request's own history has the members of a user, and an absent one is not an empty one") {
  const std::vector<std::string> features{"timestamps", "actions"};
  const auto read = [&](std::string_view body) {
    RankRequest request;
    const auto refusal = from_json(body, request, {}, features);
    REQUIRE_MESSAGE(!refusal, refusal->where);
    return request;
  };
  const RankRequest wanted{.history = {"a", "b"},
                           .event_features = {{"timestamps", {1, 2}}, {"actions", {0, 3}}},
                           .own_history = true};
  CHECK(read(R"({"history":["a","b"],"timestamps":[1,2],"actions":[0,3]})") == wanted);
  const std::string list = R"([{"name":"timestamps","values":[1,2]},{"name":"actions","values":[0,3]}])";
  CHECK(read(R"({"history":["a","b"],"features":)" + list + "}") == wanted);
  CHECK(read(R"({"history":["a","b"],"event_features":)" + list + "}") == wanted);
  CHECK(read(R"({"features":[{"name":"timestamps","values":[1,2]}],"history":["a","b"],"actions":[0,3]})") ==
        wanted);
  RankRequest fresh = wanted;
  fresh.features = Freshness::wait;
  CHECK(read(R"({"features":"wait","history":["a","b"],"event_features":)" + list + "}") == fresh);
  CHECK(read(R"({"history":[]})") == RankRequest{.own_history = true});
  CHECK(read(R"({"tokens":[4,5]})") == RankRequest{.history_tokens = {4, 5}, .own_history = true});
  CHECK(read(R"({"user":"u","unknown_user":"cold"})") ==
        RankRequest{.user = "u", .unknown_user = UnknownUser::cold});
  GenerateRequest generate;
  CHECK(!from_json(R"({"history":["a"],"timestamps":[7],"unknown_user":"refuse"})", generate, {}, features));
  CHECK(generate == GenerateRequest{.history = {"a"},
                                    .event_features = {{"timestamps", {7}}},
                                    .own_history = true,
                                    .unknown_user = UnknownUser::refuse});
  const auto fault = [&](std::string_view body) {
    RankRequest request;
    const auto refusal = from_json(body, request, {}, features);
    CHECK(request == RankRequest{});
    return refusal ? refusal->code + " " + refusal->where : "";
  };
  CHECK(fault(R"({"features":[],"features":[]})") == "malformed_json features");
  CHECK(fault(R"({"features":[],"features":"wait"})") == "malformed_json features");
  CHECK(fault(R"({"features":[],"event_features":[]})") == "malformed_json event_features");
  CHECK(fault(R"({"features":[7]})") == "wrong_type features[0]");
  CHECK(fault(R"({"features":[{"name":7}]})") == "wrong_type features[0].name");
  CHECK(fault(R"({"event_features":[7]})") == "wrong_type event_features[0]");
  CHECK(fault(R"({"features":{"timestamps":[1]}})") == "wrong_type features");
  CHECK(fault(R"({"history":["a"],"timestamps":[1588687728923]})") == "bad_timestamp timestamps[0]");
  CHECK(fault(R"({"history":["a"],"timestamps":[1.5]})") == "wrong_type timestamps[0]");
  CHECK(fault(R"({"history":["a"],"event_features":[{"name":"actions","values":[-1]}]})") ==
        "wrong_type actions[0]");
  CHECK(fault(R"({"history":["a"],"ages":[1]})") == "unknown_field ages");
  CHECK(fault(R"({"history":["a"],"ownHistory":true})") == "unknown_field ownHistory");
  CHECK(fault(R"({"unknown_user":"warm"})") == "bad_unknown_user unknown_user");
  const ListLimit limits[] = {{"values", 3, "s", "events"}, {"event_features", 1, "s", "features"}};
  RankRequest request;
  CHECK(from_json(R"({"timestamps":[1,2],"actions":[1,2]})", request, limits, features)->code ==
        "too_many_events");
  CHECK(from_json(R"({"features":[{"name":"a"},{"name":"b"}]})", request, limits, features)->code ==
        "too_many_features");
}

TEST_CASE("JSON: nested lists, booleans and defaults are read") {
  ScoreRequest score;
  CHECK(!from_json(
      R"({"query":[1,-2],"items":[{"tokens":[3]},{},{"tokens":[]}],"label_tokens":[7],"apply_softmax":true})",
      score));
  CHECK(score.query == std::vector<Token>{1, -2});
  CHECK(score.items == std::vector<TokenList>{{{3}}, {}, {}});
  CHECK(score.apply_softmax);
  PutItem item;
  CHECK(!from_json(R"({"title":"T","tokens":[5],"identifier":7})", item));
  CHECK(item.identifier == 7);
  PutUser user;
  CHECK(!from_json(R"({"history":["x"]})", user));
  CHECK(user.history == std::vector<std::string>{"x"});
}

TEST_CASE("JSON: optional lists of a reply are written only if they are not empty") {
  RankReply reply{.user = "ana", .items = {{"a", "A", 0.5, 1, {}}}};
  CHECK(to_json(reply).find("task") == std::string::npos);
  CHECK(to_json(reply).find("unknown_user") == std::string::npos);
  reply.unknown_user = "cold";
  CHECK(to_json(reply).find(R"("unknown_user":"cold")") != std::string::npos);
  reply.items[0].task_scores = {0.5, -1.5};
  reply.tasks = {"click", "like"};
  CHECK(to_json(reply).find(R"("probability":1,"task_scores":[0.5,-1.5]})") != std::string::npos);
  CHECK(to_json(reply).find(R"("tasks":["click","like"])") != std::string::npos);
}

TEST_CASE("JSON: a write without a required member is refused, and an empty list is not a missing one") {
  PutUser timed;
  CHECK_FALSE(
      from_json(R"({"history":["a"],"features":[{"name":"timestamps","values":[883195527]}]})", timed));
  CHECK(timed.features == std::vector<Feature>{{"timestamps", {883195527}}});
  RankRequest asked;
  CHECK_FALSE(from_json(R"({"user":"ana","request_timestamp":883195527})", asked));
  CHECK(asked.request_timestamp == 883195527);
  CHECK(refusal_of<PutUser>("{}") == "missing_field history or tokens");
  CHECK(refusal_of<PutUser>(R"({"user":"ana"})") == "missing_field history or tokens");
  CHECK(refusal_of<PutUser>(R"({"history":[]})") == "");
  CHECK(refusal_of<PutUser>(R"({"tokens":[]})") == "");
  CHECK(refusal_of<PutItem>("{}") == "missing_field tokens");
  // The router knows whether its model needs an identifier.
  CHECK(refusal_of<PutItem>(R"({"tokens":[1]})") == "");
  CHECK(refusal_of<PutItem>(R"({"tokens":[1],"identifier":-1})") == "wrong_type identifier");
  CHECK(refusal_of<PutItem>(R"({"tokens":[],"identifier":0})") == "");
}

TEST_CASE("JSON: a compressed body is refused as such") {
  RankRequest request;
  const auto refusal = from_json("\x1f\x8b\x08 something", request);
  REQUIRE(refusal);
  CHECK(refusal->kind == RefusalKind::unsupported_media);
  CHECK(refusal->what.find("gzip") != std::string::npos);
}

TEST_CASE("JSON: escapes beyond ASCII in a user id are decoded") {
  RankRequest request;
  CHECK(!from_json(R"({"user":"\u00e9\ud83d\ude00\/\n","policy":"é"})", request));
  CHECK(request.user == "é😀/\n");
  CHECK(request.policy == "é");
}

TEST_CASE("JSON: malformed text is refused with the position of the error") {
  CHECK(refusal_of("") == "malformed_json byte 1");
  CHECK(refusal_of("{\"user\":\"a\",}") == "malformed_json byte 13");
  CHECK(refusal_of("{\"user\":\"a\"}x") == "malformed_json byte 13");
  CHECK(refusal_of(std::string("{}\0{}", 5)) == "malformed_json byte 3");
  CHECK(refusal_of("{\"user\":\"\xff\"}") == "malformed_json byte 10");
  CHECK(refusal_of("{\"user\":\"\\ud800\"}").starts_with("malformed_json byte"));
  CHECK(refusal_of("{\"user\":\"a\nb\"}") == "malformed_json byte 11");
  for (const char* number : {"01", "1.", "+1", "NaN", "Infinity", "0x1", "- 1"}) {
    CAPTURE(number);
    CHECK(refusal_of(std::string("{\"top_k\":") + number + "}").starts_with("malformed_json byte"));
  }
}

TEST_CASE("JSON: the position of the error says what stands there, in our own words") {
  const auto what = [](std::string_view body) {
    RankRequest request;
    return from_json(body, request)->what;
  };
  CHECK(what("{\"user\":\"a\",}") == "found '}', which JSON does not have there");
  CHECK(what("{\"user\"") == "the text ends too early");
  CHECK(what("") == "the text ends too early");
  CHECK(what("{\"user\":\"a\nb\"}") == "found the control character \\x0a");
  CHECK(what("{\"user\":\"\xff\"}") == "the text is not UTF-8");
  CHECK(what("\xef\xbb\xbf{}") == "the text begins with a byte order mark");
  CHECK(what(std::string_view("{}\0", 3)) == "the text has a NUL byte");
  CHECK(what("{\"user\":\xc3\xbc}") == "found the byte \\xc3");
  for (const char* bad : {"", "[", "{", "{]", "{\"a\":nul}", "{\"user\":tru", "{\"top_k\":1e999}"})
    CHECK(what(bad).find("json.exception") == std::string::npos);
}

TEST_CASE("JSON: times have one range, and say when they look like milliseconds") {
  const std::string features[] = {"timestamps", "dwell"};
  const auto refusal_of_user = [&](const std::string& members) {
    PutUser user;
    const auto refusal = from_json("{\"history\":[\"a\",\"b\"]," + members + "}", user, {}, features);
    return refusal ? refusal->code + ": " + refusal->what + "; " + refusal->expected : "";
  };
  const std::string expected = "; seconds since 1970, a whole number from 0 to 1099511627776";
  CHECK(refusal_of_user(R"("timestamps":[0,1099511627776])") == "");
  CHECK(refusal_of_user(R"("timestamps":[1,1099511627777])") ==
        "bad_timestamp: timestamps[1] is 1099511627777, which looks like milliseconds" + expected);
  CHECK(refusal_of_user(R"("timestamps":[1588687728923000,1])") ==
        "bad_timestamp: timestamps[0] is 1588687728923000, which looks like microseconds" + expected);
  CHECK(refusal_of_user(R"("timestamps":[-1])") == "bad_timestamp: timestamps[0] is -1" + expected);
  CHECK(refusal_of_user(R"("timestamps":[18446744073709551615])") ==
        "bad_timestamp: timestamps[0] is 18446744073709551615" + expected);
  CHECK(refusal_of_user(R"("timestamps":[881250949.90])") ==
        "wrong_type: timestamps[0] is 881250949.90" + expected);
  CHECK(refusal_of_user(R"("timestamps":[1e999])") == "wrong_type: timestamps[0] is 1e999" + expected);
  CHECK(refusal_of_user(R"("timestamps":["7"])") == "wrong_type: timestamps[0] is string" + expected);
  CHECK(refusal_of_user(R"("timestamps":7)").starts_with("wrong_type: timestamps is 7"));
  CHECK(refusal_of_user(R"("features":null,"timestamps":[7])").starts_with("wrong_type: features is null"));
  CHECK(refusal_of_user(R"("features":[{"name":"timestamps","values":[1588687728923]}])") ==
        "bad_timestamp: timestamps[0] is 1588687728923, which looks like milliseconds" + expected);
  CHECK(refusal_of_user(R"("dwell":[-7,9007199254740993])") == "");
  CHECK(refusal_of_user(R"("actions":[1])").starts_with("unknown_field: "));
  RankRequest request;
  CHECK(from_json(R"({"request_timestamp":881251100000000})", request)->code == "bad_timestamp");
  CHECK(from_json(R"({"request_timestamp":1.5})", request)->expected == expected.substr(2));
}

TEST_CASE("JSON: a row has its id under either name, and features under their own") {
  const std::string features[] = {"timestamps"};
  PutUser by_names, by_list;
  CHECK_FALSE(from_json(R"({"id":"ana","history":["a"],"timestamps":[7]})", by_names, {}, features));
  CHECK_FALSE(from_json(R"({"user":"ana","history":["a"],"features":[{"name":"timestamps","values":[7]}]})",
                        by_list, {}, features));
  CHECK(by_names == by_list);
  CHECK(by_names.user == "ana");
  PutItem item;
  CHECK_FALSE(from_json(R"({"id":"i","tokens":[1],"identifier":2})", item));
  CHECK(item.item == "i");
  CHECK(refusal_of<PutItem>(R"({"id":7,"tokens":[1],"identifier":2})") == "wrong_type id");
  CHECK(refusal_of<PutItem>(R"({"item":7,"tokens":[1],"identifier":2})") == "wrong_type item");
  CHECK(refusal_of<PutItem>(R"({"id":"i","item":"i","tokens":[1],"identifier":2})") == "malformed_json item");
  CHECK(refusal_of<PutItem>(R"({"item":"i","id":"i","tokens":[1],"identifier":2})") == "malformed_json id");
  CHECK(refusal_of<PutItem>(R"({"id":"i","id":"i","tokens":[1],"identifier":2})") == "malformed_json id");
  const ListLimit limits[] = {{"values", 2, "some setting", "events"}};
  CHECK(from_json(R"({"history":[],"timestamps":[1,2,3]})", by_names, limits, features)->code ==
        "too_many_events");
}

TEST_CASE("JSON: a hundred thousand brackets do not exhaust the stack") {
  CHECK(refusal_of(repeated("[", 100000)) == "wrong_type body");
  CHECK(refusal_of(repeated("{\"a\":", 100000)) == "unknown_field a");
  CHECK(refusal_of("{\"candidates\":" + repeated("[", 100000)) == "wrong_type candidates[0]");
  CHECK(refusal_of<ScoreRequest>("{\"items\":[" + repeated("{\"tokens\":[", 100000)) ==
        "wrong_type items[0].tokens[0]");
  CHECK(refusal_of("{\"user\":\"" + repeated("[", 100000) + "\"}") == "");
}

TEST_CASE("JSON: unknown members and internal members are refused") {
  CHECK(refusal_of(R"({"topk":1})") == "unknown_field topk");
  CHECK(refusal_of(R"({"topK":1})") == "unknown_field topK");
  CHECK(refusal_of(R"({"id":1})") == "unknown_field id");
  CHECK(refusal_of(R"({"":1})") == "unknown_field \"\"");
  CHECK(refusal_of<ScoreRequest>(R"({"items":[{},{"x":1}]})") == "unknown_field items[1].x");
  CHECK(refusal_of(R"({"user":"a","user":"b"})") == "malformed_json user");
  RankRequest request;
  CHECK(from_json(R"({"x":1})", request)->expected ==
        "one of user, candidates, top_k, policy, budget_us, request_timestamp, approximate, scenario, task, "
        "features, unknown, history, arrangement, explain, tokens, event_features, unknown_user");
}

TEST_CASE("JSON: a share may be an integer or a fraction") {
  for (const auto& [text, share] :
       {std::pair{"0.25", 0.25}, {"0", 0.0}, {"1", 1.0}, {"-1", -1.0}, {"1e-3", 1e-3}}) {
    CAPTURE(text);
    RankRequest request;
    CHECK_FALSE(from_json(std::string("{\"approximate\":") + text + "}", request));
    CHECK(request.approximate == share);
  }
  for (const char* value : {"\"0.5\"", "true", "null", "[]", "{}"})
    CHECK(refusal_of(std::string("{\"approximate\":") + value + "}") == "wrong_type approximate");
}

// The process must survive any value of any member.
template <class M>
void try_all_members() {
  M message;
  const auto refusal = from_json(R"({"x":1})", message);
  REQUIRE(refusal);
  std::string names = refusal->expected.substr(std::string_view("one of ").size()) + ", ";
  std::size_t members = 0;
  for (std::size_t end; (end = names.find(", ")) != names.npos; names.erase(0, end + 2), ++members)
    for (const char* value :
         {"0", "-1", "0.5", "true", "null", "\"a\"", "[]", "{}", "[0]", "[\"a\"]", "[{}]", "[[]]"}) {
      CAPTURE(names);
      const std::string reported = refusal_of<M>("{\"" + names.substr(0, end) + "\":" + value + "}");
      CHECK((reported.empty() || reported.starts_with("wrong_type ") || reported.starts_with("bad_") ||
             reported.starts_with("too_") || reported.starts_with("unknown_") ||
             reported.starts_with("missing_")));
    }
  CHECK(members > 0);
}

TEST_CASE("JSON: every member of a client's message has a JSON form") {
  try_all_members<RankRequest>();
  try_all_members<GenerateRequest>();
  try_all_members<ScoreRequest>();
  try_all_members<PutUser>();
  try_all_members<PutItem>();
}

TEST_CASE("JSON: a value of another type or out of range is refused with its position") {
  for (const char* value : {"-1", "4294967296", "1.5", "1.0", "1e2", "\"7\"", "null", "[]", "{}", "true",
                            "18446744073709551616", "1e300", "1e999"}) {
    CAPTURE(value);
    CHECK(refusal_of(std::string("{\"top_k\":") + value + "}") == "wrong_type top_k");
  }
  CHECK(refusal_of("[]") == "wrong_type body");
  CHECK(refusal_of(R"({"user":7})") == "wrong_type user");
  CHECK(refusal_of(R"({"user":"a\u0000b"})") == "wrong_type user");
  CHECK(refusal_of(R"({"candidates":"a"})") == "wrong_type candidates");
  CHECK(refusal_of(R"({"candidates":["a",null]})") == "wrong_type candidates[1]");
  CHECK(refusal_of(R"({"budget_us":9223372036854775808})") == "wrong_type budget_us");
  CHECK(refusal_of<ScoreRequest>(R"({"items":[[1]]})") == "wrong_type items[0]");
  CHECK(refusal_of<ScoreRequest>(R"({"items":[{"tokens":[1,2147483648]}]})") ==
        "wrong_type items[0].tokens[1]");
  CHECK(refusal_of<ScoreRequest>(R"({"apply_softmax":1})") == "wrong_type apply_softmax");
  RankRequest request;
  const auto refusal = from_json(R"({"top_k":-1})", request);
  CHECK(refusal->what == "top_k is -1");
  CHECK(refusal->expected == "a whole number from 0 to 4294967295");
}

TEST_CASE("JSON: a value that a message cannot hold is refused before the rest is read") {
  CHECK(refusal_of("{\"junk\":[[],[],") == "unknown_field junk");
  CHECK(refusal_of("{\"user\":[[],[],") == "wrong_type user");
  CHECK(refusal_of("{\"candidates\":{\"a\":1,") == "wrong_type candidates");
  CHECK(refusal_of<ScoreRequest>("{\"items\":[{},[[],") == "wrong_type items[1]");
}

TEST_CASE("JSON: a list above its limit is refused, and the refusal names the limit's setting") {
  const ListLimit limits[] = {{"items", 3, "router.score_items_max", "items"},
                              {"tokens", 4, "router.request_tokens_max", "tokens"}};
  const auto refusal_of = [&](const std::string& body) {
    ScoreRequest score;
    return from_json(body, score, limits);
  };
  CHECK(refusal_of(R"({"items":[{},{},{}],"query":[1,2,3,4,5]})") == std::nullopt);
  CHECK(refusal_of("{\"items\":[" + repeated("{},", 300'000)) ==
        Refusal{RefusalKind::too_large, "too_many_items", "items has more than 3 elements", "items",
                "at most 3 (router.score_items_max)"});
  CHECK(refusal_of(R"({"items":[{"tokens":[1,2]},{"tokens":[3,4]}]})") == std::nullopt);
  CHECK(refusal_of(R"({"items":[{"tokens":[1,2]},{"tokens":[3,4,5)")->code == "too_many_tokens");
  CHECK(refusal_of(R"({"items":[{"tokens":[[1,2]]}]})")->where == "items[0].tokens[0]");
}

TEST_CASE("JSON: damaged bodies are accepted or refused and never crash") {
  const std::uint64_t seed = 77;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::string body = R"({"user":"é\u00e9","candidates":["a","b"],"top_k":3,"budget_us":1000})";
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = body;
    for (auto n = 1 + random() % 3; n > 0; --n)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    RankRequest request;
    if (from_json(damaged, request)) ++refused;
  }
  CHECK(refused > 1500);
}

TEST_CASE("JSON: a reply has plain numbers and no id") {
  RankReply reply{.id = 99, .user = "é\"\n\xff", .policy = "bat", .plan = "user"};
  reply.items = {{"a", "A", 0.1, 0.75}, {"b", "", -std::numeric_limits<double>::infinity(), 0.25}};
  reply.tokens_total = 4294967295;
  reply.profile_version = 18446744073709551615u;
  reply.timings.total = 1234567890123456789;
  const std::string text = to_json(reply);
  const auto json = nlohmann::json::parse(text);
  CHECK(json["user"] == "é\"\n\xef\xbf\xbd");
  CHECK(!json.contains("id"));
  CHECK(json["items"][0] ==
        nlohmann::json{{"id", "a"}, {"title", "A"}, {"score", 0.1}, {"probability", 0.75}});
  CHECK(json["items"][1]["score"].is_null());
  CHECK(json["tokens_total"] == 4294967295);
  CHECK(json["profile_version"] == 18446744073709551615u);
  CHECK(json["timings"]["total"] == 1234567890123456789);
  CHECK(json["history_cut"] == 0);
  CHECK(text.starts_with(R"({"user":"é\"\n)"));
}

TEST_CASE("JSON: elements of lists are written like members, and a writer keeps nothing of a reply") {
  RankReply reply{.id = 1, .tasks = {"click", "\"like\""}, .skipped = {"a", ""}};
  reply.items = {{"a", "", 1, 1, {std::numeric_limits<double>::quiet_NaN(), -1.5, 1e300}}};
  const std::string text = to_json(reply);
  CHECK(text.find(R"("task_scores":[null,-1.5,1e+300])") != std::string::npos);
  CHECK(text.find(R"("tasks":["click","\"like\""])") != std::string::npos);
  CHECK(text.find(R"("skipped":["a",""])") != std::string::npos);
  const std::string other = to_json(RankReply{.id = 2});
  CHECK(other.find("skipped") == std::string::npos);
  CHECK(other.find(R"("items":[])") != std::string::npos);
  CHECK(to_json(reply) == text);
}

TEST_CASE("JSON: the other answers have their documented form") {
  CHECK(to_json(Stored{.id = 4, .version = 12}) == R"({"version":12})");
  const std::vector<StatusReply> actors{{1, 2, Role::kv_worker, true, {{"blocks", "3"}}}};
  CHECK(
      to_json(actors) ==
      R"({"actors":[{"node":2,"role":"kv_worker","ready":true,"fields":[{"name":"blocks","value":"3"}]}]})");
  CHECK(to_json(std::vector<StatusReply>{}) == R"({"actors":[]})");
  GenerateReply generated{.items = {{"i", "", {4}, -0.5}}};
  CHECK(nlohmann::json::parse(to_json(generated))["items"] ==
        nlohmann::json::parse(R"([{"id":"i","title":"","tokens":[4],"log_probability":-0.5,"score":0}])"));
  generated.items[0].by_token = {-0.5};
  CHECK(nlohmann::json::parse(to_json(generated))["items"][0]["token_logprobs"] ==
        nlohmann::json::parse("[-0.5]"));
  const auto score = nlohmann::json::parse(to_json(ScoreReply{.items = {{{0.25, 0.75}}, {}}}));
  CHECK(score["items"] == nlohmann::json::parse(R"([{"scores":[0.25,0.75]},{"scores":[]}])"));
}
