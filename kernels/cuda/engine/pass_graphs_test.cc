#include "kernels/cuda/engine/pass_graphs.h"

#include <doctest/doctest.h>

#include <vector>

#include "kernels/cuda/testing/device_test.h"

using namespace troupe::kernels;
using cuda::DeviceCopy;
using cuda::PassGraphs;
using cuda::PassShape;

namespace {

// Runs passes that copy a number, and counts how often they were enqueued.
struct GraphCase {
  cuda::Stream stream;
  const DeviceCopy<int> from{std::vector<int>{7}}, to{std::vector<int>{0}}, zero{std::vector<int>{0}};
  PassGraphs graphs;
  int enqueued = 0;

  explicit GraphCase(std::uint32_t most) : graphs(most) {}
  // Runs a pass; returns whether its copy was made.
  bool run(std::uint32_t rows) {
    stream.copy(to.get(), zero.get(), sizeof(int));
    graphs.run({.rows = rows}, stream, [&] {
      ++enqueued;
      stream.copy(to.get(), from.get(), sizeof(int));
    });
    return to.host(stream) == std::vector<int>{7};
  }
};

}  // namespace

TEST_SUITE("cuda pass graphs") {
  TEST_CASE(
      "pass graphs: a shape is enqueued twice, the second time for its recording, and runs every time") {
    if (!cuda::have_device()) return;
    GraphCase given(2);
    for (int round = 0; round < 5; ++round) CHECK(given.run(16));
    CHECK(given.enqueued == 2);
  }

  TEST_CASE(
      "pass graphs: a failed first pass is not remembered; after a failed recording passes run unrecorded") {
    if (!cuda::have_device()) return;
    GraphCase given(2);
    int fails_at = 1, enqueued = 0;
    const auto enqueue = [&] {
      if (++enqueued == fails_at) throw cuda::DeviceError("this one");
    };
    CHECK_THROWS_AS(given.graphs.run({.rows = 16}, given.stream, enqueue), cuda::DeviceError);
    given.graphs.run({.rows = 16}, given.stream, enqueue);  // counts as a first pass again
    fails_at = 3;
    for (int round = 0; round < 3; ++round) given.graphs.run({.rows = 16}, given.stream, enqueue);
    CHECK(enqueued == 3 + 3);
  }

  TEST_CASE("pass graphs: with 0 recordings every pass is enqueued") {
    if (!cuda::have_device()) return;
    GraphCase given(0);
    for (int round = 0; round < 3; ++round) CHECK(given.run(16));
    CHECK(given.enqueued == 3);
  }

  TEST_CASE("pass graphs: the least recently used shape is dropped") {
    if (!cuda::have_device()) return;
    GraphCase given(2);
    for (const std::uint32_t rows : {16, 16, 32, 32, 16}) CHECK(given.run(rows));
    CHECK(given.enqueued == 4);
    CHECK(given.run(48));  // drops the shape of 32 rows
    CHECK(given.run(16));
    CHECK(given.enqueued == 5);
    CHECK(given.run(32));
    CHECK(given.enqueued == 6);
  }

  TEST_CASE("pass graphs: shapes that differ in any number do not share a recording") {
    if (!cuda::have_device()) return;
    GraphCase given(8);
    PassShape shapes[4];
    shapes[1].readouts = 16;
    shapes[2].attend_read.merges = 16;
    shapes[3].attend.tile_vectors = 64;
    for (const PassShape& shape : shapes)
      for (int round = 0; round < 3; ++round)
        given.graphs.run(shape, given.stream, [&] { ++given.enqueued; });
    CHECK(given.enqueued == 8);
  }
}
