#include "server/http/http_routes.h"

#include "server/observability/openapi.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/actor/catalog.h"
#include "runtime/actor/row_rules.h"

using namespace troupe;
using namespace troupe::server;

namespace {

HttpRoute ask(std::string_view method, std::string_view target, std::string_view body = "",
              std::string_view tenant = "", bool admin = false) {
  ServerLimits limits;
  limits.candidates_max = 3;
  limits.history_events_max = 7;
  limits.score_items_max = 4;
  limits.score_labels_max = 5;
  limits.request_tokens_max = 6;
  limits.prompt_tokens_max = 8;
  limits.id_bytes_max = 16;
  limits.admin_routes = admin;
  return route({method, target, body, tenant}, limits);
}
template <class M>
M message_of(const HttpRoute& routed) {
  REQUIRE(std::holds_alternative<Message>(routed));
  REQUIRE(std::holds_alternative<M>(std::get<Message>(routed)));
  return std::get<M>(std::get<Message>(routed));
}
Refusal refusal_of(const HttpRoute& routed) {
  REQUIRE(std::holds_alternative<Refusal>(routed));
  return std::get<Refusal>(routed);
}

}  // namespace

TEST_SUITE("routes") {
  TEST_CASE("routes: a rank request becomes a message with the header's tenant") {
    const auto m = message_of<RankRequest>(
        ask("POST", "/v1/rank", R"({"user":"ana","candidates":["a","b"],"top_k":1})", "acme"));
    CHECK(m.user == "ana");
    CHECK(m.candidates == std::vector<std::string>{"a", "b"});
    CHECK(m.top_k == 1);
    CHECK(m.tenant == "acme");
  }

  TEST_CASE("routes: a deletion with a key given twice is refused like any other body") {
    const auto line = [](BulkKind kind, std::string_view body) {
      return route_line(kind, {"POST", "/v1/users", body, ""}, {}, {});
    };
    for (const char* twice :
         {R"({"user":"x","delete":true,"delete":true})", R"({"user":"x","user":"y","delete":true})",
          R"({"delete":true,"user":"x","user":"y"})", R"({"delete":true,"user":"x"}x)"})
      CHECK(refusal_of(line(BulkKind::users, twice)).code == "malformed_json");
    CHECK(refusal_of(line(BulkKind::items, R"({"item":"x","item":"y","delete":true})")).code ==
          "malformed_json");
    CHECK(refusal_of(line(BulkKind::users, R"({"user":"a\u0000","delete":true})")).code == "wrong_type");
    CHECK(message_of<DeleteUser>(line(BulkKind::users, R"({"delete":true,"user":"x"})")).user == "x");
    CHECK(message_of<DeleteUser>(line(BulkKind::users, R"({"delete":true,"id":"x"})")).user == "x");
    CHECK(message_of<PutUser>(line(BulkKind::users, R"({"id":"x","history":["a"]})")).user == "x");
    CHECK(message_of<PutItem>(line(BulkKind::items, R"({"id":"x","tokens":[1],"identifier":1})")).item ==
          "x");
    CHECK(message_of<DeleteItem>(line(BulkKind::items, R"({"item":"x","delete":true})")).item == "x");
    CHECK(refusal_of(line(BulkKind::users, R"({"user":"x","delete":false})")).code == "unknown_field");
  }

  TEST_CASE("routes: an item is published unless its line says that it is not yet") {
    const auto publishes = [](std::string_view body) {
      return message_of<PutItem>(route_line(BulkKind::items, {"POST", "/v1/items", body, ""}, {}, {}))
          .publish;
    };
    CHECK(publishes(R"({"item":"x","tokens":[1]})"));
    CHECK_FALSE(publishes(R"({"item":"x","tokens":[1],"publish":false})"));
  }

  TEST_CASE("routes: a completion becomes a message with the header's tenant") {
    const auto m =
        message_of<CompleteRequest>(ask("POST", "/v1/completions", R"({"prompt":[1,2],"n":3})", "acme"));
    CHECK(m.prompt == std::vector<Token>{1, 2});
    CHECK(m.n == 3);
    CHECK(m.tenant == "acme");
    CHECK(refusal_of(ask("GET", "/v1/completions")).code == "wrong_method");
    CHECK(refusal_of(ask("POST", "/v1/completions", "\x1f\x8b")).kind == RefusalKind::unsupported_media);
    CHECK(refusal_of(ask("POST", "/v1/completions", R"({"prompt":[1,1,1,1,1,1,1,1,1]})")).code ==
          "too_many_tokens");
    CHECK(is_ranking("POST", "/v1/completions?x"));
  }

  TEST_CASE("routes: requests in foreign forms carry the header's tenant too") {
    const auto rank_of = [](const char* target, const char* body) {
      const HttpRoute routed = ask("POST", target, body, "acme");
      REQUIRE(std::holds_alternative<ShapedRequest>(routed));
      REQUIRE(std::holds_alternative<RankRequest>(std::get<ShapedRequest>(routed).message));
      return std::get<RankRequest>(std::get<ShapedRequest>(routed).message);
    };
    for (const RankRequest& rank :
         {rank_of("/v1/rerank", R"({"query":"ana","documents":["a","b"]})"),
          rank_of("/v2/models/troupe/infer",
                  R"({"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["ana"]},{)"
                  R"("name":"candidates","shape":[2],"datatype":"BYTES","data":["a","b"]}]})")}) {
      CHECK(rank.tenant == "acme");
      CHECK(rank.user == "ana");
      CHECK(rank.candidates == std::vector<std::string>{"a", "b"});
    }
  }

  TEST_CASE("routes: an embedding becomes a message with the header's tenant") {
    const HttpRoute routed = ask("POST", "/v1/embeddings", R"({"input":[[1,2]]})", "acme");
    REQUIRE(std::holds_alternative<ShapedRequest>(routed));
    const auto& message = std::get<EmbedRequest>(std::get<ShapedRequest>(routed).message);
    CHECK(message.tenant == "acme");
    CHECK(message.texts.at(0).tokens == std::vector<Token>{1, 2});
    CHECK(refusal_of(ask("GET", "/v1/embeddings")).code == "wrong_method");
    CHECK(is_ranking("POST", "/v1/embeddings"));
    CHECK(asked_of_model("POST", "/v1/embeddings") == "embed");
    const auto& shape = std::get<ShapedRequest>(routed).body;
    CHECK(std::get<std::string>(shape(EmbedReply{.embeddings = {{{1}}}, .model_version = "v"}, {}, 0))
              .starts_with(R"({"object":"list","data":[{"object":"embedding")"));
    CHECK(std::get<Refusal>(shape(ScoreReply{}, {}, 0)).code == "wrong_answer");
  }

  TEST_CASE("routes: a tenant in the body is refused") {
    const Refusal in_body =
        refusal_of(ask("POST", "/v1/rank", R"({"user":"u","candidates":["a"],"tenant":"x"})"));
    CHECK(in_body.code == "tenant_in_body");
    CHECK(in_body.expected.find("x-troupe-tenant") != std::string::npos);
    CHECK(refusal_of(ask("POST", "/v1/rank", R"({"usr":"u"})")).expected.find("tenant") == std::string::npos);
  }

  TEST_CASE("routes: a line of items.jsonl is a body, of the item in the path; words need a vocabulary") {
    const std::string line = R"({"id":"i1","tokens":[1],"identifier":2})";
    const HttpRoute routed = ask("PUT", "/v1/items/i1", line);
    REQUIRE(std::holds_alternative<Message>(routed));
    CHECK(std::get<PutItem>(std::get<Message>(routed)).item == "i1");
    CHECK(refusal_of(ask("PUT", "/v1/items/i2", line)).code == "id_mismatch");
    const auto put = [](const char* body) { return refusal_of(ask("PUT", "/v1/items/i1", body)); };
    const Refusal named = put(R"({"tokens":["<a_1>"],"identifier":2})");
    CHECK(named.where == "tokens[0]");
    CHECK(named.expected.find("vocab.json") != std::string::npos);
    CHECK(put(R"({"tokens":[1],"identifier":"<item_1>"})").expected.find("vocab.json") != std::string::npos);
  }

  TEST_CASE("routes: too many candidates are refused before the body is parsed") {
    const Refusal r = refusal_of(ask("POST", "/v1/rank", R"({"user":"u","candidates":["a","b","c","d"]})"));
    CHECK(r.kind == RefusalKind::too_large);
    CHECK(r.code == "too_many_candidates");
  }

  TEST_CASE("routes: ids in the path are percent-decoded, bounded and complete") {
    CHECK(message_of<DeleteUser>(ask("DELETE", "/v1/users/a%20b")).user == "a b");
    CHECK(message_of<DeleteUser>(ask("DELETE", "/v1/users/a", "", "acme")).tenant == "acme");
    CHECK(message_of<DeleteItem>(ask("DELETE", "/v1/items/%E2%82%AC")).item == "\xE2\x82\xAC");
    for (const char* bad :
         {"/v1/users/", "/v1/users/a/b", "/v1/users/%", "/v1/users/%2", "/v1/users/%00", "/v1/users/%zz",
          "/v1/users/12345678901234567", "/v1/items/%ff", "/v1/users/a%c0%af"})
      CHECK(refusal_of(ask("DELETE", bad)).code == "bad_id");
  }

  TEST_CASE("routes: an explicit identifier of -1 is refused, and an item without one has no such member") {
    const ServerLimits limits;
    const std::string item = R"({"item":"a","tokens":[1])";
    const Refusal whole =
        refusal_of(route({"PUT", "/v1/items/a", R"({"tokens":[1],"identifier":-1})", ""}, limits));
    CHECK(whole.code + ": " + whole.what == "wrong_type: identifier is -1");
    CHECK(whole.expected == "a whole number from 0 to 2147483647, or no such member");
    const auto line = [&](const std::string& body) {
      return route_line(BulkKind::items, {"POST", "/v1/items", body, ""}, limits, {});
    };
    CHECK(refusal_of(line(item + R"(,"identifier":-1})")) == whole);
    CHECK(message_of<PutItem>(line(item + "}")).identifier == no_identifier);
    CHECK(message_of<PutItem>(line(item + R"(,"identifier":0})")).identifier == 0);
    PromptForm form;
    form.discriminant = {1};
    ModelText text;
    text.form = &form;
    REQUIRE(form.reads_identifiers());
    PutItem read;
    CHECK(read_item(R"({"tokens":[1],"identifier":-1})", read, {}, text)->expected ==
          "a whole number from 0 to 2147483647");
  }

  TEST_CASE("routes: a feature of other models is refused alike as a member, in the list and by line") {
    const ServerLimits limits{.history_events_max = 2, .event_features = {"actions"}};
    const Refusal expected = unknown_feature("timestamps", "timestamps", limits.event_features);
    CHECK(expected.expected == "\"actions\"");
    const std::string history = R"({"history":["x"],"timestamps":[5]})";
    for (const char* path : {"/v1/rank", "/v1/generate"})
      CHECK(refusal_of(route({"POST", path, history, ""}, limits)) == expected);
    CHECK(refusal_of(route_line(BulkKind::rankings, {"POST", "/v1/rank", history, ""}, limits, {})) ==
          expected);
    CHECK(refusal_of(route({"PUT", "/v1/users/ana", history, ""}, limits)) == expected);
    CHECK(refusal_of(route_line(BulkKind::users,
                                {"PUT", "/v1/users", R"({"user":"u",)" + history.substr(1), ""}, limits,
                                {})) == expected);
    CHECK(refusal_of(route({"PUT", "/v1/users/ana", R"({"history":["x"],"ages":[5]})", ""}, limits)).code ==
          "unknown_field");
    CHECK(refusal_of(route({"PUT", "/v1/items/a", R"({"tokens":[1],"timestamps":[5]})", ""}, limits)).code ==
          "unknown_field");
  }

  TEST_CASE("routes: a request's own history has the model's features and words, by line too") {
    ServerLimits limits{.history_events_max = 2, .event_features = {"timestamps"}};
    const std::string history = R"("history":["x","y"],"timestamps":[5,6]})";
    const auto rank = message_of<RankRequest>(
        route({"POST", "/v1/rank", R"({"candidates":["a"],)" + history, "acme"}, limits));
    CHECK(rank.history == std::vector<std::string>{"x", "y"});
    CHECK(rank.event_features == std::vector<Feature>{{"timestamps", {5, 6}}});
    CHECK(rank.own_history);
    CHECK(rank.tenant == "acme");
    CHECK(message_of<RankRequest>(route_line(
              BulkKind::rankings, {"POST", "/v1/rank", R"({"candidates":["a"],)" + history, "acme"}, limits,
              {})) == rank);
    const auto generate =
        message_of<GenerateRequest>(route({"POST", "/v1/generate", "{" + history, ""}, limits));
    CHECK(generate.event_features == rank.event_features);
    for (const char* long_one :
         {R"({"history":["x","y","z"]})", R"({"tokens":[1,2,3]})", R"({"event_ids":[]})"}) {
      CAPTURE(long_one);
      const std::string code =
          std::string_view(long_one).find("ids") == std::string::npos ? "too_many_events" : "unknown_field";
      CHECK(refusal_of(route({"POST", "/v1/rank", long_one, ""}, limits)).code == code);
      CHECK(refusal_of(route({"POST", "/v1/generate", long_one, ""}, limits)).code == code);
    }
    const kernels::Vocabulary words =
        kernels::vocabulary_of("vocab.json", nlohmann::json::parse(R"({"<a>":0,"<b>":1})"), 2);
    CHECK(message_of<GenerateRequest>(
              route({"POST", "/v1/generate", R"({"tokens":["<b>","<a>"]})", ""}, limits, &words))
              .history_tokens == std::vector<Token>{1, 0});
    CHECK(refusal_of(route({"POST", "/v1/generate", R"({"tokens":["<c>"]})", ""}, limits, &words)).code ==
          "unknown_word");
  }

  TEST_CASE("routes: events belong to the user in the path, who must match the body") {
    const char* const body = R"({"events":[{"item":"i"}]})";
    const auto m = message_of<AppendEvents>(ask("POST", "/v1/users/a%20b/events", body, "acme"));
    CHECK(m.user == "a b");
    CHECK(m.tenant == "acme");
    CHECK(m.history == std::vector<std::string>{"i"});
    for (const char* bad : {"/v1/users//events", "/v1/users/a/b/events", "/v1/users/%/events",
                            "/v1/users/12345678901234567/events"})
      CHECK(refusal_of(ask("POST", bad, body)).code == "bad_id");
    CHECK(refusal_of(ask("PUT", "/v1/users/a/events", body)).kind == RefusalKind::wrong_method);
    CHECK(refusal_of(ask("POST", "/v1/users/a/events", R"({"user":"b","events":[{"item":"i"}]})")).code ==
          "id_mismatch");
  }

  TEST_CASE("routes: the id in the body must be the one in the path") {
    CHECK(message_of<PutUser>(ask("PUT", "/v1/users/ana", R"({"history":["a"]})")).user == "ana");
    CHECK(refusal_of(ask("PUT", "/v1/users/ana", R"({"user":"bob","history":[]})")).code == "id_mismatch");
    CHECK(refusal_of(ask("PUT", "/v1/items/i1", R"({"item":"i2","tokens":[1],"identifier":1})")).code ==
          "id_mismatch");
  }

  TEST_CASE("routes: a reload names what its path changes, and only where admin routes are on") {
    const auto reload = [](const char* what, const char* body, bool admin = true) {
      return ask("POST", std::string("/v1/") + what + "/reload", body, "", admin);
    };
    CHECK(message_of<Reload>(reload("models", R"({"model":"m2"})")) == Reload{0, "m2", ""});
    CHECK(message_of<Reload>(reload("catalog", R"({"catalog":"c2"})")) == Reload{0, "", "c2"});
    for (const char* path : {"models", "catalog"})
      CHECK(message_of<Reload>(reload(path, R"({"model":"m2","catalog":"c2"})")) == Reload{0, "m2", "c2"});
    CHECK(refusal_of(reload("models", R"({"model":"m2"})", false)).code == "admin_routes_off");
    CHECK(refusal_of(reload("catalog", "nonsense", false)).kind == RefusalKind::forbidden);
    CHECK(refusal_of(reload("models", R"({"catalog":"c2"})")).code == "empty_reload");
    CHECK(refusal_of(reload("catalog", R"({"model":"m2"})")).where == "catalog");
    CHECK(refusal_of(reload("models", R"({"model_version":"m2"})")).code == "unknown_field");
    CHECK(refusal_of(ask("GET", "/v1/models/reload", "", "", true)).kind == RefusalKind::wrong_method);
  }

  TEST_CASE("routes: a replay asks for a record of its tenant") {
    const auto replay = [](const char* tenant) {
      HttpRoute routed = ask("POST", "/v1/replay", R"({"request_id":"r-1"})", tenant);
      REQUIRE(std::holds_alternative<ShapedRequest>(routed));
      return std::get<ShapedRequest>(std::move(routed));
    };
    const ReplayReply reply{.request_id = "r-1",
                            .tenant = "acme",
                            .values = {{"a", 1.5, 1.5}},
                            .largest_difference = 0,
                            .bound = 1e-5,
                            .equal = true};
    const ShapedRequest own = replay("acme");
    CHECK(std::get<ReplayRequest>(own.message) == ReplayRequest{0, "r-1", false, "acme"});
    const std::string body = std::get<std::string>(own.body(reply, {}, 0));
    CHECK(body.find(R"("request_id":"r-1")") != body.npos);
    CHECK(body.find(R"("equal":true)") != body.npos);
    CHECK(body.find(R"("recorded":1.5)") != body.npos);
    CHECK(std::get<Refusal>(own.body(Stored{}, {}, 0)).code == "wrong_answer");
    CHECK(refusal_of(ask("POST", "/v1/replay", "{}")).code == "missing_field");
    CHECK(refusal_of(ask("POST", "/v1/replay", R"({"request_id":"r","forwarded":true})")).code ==
          "unknown_field");
    CHECK(refusal_of(ask("GET", "/v1/replay")).kind == RefusalKind::wrong_method);
    CHECK(route_name("/v1/replay?model=games") == "/v1/replay");
    CHECK(asked_of_model("POST", "/v1/replay") == "");
    CHECK_FALSE(is_ranking("POST", "/v1/replay"));
  }

  TEST_CASE("routes: unknown paths and methods are refused with what is served") {
    CHECK(refusal_of(ask("GET", "/nothing")).kind == RefusalKind::not_found);
    CHECK(refusal_of(ask("GET", "/v1/rank")).kind == RefusalKind::wrong_method);
    CHECK(refusal_of(ask("POST", "/metrics")).kind == RefusalKind::wrong_method);
    CHECK(refusal_of(ask("PATCH", "/v1/users/a")).kind == RefusalKind::wrong_method);
    CHECK(std::get<ServerQuestion>(ask("GET", "/v2/health/ready?x=1")) == ServerQuestion::ready);
  }

  TEST_CASE("routes: malformed bodies are refused with an error code") {
    for (const char* bad :
         {"", "{", "[]", "nonsense", R"({"user":1,"candidates":"a"})", R"({"user":"u","unknown":1})"})
      CHECK(refusal_of(ask("POST", "/v1/rank", bad)).kind == RefusalKind::malformed);
  }

  TEST_CASE("routes: each list has a limit that holds while parsing, and the refusal names its setting") {
    struct Long {
      const char *method, *target, *before, *element, *where, *setting;
    };
    const Long bodies[] = {
        {"POST", "/v1/rank", R"({"candidates":[)", "\"\",", "candidates", "router.candidates_max"},
        {"POST", "/v1/score", R"({"items":[)", "{},", "items", "router.score_items_max"},
        {"POST", "/v1/score", R"({"query":[)", "1,", "query", "positions"},
        {"POST", "/v1/score", R"({"label_tokens":[)", "1,", "label_tokens", "router.score_labels_max"},
        {"POST", "/v1/score", R"({"items":[{"tokens":[)", "1,", "tokens", "router.request_tokens_max"},
        {"PUT", "/v1/users/a", R"({"history":[)", "\"\",", "history", "router.history_events_max"},
        {"PUT", "/v1/users/a", R"({"tokens":[)", "1,", "tokens", "router.history_events_max"},
        {"PUT", "/v1/items/a", R"({"tokens":[)", "1,", "tokens", "positions"}};
    for (const Long& list : bodies) {
      CAPTURE(list.before);
      std::string body = list.before;
      // the list does not even end, which must not matter
      while (body.size() < 900'000) body += list.element;
      const Refusal r = refusal_of(ask(list.method, list.target, body));
      CHECK(r.kind == RefusalKind::too_large);
      CHECK(r.where == list.where);
      CHECK(r.expected.find(list.setting) != std::string::npos);
    }
  }

  TEST_CASE("routes: a list beyond a worker's memory is refused as early, naming its setting") {
    const HttpRequest request{"POST", "/v1/score", R"({"items":[{"tokens":[1,2,3]},{"tokens":[4)", ""};
    const Refusal r = refusal_of(route(request, {.request_tokens_max = 9, .pass_tokens_max = 3}));
    CHECK(r.code == "too_much_memory");
    CHECK(r.expected == "at most 3 (inference.memory_max)");
  }

  TEST_CASE("routes: an absolute target is reduced to its path") {
    CHECK(std::get<ServerQuestion>(ask("GET", "http://x:8080/v2/health/live")) == ServerQuestion::live);
    CHECK(message_of<DeleteUser>(ask("DELETE", "HTTPS://x/v1/users/a%20b?y=http://z/")).user == "a b");
    for (const char* target : {"http://", "http:///v1/rank", "http://x?/metrics", "ftp://x/metrics"})
      CHECK(refusal_of(ask("GET", target)).kind == RefusalKind::not_found);
    CHECK(std::get<ServerQuestion>(ask("GET", "http://x")) == ServerQuestion::page);
  }

  TEST_CASE("routes: every path and method in the OpenAPI document is served") {
    for (const ApiPath& path : api_paths()) {
      CAPTURE(path.path);
      std::string method(path.method), target(path.path);
      std::ranges::transform(method, method.begin(),
                             [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      if (const std::size_t at = target.find("{id}"); at != target.npos) target.replace(at, 4, "a");
      CHECK(route_name(target) == path.path);
      if (path.type == "application/x-ndjson") {
        CHECK(bulk_kind(method, target, path.type));
        continue;
      }
      const HttpRoute routed = ask(method, target);
      const auto* refusal = std::get_if<Refusal>(&routed);
      CHECK((!refusal ||
             (refusal->kind != RefusalKind::not_found && refusal->kind != RefusalKind::wrong_method)));
    }
  }

  TEST_CASE("routes: probes of orchestrators, load balancers and inference servers are questions of health") {
    struct Probe {
      const char *method, *target;
      ServerQuestion question;
    };
    const Probe probes[] = {
        {"GET", "/livez", ServerQuestion::live},          {"GET", "/healthz", ServerQuestion::live},
        {"GET", "/readyz", ServerQuestion::ready},        {"GET", "/health", ServerQuestion::ready},
        {"GET", "/ping", ServerQuestion::ready},          {"HEAD", "/readyz", ServerQuestion::ready},
        {"OPTIONS", "/", ServerQuestion::ready},          {"OPTIONS", "*", ServerQuestion::ready},
        {"GET", "/readyz?verbose", ServerQuestion::ready}};
    for (const Probe& probe : probes) {
      CAPTURE(probe.target);
      CHECK(std::get<ServerQuestion>(ask(probe.method, probe.target)) == probe.question);
      CHECK(asks_health(probe.method, probe.target));
    }
    for (const char* other : {"/", "/metrics", "/info", "/v1/models", "/health/x", "/v1/rank"})
      CHECK_FALSE(asks_health("GET", other));
    CHECK_FALSE(asks_health("OPTIONS", "/v1/rank"));
    CHECK(refusal_of(ask("POST", "/health")).kind == RefusalKind::wrong_method);
  }

  TEST_CASE("routes: OPTIONS gives the methods of every path that is served, and changes nothing") {
    const auto allowed = [](std::string_view target) {
      return std::get<KnownAnswer>(ask("OPTIONS", target)).allow;
    };
    CHECK(allowed("/v1/rank") == "POST, OPTIONS");
    CHECK(allowed("/metrics") == "GET, HEAD, OPTIONS");
    CHECK(allowed("/v1/users/a") == "PUT, GET, HEAD, DELETE, OPTIONS");
    CHECK(allowed("/v1/items/a") == "PUT, GET, HEAD, DELETE, OPTIONS");
    for (const ApiPath& path : api_paths()) {
      CAPTURE(path.path);
      std::string target(path.path), method(path.method);
      std::ranges::transform(method, method.begin(),
                             [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      if (const std::size_t at = target.find("{id}"); at != target.npos) target.replace(at, 4, "a");
      if (target == "/") continue;
      const HttpRoute routed = ask("OPTIONS", target, "", "", true);
      REQUIRE(std::holds_alternative<KnownAnswer>(routed));
      CHECK(std::get<KnownAnswer>(routed).allow.find(method) != std::string::npos);
    }
    CHECK(refusal_of(ask("OPTIONS", "/nowhere")).kind == RefusalKind::not_found);
  }

  TEST_CASE("routes: refusals of the router name candidates as the request does") {
    const auto name_in = [](const char* target, const char* body) {
      return std::get<ShapedRequest>(ask("POST", target, body)).names.candidates;
    };
    CHECK(name_in("/v1/rerank", R"({"query":"u","documents":["a"]})") == "documents");
    CHECK(name_in("/rerank", R"({"query":"u","texts":["a"]})") == "texts");
    CHECK(name_in("/score", R"({"text_1":"u","text_2":["a"]})") == "text_2");
    CHECK(name_in("/v2/models/m/infer",
                  R"({"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["u"]},
                      {"name":"candidates","shape":[1],"datatype":"BYTES","data":["a"]}]})") ==
          "inputs[1].data");
  }

  TEST_CASE("routes: a model of several names is shown by the first, and is refused by none of them") {
    const AnsweringModel model{"", {"v1"}, {"Qwen/Reranker", "small"}};
    CHECK(model.shown() == "Qwen/Reranker");
    for (const char* name : {"", "Qwen/Reranker", "small", "v1", "troupe"})
      CHECK_FALSE(reject_if_other_model(name, model, "v1"));
    const auto other = reject_if_other_model("large", model, "v1");
    REQUIRE(other);
    CHECK(other->expected == "Qwen/Reranker, small, v1, troupe, or none");
    CHECK(AnsweringModel{"games", {}, {}}.shown() == "games");
    CHECK(AnsweringModel{}.shown() == "");
  }

  TEST_CASE("routes: the number of route names is fixed, whatever clients request") {
    CHECK(route_name("/v1/rank?model=a") == "/v1/rank");
    CHECK(route_name("http://x/v1/users/a%20b") == "/v1/users/{id}");
    CHECK(route_name("/v1/items/") == "/v1/items/{id}");
    CHECK(route_name("/") == "/");
    CHECK(route_name("/v1/models/reload") == "/v1/models/reload");
    for (const char* other : {"", "/v1/rankk", "/favicon.ico", "*", "/v2/"})
      CHECK(route_name(other) == "other");
  }

  TEST_CASE("routes: only the catalog's tenant changes items, unless admin routes are on") {
    const auto status = [](std::string_view tenant, std::string_view owner, bool admin) {
      const HttpRequest request{"DELETE", "/v1/items/i", "", tenant};
      const HttpRoute routed = route(request, {.admin_routes = admin, .catalog_tenant = std::string(owner)});
      const auto* refusal = std::get_if<Refusal>(&routed);
      return refusal ? refusal->code : "";
    };
    CHECK(status("", "", false) == "");
    CHECK(status("acme", "", false) == "not_your_catalog");
    CHECK(status("acme", "acme", false) == "");
    CHECK(status("", "acme", false) == "not_your_catalog");
    CHECK(status("other", "acme", true) == "");
    CHECK(refusal_of(ask("PUT", "/v1/items/i", R"({"tokens":[1],"identifier":1})", "acme")).kind ==
          RefusalKind::forbidden);
    CHECK(message_of<GetItem>(ask("GET", "/v1/items/i", "", "acme")).item == "i");
  }
}
