#include "deploy/node/prompt_file.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>

#include "deploy/models/model_families.h"
#include "kernels/testing/small_climber_test.h"
#include "kernels/testing/test_folder.h"
#include "router/request/plans.h"
#include "runtime/testing/sentence_model.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

// Model directory with a vocabulary and, if there is text for it, a prompt.json.
struct Directory : TestFolder {
  explicit Directory(std::string_view prompt, std::string_view vocabulary = R"({"<bos>":1,"<user>":2})") {
    write("vocab.json", vocabulary);
    if (!prompt.empty()) write("prompt.json", prompt);
  }
  PromptForm read() const {
    const kernels::PlanLimits limits{.vocabulary = 10, .positions_max = 8};
    return read_prompt_form(path(), std::nullopt, limits, read_vocabulary_if_any(path(), limits));
  }
  std::string error() const {
    try {
      read();
      return "";
    } catch (const kernels::LoadError& error) {
      return error.what();
    }
  }
};

// A tokenizer of bytes, in which "yes" is token 256 and " a" is token 257.
const Tokenizer& byte_words() {
  static const Tokenizer made = [] {
    TokenizerParts parts;
    for (Token byte = 0; byte < 256; ++byte) {
      parts.bytes[static_cast<std::size_t>(byte)] = byte;
      parts.words[std::string(1, static_cast<char>(byte))] = byte;
    }
    parts.words["yes"] = 256;
    parts.words[" a"] = 257;
    parts.whole_words = true;
    parts.pieces.emplace_back(" ?[a-z]+");
    return Tokenizer(std::move(parts));
  }();
  return made;
}
PromptForm read_text_form(const std::string& text) {
  const TestFolder folder;
  folder.write("prompt.json", text);
  return read_prompt_form(folder.path(), std::nullopt,
                          kernels::PlanLimits{.vocabulary = 300, .positions_max = 64}, {}, &byte_words());
}
std::string error_of_text_form(const std::string& text) {
  try {
    read_text_form(text);
    return "";
  } catch (const kernels::LoadError& error) {
    return error.what();
  }
}

std::string error_of_system(const std::string& list) {
  return Directory(R"({"user":[2],"instruction":[],"discriminant":[3],"system":)" + list + "}").error();
}

// Returns the plan that the router makes of a request over HTTP.
kernels::Plan towers_plan_of(const PromptForm& form, const kernels::ClimberRequest& request) {
  Profile profile{1, request.items, std::vector<std::uint32_t>(request.items.size(), 1)};
  if (!request.items.empty()) profile.features = {{"actions", request.actions}};
  std::vector<Item> items;
  for (const Token item : request.candidates)
    items.push_back({.id = std::to_string(items.size()), .tokens = {item}});
  const std::vector<ItemView> seen = views(items);
  const router::FittedHistory history = router::fit_history(form, profile, 1);
  kernels::Plan plan = router::find_plan("towers")
                           ->build({.form = form,
                                    .history = history.tokens,
                                    .items = seen,
                                    .features = history.features,
                                    .scenario = request.scenario})
                           .plan;
  // the items' memory ends here
  for (Segment& segment : plan.segments) segment.tokens = segment.tokens.copy();
  return plan;
}

}  // namespace

TEST_SUITE("prompt file") {
  TEST_CASE("prompt form: plans of a Climber model over HTTP equal its family's, whole or in blocks") {
    const kernels::TestFolder folder;
    const kernels::ClimberConfig model = kernels::small_climber_config();
    kernels::write_climber(kernels::random_climber(model, 5), folder.path());
    const Config config;
    const ModelFacts facts = family_of(all_families(), folder.path()).describe(folder.path(), config);
    PromptForm form = read_prompt_form(folder.path(), std::nullopt, facts, {});
    CHECK(form.tasks == std::vector<std::string>{"click", "like"});
    const std::unique_ptr<kernels::Executor> executor =
        make_cpu_climber(kernels::read_climber(folder.path()), {.page_tokens = 16});
    const std::uint32_t seed = 3;
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (const std::size_t events : {0, 1, 6, 7, 12, 13, 40}) {
      CAPTURE(events);
      const kernels::ClimberRequest request = random_climber_request(model, random, events, 3);
      form.history_part = 0;
      const kernels::Plan whole = towers_plan_of(form, request);
      CHECK(whole == climber_plan(model, request));
      form.history_part = 5;
      const kernels::Plan parts = towers_plan_of(form, request);
      const auto answer = [&](const kernels::Plan& plan) {
        REQUIRE(validate(plan, facts.limits) == "");
        REQUIRE(validate(plan, model) == "");
        const kernels::Request asked{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
        return executor->run({&asked, 1}).at(0).readouts;
      };
      const auto expected = answer(whole), found = answer(parts);
      REQUIRE(expected.size() == found.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        CHECK(found[i][0] == doctest::Approx(expected[i][0]).epsilon(1e-4));
    }
  }

  TEST_CASE("prompt form: lists hold names or ids") {
    const PromptForm form =
        Directory(R"({"system":["<bos>",4],"user":["<user>"],"instruction":[],"discriminant":[9]})").read();
    CHECK(form.system == std::vector<Token>{1, 4});
    CHECK(form.user == std::vector<Token>{2});
    CHECK(form.instruction.empty());
    CHECK(form.discriminant == std::vector<Token>{9});
  }

  TEST_CASE("prompt form: an unknown token is refused with its list") {
    for (const char* bad : {"[10]", "[-1]", "[1.5]", "[true]", "[null]", "[[1]]", "[\"<no>\"]",
                            "[18446744073709551615]", "[4294967297]"}) {
      CAPTURE(bad);
      CHECK(error_of_system(bad).find("prompt.json: system has ") != std::string::npos);
    }
    for (const char* bad : {"1", "{}", "null", "\"<bos>\""})
      CHECK(error_of_system(bad).find("system is missing or not a list") != std::string::npos);
    CHECK(error_of_system("[]").find("is empty") != std::string::npos);
  }

  TEST_CASE("prompt form: a model whose tokens have features is refused with what is expected") {
    const Directory directory("");
    const kernels::PlanLimits limits{.vocabulary = 10, .positions_max = 8, .features = 3};
    CHECK_THROWS_WITH_AS(
        read_prompt_form(directory.path(), std::nullopt, limits,
                         read_vocabulary_if_any(directory.path(), limits)),
        (directory.path().string() +
         ": requests of such a model are not served yet, because no prompt gives its tokens their 3 "
         "features; expected a model family with its own plan (`troupe logits --request` accepts any model)")
            .c_str(),
        kernels::LoadError);
  }

  TEST_CASE("prompt form: a form that leaves no positions for an item is refused") {
    CHECK(error_of_system("[1,1,1,1,1]") == "");
    CHECK(error_of_system("[1,1,1,1,1,1]").find("8 tokens; expected fewer, so that items fit") !=
          std::string::npos);
  }

  TEST_CASE("prompt form: a malformed form is refused") {
    for (const char* bad : {"[]", "{", "7", "\xff"})
      CHECK(Directory(bad).error().find("is not a JSON object") != std::string::npos);
    CHECK(Directory(R"({"sistem":[1]})").error().find("unknown key sistem") != std::string::npos);
  }

  TEST_CASE("prompt form: without a discriminant it is a generator's, whose history may be short") {
    const PromptForm form =
        Directory(R"({"system":["<bos>"],"user":[],"instruction":[],"events_max":7})").read();
    CHECK(form.generates());
    CHECK(form.events_max == 7);
    CHECK(Directory(R"({"system":[],"user":[],"instruction":[]})").error().find("system is empty") !=
          std::string::npos);
    for (const char* bad : {"0", "-1", "1.5", "\"7\"", "4294967296"}) {
      CAPTURE(bad);
      const std::string text =
          std::string(R"({"system":[1],"user":[],"instruction":[],"events_max":)") + bad + "}";
      CHECK(Directory(text).error().find("events_max is ") != std::string::npos);
    }
    CHECK_FALSE(
        Directory(R"({"system":[1],"user":[2],"instruction":[],"discriminant":[3]})").read().generates());
  }

  TEST_CASE("prompt form: a generator declares over which tokens its searches normalise probabilities") {
    const auto form = [](const std::string& more) {
      return Directory(R"({"system":[1],"user":[],"instruction":[])" + more + "}");
    };
    CHECK(form("").read().normalised == Normalised::vocabulary);
    CHECK(form(R"(,"normalised":"vocabulary")").read().normalised == Normalised::vocabulary);
    CHECK(form(R"(,"normalised":"allowed")").read().normalised == Normalised::allowed);
    for (const char* bad : {"true", "\"\"", "\"all\"", "[\"allowed\"]"})
      CHECK(form(std::string(",\"normalised\":") + bad).error().find("normalised is ") != std::string::npos);
    CHECK(Directory(R"({"system":[1],"user":[2],"instruction":[],"discriminant":[3],"normalised":"allowed"})")
              .error()
              .find("unknown key normalised") != std::string::npos);
  }

  TEST_CASE("prompt form: embeddings are read at the last token") {
    const auto form = [](const std::string& pooling) {
      return Directory(R"({"system":[1],"user":[],"instruction":[],"pooling":)" + pooling + "}").error();
    };
    CHECK(form(R"("last")").empty());
    for (const char* other : {R"("mean")", R"("cls")", "1"})
      CHECK(form(other).find(std::string("pooling is ") + other + "; expected \"last\"") !=
            std::string::npos);
  }

  TEST_CASE("prompt form: a form that scores each candidate has the tokens before and after the words") {
    const std::string rest = R"(,"candidate":[5,"{words}",6],"read_at":6,"yes":7,"no":8,"max_history":10})";
    const PromptForm form =
        Directory(R"({"instruction":["<bos>",9],"history_item":[4,"{words}"],"order":["candidates"])" + rest)
            .read();
    CHECK(form.system == std::vector<Token>{1, 9});
    CHECK(form.event == std::vector<Token>{4});
    CHECK(form.item == std::vector<Token>{5});
    CHECK(form.score == std::vector<Token>{6});
    CHECK(form.yes == 7);
    CHECK(form.no == 8);
    CHECK(form.events_max == 10);
    CHECK(form.scores_each());
    CHECK(form.blocks_see_system);
    CHECK_FALSE(form.generates());
    const auto error = [&](const std::string& first) { return Directory("{" + first + rest).error(); };
    CHECK(error(R"("instruction":[1],"history_item":[4])").find("history_item has 0 times \"{words}\"") !=
          std::string::npos);
    CHECK(error(R"("instruction":[1],"history_item":["{words}",4])").find("has tokens after") !=
          std::string::npos);
    CHECK(error(R"("instruction":[],"history_item":["{words}"])").find("instruction is empty") !=
          std::string::npos);
    CHECK(error(R"("instruction":[1],"history_item":["{words}"],"user":[])").find("unknown key user") !=
          std::string::npos);
    CHECK(
        Directory(
            R"({"instruction":[1],"history_item":["{words}"],"candidate":["{words}",6],"read_at":5,"yes":7,)"
            R"("no":8})")
            .error()
            .find("does not end with read_at") != std::string::npos);
    CHECK(
        Directory(
            R"({"instruction":[1],"history_item":["{words}"],"candidate":["{words}",6],"read_at":6,"yes":7})")
            .error()
            .find("no has null") != std::string::npos);
  }

  TEST_CASE("prompt form: read_at, yes and no may be texts of one token") {
    const auto form = [](const std::string& yes, const std::string& read_at = R"({"text":"\n"})") {
      return R"({"instruction":[1],"history_item":["{words}"],"candidate":["{words}",{"text":".\n"}],)"
             R"("read_at":)" +
             read_at + R"(,"yes":)" + yes + R"(,"no":110})";
    };
    CHECK(read_text_form(form(R"({"text":"yes"})")).yes == 256);
    CHECK(read_text_form(form(R"("yes")")).yes == 256);
    CHECK(read_text_form(form("7")).score == Tokens{'.', '\n'});
    CHECK(error_of_text_form(form(R"({"text":"no"})"))
              .ends_with(
                  "yes has {\"text\":\"no\"}, a text of 2 tokens; expected a text of exactly one token"));
    CHECK(error_of_text_form(form(R"({"text":""})")).find("a text of 0 tokens") != std::string::npos);
    CHECK(error_of_text_form(form("7", R"({"text":"a"})")).find("does not end with read_at") !=
          std::string::npos);
    CHECK(error_of_text_form(form("7", R"({"texts":"a"})")).find("read_at has {\"texts\":\"a\"}") !=
          std::string::npos);
  }

  TEST_CASE("tokenizer files: tokenizer.model is read where tokenizer.json is absent or of its kind") {
    const kernels::PlanLimits limits{.vocabulary = 10, .positions_max = 8};
    const TestFolder folder;
    CHECK(read_tokenizer_if_any(folder.path(), limits) == nullptr);
    folder.write("tokenizer.model", first_pieces() + sentence_piece("▁a"));
    CHECK(read_tokenizer_if_any(folder.path(), limits)->end() == 4);
    folder.write("tokenizer.json", R"({"model":{"type":"BPE","byte_fallback":true}})");
    CHECK(read_tokenizer_if_any(folder.path(), limits)->end() == 4);
    folder.write("tokenizer.json", R"({"model":{"type":"Unigram"}})");
    CHECK(read_tokenizer_if_any(folder.path(), limits)->end() == 4);
    folder.write("tokenizer.json", R"({"model":{"type":"BPE","vocab":{}}})");
    CHECK_THROWS_WITH_AS(read_tokenizer_if_any(folder.path(), limits),
                         doctest::Contains("tokenizer.json: model.vocab has no word for byte 0"),
                         kernels::LoadError);
    std::filesystem::remove(folder.path() / "tokenizer.json");
    CHECK_THROWS_WITH_AS(read_tokenizer_if_any(folder.path(), {.vocabulary = 3, .positions_max = 8}),
                         doctest::Contains("tokenizer.model: has token 3; expected ids below 3"),
                         kernels::LoadError);
  }

  TEST_CASE("prompt form: a blank before both {words} is left to the words") {
    const auto form = [](const std::string& event, const std::string& item) {
      return read_text_form(R"({"instruction":[1],"history_item":[)" + event + R"("{words}"],"candidate":[)" +
                            item + R"("{words}",46],"read_at":46,"yes":7,"no":8})");
    };
    const PromptForm both = form(R"({"text":"q: "},)", R"({"text":"\n"},{"text":"d: "},)");
    CHECK(both.words_lead == " ");
    CHECK(both.event == Tokens{'q', ':'});
    CHECK(both.item == Tokens{'\n', 'd', ':'});
    CHECK(both.item_text == "\nd:");
    const PromptForm blank = form(R"({"text":" "},)", R"(5,{"text":"d: "},)");
    CHECK(blank.words_lead == " ");
    CHECK(blank.event.empty());
    CHECK(blank.item == Tokens{5, 'd', ':'});
    CHECK(blank.item_text.empty());  // not all of it is text
    const PromptForm one = form("", R"({"text":"d: "},)");
    CHECK(one.words_lead.empty());
    CHECK(one.item == Tokens{'d', ':', ' '});
    CHECK(one.item_text == "d: ");
  }

  TEST_CASE("prompt form: what declares nothing is plain causal, or candidates apart if each is scored") {
    using enum Arrangement;
    const std::string ranker = R"("system":[1],"user":[2],"instruction":[],"discriminant":[3])",
                      behind = R"("instruction":[1],"history_item":["{words}"],"candidate":["{words}",6],)"
                               R"("read_at":6,"yes":7,"no":8)";
    const auto read = [](const std::string& members) { return Directory("{" + members + "}").read(); };
    CHECK(read(ranker).arrangements == std::vector{causal});
    CHECK(read(behind).arrangements == std::vector{candidates_apart});
    CHECK(read(ranker).interchangeable.empty());
    CHECK(read(behind + R"(,"arrangements":["item_first","user_first"])").arrangements ==
          std::vector{item_first, user_first});
    const PromptForm declared = read(ranker + R"(,"arrangements":["user_first","causal","item_first"],)"
                                              R"("interchangeable":["user_first","item_first"])");
    CHECK(declared.arrangements == std::vector{user_first, causal, item_first});
    CHECK(declared.interchangeable == std::vector{user_first, item_first});
  }

  TEST_CASE("prompt form: arrangements are words that fit the form, each once, the first interchangeable") {
    const auto error = [](const std::string& arrangements) {
      return Directory(R"({"system":[1],"user":[2],"instruction":[],"discriminant":[3],)" + arrangements +
                       "}")
          .error();
    };
    const std::string known = "; expected one or more of causal, user_first, item_first, candidates_apart";
    const auto ends = [](const std::string& text, const std::string& end) {
      CHECK_MESSAGE(text.ends_with(end), text);
    };
    ends(error(R"("arrangements":"causal")"), "arrangements is \"causal\"" + known);
    ends(error(R"("arrangements":[])"), "arrangements is []" + known);
    ends(error(R"("arrangements":["users_first"])"), "arrangements has \"users_first\"" + known);
    ends(error(R"("arrangements":["history"])"), "arrangements has \"history\"" + known);
    ends(error(R"("arrangements":[1])"), "arrangements has 1" + known);
    ends(error(R"("arrangements":["causal","causal"])"), "arrangements has \"causal\" twice" + known);
    ends(error(R"("arrangements":["causal"],"interchangeable":["item_first"])"),
         "interchangeable has \"item_first\"; expected one or more of causal");
    ends(error(R"("arrangements":["causal","item_first"],"interchangeable":["item_first","causal"])"),
         "interchangeable begins with \"item_first\"; expected the first of arrangements, \"causal\", which "
         "serves requests that name none");
    const std::string generator =
        Directory(R"({"system":[1],"user":[],"instruction":[],"arrangements":["causal"]})").error();
    CHECK(generator.find("unknown key arrangements") != std::string::npos);
    const std::string behind =
        Directory(
            R"({"instruction":[1],"history_item":["{words}"],"candidate":["{words}",6],"read_at":6,"yes":7,)"
            R"("no":8,"arrangements":["towers"]})")
            .error();
    ends(behind,
         "arrangements has \"towers\"; expected one or more of candidates_apart, causal, user_first, "
         "item_first");
  }

  TEST_CASE("prompt form: semantic IDs without <disc> get the default form of generators") {
    const PromptForm form = Directory("", R"({"<bos>":1,"<a_0>":2})").read();
    CHECK(form.generates());
    CHECK(form.system == std::vector<Token>{1});
    CHECK(form.events_max == 20);
    CHECK(Directory("", R"({"<bos>":1,"<a_0>":2,"<disc>":3})")
              .error()
              .find("default prompt form does not fit") != std::string::npos);
  }

  TEST_CASE("prompt form: a text gives the form that a file with it gives, and errors name the text") {
    const kernels::PlanLimits limits{.vocabulary = 10, .positions_max = 8};
    const std::string text = R"({"system":[0],"user":[3],"instruction":[],"discriminant":[4],)"
                             R"("arrangements":["item_first","causal"]})";
    const PromptForm parsed = parse_prompt_form(text, "a text", limits), read = Directory(text).read();
    CHECK(parsed.system == read.system);
    CHECK(parsed.user == read.user);
    CHECK(parsed.discriminant == read.discriminant);
    CHECK(parsed.arrangements == read.arrangements);
    CHECK(parsed.blocks_see_system == read.blocks_see_system);
    CHECK(parsed.positions_max == read.positions_max);
    CHECK(parsed.vocabulary == read.vocabulary);
    CHECK_THROWS_WITH_AS(parse_prompt_form("[]", "a text", limits),
                         doctest::Contains("a text: is not a JSON object; expected"), kernels::LoadError);
    CHECK_THROWS_WITH_AS(
        parse_prompt_form(R"({"system":["<bos>"],"user":[],"instruction":[]})", "a text", limits),
        doctest::Contains("a text: system has \"<bos>\""), kernels::LoadError);
  }

  TEST_CASE("prompt form: the default form needs its names in the vocabulary") {
    const std::string error = Directory("").error();
    CHECK(error.find(
              "prompt.json is not there, and the default prompt form does not fit: system has \"<sys_1>\"") !=
          std::string::npos);
    CHECK(error.find("--prompt") != std::string::npos);
  }
}
