#include "deploy/lab/bench/bench_accuracy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "deploy/data/dataset.h"
#include "deploy/lab/testing/small_generator_test.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

EventScore hit(std::size_t rank, double surprise = 1) { return {surprise, rank}; }

}  // namespace

TEST_SUITE("bench accuracy") {
  TEST_CASE("accuracy data: the prompt of a test event holds the newest items before it") {
    const SmallGenerator world;
    const AccuracyData all = world.data();
    REQUIRE(all.events.size() == 2);
    CHECK(all.events[0].prompt == Path{0, 1, 3, 2, 3});
    CHECK(all.events[0].truth == Path{2, 4});
    CHECK(all.events[1].prompt == Path{0, 1, 3, 2, 3, 2, 4});
    CHECK(all.events[1].truth == Path{1, 3});
    CHECK(world.data(1).events[1].prompt == Path{0, 2, 4});
    CHECK(all.index->depth() == 2);
    CHECK(all.index->leaves() == 3);
  }

  TEST_CASE("accuracy data: invalid data is refused, and the error names the user, item or folder") {
    SmallGenerator world;
    world.users("8\t1\t0\t1\t0 7\n");
    CHECK_THROWS_WITH_AS(world.data(), doctest::Contains("user 8 has item 7"), ImportError);
    world.users("8\t1\t0\t4\t0 1 2 0 1\n");
    CHECK_THROWS_WITH_AS(world.data(), doctest::Contains("user 8: "), ImportError);
    CHECK(world.data(3).events.size() == 4);
    world.users("8\t2\t0\t0\t0 1\n");
    CHECK_THROWS_WITH_AS(world.data(), doctest::Contains("no test events"), ImportError);
    world.folder().write("items.jsonl",
                         "{\"id\":\"0\",\"tokens\":[1,3],\"identifier\":1}\n"
                         "{\"id\":\"1\",\"tokens\":[1],\"identifier\":1}\n");
    CHECK_THROWS_WITH_AS(world.data(), doctest::Contains("item 1 has 1 tokens"), ImportError);
    world.folder().write("items.jsonl", "{\"id\":\"0\",\"tokens\":[1,70],\"identifier\":1}\n");
    CHECK_THROWS_WITH_AS(world.data(), doctest::Contains("item 0 has token 70; expected 0 to below 5"),
                         ImportError);
    world.folder().write("vocab.json", R"({"<a_0>":1})");
    CHECK_THROWS_WITH_AS(world.data(), doctest::Contains("<bos>"), ImportError);
  }

  TEST_CASE("number formats: known names are parsed, others are refused") {
    CHECK(parse_formats("f32/f32").name() == "f32/f32");
    CHECK(parse_formats("int8/bf16").weights == kernels::WeightFormat::int8);
    CHECK(parse_formats("int8/bf16").kv == kernels::KvFormat::bf16);
    for (const char* bad : {"", "/", "int8", "f16/f32", "f32/int8", "f32/f32/"})
      CHECK_THROWS_WITH_AS(parse_formats(bad), doctest::Contains("expected"), std::invalid_argument);
  }

  TEST_CASE(
      "score_events: every format scores every event, and rounding changes the surprise only slightly") {
    const SmallGenerator world;
    const AccuracyData data = world.data();
    const auto exact = score_events(world.model(), {}, data, 3);
    REQUIRE(exact.size() == 2);
    for (const char* name : {"f32/f16", "f32/bf16", "int8/f32", "int8/f16", "int8/bf16"}) {
      CAPTURE(name);
      const auto rounded = score_events(world.model(), parse_formats(name), data, 3);
      const AccuracyChange change = compare(exact, rounded);
      CHECK(change.moved.value > 0);
      CHECK(change.moved.value < 0.1);
      for (const EventScore& score : rounded) CHECK((1 <= score.rank && score.rank <= 3));
    }
  }

  TEST_CASE("score_events: the place of the true item counts the items that are more probable") {
    const SmallGenerator world;
    const AccuracyData data = world.data();
    const std::vector<EventScore> wide = score_events(world.model(), {}, data, 3);
    for (std::size_t i = 0; i < data.events.size(); ++i) {
      const auto log_of = [&](const Path& item) {
        return -2 *
               score_events(world.model(), {}, {data.index, {{data.events[i].prompt, item}}}, 3)[0].surprise;
      };
      const double truth = log_of(data.events[i].truth);
      std::size_t rank = 1;
      for (const Path& item : {Path{1, 3}, Path{2, 3}, Path{2, 4}}) rank += log_of(item) > truth + 1e-6;
      CHECK(wide[i].rank == rank);
      CHECK(std::abs(wide[i].surprise + truth / 2) < 1e-6);
    }
  }

  TEST_CASE("mean_of: a mean comes with the standard error of its samples") {
    const Mean mean = mean_of({1, 2, 3, 6});
    CHECK(mean.value == 3);
    CHECK(mean.standard_error == doctest::Approx(std::sqrt(14.0 / 3 / 4)));
    CHECK(mean_of({5}).standard_error == 0);
    CHECK(mean_of({}).value == 0);
  }

  TEST_CASE("recall and NDCG: a hit beyond k does not count, and NDCG falls with the place") {
    const Accuracy accuracy = summarize({hit(1), hit(5), hit(6), hit(10), hit(11), hit(0)});
    CHECK(accuracy.recall_at_5.value == doctest::Approx(2.0 / 6));
    CHECK(accuracy.recall_at_10.value == doctest::Approx(4.0 / 6));
    CHECK(ndcg(hit(1), 10) == 1);
    CHECK(ndcg(hit(3), 10) == doctest::Approx(0.5));
    CHECK(ndcg(hit(11), 10) == 0);
    CHECK(ndcg(hit(0), 10) == 0);
  }

  TEST_CASE(
      "compare: changes are paired by event, so gains and losses cancel in the mean, not in its error") {
    const std::vector<EventScore> base{hit(1, 2), hit(12, 2), hit(0, 2), hit(3, 2)};
    const std::vector<EventScore> other{hit(11, 2.5), hit(10, 1.5), hit(0, 2), hit(3, 2)};
    const AccuracyChange change = compare(base, other);
    CHECK(change.gained == 1);
    CHECK(change.lost == 1);
    CHECK(change.recall_at_10.value == 0);
    CHECK(change.recall_at_10.standard_error == doctest::Approx(std::sqrt(2.0 / 3 / 4)));
    CHECK(change.surprise.value == 0);
    CHECK(change.moved.value == 0.25);
    const AccuracyChange none = compare(base, base);
    CHECK(none.gained + none.lost == 0);
    CHECK(none.ndcg_at_10.standard_error == 0);
  }
}
