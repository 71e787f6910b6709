#include "router/flights/outcomes.h"

#include <doctest/doctest.h>

#include <vector>

namespace troupe::router {
namespace outcomes_test {

struct Bench {
  Outcomes outcomes{2};
  std::uint64_t next_id = 1;
  Effects effects;
  Step step{{0}, next_id, effects};

  static RequestOrigin origin(RequestId id) { return {{1, Role::server}, id, {0}, {10}}; }
  bool is_copy(RequestId id) const { return outcomes.is_copy({1, Role::server}, id); }
  const Refusal& refusal() const {
    return std::get<Refused>(std::get<Effects::Send>(effects.list.back()).message).refusal;
  }
};

TEST_CASE("outcomes: a request is a copy while it is open, and for a while after its outcome") {
  Bench b;
  CHECK_FALSE(b.is_copy(1));
  b.outcomes.open(b.origin(1));
  CHECK(b.is_copy(1));
  CHECK(b.outcomes.open_count() == 1);
  b.outcomes.answer(b.step, b.origin(1), Stored{1, 5});
  CHECK(b.outcomes.open_count() == 0);
  CHECK(b.is_copy(1));
  CHECK_FALSE(b.outcomes.is_copy({2, Role::server}, 1));
  for (const RequestId id : {2, 3})
    b.outcomes.refuse(b.step, b.origin(id), {RefusalKind::unprocessable, "x"});
  CHECK_FALSE(b.is_copy(1));  // two are remembered
  CHECK(b.is_copy(2));
}

TEST_CASE("outcomes: faults of workers and ports are refused as unavailable, the client's own as they are") {
  Bench b;
  using enum RefusalKind;
  for (const auto& [given, sent] : {std::pair{internal, unavailable},
                                    {not_found, not_found},
                                    {deadline_exceeded, deadline_exceeded},
                                    {unsupported, unavailable}}) {
    b.outcomes.refuse(b.step, b.origin(1), {given, "x"});
    CHECK(b.refusal().kind == sent);
  }
  CHECK(b.outcomes.refused() == 4);
}

TEST_CASE("outcomes: refusals that an operator could act on are logged once per code in ten seconds") {
  Bench b;
  std::vector<std::string> lines;
  const auto refuse = [&](std::int64_t us, RefusalKind kind, const char* code) {
    b.effects = {};
    b.outcomes.refuse({{us}, b.next_id, b.effects}, b.origin(1), {kind, code, "why"});
    for (const auto& effect : b.effects.list)
      if (const auto* log = std::get_if<Effects::Log>(&effect)) {
        CHECK(log->level == LogLevel::warning);
        lines.push_back(log->fields[0].value + " " + log->fields[3].value);
      }
  };
  using enum RefusalKind;
  for (int i = 0; i < 1'000; ++i) refuse(i, unavailable, "no_worker");
  refuse(500, unavailable, "overloaded");
  refuse(500, internal, "device_failed");
  refuse(500, not_found, "unknown_user");  // the client's
  refuse(500, unavailable, "draining");    // the operator's own
  refuse(9'999'999, unavailable, "no_worker");
  refuse(10'000'000, unavailable, "no_worker");
  CHECK(lines ==
        std::vector<std::string>{"no_worker 0", "overloaded 0", "device_failed 0", "no_worker 1000"});
}

}  // namespace outcomes_test
}  // namespace troupe::router
