#include "kernels/cpu/engine/row_chunks.h"

#include <doctest/doctest.h>

#include <vector>

namespace troupe::kernels {
namespace {

TEST_CASE("row chunks: chunks are whole tiles, at most the maximum, and as many for each worker") {
  CHECK(chunk_rows(0, 2, 192) == 12);
  CHECK(chunk_rows(1, 4, 192) == 12);
  CHECK(chunk_rows(100, 1, 192) == 108);
  CHECK(chunk_rows(384, 2, 192) == 192);
  CHECK(chunk_rows(385, 2, 192) == 108);  // two rounds of both workers
}

TEST_CASE("row chunks: every row is in one chunk, and the last chunk has the rest") {
  Team team(2, {}, 0);
  for (const std::size_t rows : {0, 1, 12, 13, 50}) {
    CAPTURE(rows);
    std::vector<int> calls(rows);
    Team::Pass pass(team);
    run_chunks(pass, rows, 12, 1, [&](Rows some, std::uint32_t worker) {
      CHECK(worker < 2);
      CHECK(some.count <= 12);
      for (std::size_t r = 0; r < some.count; ++r) ++calls[some.begin + r];
    });
    CHECK(calls == std::vector<int>(rows, 1));
  }
}

}  // namespace
}  // namespace troupe::kernels
