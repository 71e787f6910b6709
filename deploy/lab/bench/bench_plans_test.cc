#include "deploy/lab/bench/bench_plans.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "kernels/testing/test_folder.h"
#include "router/request/policy.h"

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

const PromptForm form{{1, 2}, {3}, {4, 5}, {6}, 64, 40};

RankEvent event_of(const std::vector<std::vector<Token>>& items) {
  RankEvent event{.history = {3, 11, 12, 13, 14}};
  for (const std::vector<Token>& tokens : items) {
    const auto n = static_cast<Token>(event.items.size());
    event.items.push_back({std::to_string(n), "", tokens, 30 + n, {}});
  }
  return event;
}
RankEvent three_items() { return event_of({{20, 21, 22, 23}, {24, 25}, {21, 22, 26}}); }

std::vector<float> logits_of(const RankEvent& event, const char* plan, double repair = 0) {
  return run_plan(*decoder(), plan_of(form, event, {router::find_plan(plan), {.share = repair}}));
}
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max<double>(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace

TEST_SUITE("bench plans") {
  TEST_CASE("repair: fully repaired blocks give the plain prompt's scores, unrepaired ones do not") {
    const RankEvent event = three_items();
    const auto plain = logits_of(event, "causal");
    CHECK(difference(plain, logits_of(event, "blocks", 1)) < 1e-4);
    CHECK(difference(plain, logits_of(event, "blocks")) > 1e-3);
    CHECK(difference(plain, logits_of(event, "blocks", 0.5)) > 1e-3);
    CHECK(difference(logits_of(event, "blocks"), logits_of(event, "blocks", 0.5)) > 1e-3);
  }

  TEST_CASE("repair: the first item has nothing to repair, so its scores do not change") {
    const RankEvent one = event_of({{20, 21, 22, 23}});
    const auto alone = logits_of(one, "item");
    for (const double repair : {0.25, 0.5, 0.75, 1.0})
      CHECK(difference(alone, logits_of(one, "item", repair)) < 1e-4);
  }

  TEST_CASE("repair: items with others before them change, and differently with a larger share") {
    const auto alone = logits_of(three_items(), "item");
    CHECK(difference(alone, logits_of(three_items(), "item", 0.5)) > 1e-3);
    CHECK(difference(logits_of(three_items(), "item", 0.5), logits_of(three_items(), "item", 1)) > 1e-3);
  }

  TEST_CASE("judge_ranking: ties and NaN count against the true item") {
    CHECK(judge_ranking({1, 3, 2}, 1).rank == 1);
    CHECK(judge_ranking({1, 2, 2}, 1).rank == 2);
    CHECK(judge_ranking({1, NAN, 2}, 2).rank == 2);
    CHECK(judge_ranking({0, 0}, 0).surprise == doctest::Approx(std::log(2.0)));
  }

  TEST_CASE(
      "block bench: cached blocks give the computed scores, and operations grow with the repaired share") {
    const auto model = decoder();
    BlockBench bench(*model, small_decoder());
    const RankEvent event = three_items();
    const Plan plain = plan_of(form, event, {router::find_plan("causal")});
    const BlockBench::Run full = bench.run(plain);
    CHECK(difference(full.scores, logits_of(event, "causal")) < 1e-5);
    double before = 0;
    for (const double share : {0.0, 0.3, 0.6, 1.0}) {
      const PlanVariant variant{router::find_plan("blocks"),
                                {.share = share, .by = router::RepairChoice::By::tail, .mean = true}};
      const Plan plan = plan_of(form, event, variant);
      const BlockBench::Run first = bench.run(plan), again = bench.run(plan);
      CHECK(difference(first.scores, run_plan(*model, plan)) < 1e-5);
      CHECK(difference(again.scores, first.scores) < 1e-5);
      CHECK(first.operations == again.operations);
      CHECK(first.operations > before);
      before = first.operations;
    }
    CHECK(before == doctest::Approx(full.operations));
  }

  TEST_CASE("block bench: a kept prefix saves its operations under every plan and changes no score") {
    const auto model = decoder();
    const RankEvent event = three_items();
    BlockBench plain(*model, small_decoder()), keeping(*model, small_decoder(), true);
    for (const char* name : {"causal", "blocks"}) {
      const Plan plan = plan_of(form, event, {router::find_plan(name)});
      const BlockBench::Run all = plain.run(plan), less = keeping.run(plan), again = keeping.run(plan);
      CHECK(difference(all.scores, less.scores) < 1e-5);
      CHECK(difference(all.scores, again.scores) < 1e-5);
      CHECK(less.operations < all.operations);
    }
  }

  TEST_CASE(
      "block bench: the oracle fills the budget and chooses no token of the first item, which is exact") {
    const auto model = decoder();
    BlockBench bench(*model, small_decoder());
    RankEvent event = three_items();
    event.history = Tokens();
    const PlanVariant variant{
        router::find_plan("blocks"), {.share = 0.4, .by = router::RepairChoice::By::attention}, true};
    PromptForm bare = form;
    bare.system = {};
    const Plan plan = plan_of(bare, event, variant),
               plain = plan_of(bare, event, {router::find_plan("causal")});
    const Plan chosen = bench.with_oracle(plan, plain);
    CHECK(chosen.repair.always.size() == plan.repair.budgets[0]);
    for (const std::uint32_t token : chosen.repair.always) CHECK(token >= 4);
    CHECK(chosen.repair.attention == 0);
  }

  TEST_CASE("overlap_at_10: it compares the ten best items, or the better half of fewer than 20") {
    CHECK(overlap_at_10({4, 3, 2, 1}, {3, 4, 1, 2}) == 1);
    CHECK(overlap_at_10({4, 3, 2, 1}, {1, 2, 4, 3}) == 0);
    CHECK(overlap_at_10({4, 3, 2, 1}, {4, 2, 3, 1}) == 0.5);
  }

  TEST_CASE("plan variant: names include the repaired share, and unknown plans are refused") {
    CHECK(PlanVariant{router::find_plan("item"), {.share = 0.25}}.name() == "item +25 %");
    CHECK(PlanVariant{router::find_plan("user")}.name() == "user");
    const PromptForm form{.discriminant = {1}};
    CHECK(parse_plan("apart", form).name == "apart");
    CHECK_THROWS_AS(parse_plan("items", form), std::invalid_argument);
    CHECK_THROWS_AS(parse_plan("towers", form), std::invalid_argument);
  }

  TEST_CASE("plan variant: a plan may name its repair, with a selection for each budget") {
    const PromptForm form{.discriminant = {1}};
    const PlanVariant variant =
        parse_variant("all_blocks+30:attention:history20:history-importance:lambda0.5", form);
    CHECK(variant.plan->name == "all_blocks");
    CHECK(variant.repair ==
          router::policy("all_blocks+30:attention:history20:history-importance:lambda0.5").repair());
    CHECK(variant.name() == "all_blocks +30 %, history 20 %");
    CHECK(variant.selection() == "attention, history importance*0.5");
    CHECK(parse_variant("item+25", form).name() == "item +25 %");
    CHECK(parse_variant("item+25:tail", form).selection() == "tail");
    CHECK(parse_variant("blocks", form).selection() == "none");
    CHECK(parse_variant("blocks+0:window8", form).name() == "blocks +0 %, window 8");
    for (const char* name :
         {"blocks+30:best", "blocks+", "user+25", "item+25:history20", "all_blocks+30:prototypes"})
      CHECK_THROWS_AS(parse_variant(name, form), std::invalid_argument);
  }

  TEST_CASE("rank events: a file's requests are read, and those that do not fit the model are refused") {
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
    REQUIRE(events.list.size() == 1);
    const RankEvent& event = events.list[0];
    CHECK(event.truth == 1);
    CHECK(event.history == Tokens{1, 3, 5, 4, 6});
    REQUIRE(event.items.size() == 2);
    CHECK(event.items[0].tokens == std::vector<Token>{4, 5});
    CHECK(event.items[1].tokens == std::vector<Token>{4, 6});
    CHECK(event.items[0].identifier == 8);
    CHECK(event.items[1].identifier == 9);
    CHECK_THROWS_WITH(rows("u\t7\t1 2\t1\n"), "user u has item 7; expected an item of the catalog");
    CHECK_THROWS(rows("u\t0 1 2 0 1 2\t1 2\t1\n"));
  }
}
