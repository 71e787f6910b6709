#include "server/grpc/grpc_service.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/formats/http_refusal.h"
#include "server/grpc/grpc_framing.h"
#include "server/testing/grpc_bytes.h"

using namespace troupe;
using namespace troupe::server;

namespace grpc_service_test {

using namespace troupe::server::grpc_test;

struct Called {
  std::unique_ptr<RpcCall> call;
  RpcActions last;
  std::map<std::string, std::string> trailers() const {
    return last.trailers ? std::map<std::string, std::string>(last.trailers->begin(), last.trailers->end())
                         : std::map<std::string, std::string>();
  }
  std::string status() const { return trailers()["grpc-status"]; }
  std::string code() const { return trailers()["troupe-code"]; }
};

// Makes a call as far as its end, or its refusal.
Called call(const std::string& path, const std::string& bytes, Http2Fields more = {},
            const GrpcConfig& config = {}, std::int64_t elapsed_us = 1'000) {
  Http2Fields head{{":method", "POST"}, {":path", path}, {"content-type", "application/grpc"}};
  head.insert(head.end(), more.begin(), more.end());
  Called made{GrpcService(config).find_call(head), {}};
  made.last = made.call->begin();
  if (!made.last.trailers) made.last = made.call->receive(bytes, 0);
  if (!made.last.trailers) {
    const std::string sent = made.last.bytes;
    made.last = made.call->end(elapsed_us);
    made.last.bytes = sent + made.last.bytes;
  }
  return made;
}

TEST_SUITE("gRPC service") {
  TEST_CASE("gRPC: only its content types are its calls") {
    const GrpcService service({});
    for (const char* type : {"application/grpc", "application/grpc+proto", "application/grpc;x=y"})
      CHECK(service.find_call({{"content-type", type}}));
    for (const char* type : {"", "application/json", "application/grpc-web", "application/grpc+json"})
      CHECK_FALSE(service.find_call({{"content-type", type}}));
    CHECK_FALSE(service.find_call({}));
  }

  TEST_CASE("gRPC: a ranking becomes a request for the router, and its reply a message") {
    Called made = call(rank, grpc_message(ranking("ana", 2) + number_field(3, 5) + number_field(5, 7'000)));
    REQUIRE(made.last.call);
    CHECK(made.last.call->kind == "rank");
    CHECK(made.call->route() == rank);
    CHECK(made.call->needs_key());
    const auto& asked = std::get<RankRequest>(made.last.call->asked.message);
    CHECK(asked.user == "ana");
    CHECK(asked.candidates == std::vector<std::string>{"c0", "c1"});
    CHECK(asked.top_k == 5);
    CHECK(asked.budget_us == 7'000);
    RankReply reply;
    reply.user = "ana", reply.plan = "item";
    const auto body = made.last.call->asked.body(reply, {}, 0);
    REQUIRE(std::holds_alternative<std::string>(body));
    const RpcActions actions = made.call->replied({.body = std::get<std::string>(body)}, 1'000);
    CHECK(actions.bytes == grpc_message(std::get<std::string>(body)));
    CHECK(actions.bytes.find(text_field(1, "ana")) != std::string::npos);
    CHECK(actions.trailers == Http2Fields{{"grpc-status", "0"}});
    CHECK(std::holds_alternative<Refusal>(made.last.call->asked.body(ScoreReply{}, {}, 0)));
    const Called scored =
        call(score, grpc_message(text_field(1, "\1\2\3") + text_field(2, text_field(1, "\5"))));
    REQUIRE(scored.last.call);
    CHECK(std::get<ScoreRequest>(scored.last.call->asked.message).query == std::vector<Token>{1, 2, 3});
    const Called generated =
        call(generate, grpc_message(text_field(1, "ana") + number_field(3, 4) + text_field(18, "allowed")));
    REQUIRE(generated.last.call);
    CHECK(std::get<GenerateRequest>(generated.last.call->asked.message).width == 4);
    CHECK(std::get<GenerateRequest>(generated.last.call->asked.message).normalised == Normalised::allowed);
  }

  TEST_CASE("gRPC: a request's own history has features, and may be empty") {
    const auto feature = [](const std::string& values) {
      return text_field(1, "timestamps") + text_field(2, values);
    };
    const std::string candidate = text_field(2, "c");
    const auto ranked = [&](const std::string& message) {
      const Called made = call(rank, grpc_message(candidate + message));
      REQUIRE(made.last.call);
      REQUIRE_FALSE(made.last.call->fault);
      return std::get<RankRequest>(made.last.call->asked.message);
    };
    CHECK(ranked(text_field(12, "x") + text_field(12, "y") + text_field(16, feature("\5\6"))) ==
          RankRequest{.candidates = {"c"},
                      .history = {"x", "y"},
                      .event_features = {{"timestamps", {5, 6}}},
                      .own_history = true});
    CHECK(ranked(text_field(15, "\7\3")).history_tokens == std::vector<Token>{7, 3});
    CHECK(ranked(number_field(17, 1)).own_history);
    CHECK_FALSE(ranked(text_field(1, "u")).own_history);
    CHECK(ranked(text_field(1, "u") + text_field(18, "cold")).unknown_user == UnknownUser::cold);
    const Called made = call(generate, grpc_message(text_field(13, "x") + text_field(15, feature("\5"))));
    REQUIRE(made.last.call);
    const auto& generated = std::get<GenerateRequest>(made.last.call->asked.message);
    CHECK(generated.history == std::vector<std::string>{"x"});
    CHECK(generated.event_features == std::vector<Feature>{{"timestamps", {5}}});
    const auto fault = [&](const std::string& message) {
      const Called refused = call(rank, grpc_message(candidate + message));
      REQUIRE(refused.last.call);
      REQUIRE(refused.last.call->fault);
      return refused.last.call->fault->code;
    };
    CHECK(fault(text_field(18, "warm")) == "bad_unknown_user");
    CHECK(fault(text_field(16, feature("\5") + number_field(9, 1))) == "unknown_field");
    CHECK(fault(text_field(16, feature("\5")) + text_field(16, feature("\6") + text_field(1, "actions"))) ==
          "bad_message");  // one feature with two names
    CHECK(fault(text_field(16, feature(varint(1588687728923)))) == "bad_timestamp");
    CHECK(fault(text_field(15, std::string(10'001, '\1'))) == "too_many_events");
    std::string many;
    for (int i = 0; i < 17; ++i) many += text_field(16, feature("\1"));
    CHECK(fault(many) == "too_many_features");
  }

  TEST_CASE("gRPC: a deadline is the budget, a day or more is none, and one that is over is told") {
    const auto budget = [](const char* timeout, std::uint64_t own = 0) {
      const Called made =
          call(rank, grpc_message(ranking() + number_field(5, own)), {{"grpc-timeout", timeout}});
      REQUIRE(made.last.call);
      return std::get<RankRequest>(made.last.call->asked.message).budget_us;
    };
    CHECK(budget("1S") == 999'000);
    CHECK(budget("1S", 5'000) == 5'000);
    CHECK(budget("1S", 5'000'000) == 999'000);
    CHECK(budget("99999999H") == 0);
    CHECK(budget("99999999H", 5) == 5);
    CHECK(call(rank, grpc_message(ranking()), {{"grpc-timeout", "1m"}}).status() == "4");
    CHECK(call(rank, grpc_message(ranking()), {{"grpc-timeout", "0n"}}).status() == "4");
    const Called bad = call(rank, grpc_message(ranking()), {{"grpc-timeout", std::string(7'000, 'x')}});
    CHECK(bad.status() == "3");
    CHECK(bad.code() == "bad_timeout");
    CHECK(bad.trailers()["grpc-message"].size() < 200);
    const Called late = call(rank, grpc_message(ranking()), {{"grpc-timeout", "5m"}});
    const Refusal busy{RefusalKind::unavailable, "overloaded", "busy", "router", "later"};
    CHECK(late.call->replied({busy.kind, to_json(busy), busy.code}, 6'000).trailers->front().second == "4");
    CHECK(late.call->replied({busy.kind, to_json(busy), busy.code}, 4'000).trailers->front().second == "14");
  }

  // protobuf's own lines would go to standard error, as often as a stranger likes and with its text.
  TEST_CASE("gRPC: messages that protobuf refuses write nothing to standard error") {
    std::FILE* const written = std::tmpfile();
    REQUIRE(written);
    const int standard_error = ::dup(STDERR_FILENO);
    std::fflush(stderr);
    ::dup2(::fileno(written), STDERR_FILENO);
    std::vector<std::string> codes;
    for (const std::string& bytes :
         {std::string("\xff\xff"), text_field(1, "caf\xe9"), std::string("\x0a\x7f")})
      codes.push_back(call(rank, grpc_message(bytes)).code());
    std::fflush(stderr);
    ::dup2(standard_error, STDERR_FILENO);
    ::close(standard_error);
    CHECK(codes == std::vector<std::string>(3, "bad_message"));
    CHECK(::lseek(::fileno(written), 0, SEEK_END) == 0);
    std::fclose(written);
  }

  TEST_CASE("gRPC: each kind of refusal has its status, with code, place and time to wait") {
    const std::map<RefusalKind, std::string> expected{
        {RefusalKind::malformed, "3"},         {RefusalKind::too_large, "3"},
        {RefusalKind::header_too_large, "8"},  {RefusalKind::unauthenticated, "16"},
        {RefusalKind::forbidden, "7"},         {RefusalKind::not_found, "5"},
        {RefusalKind::unprocessable, "9"},     {RefusalKind::precondition_failed, "9"},
        {RefusalKind::over_quota, "8"},        {RefusalKind::unavailable, "14"},
        {RefusalKind::deadline_exceeded, "4"}, {RefusalKind::internal, "13"},
        {RefusalKind::unsupported, "12"}};
    for (const auto& [kind, status] : expected) {
      const Refusal refusal{kind, "a_code", "w\xc3\xa4s", "user", "other", 7};
      Called made = call(rank, grpc_message(ranking()));
      made.last = made.call->replied({kind, to_json(refusal), refusal.code, 7}, 0);
      CHECK(made.status() == status);
      CHECK(made.code() == "a_code");
      CHECK(made.trailers()["troupe-where"] == "user");
      CHECK(made.trailers()["retry-after-s"] == "7");
      CHECK(made.trailers()["grpc-message"] == "user: w%C3%A4s; expected other");
      made.last = made.call->refuse(refusal);
      CHECK(made.status() == status);
    }
  }

  TEST_CASE("gRPC: unknown methods, other methods and encodings are unimplemented") {
    CHECK(call("/troupe.v1.Troupe/None", "").status() == "12");
    CHECK(call("/troupe.v1.Troupe/None", "").call->route() == "other");
    CHECK(call("/grpc.health.v1.Health/Watch", grpc_message("")).status() == "12");
    const Called packed = call(rank, grpc_message(ranking()), {{"grpc-encoding", "gzip"}});
    CHECK(packed.status() == "12");
    CHECK(packed.trailers()["grpc-accept-encoding"] == "identity");
    std::string flagged = grpc_message(ranking());
    flagged[0] = 1;
    CHECK(call(rank, flagged).status() == "12");
    CHECK(call(rank, grpc_message(ranking()), {{"grpc-encoding", "identity"}}).last.call);
    const GrpcService service({});
    CHECK(service.find_call({{":method", "GET"}, {":path", rank}, {"content-type", "application/grpc"}})
              ->begin()
              .trailers);
  }

  TEST_CASE("gRPC: a request has exactly one message, within the limit") {
    CHECK(call(rank, "").status() == "12");
    CHECK(call(rank, grpc_message(ranking()).substr(0, 8)).status() == "12");
    CHECK(call(rank, grpc_message(ranking()) + grpc_message(ranking())).status() == "12");
    CHECK(call(rank, grpc_message(std::string(2'000, 'x')), {}, {.message_bytes_max = 1'000}).status() ==
          "8");
    const auto surplus = GrpcService({}).find_call(
        {{":method", "POST"}, {":path", rank}, {"content-type", "application/grpc"}});
    CHECK_FALSE(surplus->receive(grpc_message(ranking()), 0).trailers);
    CHECK(surplus->receive("x", 0).trailers);  // at once, before more of it is kept
    CHECK(surplus->held_bytes() < 100);
    std::string odd = grpc_message(ranking());
    odd[0] = 9;
    CHECK(call(rank, odd).code() == "bad_message");
  }

  TEST_CASE("gRPC: bytes that are no message, and strings that are not UTF-8, are invalid arguments") {
    for (const std::string& bytes :
         {std::string("\xff\xff"), text_field(1, "caf\xe9"), text_field(2, "caf\xe9"),
          std::string("\x0a\x7f"), std::string("\0\0", 2), text_field(1, "a") + std::string("\x0b")}) {
      const Called made = call(rank, grpc_message(bytes));
      CHECK(made.status() == "3");
      CHECK(made.code() == "bad_message");
      CHECK(made.trailers()["grpc-message"].find("UTF-8") != std::string::npos);
      CHECK(made.last.refusal);
    }
  }

  TEST_CASE("gRPC: a list over its limit is the call's fault, and is not parsed") {
    const auto fault = [](const std::string& path, const std::string& message,
                          const GrpcConfig& config = {}) {
      const Called made = call(path, grpc_message(message), {}, config);
      REQUIRE(made.last.call);
      REQUIRE(made.last.call->fault);
      return made.last.call->fault->code;
    };
    std::string empties, items, unknown;
    for (int i = 0; i < 20'000; ++i) {
      empties += text_field(2, ""), items += text_field(2, ""), unknown += number_field(99, 1);
    }
    CHECK(fault(rank, empties) == "too_many_candidates");
    CHECK(fault(score, items) == "too_many_items");
    CHECK(fault(score, text_field(3, std::string(1'000, '\1'))) == "too_many_labels");
    CHECK(fault(rank, text_field(1, "a") + text_field(10, "sideways")) == "unknown_freshness");
    CHECK(fault(generate, text_field(1, "a") + text_field(18, "all")) == "unknown_normalisation");
    CHECK(fault(rank, unknown) == "unknown_field");
    CHECK(fault(rank, number_field(99, 1)) == "unknown_field");
    CHECK(fault(rank, text_field(3, "5")) == "unknown_field");  // top_k is a number
    CHECK(fault(rank, number_field(3, 5) + number_field(3, 6)) == "bad_message");
    CHECK(fault(score, text_field(2, number_field(9, 1))) == "unknown_field");
    CHECK(fault(rank, number_field(6, 1588687728923)) == "bad_timestamp");
    CHECK(fault(rank, text_field(2, std::string(1, '\0'))) == "wrong_type");
    GrpcConfig two;
    two.limits.candidates_max = 1;
    two.models = {{.name = "small", .serves = "rank", .limits = {.candidates_max = 2}},
                  {.name = "large", .serves = "rank", .limits = {.candidates_max = 4}}};
    CHECK(fault(rank, ranking("a", 3) + text_field(13, "small"), two) == "too_many_candidates");
    CHECK(fault(rank, ranking("a", 5) + text_field(13, "large"), two) == "too_many_candidates");
    CHECK_FALSE(
        call(rank, grpc_message(ranking("a", 3) + text_field(13, "large")), {}, two).last.call->fault);
  }

  TEST_CASE("gRPC: health answers what readiness answers, without a key") {
    Called made = call(health, grpc_message(""));
    CHECK(made.last.asks_readiness);
    CHECK_FALSE(made.call->needs_key());
    CHECK(made.call->is_ready(true).bytes == grpc_message(number_field(1, 1)));
    CHECK(made.call->is_ready(false).bytes == grpc_message(number_field(1, 2)));
    CHECK(call(health, grpc_message(text_field(1, "troupe.v1.Troupe"))).last.asks_readiness);
    CHECK(call(health, grpc_message(text_field(1, "other"))).status() == "5");
    CHECK(call(health, grpc_message("\xff")).status() == "3");
  }

  TEST_CASE("gRPC: reflection answers each request of a stream from the compiled schemas") {
    const std::string list = text_field(7, ""), symbol = text_field(4, "troupe.v1.Troupe"),
                      none = text_field(4, "troupe.v1.None"), file = text_field(3, "troupe.proto");
    const Called made = call(reflection, grpc_message(list) + grpc_message(symbol));
    CHECK(made.status() == "0");
    for (const char* text : {"troupe.v1.Troupe", "inference.GRPCInferenceService", "grpc.health.v1.Health",
                             "grpc.reflection.v1.ServerReflection", "RankRequest", "task_scores"})
      CHECK(made.last.bytes.find(text) != std::string::npos);
    const std::string inference = text_field(4, "inference.GRPCInferenceService.ModelInfer");
    CHECK(call(reflection, grpc_message(inference)).last.bytes.find("raw_input_contents") !=
          std::string::npos);
    CHECK(call(reflection, grpc_message(file)).last.bytes.find("RankRequest") != std::string::npos);
    CHECK(call(reflection, grpc_message(none)).last.bytes.find("no such") != std::string::npos);
    CHECK(call(reflection, "").status() == "0");
    CHECK(call(reflection, grpc_message("\xff")).status() == "3");
    CHECK(call(reflection, grpc_message(list).substr(0, 4)).status() == "12");
    const auto v1alpha =
        call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", grpc_message(list));
    CHECK(v1alpha.status() == "0");
    CHECK(v1alpha.last.bytes.find("troupe.v1.Troupe") != std::string::npos);
  }

  TEST_CASE("gRPC: a client that does not read reflection's answers is refused") {
    std::string many;
    for (int i = 0; i < 1'000; ++i) many += grpc_message(text_field(4, "troupe.v1.Troupe"));
    const Called made = call(reflection, many);
    CHECK(made.status() == "8");
    CHECK(made.last.bytes.size() < 300 << 10);
  }
}

}  // namespace grpc_service_test
