// Parses bodies of /v1/score in other servers' forms, and of /rerank and /tokenize. An accepted body is
// within its bounds, has tokens of the model's vocabulary, and survives the wire; a refusal has a text.
#include <numeric>

#include "runtime/wire/codec.h"
#include "runtime/wire/json.h"
#include "server/formats/embeddings.h"
#include "server/formats/http_refusal.h"
#include "server/formats/rerank.h"
#include "server/formats/score_forms.h"
#include "server/formats/tokenization.h"
#include "tests/fuzz/targets/target.h"

namespace troupe::fuzz {
namespace {

constexpr server::ScoreLimits limits{.items_max = 4, .labels_max = 3, .tokens_max = 48};

const server::ModelText& model() {
  static const Tokenizer bytes = [] {
    TokenizerParts parts;
    for (int byte = 0; byte < 256; ++byte) {
      parts.words.emplace(std::string(1, static_cast<char>(byte)), byte);
      parts.bytes[static_cast<std::size_t>(byte)] = byte;
    }
    parts.added = {{"<s>", 256}};
    parts.before = {256};
    return Tokenizer(std::move(parts));
  }();
  static const PromptForm form = [] {
    PromptForm made;
    made.system = {1};
    made.event = made.item = {2};
    made.score = {3};
    return made;
  }();
  static const server::ModelText text(nullptr, &bytes, &form);
  return text;
}

void check_refusal(const Refusal& refusal) {
  TROUPE_CHECK(is_fault_of_request(refusal.kind) && !refusal.code.empty() && !refusal.where.empty(),
               "a refusal that is none");
  TROUPE_CHECK(server::to_json(refusal).size() < 4'096, "a refusal that does not end");
}

void check_request(const Message& message) {
  const Envelope sent{{}, message};
  const auto back = decode(encode(sent));
  TROUPE_CHECK(std::holds_alternative<Envelope>(back) && std::get<Envelope>(back) == sent,
               "changed on its way");
  const auto* scores = std::get_if<ScoreRequest>(&message);
  if (!scores) return;
  const auto add = [](std::size_t sum, const TokenList& item) { return sum + item.tokens.size(); };
  const std::size_t tokens =
      std::accumulate(scores->items.begin(), scores->items.end(), scores->query.size(), add);
  // Prompt frames come from the model and add a few tokens.
  TROUPE_CHECK(scores->items.size() <= limits.items_max && scores->label_tokens.size() <= limits.labels_max &&
                   tokens <= limits.tokens_max + 16,
               "more than there may be");
}

void run(Input input) {
  const std::uint8_t choice = take_choice(input) % 4;
  const std::string_view body = text_of(input);
  if (choice == 3) {
    const auto tokens = server::tokenized(body, model(), 64);
    if (const auto* refusal = std::get_if<Refusal>(&tokens)) check_refusal(*refusal);
    const auto embeddings = server::read_embeddings(body, model(), limits);
    if (const auto* refusal = std::get_if<Refusal>(&embeddings)) check_refusal(*refusal);
    if (const auto* asked = std::get_if<server::Embeddings>(&embeddings)) check_request(asked->request);
    const auto read = server::read_rerank(body, 4, {5}, model(), limits);
    if (const auto* refusal = std::get_if<Refusal>(&read)) return check_refusal(*refusal);
    const auto& asked = std::get<server::Rerank>(read);
    return check_request(asked.texts ? Message{*asked.texts} : Message{asked.request});
  }
  const auto form = static_cast<server::ScoreForm>(choice + 1);
  const auto read = server::read_score(form, body, model(), limits);
  if (const auto* refusal = std::get_if<Refusal>(&read)) return check_refusal(*refusal);
  std::visit([](const auto& request) { check_request(Message{request}); },
             std::get<server::ForeignScore>(read).request);
}

std::vector<std::string> seeds() {
  const auto of = [](char choice, const char* body) { return std::string(1, choice) + body; };
  return {
      of(0, R"({"text_1":"q","text_2":["a","b"],"model":"m","use_activation":true})"),
      of(0, R"({"queries":["q","r"],"documents":["a","b"],"priority":0})"),
      of(1, R"({"query":"q","items":["a","ab"],"label_token_ids":[7,8],"apply_softmax":true})"),
      of(1,
         R"({"query":[1],"items":[[2,3],[4]],"label_token_ids":[7],"apply_softmax":true,"item_first":true})"),
      of(2, R"({"query":"q","items":[[5]],"label_token_ids":[9],"add_special_tokens":false})"),
      of(3, R"({"query":"q","documents":["a",{"text":"b"}],"top_n":1,"return_documents":true})"),
      of(3, R"({"query":"q","documents":[{"text":"a"}],"rank_fields":["text"],"max_tokens_per_doc":1})"),
      of(3, R"({"query":"q","texts":["a","b"],"truncate":true,"return_text":true,"raw_scores":false})"),
      of(3, R"({"input":["a",[1,2]],"encoding_format":"base64","user":"u"})"),
      of(3, R"({"prompt":["a","b"],"add_special_tokens":false,"return_token_strs":true})"),
      of(3, R"({"query":{"history":["x"]},"documents":[{"id":"a"}],"unknown":"skip"})")};
}

}  // namespace

const Target scores_target{"scores", run, seeds, true};

}  // namespace troupe::fuzz
