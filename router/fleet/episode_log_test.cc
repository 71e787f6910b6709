#include "router/fleet/episode_log.h"

#include <doctest/doctest.h>

#include <string>

namespace troupe::router {
namespace episode_log_test {

struct Bench {
  EpisodeLog log{"away", "back"};
  std::uint64_t next_id = 1;
  Effects effects;

  Step at(std::int64_t seconds) { return {{seconds * 1'000'000}, next_id, effects}; }
  // Returns the lines so far, with the number of suppressed episodes.
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& effect : effects.list)
      if (const auto* line = std::get_if<Effects::Log>(&effect))
        lines.push_back(line->event + (line->fields.empty() ? "" : " " + line->fields.back().value));
    return lines;
  }
};
using Lines = std::vector<std::string>;

TEST_CASE("episode log: an episode is one line at its begin and one at its end") {
  Bench b;
  b.log.ended(b.at(0));
  for (int second = 1; second < 100; ++second) b.log.lasts(b.at(second), {});
  CHECK(b.lines() == Lines{"away 0"});
  b.log.ended(b.at(100));
  b.log.ended(b.at(101));
  CHECK(b.lines() == Lines{"away 0", "back"});
}

TEST_CASE("episode log: a state that flaps is two lines in ten seconds, which count the others") {
  Bench b;
  for (int second = 0; second < 10; ++second) {
    b.log.lasts(b.at(second), {});
    b.log.ended(b.at(second));
  }
  CHECK(b.lines() == Lines{"away 0", "back"});
  b.log.lasts(b.at(10), {});
  CHECK(b.lines() == Lines{"away 0", "back", "away 9"});
}

TEST_CASE("episode log: an episode that begins early is logged if it lasts") {
  Bench b;
  b.log.lasts(b.at(0), {});
  b.log.ended(b.at(1));
  for (int second = 2; second < 10; ++second) b.log.lasts(b.at(second), {});
  CHECK(b.lines() == Lines{"away 0", "back"});
  b.log.lasts(b.at(10), {});
  b.log.lasts(b.at(20), {});
  CHECK(b.lines() == Lines{"away 0", "back", "away 0"});
  b.log.ended(b.at(21));
  CHECK(b.lines().size() == 4);
}

TEST_CASE("episode log: another reason is another episode") {
  Bench b;
  b.log.lasts(b.at(0), {});
  b.log.changed();
  b.log.lasts(b.at(5), {});
  b.log.lasts(b.at(12), {});
  CHECK(b.lines() == Lines{"away 0", "away 0"});
  b.log.ended(b.at(13));
  CHECK(b.lines().back() == "back");
}

}  // namespace episode_log_test
}  // namespace troupe::router
