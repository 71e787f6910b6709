#include "deploy/bench/bench_plans.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "kernels/base/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

kernels::DecoderConfig small_decoder() {
  kernels::DecoderConfig config;
  config.layers = 3;
  config.hidden = 32;
  config.heads = config.kv_heads = 2;
  config.head_dim = 16;
  config.intermediate = 32;
  config.vocabulary = 40;
  config.positions_max = 64;
  config.qkv_bias = config.tied_embeddings = true;
  return config;
}

std::unique_ptr<kernels::Executor> decoder() {
  return kernels::make_cpu_decoder(kernels::random_decoder(small_decoder(), 3), kernels::DecoderOptions{});
}

RankPrompt prompt_of(std::vector<std::vector<Token>> items) {
  RankPrompt prompt{{1, 2}, {3, 11, 12, 13, 14}, {4, 5}, {6}, std::move(items), {}};
  for (std::size_t i = 0; i < prompt.items.size(); ++i) prompt.rows.push_back(static_cast<Token>(30 + i));
  return prompt;
}
RankPrompt three_items() { return prompt_of({{20, 21, 22, 23}, {24, 25}, {21, 22, 26}}); }

std::vector<float> logits_of(const RankPrompt& prompt, const PlanVariant& variant) {
  return run_variant(*decoder(), variant_plan(prompt, variant));
}
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max<double>(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace

TEST_SUITE("bench plans") {
  TEST_CASE("the two prefixes are the ones that are served") {
    const RankPrompt prompt = three_items();
    std::vector<Item> items;
    for (std::size_t i = 0; i < prompt.items.size(); ++i)
      items.push_back({std::to_string(i), "", prompt.items[i], prompt.rows[i], {}});
    router::PromptForm form{prompt.system, {}, prompt.instruction, prompt.discriminant, 64, 40};
    for (const auto& [kind, prefix] :
         {std::pair(PlanKind::user, router::Prefix::user), {PlanKind::item, router::Prefix::item}}) {
      const kernels::Plan made = variant_plan(prompt, {kind}).plan;
      const router::RankPlan served =
          rank_plan(form, {"model", "layout"}, prefix, "t", "u", {prompt.user, 0}, items);
      REQUIRE(made.segments.size() == served.segments.size());
      for (std::size_t i = 0; i < made.segments.size(); ++i) {
        CHECK(made.segments[i].tokens == served.segments[i].tokens);
        CHECK(made.segments[i].start == served.segments[i].start);
        CHECK(made.segments[i].sees == served.segments[i].sees);
      }
      CHECK(made.readouts.at(0).rows == served.readouts.at(0).rows);
      CHECK(made.readouts.at(0).segment == served.readouts.at(0).segment);
    }
  }

  TEST_CASE(
      "blocks that are repaired in full are the plain prompt, and those that are not are something else") {
    const RankPrompt prompt = three_items();
    const auto plain = logits_of(prompt, {PlanKind::causal});
    CHECK(difference(plain, logits_of(prompt, {PlanKind::blocks, 1})) < 1e-4);
    CHECK(difference(plain, logits_of(prompt, {PlanKind::blocks})) > 1e-3);
    CHECK(difference(plain, logits_of(prompt, {PlanKind::blocks, 0.5})) > 1e-3);
    CHECK(difference(logits_of(prompt, {PlanKind::blocks}), logits_of(prompt, {PlanKind::blocks, 0.5})) >
          1e-3);
  }

  TEST_CASE("an item that has none before it has nothing to repair: what is reused is what is computed") {
    const RankPrompt one = prompt_of({{20, 21, 22, 23}});
    const auto alone = logits_of(one, {PlanKind::item});
    for (const double repair : {0.25, 0.5, 0.75, 1.0})
      CHECK(difference(alone, logits_of(one, {PlanKind::item, repair})) < 1e-4);
  }

  TEST_CASE(
      "a repair recomputes the first tokens of each item, which see all before them, and reuses the rest") {
    const VariantPlan made = variant_plan(three_items(), {PlanKind::item, 0.5});
    // system; 20 21 | 22 23; 24 | 25; 21 22 | 26 (a half of three is two); user; instruction; discriminant
    REQUIRE(made.plan.segments.size() == 10);
    CHECK(made.plan.segments[3].tokens == std::vector<Token>{24});
    CHECK(made.plan.segments[3].sees == std::vector<std::uint32_t>{0, 1, 2});
    CHECK(made.plan.segments[6].tokens == std::vector<Token>{26});
    CHECK(made.plan.segments[6].start == 4);
    REQUIRE(made.reused.size() == 3);
    for (const auto& [ahead, now] : made.reused) {
      CHECK(made.ahead.segments[ahead].tokens == made.plan.segments[now].tokens);
      CHECK(made.ahead.segments[ahead].start == made.plan.segments[now].start);
      CHECK(made.ahead.segments[ahead].sees == std::vector<std::uint32_t>{0, ahead - 1});
    }
    CHECK(find_fault(made.plan, {40, 64}).empty());
    CHECK(find_fault(made.ahead, {40, 64}).empty());
    CHECK(variant_plan(three_items(), {PlanKind::item}).ahead.segments.empty());
  }

  TEST_CASE("ties count against the true item, and so does what is no number") {
    CHECK(judge_ranking({1, 3, 2}, 1).place == 1);
    CHECK(judge_ranking({1, 2, 2}, 1).place == 2);
    CHECK(judge_ranking({1, NAN, 2}, 2).place == 2);
    CHECK(judge_ranking({0, 0}, 0).surprise == doctest::Approx(std::log(2.0)));
  }

  TEST_CASE("names and mistakes") {
    CHECK(PlanVariant{PlanKind::blocks, 0.25}.name() == "blocks +25 %");
    CHECK(PlanVariant{PlanKind::causal, 0}.name() == "causal");
    CHECK(parse_plan_kind("item") == PlanKind::item);
    CHECK_THROWS_WITH(parse_plan_kind("items"),
                      "--plans has \"items\"; expected user, item, causal or blocks");
  }

  TEST_CASE("requests of a file are read whole, and those that do not fit the model are refused") {
    kernels::TestFolder folder;
    kernels::DecoderConfig config = small_decoder();
    config.positions_max = 16;
    write_decoder(kernels::random_decoder(config, 3), folder.path(), kernels::StoredAs::f32);
    folder.write("vocab.json",
                 R"({"<bos>":0,"<user>":1,"<disc>":2,"<a_0>":3,"<a_1>":4,"<b_0>":5,"<b_1>":6,"<item_0>":7,)"
                 R"("<item_1>":8,"<item_2>":9})");
    folder.write("prompt.json",
                 R"({"system":["<bos>"],"user":["<user>"],"instruction":[],"discriminant":["<disc>"]})");
    folder.write("items.tsv", "item_id\tsid\n0\t0,0\n1\t1,0\n2\t1,1\n");
    const auto rows = [&](const std::string& lines) {
      folder.write("eval.tsv", "user_id\thistory\tcandidates\ttrue_index\n" + lines);
      return read_rank_events(folder.path(), folder.path(), folder.path() / "eval.tsv");
    };
    const auto events = rows("u\t0 2\t1 2\t1\n");
    REQUIRE(events.size() == 1);
    CHECK(events[0].truth == 1);
    CHECK(events[0].prompt.user == std::vector<Token>{1, 3, 5, 4, 6});
    CHECK(events[0].prompt.items == std::vector<std::vector<Token>>{{4, 5}, {4, 6}});
    CHECK(events[0].prompt.rows == std::vector<Token>{8, 9});
    CHECK_THROWS_WITH(rows("u\t7\t1 2\t1\n"), "user u has item 7; expected an item of the catalog");
    CHECK_THROWS(rows("u\t0 1 2 0 1 2\t1 2\t1\n"));
  }
}
