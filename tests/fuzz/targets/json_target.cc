// Parses bodies of HTTP requests as the server does. An accepted body is also JSON to another parser, and
// survives the messages' own form unchanged.
#include <array>
#include <nlohmann/json.hpp>

#include "runtime/wire/codec.h"
#include "runtime/wire/json.h"
#include "runtime/wire/json_text.h"
#include "server/formats/http_refusal.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

constexpr std::array limits{ListLimit{"candidates", 8, "router.candidates_max", "candidates"},
                            ListLimit{"items", 8, "router.score_items_max", "items"},
                            ListLimit{"tokens", 16, "router.request_tokens_max", "tokens"},
                            ListLimit{"history", 8, "router.history_events_max", "events"}};

void check_refusal(const Refusal& refusal) {
  TROUPE_CHECK(refusal.kind == RefusalKind::malformed || refusal.kind == RefusalKind::too_large ||
                   refusal.kind == RefusalKind::unsupported_media,
               "an unexpected kind");
  TROUPE_CHECK(!refusal.code.empty() && !refusal.what.empty() && !refusal.where.empty(),
               "a refusal without words");
  const std::string body = server::to_json(refusal);
  TROUPE_CHECK(nlohmann::json::accept(body), "a refusal that is no JSON");
  TROUPE_CHECK(body.size() < 4'096, "a refusal that does not end");
}

template <class M>
void read_as(std::string_view body) {
  M message;
  if (const auto refusal = from_json(body, message, limits)) {
    TROUPE_CHECK(message == M{}, "a refused body has left something");
    return check_refusal(*refusal);
  }
  TROUPE_CHECK(nlohmann::json::accept(body), "accepted, and no JSON");
  const Envelope sent{{}, Message{message}};
  const auto back = decode(encode(sent));
  TROUPE_CHECK(std::holds_alternative<Envelope>(back) && std::get<Envelope>(back) == sent,
               "changed on its way");
}

void run(Input input) {
  const std::uint8_t choice = take_choice(input);
  const std::string_view body = text_of(input);
  if (choice == '6') return read_as<ReplayRequest>(body);  // the corpus was made before it
  switch (choice % 6) {
    case 0:
      return read_as<RankRequest>(body);
    case 1:
      return read_as<ScoreRequest>(body);
    case 2:
      return read_as<PutUser>(body);
    case 3:
      return read_as<PutItem>(body);
    case 4:
      return read_as<Reload>(body);
    default:
      return read_as<GenerateRequest>(body);
  }
}

std::vector<std::string> seeds() {
  return {R"(0{"user":"ana","candidates":["i1","i\u00e92"],"policy":"item","deadline_ms":250,"debug":true})",
          R"(1{"query":[1,2],"items":[{"tokens":[3]},{"tokens":[4,5]}],"label_tokens":[7]})",
          R"(2{"user":"ana","history":["i1","i2"]})",
          R"(2{"tokens":[1,2,3]})",
          R"(3{"title":"A \ud83d\ude00","tokens":[5,6],"identifier":41})",
          R"(4{"model":"m2","catalog":"c7"})",
          R"(6{"request_id":"0af7651916cd43dd8448eb211c80319c"})",
          R"(5{"user":"ana","top_k":5,"width":20,"exclude_seen":true,"allow":["i1"],"deny":[],)"
          R"("among_allowed":false})",
          R"(0{"user":null,"candidates":[],"x":{"y":[1e3,-0.5,true,false]}})",
          "0\x1f\x8b"};
}

}  // namespace

const Target json_target{"json", run, seeds, true};

}  // namespace troupe::fuzz
