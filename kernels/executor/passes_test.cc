#include "kernels/executor/passes.h"

#include <doctest/doctest.h>

namespace troupe::kernels {
namespace {

// Answers with each plan's first token; a pass holds `tokens_max` computed tokens.
struct Bounded {
  std::size_t tokens_max;
  std::vector<std::size_t> passes;  // requests of each pass

  std::string run(std::span<const Request> requests, std::span<Reply> replies) {
    const std::size_t tokens = computed_tokens(requests);
    if (tokens > tokens_max) return std::to_string(tokens) + " tokens";
    passes.push_back(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i)
      replies[i].readouts = {{static_cast<float>(requests[i].plan->segments[0].tokens[0])}};
    return "";
  }
};

struct Batch {
  std::vector<Plan> plans;
  std::vector<Request> requests;
  std::vector<Reply> replies;

  explicit Batch(const std::vector<std::size_t>& lengths) : replies(lengths.size()) {
    for (const std::size_t length : lengths) {
      plans.emplace_back();
      plans.back().segments = {{SegmentKind::user, std::vector<Token>(length, Token(plans.size())), 0, {}}};
      plans.back().readouts = {{0, 0, {1}}};
    }
    for (const Plan& plan : plans) requests.push_back({&plan, {{}}});
  }
  std::vector<std::size_t> run(std::size_t tokens_max) {
    Bounded bounded{tokens_max, {}};
    run_in_passes(requests, replies, [&](auto some, auto answers) { return bounded.run(some, answers); });
    return bounded.passes;
  }
};

TEST_CASE("passes: a batch that fits is one pass, and a larger one is run in parts with an answer each") {
  Batch batch({3, 3, 3, 3, 3});
  CHECK(batch.run(15) == std::vector<std::size_t>{5});
  CHECK(batch.run(7) == std::vector<std::size_t>{2, 1, 2});
  for (std::size_t i = 0; i < 5; ++i) CHECK(batch.replies[i].readouts[0][0] == float(i + 1));
  CHECK(Batch({}).run(0) == std::vector<std::size_t>{0});
}

TEST_CASE("passes: a request that does not fit alone is too large, and its neighbours are answered") {
  Batch batch({3, 9, 3});
  CHECK(batch.run(8) == std::vector<std::size_t>{1, 1});
  CHECK(batch.replies[0].readouts[0][0] == 1);
  CHECK(batch.replies[1].too_large == "9 tokens");
  CHECK(batch.replies[2].readouts[0][0] == 3);
  batch.run(20);
  CHECK(batch.replies[1].too_large == "");
}

TEST_CASE("passes: computed tokens are counted without cached segments, and those beyond a pass are named") {
  Batch batch({3, 9, 3});
  CHECK(computed_tokens(batch.requests) == 15);
  batch.requests[1].kv[0].source = Source::cached;
  CHECK(computed_tokens(batch.requests) == 6);
  CHECK(validate_tokens(6, 6) == "");
  CHECK(validate_tokens(6, 5) == "6 computed tokens; expected at most 5 in one pass");
}

}  // namespace
}  // namespace troupe::kernels
