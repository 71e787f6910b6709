// Tests that a ranking request and its plan are not copied on their way from the HTTP server to the kernels:
// allocations of the size of an item id, or of a plan's segments, are counted while a served node answers.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/base/plan.h"
#include "tests/allocations/allocation_count.h"
#include "tests/fuzz/tiny_world.h"

using namespace troupe;

namespace {

constexpr std::size_t candidates = 24, id_bytes = 229;

std::string item_id(std::size_t number) {
  std::string id = "item " + std::to_string(number) + " ";
  id.resize(id_bytes, 'x');
  return id;
}

struct RankedNode {
  fuzz::ServedNode node;
  std::string body;

  RankedNode() {
    nlohmann::json request{{"user", "steady"}, {"policy", "item"}};
    for (std::size_t i = 0; i < candidates; ++i) {
      const nlohmann::json item{{"tokens", {5 + i, 6}}, {"identifier", 10 + i}};
      REQUIRE(node.ask("PUT", "/v1/items/" + percent_encoded(item_id(i)), item.dump()).status == 200);
      request["candidates"].push_back(item_id(i));
    }
    body = request.dump();
    rank(), rank();  // afterwards all blocks are cached, and buffers have their size
  }
  static std::string percent_encoded(std::string id) {
    for (std::size_t at; (at = id.find(' ')) != std::string::npos;) id.replace(at, 1, "%20");
    return id;
  }
  void rank() const { REQUIRE(node.ask("POST", "/v1/rank", body).status == 200); }
  // Counts the allocations of one request.
  Allocations count() const {
    AllocationCount allocations;
    rank();
    return allocations.stop();
  }
};

// An id is allocated when the body is read, in the one copy of the request's ids (FindFeatures), as the owner
// of a block in the plan, in the one copy of the plan that is sent, and in the question for its blocks, in
// the answer, and by the client that reads it.
constexpr std::size_t per_id = 7;

TEST_CASE("copies: between the HTTP server and the kernels a request and its plan are copied once at most") {
  if (!AllocationCount::works()) {
    MESSAGE("skipped: this build does not count allocations");
    return;
  }
  const RankedNode ranked;
  Allocations found = ranked.count();
  for (int i = 0; i < 4; ++i)  // the fewest of five: while one is counted, blocks may be saved to disk
    if (Allocations next = ranked.count(); next.of_size(id_bytes + 1) < found.of_size(id_bytes + 1))
      found = std::move(next);
  const std::size_t ids = found.of_size(id_bytes + 1);
  std::size_t plans = 0;  // segments of the candidates, the user and a few of the prompt, in one vector
  for (std::size_t segments = candidates; segments < 2 * candidates; ++segments)
    plans += found.of_size(segments * sizeof(kernels::Segment));
  CAPTURE(found.text());
  CHECK(ids >= candidates);
  CHECK(ids <= per_id * candidates);
  CHECK(plans >= 1);
  CHECK(plans <= 2);
}

}  // namespace
