// Makes calls of gRPC from bytes: the head's fields and the body, whole and in pieces. Every call ends with
// a status or asks the router, and keeps no more than its limit.
#include <algorithm>

#include "server/grpc/grpc_framing.h"
#include "server/grpc/grpc_service.h"
#include "server/testing/grpc_bytes.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

using namespace server;

constexpr std::uint32_t message_bytes_max = 512;

GrpcConfig config() {
  GrpcConfig made{.message_bytes_max = message_bytes_max};
  made.limits.candidates_max = 8;
  made.limits.history_events_max = 8;
  made.limits.score_items_max = 4;
  made.limits.score_labels_max = 4;
  return made;
}

const char* const paths[] = {"/troupe.v1.Troupe/Rank",
                             "/troupe.v1.Troupe/Score",
                             "/troupe.v1.Troupe/Generate",
                             "/grpc.health.v1.Health/Check",
                             "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                             "/troupe.v1.Troupe/None",
                             "/inference.GRPCInferenceService/ModelInfer",
                             "/inference.GRPCInferenceService/ModelMetadata",
                             "/inference.GRPCInferenceService/ServerLive"};

struct Outcome {
  std::string status, code;
  bool asks = false, faulty = false;
  bool operator==(const Outcome&) const = default;
};

void check_trailers(const Http2Fields& trailers, Outcome& outcome) {
  for (const auto& [name, value] : trailers) {
    TROUPE_CHECK(std::ranges::all_of(value, [](char c) { return c >= ' ' && c <= '~'; }),
                 "a trailer that is not ASCII");
    TROUPE_CHECK(value.size() <= 4 << 10, "a trailer that does not end");
    if (name == "grpc-status") outcome.status = value;
    if (name == "troupe-code") outcome.code = value;
  }
  TROUPE_CHECK(!outcome.status.empty(), "an end without a status");
}

void check_call(const ServerCall& call) {
  if (call.fault) TROUPE_CHECK(call.fault->what.size() <= 1024, "an error that does not end");
  if (const auto* rank = std::get_if<RankRequest>(&call.asked.message))
    TROUPE_CHECK(rank->candidates.size() <= 8 && rank->history.size() <= 8, "a list beyond its limit");
  if (const auto* score = std::get_if<ScoreRequest>(&call.asked.message))
    TROUPE_CHECK(score->items.size() <= 4 && score->label_tokens.size() <= 4, "a list beyond its limit");
}

Outcome read(const Http2Fields& head, std::string_view bytes, std::size_t step) {
  static const GrpcService service(config());
  Outcome outcome;
  const auto call = service.find_call(head);
  if (!call) return outcome;
  RpcActions actions = call->begin();
  for (std::size_t at = 0; at < bytes.size() && !actions.trailers; at += step) {
    actions = call->receive(bytes.substr(at, step), 0);
    TROUPE_CHECK(call->held_bytes() <= 2 * (message_bytes_max + step) + 64, "a call keeps too much");
  }
  if (!actions.trailers) actions = call->end(1'000);
  if (actions.trailers) check_trailers(*actions.trailers, outcome);
  outcome.asks = actions.call.has_value();
  outcome.faulty = actions.call && actions.call->fault;
  if (actions.call) check_call(*actions.call);
  TROUPE_CHECK(actions.trailers || actions.call || actions.question || actions.asks_readiness,
               "a call that does not go on");
  return outcome;
}

// The first byte chooses the method, the second the pieces, and a third the deadline's length.
void run(Input input) {
  const std::string path = paths[take_choice(input) % std::size(paths)];
  const std::size_t step = take_choice(input) % 32 + 1;
  const std::size_t wanted = take_choice(input) % 16, timeout_bytes = std::min(wanted, input.size());
  const std::string timeout(text_of(input.first(timeout_bytes)));
  std::string body(text_of(input.subspan(timeout_bytes)));
  Http2Fields head{{":method", "POST"}, {":path", path}, {"content-type", "application/grpc"}};
  if (!timeout.empty()) head.emplace_back("grpc-timeout", timeout);
  const auto parsed = parse_grpc_timeout_us(timeout);
  TROUPE_CHECK(!parsed || *parsed >= 0, "a deadline overflows");
  const bool stream = path.find("reflection") != path.npos;
  read(head, body, body.size() + 1);
  if (!stream)  // a stream's answers come with the messages
    TROUPE_CHECK(read(head, body, 1) == read(head, body, step), "pieces change what becomes of a call");
  body = grpc_message(std::string_view(body).substr(0, message_bytes_max));  // and as one whole message
  read(head, body, step);
}

// A ranking of the Open Inference Protocol, with its data in `contents` or raw.
std::string infer(bool is_raw) {
  using namespace server::grpc_test;
  const auto tensor = [&](const std::string& name, const std::string& text) {
    const std::string contents = is_raw ? "" : text_field(5, text_field(8, text));
    return text_field(5, text_field(1, name) + text_field(2, "BYTES") + text_field(3, "\1") + contents);
  };
  std::string message = text_field(1, "m") + tensor("user", "ana") + tensor("candidates", "a") +
                        text_field(4, text_field(1, "timeout") + text_field(2, number_field(2, 9)));
  if (is_raw)
    for (const std::string text : {"ana", "a"})
      message += text_field(7, std::string{static_cast<char>(text.size()), 0, 0, 0} + text);
  return grpc_message(message);
}

std::vector<std::string> seeds() {
  const std::string none("\0", 1), rank = grpc_message(
                                       "\x0a\x03"
                                       "ana\x12\x01"
                                       "a\x12\x01"
                                       "b");
  return {std::string("\0\1\0", 3) + rank,
          std::string("\0\7\2", 3) + "1S" + rank,
          std::string("\0\7\x9", 3) + "99999999H" + rank,
          std::string("\1\1\0", 3) + grpc_message(std::string("\x0a\3\1\2\3\x12\3\x0a\1\5\x1a\1\7", 14)),
          std::string("\2\1\0", 3) + grpc_message("\x0a\3"
                                                  "ana\x10\4"),
          std::string("\3\1\0", 3) + grpc_message(""),
          std::string("\4\1\0", 3) + grpc_message(std::string("\x3a\0", 2)) +
              grpc_message(std::string("\x22\x10") + "troupe.v1.Troupe"),
          std::string("\5\1\0", 3) + rank,
          std::string("\6\1\0", 3) + infer(false),
          std::string("\6\1\0", 3) + infer(true),
          std::string("\7\1\0", 3) + grpc_message(std::string("\x0a\1m")),
          std::string("\x8\1\0", 3) + grpc_message(""),
          std::string("\0\1\0", 3) + std::string("\1\0\0\0\1x", 6),
          std::string("\0\1\0", 3) + std::string("\0\xff\xff\xff\xff", 5)};
}

}  // namespace

const Target grpc_target{"grpc", run, seeds, true};

}  // namespace troupe::fuzz
