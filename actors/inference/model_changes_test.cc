#include "actors/inference/model_changes.h"

#include <doctest/doctest.h>

#include "actors/testing/effects_of.h"

namespace troupe::actors {
namespace model_changes_test {

struct Changes {
  Serials serials{5};
  ModelChanges models{{"m1", {100}, 2, {10}}, serials};
  Effects effects;

  void start(std::int64_t us, bool needed = false) {
    effects = {};
    models.start_next(
        {us}, [&](const std::string&) { return needed; }, effects);
  }
  std::size_t end(std::int64_t us, JobResult result) {  // returns the number of log lines
    const auto loads = started<LoadModel>(effects);
    const JobDone done{loads.empty() ? started<DropModel>(effects).at(0).first : loads[0].first, result};
    effects = {};
    CHECK(models.on_job_done({us}, done, effects));
    return effects.list.size();
  }
};

TEST_CASE("model changes: one change runs at a time, and a needed model is not dropped") {
  Changes c;
  c.start(0);
  CHECK(c.effects.list.empty());
  c.models.follow({0}, {3, "m2", "c", ""});
  c.start(0);
  CHECK(started<LoadModel>(c.effects).at(0).second.model_version == "m2");
  const Effects first = c.effects;
  c.start(0);
  CHECK(c.effects.list.empty());
  CHECK_FALSE(c.models.on_job_done({1}, {77, ModelChanged{}}, c.effects));
  c.effects = first;
  CHECK(c.end(1, ModelChanged{}) == 1);
  CHECK(c.models.models().has("m2"));
  c.start(101, true);
  CHECK(c.effects.list.empty());
  c.start(101);
  CHECK(started<DropModel>(c.effects).at(0).second.model_version == "m1");
  c.end(102, ModelChanged{});
  CHECK_FALSE(c.models.models().has("m1"));
}

TEST_CASE("model changes: a load that fails again for the same reason is logged once") {
  Changes c;
  c.models.follow({0}, {3, "m1", "c", "m2"});
  c.start(0);
  CHECK(c.end(0, Refusal{RefusalKind::unprocessable, "bad_model", "no file"}) == 1);
  c.start(10);
  CHECK(c.end(10, Refusal{RefusalKind::unprocessable, "bad_model", "no file"}) == 0);
  c.start(30);
  CHECK(c.end(30, Refusal{RefusalKind::unprocessable, "bad_model", "no space"}) == 1);
  CHECK(c.models.models().refused_next()->why == "no space");
}

}  // namespace model_changes_test
}  // namespace troupe::actors
