// Parses bodies of /v1/completions, which have OpenAI's form and a separate reader. An accepted body is
// also JSON to another parser, and its prompt is within bounds; a refusal has a text. The model's name is
// found before the body is parsed; the body without it has the same length, and is JSON exactly if it was
// before.
#include <nlohmann/json.hpp>

#include "runtime/wire/codec.h"
#include "runtime/wire/json.h"
#include "server/formats/http_refusal.h"
#include "server/http/completions.h"
#include "server/http/model_choice.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

constexpr std::uint32_t tokens_max = 8;

const kernels::Vocabulary& words() {
  static const kernels::Vocabulary known = kernels::vocabulary_of(
      "vocab.json", nlohmann::json::parse(R"({"<bos>":1,"<a_1>":4,"red":7,"<":9})"), 12);
  return known;
}

void check_refusal(const Refusal& refusal) {
  TROUPE_CHECK(refusal.kind == RefusalKind::malformed || refusal.kind == RefusalKind::too_large ||
                   refusal.kind == RefusalKind::unprocessable,
               "an unexpected kind");
  TROUPE_CHECK(!refusal.code.empty() && !refusal.what.empty() && !refusal.where.empty(),
               "a refusal without words");
  const std::string body = server::to_json(refusal);
  TROUPE_CHECK(nlohmann::json::accept(body), "a refusal that is no JSON");
  TROUPE_CHECK(body.size() < 4'096, "a refusal that does not end");
}

void check_choice(std::string_view body) {
  static const std::vector<server::ServerModel> models{{"m", "complete"}, {"n", "complete"}};
  const auto chosen = server::choose_model({"POST", "/v1/completions", body, ""}, models);
  if (const auto* refusal = std::get_if<Refusal>(&chosen)) {
    TROUPE_CHECK(!refusal->what.empty() && server::to_json(*refusal).size() < 4'096,
                 "a refusal without words or end");
    return;
  }
  const auto& asked = std::get<server::ChosenModel>(chosen);
  TROUPE_CHECK(asked.model && asked.in_body && asked.body.size() == body.size(), "a choice of nothing");
  TROUPE_CHECK(nlohmann::json::accept(asked.body) == nlohmann::json::accept(body),
               "JSON, or not, without the name");
}

void run(Input input) {
  const std::string_view body = text_of(input);
  check_choice(body);
  const auto read = server::read_completion(body, &words(), tokens_max);
  if (const auto* refusal = std::get_if<Refusal>(&read)) return check_refusal(*refusal);
  const auto& request = std::get<CompleteRequest>(read);
  TROUPE_CHECK(nlohmann::json::accept(body), "accepted, and no JSON");
  TROUPE_CHECK(request.prompt.size() <= tokens_max, "a prompt without a bound");
  for (const Token token : request.prompt) TROUPE_CHECK(token >= 0, "a token below 0");
  const Envelope sent{{}, Message{request}};
  const auto back = decode(encode(sent));
  TROUPE_CHECK(std::holds_alternative<Envelope>(back) && std::get<Envelope>(back) == sent,
               "changed on its way");
}

std::vector<std::string> seeds() {
  return {R"({"model":"m","prompt":[1,4,7],"max_tokens":3,"n":2,"beam_width":4,"logprobs":1,"items":true})",
          R"({"prompt":"<bos><a_1> red <","temperature":0,"seed":3,"user":"ann"})",
          R"({"prompt":[[1,2]],"stop":null,"stream":false,"echo":false,"budget_us":90})",
          R"({ "n":1, "model" : "n" })",
          R"({"prompt":["red red"],"best_of":1,"top_p":1.0,"logit_bias":{"4":-1},"stop":["x"]})"};
}

}  // namespace

const Target completions_target{"completions", run, seeds, true};

}  // namespace troupe::fuzz
