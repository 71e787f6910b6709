#include "server/formats/score_forms.h"

#include <doctest/doctest.h>

#include "server/formats/http_refusal.h"
#include "server/formats/json_tree.h"
#include "server/formats/rerank.h"
#include "server/formats/word_tokens.h"
#include "server/testing/byte_tokenizer.h"

using namespace troupe;
using namespace troupe::server;

namespace score_forms_test {

PromptForm scoring_form() {
  PromptForm form;
  form.system = {1, 2};
  form.event = {3};
  form.item = {4};
  form.score = {5};
  form.yes = 6;
  form.no = 7;
  return form;
}
const PromptForm form = scoring_form();
const ModelText reads(nullptr, &byte_tokenizer(), &form), catalog(nullptr, nullptr, nullptr);
const ScoreLimits limits{.items_max = 3, .labels_max = 2, .tokens_max = 20};

ForeignScore asked_of(ScoreForm of, const std::string& body, const ModelText& model = reads) {
  const auto read = read_score(of, body, model, limits);
  const auto* refusal = std::get_if<Refusal>(&read);
  REQUIRE_MESSAGE(!refusal, refusal->where << ": " << refusal->what);
  return std::get<ForeignScore>(read);
}
std::string fault_of(ScoreForm of, const std::string& body, const ModelText& model = reads) {
  const auto read = read_score(of, body, model, limits);
  const auto* refusal = std::get_if<Refusal>(&read);
  return refusal ? std::to_string(http_status(refusal->kind)) + " " + refusal->code + " " + refusal->where
                 : "";
}
ScoreRequest scores(ScoreForm of, const std::string& body) {
  return std::get<ScoreRequest>(asked_of(of, body).request);
}
using Lists = std::vector<std::vector<Token>>;
Lists items_of(const ScoreRequest& request) {
  Lists lists;
  for (const TokenList& item : request.items) lists.push_back(item.tokens);
  return lists;
}

TEST_SUITE("score forms") {
  TEST_CASE("score forms: the members of a body decide its form") {
    CHECK(score_form("/v1/score", R"({"query":[1],"items":[{"tokens":[2]}],"label_tokens":[3]})") ==
          ScoreForm::ours);
    CHECK(score_form("/v1/score", R"({"query":"a","items":["b"],"label_token_ids":[3]})") ==
          ScoreForm::lists);
    CHECK(score_form("/score", R"({"text_1":"a","text_2":"b"})") == ScoreForm::pairs);
    CHECK(score_form("/score", R"({"queries":"a","items":"b"})") == ScoreForm::pairs);
    CHECK(score_form("/generative_scoring", "{}") == ScoreForm::generative);
  }

  TEST_CASE("score pairs: one text takes the position of a history event, the other that of a candidate") {
    const ScoreRequest one =
        scores(ScoreForm::pairs,
               R"({"text_1":"q","text_2":["a","bb"],"model":"m","use_activation":true,"user":"u"})");
    CHECK(one.query == std::vector<Token>{1, 2, 3, 'q'});
    CHECK(items_of(one) == Lists{{4, 'a', 5}, {4, 'b', 'b', 5}});
    CHECK(one.label_tokens == std::vector<Token>{6, 7});
    CHECK(one.apply_softmax);
    const ScoreRequest each = scores(ScoreForm::pairs, R"({"queries":["q","r"],"documents":["a","b"]})");
    CHECK(each.query == std::vector<Token>{1, 2});
    CHECK(items_of(each) == Lists{{3, 'q', 4, 'a', 5}, {3, 'r', 4, 'b', 5}});
  }

  TEST_CASE("score pairs: a ranker of a catalog takes them for a user and items") {
    const ForeignScore asked =
        asked_of(ScoreForm::pairs, R"({"text_1":"ana","text_2":["a","b"],"budget_us":9})", catalog);
    const auto& rank = std::get<RankRequest>(asked.request);
    CHECK(rank.user == "ana");
    CHECK(rank.candidates == std::vector<std::string>{"a", "b"});
    CHECK(rank.budget_us == 9);
    const RankReply ranked{.id = 7, .items = {{"b", "", 2, 0.7}, {"a", "", 1, 0.3}}, .tokens_total = 12};
    const auto body = JsonTree::parse(score_body(asked, ranked, "m", 99));
    CHECK(body == JsonTree::parse(R"({"id":"score-7","object":"list","created":99,"model":"m",)"
                                  R"("data":[{"index":0,"object":"score","score":0.3},
      {"index":1,"object":"score","score":0.7}],"usage":{)"
                                  R"("prompt_tokens":12,"total_tokens":12,"completion_tokens":0}})"));
    const RankReply one{
        .id = 7, .items = {{"b", "", 2, 1}}, .tokens_total = 12};  // the other is not in the catalog
    CHECK(JsonTree::parse(score_body(asked, one, "m", 99)).dump().find(R"("score":0.0})") !=
          std::string::npos);
    CHECK(fault_of(ScoreForm::pairs, R"({"text_1":["ana","bo"],"text_2":["a","b"]})", catalog) ==
          "400 several_queries text_1");
  }

  TEST_CASE("score pairs: control tokens in texts are characters, unless the configuration permits them") {
    const auto controls_in = [](ScoreForm kind, const std::string& body, const ModelText& model) {
      const auto read = read_score(kind, body, model, limits);
      REQUIRE(std::holds_alternative<ForeignScore>(read));
      const auto& request = std::get<ScoreRequest>(std::get<ForeignScore>(read).request);
      std::vector<Token> tokens = request.query;
      for (const TokenList& item : request.items)
        tokens.insert(tokens.end(), item.tokens.begin(), item.tokens.end());
      return std::ranges::count(tokens, 256);
    };
    const ModelText permits(nullptr, &byte_tokenizer(), &form, ControlTokens::as_tokens);
    const std::string pairs = R"({"text_1":"<s>","text_2":"<s>"})";
    const auto none = controls_in(ScoreForm::pairs, R"({"text_1":"q","text_2":"d"})", reads);
    CHECK(controls_in(ScoreForm::pairs, pairs, reads) == none);
    CHECK(controls_in(ScoreForm::pairs, pairs, permits) == none + 2);
    const std::string prompt = R"({"query":"<s>q","items":["a"],"label_token_ids":[9],"apply_softmax":true})";
    CHECK(controls_in(ScoreForm::lists, prompt, reads) == 2);  // its own, and the template's
    CHECK(std::get<std::string>(with_numbers(R"({"tokens":"<s>"})", reads, 9)) ==
          R"({"tokens":[60,115,62]})");
    CHECK(std::get<std::string>(with_numbers(R"({"tokens":"<s>"})", permits, 9)) == R"({"tokens":[256]})");
  }

  TEST_CASE("rerank: pairs of texts are candidates apart, and no other arrangement may be named") {
    const auto named = [](const std::string& arrangement, const ModelText& model) {
      return read_rerank(R"({"query":"q","documents":["a","b"],"arrangement":")" + arrangement + "\"}", 3,
                         {5}, model, limits);
    };
    const auto apart = named("candidates_apart", reads);
    CHECK(std::get<Rerank>(apart).texts.has_value());
    const auto causal = named("causal", reads);
    REQUIRE(std::holds_alternative<Refusal>(causal));
    CHECK(std::get<Refusal>(causal).code == "other_arrangement");
    CHECK(std::get<Refusal>(causal).expected == "candidates_apart, or none");
    const auto policy =
        read_rerank(R"({"query":"q","documents":["a","b"],"policy":"causal"})", 3, {5}, reads, limits);
    REQUIRE(std::holds_alternative<Refusal>(policy));
    CHECK(std::get<Refusal>(policy).code == "other_policy");
    CHECK(
        std::holds_alternative<Rerank>(named("causal", catalog)));  // items of a catalog: the router decides
  }

  TEST_CASE("score lists: the common beginning is computed once, and each prompt keeps a token") {
    const ScoreRequest joined = scores(
        ScoreForm::lists, R"({"query":"ab","items":["c","cd"],"label_token_ids":[9],"apply_softmax":true})");
    CHECK(joined.query == std::vector<Token>{256, 'a', 'b'});
    CHECK(items_of(joined) == Lists{{'c'}, {'c', 'd'}});
    const ScoreRequest first = scores(
        ScoreForm::lists, R"({"query":[8],"items":[[1,2],[1,3]],"label_token_ids":[9],"apply_softmax":true,)"
                          R"("item_first":true})");
    CHECK(first.query == std::vector<Token>{1});
    CHECK(items_of(first) == Lists{{2, 8}, {3, 8}});
    CHECK(scores(ScoreForm::lists,
                 R"({"query":[0],"items":[[0,1],[0]],"label_token_ids":[0],"apply_softmax":true})")
              .query == std::vector<Token>{0});
    const ScoreRequest single =
        scores(ScoreForm::lists, R"({"query":[8],"items":[[]],"label_token_ids":[9],"apply_softmax":true})");
    CHECK(single.query.empty());
    CHECK(items_of(single) == Lists{{8}});
  }

  TEST_CASE("generative scoring: each part is tokenized, with special tokens if requested") {
    CHECK(scores(ScoreForm::generative, R"({"query":"q","items":["a"],"label_token_ids":[9]})").query ==
          std::vector<Token>{256, 'q'});
    const ScoreRequest plain =
        scores(ScoreForm::generative,
               R"({"query":"q","items":[[5]],"label_token_ids":[9,8],"add_special_tokens":false,)"
               R"("item_first":true})");
    CHECK(plain.query == std::vector<Token>{5});
    CHECK(items_of(plain) == Lists{{'q'}});
    const ScoreRequest two =
        scores(ScoreForm::generative, R"({"query":"q","items":["a","b"],"label_token_ids":[9]})");
    CHECK(two.query == std::vector<Token>{256, 'q'});
    CHECK(items_of(two) == Lists{{'a'}, {'b'}});
  }

  TEST_CASE("score lists: joined texts are bounded by their bytes before any is tokenized") {
    const auto fault = [](std::size_t bytes, const char* items) {
      return fault_of(ScoreForm::lists,
                      R"({"query":")" + std::string(bytes, 'a') + R"(","items":)" + items +
                          R"(,"label_token_ids":[9],"apply_softmax":true})",
                      catalog);  // where any text is too large
    };
    CHECK(fault(159, R"(["x","y"])") == "422 no_tokenizer items[0]");
    CHECK(fault(160, R"(["x","y"])") == "413 too_many_tokens items[1]");
    CHECK(fault(160, "[[1],[2]]") == "400 wrong_type items[0]");
  }

  TEST_CASE(
      "score forms: a form's text behind the query becomes tokens with it, and a blank leads each text") {
    static const Tokenizer pieces = [] {
      TokenizerParts parts;
      for (int byte = 0; byte < 256; ++byte) {
        parts.words.emplace(std::string(1, static_cast<char>(byte)), byte);
        parts.bytes[static_cast<std::size_t>(byte)] = byte;
      }
      parts.words.emplace("?\n", 300);
      parts.words.emplace(" a", 301);
      parts.whole_words = true;
      parts.pieces.emplace_back(" ?[a-z]+|[?]+\n*");
      return Tokenizer(std::move(parts));
    }();
    PromptForm framed = scoring_form();
    framed.words_lead = " ";
    framed.item_text = "\nd";
    framed.item = {'\n', 'd'};
    const ModelText model(nullptr, &pieces, &framed);
    const ScoreLimits many{.items_max = 3, .labels_max = 2, .tokens_max = 60};
    const auto read = read_score(ScoreForm::pairs, R"({"text_1":"a?","text_2":["a","b?"]})", model, many);
    const auto request = std::get<ScoreRequest>(std::get<ForeignScore>(read).request);
    CHECK(request.query == std::vector<Token>{1, 2, 3, 301, 300, 'd'});
    CHECK(items_of(request) == Lists{{301, 5}, {' ', 'b', '?', 5}});
    const std::string numbers =
        std::get<std::string>(with_numbers(R"({"tokens":"a","identifier":0})", model, 9));
    CHECK(numbers == R"({"tokens":[301],"identifier":0})");
    CHECK(with_words(R"({"a":1})", std::vector<Token>{301, '?'}, model) == R"({"a":1,"text":"a?"})");
  }

  TEST_CASE("score forms: replies have the form of the request") {
    const ScoreReply reply{.id = 3, .items = {{{0.9, 0.1}}, {{0.2, 0.8}}}, .tokens_total = 5};
    ForeignScore asked{.form = ScoreForm::lists, .request = ScoreRequest{}};
    CHECK(JsonTree::parse(score_body(asked, reply, "m", 99)) ==
          JsonTree::parse(R"({"scores":[[0.9,0.1],[0.2,0.8]],"model":"m","object":"scoring","usage":{)"
                          R"("prompt_tokens":5,"total_tokens":5,"completion_tokens":0}})"));
    asked.form = ScoreForm::generative;
    const auto body = JsonTree::parse(score_body(asked, reply, "m", 99));
    CHECK(body.at("id") == "generative-scoring-3");
    CHECK(body.at("data").at(1).at("score") == 0.2);
  }

  TEST_CASE("score forms: unsupported members are refused by name") {
    const auto lists = [](const std::string& more) {
      return fault_of(ScoreForm::lists, R"({"query":"q","items":["a"],"label_token_ids":[9])" + more + "}");
    };
    CHECK(lists("") == "400 unsupported_value apply_softmax");
    CHECK(lists(R"(,"apply_softmax":1)") == "400 wrong_type apply_softmax");
    CHECK(lists(R"(,"apply_softmax":true,"top":1)") == "400 unknown_field top");
    CHECK(lists(R"(,"apply_softmax":true,"add_special_tokens":true)") ==
          "400 unknown_field add_special_tokens");
    CHECK(fault_of(ScoreForm::lists,
                   R"({"query":"q","items":["a","b","c","d"],"label_token_ids":[9],"apply_softmax":true})") ==
          "413 too_many_items items");
    CHECK(fault_of(ScoreForm::lists,
                   R"({"query":"q","items":[[5]],"label_token_ids":[9],"apply_softmax":true})") ==
          "400 wrong_type items[0]");
    CHECK(fault_of(ScoreForm::lists,
                   R"({"query":"q","items":["a"],"label_token_ids":[1,2,3],"apply_softmax":true})") ==
          "413 too_many_labels label_token_ids");
    CHECK(
        fault_of(
            ScoreForm::lists,
            R"({"query":"0123456789","items":["0123456789"],"label_token_ids":[9],"apply_softmax":true})") ==
        "413 too_many_tokens items[0]");
    CHECK(fault_of(ScoreForm::lists,
                   R"({"query":"q","items":["a"],"label_token_ids":[9],"apply_softmax":true})",
                   catalog) == "422 no_tokenizer items[0]");
    CHECK(fault_of(ScoreForm::pairs, R"({"text_1":"a"})") == "400 missing_field body");
    CHECK(fault_of(ScoreForm::pairs, R"({"text_1":["a","b"],"text_2":["a","b","c"]})") ==
          "400 wrong_count text_1");
    CHECK(fault_of(ScoreForm::pairs, R"({"text_1":"a","text_2":[{"content":[]}]})") ==
          "400 wrong_type text_2[0]");
    CHECK(fault_of(ScoreForm::pairs, R"({"text_1":"a","text_2":"b","use_activation":false})") ==
          "400 unsupported_value use_activation");
    CHECK(fault_of(ScoreForm::pairs, R"({"text_1":"a","text_2":"0123456789abcdef"})") ==
          "413 too_many_tokens text_2");
    CHECK(fault_of(ScoreForm::pairs, R"({"text_1":"a","text_2":"b","queries":"c"})") ==
          "400 unknown_field queries");
  }

  TEST_CASE("rerank: texts are ordered by their probabilities, unless a document names an item") {
    const auto read = [](const std::string& body) {
      return std::get<Rerank>(read_rerank(body, 3, {5}, reads, limits));
    };
    const Rerank asked =
        read(R"({"query":"q","documents":["a",{"text":"b"}],"top_n":1,"return_documents":true})");
    REQUIRE(asked.texts);
    CHECK(asked.texts->query == std::vector<Token>{1, 2, 3, 'q'});
    CHECK(items_of(*asked.texts) == Lists{{4, 'a', 5}, {4, 'b', 5}});
    const auto body = JsonTree::parse(rerank_body(
        asked,
        ScoreReply{.id = 7, .items = {{{0.2, 0.8}}, {{0.9, 0.1}}}, .tokens_total = 4, .model_version = "v"},
        ""));
    CHECK(body.at("results") ==
          JsonTree::parse(R"([{"index":1,"relevance_score":0.9,"document":{"text":"b"}}])"));
    CHECK(body.at("model") == "v");
    CHECK_FALSE(read(R"({"query":"ana","documents":[{"id":"a"}]})").texts);
    CHECK_FALSE(read(R"({"query":["x"],"documents":["a"]})").texts);
  }

  TEST_CASE("word tokens: tokens in a body may be a text") {
    CHECK(std::get<std::string>(with_numbers(R"({"title":"ab","tokens":"ab","identifier":"<s>"})", reads,
                                             9)) == R"({"title":"ab","tokens":[97,98],"identifier":256})");
    CHECK(std::get<Refusal>(with_numbers(R"({"tokens":"abc"})", reads, 2)).code == "too_many_tokens");
    CHECK(std::get<Refusal>(with_numbers(R"({"tokens":"abc"})", catalog, 2)).code == "no_tokenizer");
    CHECK(with_words(R"({"a":1})", std::vector<Token>{'a', 'b'}, reads) == R"({"a":1,"text":"ab"})");
  }
}

}  // namespace score_forms_test
