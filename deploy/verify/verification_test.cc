#include "deploy/verify/verification.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "deploy/data/text_file.h"
#include "deploy/node/prompt_file.h"
#include "deploy/verify/arrangement_scores.h"
#include "kernels/decoder/decoder.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;
using nlohmann::json;

namespace verification_test {

constexpr std::size_t items = 24;

kernels::DecoderConfig small_ranker() {
  kernels::DecoderConfig config;
  config.layers = 2;
  config.hidden = 32;
  config.heads = config.kv_heads = 2;
  config.head_dim = 16;
  config.intermediate = 32;
  config.vocabulary = 64;
  config.positions_max = 128;
  config.qkv_bias = config.tied_embeddings = true;
  return config;
}

// A random ranker whose items have two tokens and an identifier, and three users.
class SmallWorld {
 public:
  SmallWorld() {
    write_decoder(kernels::random_decoder(small_ranker(), 5), folder_.path(), kernels::StoredAs::f32);
    std::string catalog;
    for (std::size_t i = 0; i < items; ++i)
      catalog +=
          json{{"id", "i" + std::to_string(i)}, {"tokens", {6 + i % 8, 14 + i / 3}}, {"identifier", 30 + i}}
              .dump() +
          "\n";
    folder_.write("items.jsonl", catalog);
    folder_.write("users.jsonl",
                  "{\"id\":\"ann\",\"history\":[\"i1\",\"i2\",\"i3\"]}\n{\"id\":\"bo\",\"history\":[]}\n"
                  "{\"id\":\"cy\",\"history\":[\"i9\"]}\n");
    form("");
  }

  // Writes the form with more members, such as ",\"arrangements\":[…]".
  void form(const std::string& more) const {
    folder_.write("prompt.json",
                  R"({"system":[1,2],"user":[3],"instruction":[4],"discriminant":[5])" + more + "}");
  }
  // Writes an evaluation file of `events` requests whose true item is the best one under `arrangement`.
  void events(std::size_t events, Arrangement arrangement) const {
    std::string lines;
    for (std::size_t i = 0; i < events; ++i) {
      const std::vector<std::string> history{"i" + std::to_string(i % items)};
      const std::vector<std::string> candidates = candidates_of(i);
      const std::vector<float> scores = scores_of(history, candidates, arrangement);
      const auto best = std::ranges::max_element(scores) - scores.begin();
      lines += json{{"user", std::to_string(i)},
                    {"history", history},
                    {"candidates", candidates},
                    {"true_item", candidates[static_cast<std::size_t>(best)]}}
                   .dump() +
               "\n";
    }
    folder_.write("requests.jsonl", lines);
  }
  std::vector<std::string> candidates_of(std::size_t number) const {
    std::vector<std::string> candidates;
    for (std::size_t i = 0; i < 12; ++i)
      candidates.push_back("i" + std::to_string((number * 5 + i * 2) % items));
    return candidates;
  }
  std::vector<float> scores_of(const std::vector<std::string>& history,
                               const std::vector<std::string>& candidates, Arrangement arrangement) const {
    const auto model = served();
    const VerifiedData data(folder_.path(), *model);
    const auto executor = kernels::make_cpu_decoder(kernels::read_decoder(folder_.path()), {});
    ArrangementScores scores(*executor, model->prompt, {"v", "l"});
    return *scores.plain({"golden", data.profile(history, {}, "golden"), data.items(candidates, "golden")},
                         arrangement);
  }
  // Returns a golden line with the scores of an arrangement, moved by `error`.
  std::string golden_line(std::size_t number, Arrangement arrangement, double error = 0,
                          const std::string& named = "") const {
    const std::vector<std::string> history{"i3", "i" + std::to_string(number)};
    json scores = json::array();
    for (const float score : scores_of(history, candidates_of(number), arrangement))
      scores.push_back(score + (scores.size() == 4 ? error : 0));
    json line{{"history", history}, {"candidates", candidates_of(number)}, {"scores", scores}};
    if (!named.empty()) line["arrangement"] = named;
    return line.dump() + "\n";
  }

  VerifyOptions options() const {
    VerifyOptions options;
    options.config.model.directory = folder_.path().string();
    options.data = folder_.path();
    return options;
  }
  VerifyReport golden(const std::string& lines, bool write = false) const {
    folder_.write("golden.jsonl", lines);
    VerifyOptions with = options();
    with.golden = folder_.path() / "golden.jsonl";
    with.write = write;
    return verify(with);
  }
  std::unique_ptr<const ServedModel> served() const {
    auto model = std::make_unique<ServedModel>();
    model->config.model.directory = folder_.path().string();
    describe_model(*model, all_families());
    return model;
  }
  const kernels::TestFolder& folder() const { return folder_; }

 private:
  kernels::TestFolder folder_;
};

std::string printed(const VerifyReport& report) {
  std::ostringstream out;
  print(out, report);
  return out.str();
}

constexpr Arrangement causal = Arrangement::causal, user_first = Arrangement::user_first,
                      item_first = Arrangement::item_first, apart = Arrangement::candidates_apart;

}  // namespace verification_test

TEST_SUITE("verification") {
  using namespace verification_test;

  TEST_CASE("verify: without events every reuse is rounding, and what is interchangeable is not shown") {
    const SmallWorld world;
    const VerifyReport report = verify(world.options());
    CHECK(report.faults.empty());
    CHECK(report.requests == 3);
    CHECK(report.events == 0);
    CHECK_FALSE(report.shown);
    CHECK(report.interchangeable.empty());
    CHECK(report.declared == std::vector{causal});
    REQUIRE(report.arrangements.size() == 4);
    std::vector<std::string> reused;
    for (const ReuseCheck& reuse : report.arrangements[2].reuse) reused.push_back(reuse.reused);
    CHECK(report.arrangements[2].arrangement == item_first);
    CHECK(reused == std::vector<std::string>{"system", "items", "every other block", "all blocks"});
    CHECK(report.arrangements[0].reuse.size() == 3);  // system, user, all blocks
    for (const ArrangementCheck& check : report.arrangements)
      for (const ReuseCheck& reuse : check.reuse) CHECK(reuse.largest < 1e-5);
    CHECK(report.arrangements[1].largest_difference > 1e-3);
    CHECK(report.arrangements[1].quality.verdict == Verdict::not_shown);
    const std::string text = printed(report);
    CHECK(text.find("Interchangeable: not shown, because there are 0 held-out events") != std::string::npos);
    CHECK(to_json(report)["arrangements"][0]["arrangement"] == "causal");
  }

  TEST_CASE("verify: a block with a wrong number is reported with the arrangement and what was reused") {
    const SmallWorld world;
    const auto model = world.served();
    const VerifiedData data(world.folder().path(), *model);
    const auto executor = kernels::make_cpu_decoder(kernels::read_decoder(world.folder().path()), {});
    ArrangementScores scores(*executor, model->prompt, {"v", "l"});
    const VerifiedRequest request{"r", data.profile({"i1", "i2"}, {}, "r"), data.items({"i3", "i4"}, "r")};
    const std::vector<float> plain = *scores.plain(request, user_first);
    const auto worst = [&] {
      double largest = 0;
      for (const ReusedScores& reused : scores.reused(request, user_first))
        for (std::size_t i = 0; i < plain.size(); ++i)
          largest = std::max<double>(largest, std::abs(reused.scores[i] - plain[i]));
      return largest;
    };
    CHECK(worst() < 1e-5);
    const router::BlockNames names(model->prompt, {"v", "l"}, false);
    const auto pages = scores.kept().find(names.user("", Tokens{3, 7, 14, 8, 14}));
    REQUIRE_FALSE(pages.empty());
    *reinterpret_cast<float*>(pages[0] + 64) += 8;
    CHECK(worst() > 1e-3);
  }

  TEST_CASE("verify: golden scores equal the form's arrangement, and one wrong score fails") {
    const SmallWorld world;
    const std::string good = world.golden_line(1, causal) + world.golden_line(2, causal);
    const VerifyReport right = world.golden(good);
    CHECK(right.faults.empty());
    CHECK(right.golden.equals == causal);
    CHECK(right.golden.arrangements[0].equal == 2);
    CHECK(right.golden.arrangements[1].equal == 0);
    const VerifyReport wrong = world.golden(good + world.golden_line(3, causal, 0.01));
    REQUIRE(wrong.faults.size() == 1);
    CHECK(wrong.faults[0].find("golden.jsonl:3: candidate " + world.candidates_of(3)[4] +
                               ": causal gives ") == 0);
    CHECK(wrong.golden.equals == Arrangement::unnamed);
    CHECK(printed(wrong).find("differs: golden.jsonl:3") != std::string::npos);
  }

  TEST_CASE("verify: golden scores of another arrangement say which one to declare") {
    const SmallWorld world;
    const VerifyReport report = world.golden(world.golden_line(1, apart) + world.golden_line(2, apart));
    REQUIRE(report.faults.size() == 1);
    CHECK(report.faults[0].find("the golden scores equal candidates_apart, and requests are served causal; "
                                "declare it: \"arrangements\": [\"candidates_apart\"]") == 0);
    const VerifyReport named = world.golden(world.golden_line(1, apart, 0, "candidates_apart"));
    CHECK(named.faults.empty());
    REQUIRE(named.notes.size() > 0);
    CHECK(printed(named).find("names candidates_apart, which the form does not declare") !=
          std::string::npos);
    CHECK(world.golden(world.golden_line(1, apart, 0, "causal")).faults.size() == 1);
    CHECK_THROWS_WITH_AS(world.golden(world.golden_line(1, apart, 0, "towers")),
                         doctest::Contains("arrangement is towers; expected one of causal"), ImportError);
  }

  TEST_CASE("verify: golden prompts of tokens are compared with the plain computation") {
    const SmallWorld world;
    const std::vector<std::string> candidates = world.candidates_of(1);
    const std::vector<float> scores = world.scores_of({"i1"}, candidates, causal);
    const auto model = world.served();
    const VerifiedData data(world.folder().path(), *model);
    json line{{"tokens", {1, 2, 3, 7, 14}}, {"rows", json::array()}, {"logits", scores}};
    for (const Item& item : data.items(candidates, "")) {
      for (const Token token : item.tokens) line["tokens"].push_back(token);
      line["rows"].push_back(item.identifier);
    }
    line["tokens"].push_back(4);
    line["tokens"].push_back(5);
    CHECK(world.golden(line.dump() + "\n").faults.empty());
    line["logits"][3] = line["logits"][3].get<double>() + 0.01;
    const VerifyReport wrong = world.golden(line.dump() + "\n");
    REQUIRE(wrong.faults.size() == 1);
    CHECK(wrong.faults[0].find("golden.jsonl:1: row ") == 0);
  }

  TEST_CASE("verify: with events, a declared arrangement that loses nothing is interchangeable") {
    SmallWorld world;
    world.form(R"(,"arrangements":["item_first","user_first"])");
    world.events(120, item_first);
    VerifyOptions options = world.options();
    options.tolerance = 1;  // a random model's other arrangements lose much
    const VerifyReport loose = verify(options);
    CHECK(loose.shown);
    CHECK(loose.interchangeable == std::vector{item_first, user_first});
    CHECK(loose.arrangements[0].quality.ndcg.value == doctest::Approx(1));
    options.tolerance = 0;
    const VerifyReport strict = verify(options);
    CHECK(strict.arrangements[1].quality.verdict == Verdict::worse);
    CHECK(strict.interchangeable == std::vector{item_first});
    CHECK(strict.faults.empty());
    world.form(
        R"(,"arrangements":["item_first","user_first"],"interchangeable":["item_first","user_first"])");
    const VerifyReport listed = verify(options);
    REQUIRE(listed.faults.size() == 1);
    CHECK(listed.faults[0].find("the form lists user_first as interchangeable") == 0);
  }

  TEST_CASE("verify: --write declares what was shown, and a second run finds it there") {
    SmallWorld world;
    const std::string lines = world.golden_line(1, user_first) + world.golden_line(2, user_first);
    const VerifyReport written = world.golden(lines, true);
    CHECK(written.faults.empty());
    CHECK(written.written.ends_with("prompt.json"));
    CHECK(world.served()->prompt.arrangements == std::vector{user_first});
    const VerifyReport again = world.golden(lines, true);
    CHECK(again.written.empty());
    CHECK(again.faults.empty());
    const std::string before = world.folder().read("prompt.json");
    CHECK_FALSE(world.golden(world.golden_line(1, user_first, 0.5), true).faults.empty());
    CHECK(world.folder().read("prompt.json") == before);

    world.events(120, item_first);
    VerifyOptions options = world.options();
    options.arrangements = {item_first, user_first};
    options.tolerance = 1;
    options.write = true;
    options.prompt = world.folder().path() / "new.json";
    const VerifyReport declared = verify(options);
    CHECK(declared.written == options.prompt.string());
    CHECK(world.folder().read("prompt.json") == before);
    const json members = json::parse(world.folder().read("new.json"));
    CHECK(members["arrangements"] == json{"item_first", "user_first"});
    CHECK(members["interchangeable"] == json{"item_first", "user_first"});
    CHECK(members["system"] == json{1, 2});
  }

  TEST_CASE("verify: input that does not fit is refused with what was expected") {
    const SmallWorld world;
    VerifyOptions options = world.options();
    options.arrangements = {Arrangement::towers};
    CHECK_THROWS_WITH_AS(verify(options),
                         doctest::Contains("--arrangements has towers; expected some of causal"),
                         std::invalid_argument);
    options = world.options();
    options.config.set("model.device", "cuda");
    CHECK_THROWS_WITH_AS(verify(options), doctest::Contains("expected cpu"), ConfigError);
    world.folder().write("requests.jsonl",
                         R"({"user":"u","history":["i1"],"candidates":["i2","no"],"true_item":"i2"})");
    CHECK_THROWS_WITH_AS(verify(world.options()), doctest::Contains("user u has item no; expected an item"),
                         ImportError);
  }

  TEST_CASE("verify: pages and weights of fewer bits have a wider bound") {
    Config config;
    const RoundingBounds exact = rounding_bounds(config);
    config.set("pool.kv_format", "bf16");
    CHECK(rounding_bounds(config).reuse > exact.reuse);
    config.set("model.weights", "int8");
    CHECK(rounding_bounds(config).golden > exact.golden);
    const SmallWorld world;
    for (const char* format : {"f16", "bf16"}) {
      VerifyOptions options = world.options();
      options.config.set("pool.kv_format", format);
      CHECK(verify(options).faults.empty());
    }
    VerifyOptions options = world.options();
    options.config.set("model.weights", "int8");
    CHECK(verify(options).faults.empty());
  }
}
