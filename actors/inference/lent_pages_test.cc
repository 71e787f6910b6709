#include "actors/inference/lent_pages.h"

#include <doctest/doctest.h>

#include "actors/testing/effects_of.h"
#include "actors/testing/inference_bench.h"

namespace troupe::actors {
namespace lent_pages_test {

struct Lent {
  InferenceConfig config = inference_test::Bench::config(1);
  Serials serials{1};
  LentPages pages{config, serials};
  Effects effects;

  void lend(std::uint64_t number) {
    LendPages message{1, number, {4, 5}, 0};
    effects = {};
    pages.on_lend(message, effects);
  }
  void end(JobResult result) {
    JobDone done{started<ChangeRowPages>(effects).at(0).first, std::move(result)};
    effects = {};
    CHECK(pages.on_job_done(done, effects));
  }
};

TEST_CASE("lent pages: a message is answered when its job ends, and its copies are answered again") {
  Lent l;
  CHECK_FALSE(l.pages.were_lent());
  l.lend(1);
  CHECK(started<ChangeRowPages>(l.effects).at(0).second.pages == std::vector<std::uint32_t>{4, 5});
  l.end(RowPages{{5}, {.hits = 3}});
  CHECK(sent<PagesLent>(l.effects).at(0) == PagesLent{1, 1, {5}, 3, 0});
  l.lend(1);
  CHECK(started<ChangeRowPages>(l.effects).empty());
  CHECK(sent<PagesLent>(l.effects).at(0) == PagesLent{1, 1, {5}, 3, 0});
  CHECK(l.pages.were_lent());
}

TEST_CASE("lent pages: a device that refuses the pages gives all of them back") {
  Lent l;
  l.lend(1);
  l.end(Refusal{RefusalKind::internal, "wrong_job"});
  CHECK(sent<PagesLent>(l.effects).at(0).given_back == std::vector<std::uint32_t>{4, 5});
}

TEST_CASE("lent pages: totals that are older than those known change nothing") {
  Lent l;
  l.pages.count({.hits = 7}, l.effects);
  l.effects = {};
  l.pages.count({.hits = 5}, l.effects);
  CHECK(l.effects.list.empty());
  CHECK(l.pages.totals().hits == 7);
}

}  // namespace lent_pages_test
}  // namespace troupe::actors
