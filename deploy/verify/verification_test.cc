#include "deploy/verify/verification.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
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
    VerifyOptions with = options();
    with.write = write;
    return golden(lines, std::move(with));
  }
  VerifyReport golden(const std::string& lines, VerifyOptions with,
                      const WrapExecutor& wrap = nullptr) const {
    folder_.write("golden.jsonl", lines);
    with.golden = folder_.path() / "golden.jsonl";
    return verify(with, wrap);
  }
  // Writes an evaluation file with requests of so many candidates, some of them several times.
  void candidates(const std::vector<std::size_t>& counts) const {
    std::string lines;
    for (const std::size_t count : counts)
      lines += json{{"user", "u"}, {"history", {"i1"}}, {"candidates", repeated(count)}, {"true_item", "i0"}}
                   .dump() +
               "\n";
    folder_.write("requests.jsonl", lines);
  }
  static std::vector<std::string> repeated(std::size_t count) {
    std::vector<std::string> candidates;
    for (std::size_t i = 0; i < count; ++i) candidates.push_back("i" + std::to_string(i % items));
    return candidates;
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

// An executor whose cached pages or scores a test changes.
class ChangedExecutor final : public kernels::Executor {
 public:
  // Both get each request of a batch: the first one before it is computed, the second one with its reply.
  using Before = std::function<void(const kernels::Request&)>;
  using After = std::function<void(const kernels::Request&, kernels::Reply&)>;

  ChangedExecutor(std::unique_ptr<kernels::Executor> inner, Before before, After after)
      : inner_(std::move(inner)), before_(std::move(before)), after_(std::move(after)) {}
  kernels::PlanLimits limits() const override { return inner_->limits(); }
  std::string fault(const kernels::Plan& plan) const override { return inner_->fault(plan); }
  const kernels::PageLayout& layout() const override { return inner_->layout(); }
  void run(std::span<const kernels::Request> batch, std::vector<kernels::Reply>& replies) override {
    for (const kernels::Request& request : batch)
      if (before_) before_(request);
    inner_->run(batch, replies);
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (after_ && !replies[i].readouts.empty()) after_(batch[i], replies[i]);
  }
  void measure(kernels::PassTimes* times) override { inner_->measure(times); }
  std::unique_ptr<kernels::Executor> share(std::uint32_t executor) const override {
    return inner_->share(executor);
  }

 private:
  std::unique_ptr<kernels::Executor> inner_;
  Before before_;
  After after_;
};

WrapExecutor changed(ChangedExecutor::Before before, ChangedExecutor::After after = nullptr) {
  return [before, after](std::unique_ptr<kernels::Executor> inner) {
    return std::make_unique<ChangedExecutor>(std::move(inner), before, after);
  };
}

bool reuses(const kernels::Request& request) {
  return std::ranges::any_of(
      request.kv, [](const kernels::SegmentKv& kv) { return kv.source == kernels::Source::cached; });
}

// Makes score 0 of pass number `pass`, counted over passes with scores and with or without reuse, not a
// number.
WrapExecutor with_nan(std::size_t pass, bool reused) {
  auto passes = std::make_shared<std::size_t>(0);
  return changed(nullptr, [=](const kernels::Request& request, kernels::Reply& reply) {
    if (reuses(request) == reused && (*passes)++ == pass) reply.readouts[0][0] = NAN;
  });
}

double scale_of(const std::vector<std::vector<float>>& readouts) {
  double scale = 1;
  for (const std::vector<float>& scores : readouts)
    for (const float score : scores) scale = std::max<double>(scale, std::abs(score));
  return scale;
}

// A row of the table of rounding bounds (docs/reference/golden-form.md).
struct Format {
  const char* name;
  double reuse, golden;
  VerifyOptions in(VerifyOptions options) const {
    const std::string format(name), stored = format.substr(0, format.find(' '));
    const bool of_weights = stored == "int8" || stored != format;
    options.config.set(of_weights ? "model.weights" : "pool.kv_format", stored);
    return options;
  }
};
constexpr Format formats[] = {{"f32", 1e-4, 1e-4},
                              {"f16", 1e-3, 1e-2},
                              {"bf16", 1e-2, 6e-2},
                              {"bf16 weights", 1e-2, 6e-2},
                              {"int8", 5e-2, 2e-1}};

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

  TEST_CASE("verify: a kept block that is damaged is reported with request, candidate and arrangement") {
    const SmallWorld world;
    bool damaged = false;
    const VerifyReport report = verify(world.options(), changed([&](const kernels::Request& request) {
                                         const auto& segments = request.plan->segments;
                                         for (std::size_t s = 0; s < segments.size() && !damaged; ++s)
                                           if (request.kv[s].source == kernels::Source::cached &&
                                               segments[s].tokens.size() == 7) {  // ann's history
                                             *reinterpret_cast<float*>(request.kv[s].pages[0] + 64) += 8;
                                             damaged = true;
                                           }
                                       }));
    REQUIRE(damaged);
    REQUIRE(report.faults.size() >= 2);
    CHECK_FALSE(report.is_well());
    CHECK(report.faults[0].find("user ann: candidate i") == 0);
    CHECK(report.faults[0].find(": causal with user from earlier computations gives ") != std::string::npos);
    CHECK(report.faults[0].find(" as by the plain computation (up to ") != std::string::npos);
    for (const std::string& fault : report.faults) {
      CHECK(fault.find("user ann: ") == 0);
      CHECK(fault.find("item_first") == std::string::npos);  // the user is no block there
    }
    CHECK(printed(report).find("differs: user ann: candidate i") != std::string::npos);
  }

  TEST_CASE("verify: in each format, half of the bound of reuse is rounding and twice the bound is a fault") {
    const SmallWorld world;
    for (const Format& format : formats) {
      CAPTURE(format.name);
      const VerifyOptions options = format.in(world.options());
      const VerifyReport clean = verify(options);
      CHECK(clean.is_well());
      for (const ArrangementCheck& check : clean.arrangements)
        for (const ReuseCheck& reuse : check.reuse) CHECK(reuse.largest <= reuse.bound / 2);
      for (const double share : {0.5, 2.0}) {
        CAPTURE(share);
        const VerifyReport shifted =
            verify(options, changed(nullptr, [&](const kernels::Request& request, kernels::Reply& reply) {
                     const double error = share * format.reuse * scale_of(reply.readouts);
                     if (reuses(request)) reply.readouts[0][0] += static_cast<float>(error);
                   }));
        CHECK(shifted.is_well() == (share < 1));
      }
    }
  }

  TEST_CASE(
      "verify: in each format, half of the bound of golden scores is rounding and twice it is a fault") {
    const SmallWorld world;
    const std::vector<float> scores = world.scores_of({"i3", "i1"}, world.candidates_of(1), causal);
    for (const Format& format : formats)
      for (const double share : {0.5, -0.5, 2.0, -2.0}) {
        CAPTURE(format.name);
        CAPTURE(share);
        const std::string line =
            world.golden_line(1, causal, share * format.golden * scale_of({scores}), "causal");
        CHECK(world.golden(line, format.in(world.options())).is_well() == (std::abs(share) < 1));
      }
  }

  TEST_CASE("verify: scores that are not finite name request, candidate and arrangement") {
    const SmallWorld world;
    const VerifyReport served = verify(world.options(), with_nan(0, false));
    REQUIRE(served.faults.size() == 1);
    CHECK(served.faults[0] == "user ann: candidate i0: causal gives NaN; expected a finite number");
    CHECK(served.requests == 3);
    CHECK(served.arrangements[0].requests == 2);
    const VerifyReport undeclared = verify(world.options(), with_nan(1, false));
    CHECK(undeclared.is_well());
    CHECK(undeclared.arrangements[1].requests == 2);
    CHECK(printed(undeclared)
              .find("candidate i0: user_first gives NaN; expected a finite number (1 requests; "
                    "no request is served user_first).") != std::string::npos);
    const VerifyReport reused = verify(world.options(), with_nan(0, true));
    REQUIRE(reused.faults.size() == 1);
    CHECK(reused.faults[0].find("user ann: candidate i0: causal with system from earlier computations gives "
                                "NaN; expected ") == 0);
    CHECK(to_json(reused)["arrangements"][0]["reuse"][0]["largest_difference"] == "infinite");
    const VerifyReport golden =
        world.golden(world.golden_line(1, causal, 0, "causal"), world.options(), with_nan(0, false));
    REQUIRE(golden.faults.size() == 1);
    CHECK(golden.faults[0].find("golden.jsonl:1: candidate " + world.candidates_of(1)[0] +
                                ": causal gives NaN; expected ") == 0);
  }

  TEST_CASE(
      "verify: an undeclared arrangement is compared on the requests that fit, a declared one decides") {
    SmallWorld world;
    world.candidates({12, 70});  // 140 tokens of items do not fit into 128 positions
    world.form(R"(,"arrangements":["item_first","user_first"])");
    const VerifyReport undeclared = verify(world.options());
    CHECK(undeclared.is_well());
    CHECK(undeclared.requests == 2);
    CHECK(undeclared.skipped == 0);
    CHECK(undeclared.arrangements[1].requests == 2);
    REQUIRE(undeclared.arrangements[2].arrangement == causal);
    CHECK(undeclared.arrangements[2].requests == 1);
    CHECK(undeclared.arrangements[2].events == 1);
    CHECK(printed(undeclared).find("causal, which is not declared, was compared on 1 of 2 requests") !=
          std::string::npos);
    world.form(R"(,"arrangements":["item_first","causal"])");
    const VerifyReport declared = verify(world.options());
    CHECK(declared.requests == 1);
    CHECK(declared.skipped == 1);
    CHECK(printed(declared).find("1 requests were skipped, because they do not fit under every declared") !=
          std::string::npos);
    world.candidates({70});
    CHECK_THROWS_WITH_AS(
        verify(world.options()),
        doctest::Contains("no request fits under all of item_first, causal, which are declared"),
        ImportError);
    world.form("");
    world.candidates({12});
    json line{
        {"history", json::array()}, {"candidates", SmallWorld::repeated(70)}, {"scores", json::array()}};
    for (int i = 0; i < 70; ++i) line["scores"].push_back(0);
    line["arrangement"] = "causal";
    const VerifyReport golden = world.golden(line.dump() + "\n");
    REQUIRE(golden.faults.size() == 1);
    CHECK(golden.faults[0] ==
          "golden.jsonl:1: the candidates need 145 positions under causal; expected at most 128");
  }

  TEST_CASE("verify: --arrangements changes what golden scores, reuse and quality are compared with") {
    SmallWorld world;
    world.form(
        R"(,"arrangements":["item_first","user_first"],"interchangeable":["item_first","user_first"])");
    world.events(120, user_first);
    VerifyOptions options = world.options();
    options.tolerance = 0;
    options.arrangements = {user_first, item_first};
    const VerifyReport other = world.golden(world.golden_line(1, user_first), options);
    CHECK(other.is_well());
    CHECK(other.golden.equals == user_first);
    CHECK(other.arrangements[0].arrangement == user_first);
    CHECK(other.arrangements[0].quality.ndcg.value == doctest::Approx(1));
    CHECK(other.arrangements[1].quality.verdict == Verdict::worse);
    CHECK(other.listed.empty());  // the form's list has another first
    options.arrangements = {causal, item_first};
    const VerifyReport wrong = world.golden(world.golden_line(1, item_first), options);
    REQUIRE(wrong.faults.size() == 1);
    CHECK(wrong.faults[0] ==
          "the golden scores equal item_first, and requests are served causal; put item_first first in "
          "--arrangements, or name it in the lines of the golden file");
  }

  TEST_CASE("verify: golden scores that do not tell arrangements apart equal the one that is served") {
    SmallWorld world;
    // With one candidate all orders of system, user and item give the same but item_first.
    const std::vector<std::string> history{"i3", "i4"}, one{"i5"};
    std::string lines;
    for (const Arrangement arrangement : {causal, user_first, apart})
      lines += json{{"history", history},
                    {"candidates", one},
                    {"scores", world.scores_of(history, one, arrangement)}}
                   .dump() +
               "\n";
    for (const char* first : {"causal", "user_first", "candidates_apart"}) {
      CAPTURE(first);
      world.form(std::string(R"(,"arrangements":[")") + first + "\"]");
      const VerifyReport report = world.golden(lines);
      CHECK(report.is_well());
      CHECK(word_of(report.golden.equals) == first);
      CHECK(printed(report).find("The golden scores do not tell ") != std::string::npos);
    }
    world.form("");
    // Moves the score of the first of four arrangements, for each of three lines.
    const auto moved = [&](double error) {
      std::size_t passes = 0;
      return world.golden(lines, world.options(),
                          changed(nullptr, [&](const kernels::Request&, kernels::Reply& reply) {
                            if (passes < 12 && passes % 4 == 0)
                              reply.readouts[0][0] += static_cast<float>(error);
                            ++passes;
                          }));
    };
    CHECK(moved(1e-5).golden.equals == causal);
    const VerifyReport closer = moved(6e-5);
    CHECK(closer.golden.equals == user_first);
    CHECK(closer.is_well());
    CHECK(printed(closer).find("The golden scores equal causal, and are closer to user_first.") !=
          std::string::npos);
    CHECK(world.golden(lines, true).golden.equals == causal);
    CHECK(world.served()->prompt.arrangements == std::vector{causal});
  }

  TEST_CASE("verify: a form that cannot be written leaves the report, with the reason") {
    const SmallWorld world;
    VerifyOptions options = world.options();
    options.write = true;
    options.prompt = world.folder().path() / "none" / "form.json";
    const VerifyReport report = verify(options);
    CHECK(report.faults.empty());
    CHECK(report.written.empty());
    CHECK_FALSE(report.is_well());
    CHECK(report.write_fault.find("form.json: cannot be written (") != std::string::npos);
    const std::string text = printed(report);
    CHECK(text.find("Reuse: ") != std::string::npos);
    CHECK(text.find("not written: " + options.prompt.string()) != std::string::npos);
    CHECK(to_json(report)["write_fault"] == report.write_fault);
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
    json longest{{"tokens", json::array()}, {"rows", {7}}, {"logits", {0}}};
    for (int i = 0; i < 128; ++i) longest["tokens"].push_back(7);
    CHECK(world.golden(longest.dump() + "\n").golden.lines == 1);
    longest["tokens"].push_back(7);
    CHECK_THROWS_WITH_AS(world.golden("\n" + longest.dump() + "\n"),
                         doctest::Contains("golden.jsonl:2: tokens has 129 numbers; expected at most 128"),
                         ImportError);
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
    CHECK(printed(written).find("Nothing shows") == std::string::npos);
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
    CHECK(printed(declared).find("Nothing shows that the model was trained for item_first: no golden scores "
                                 "were compared (--golden).") != std::string::npos);
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
    CHECK_THROWS_WITH_AS(verify(world.options()),
                         doctest::Contains("requests.jsonl:1: user u has item no; expected an item"),
                         ImportError);
    options = world.options();
    options.skip_unknown = true;
    const VerifyReport skipped = verify(options);
    CHECK(skipped.left_out.unknown_items == 1);
    CHECK(to_json(skipped)["left_out"]["unknown_items"] == 1);
    CHECK(printed(skipped).find("1 items of histories and candidates were left out") != std::string::npos);
  }
}
