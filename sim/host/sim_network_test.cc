#include "sim/host/sim_network.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace troupe;

namespace {

constexpr SimNetwork::Link exact{.latency_min = {10}, .latency_max = {10}, .bytes_per_us = 100};

struct Net {
  SimNetwork network{7};
  Net() { network.set_default(exact); }

  std::vector<Instant> carry(NodeId from, NodeId to, std::uint64_t bytes = 0, Instant now = {}) {
    std::vector<Instant> arrivals{{-1}};
    network.carry(now, from, to, bytes, arrivals);
    return arrivals;
  }
  bool arrives(NodeId from, NodeId to) { return !carry(from, to).empty(); }
};

using Times = std::vector<Instant>;

}  // namespace

TEST_CASE_FIXTURE(Net, "sim network: a message waits for earlier ones at its sender's card, and only there") {
  CHECK(carry(1, 2, 1000) == Times{{20}});
  CHECK(carry(1, 3, 500) == Times{{25}});
  CHECK(carry(2, 3, 500) == Times{{15}});
  CHECK(network.transfer({0}, 1, 2, 10'000) == Duration{125});
  CHECK(carry(1, 2, 100, {50}) == Times{{126}});
  CHECK(carry(1, 2, 100, {500}) == Times{{511}});
}

TEST_CASE_FIXTURE(Net, "sim network: messages of less than a microsecond add up at the card") {
  for (int i = 0; i < 99; ++i) carry(1, 2, 10);
  CHECK(carry(1, 2, 10) == Times{{20}});
}

TEST_CASE_FIXTURE(Net, "sim network: a link set for one direction holds until it is cleared") {
  network.set_link(1, 2, {.latency_min = {500}, .latency_max = {500}});
  CHECK(carry(1, 2) == Times{{500}});
  CHECK(carry(2, 1) == Times{{10}});
  network.clear_link(1, 2);
  CHECK(carry(1, 2) == Times{{10}});
}

TEST_CASE_FIXTURE(Net, "sim network: cuts are one-way and counted; a bulk transfer needs both ways") {
  network.cut(1, 2);
  network.cut(1, 2);
  CHECK_FALSE(arrives(1, 2));
  CHECK(arrives(2, 1));
  CHECK_FALSE(network.transfer({}, 1, 2, 1));
  CHECK_FALSE(network.transfer({}, 2, 1, 1));
  network.mend(1, 2);
  CHECK(network.is_cut(1, 2));
  network.mend(1, 2);
  CHECK(arrives(1, 2));
  CHECK(network.transfer({}, 1, 2, 1));
}

TEST_CASE_FIXTURE(Net,
                  "sim network: an isolated node reaches only itself, whatever else was cut and mended") {
  network.isolate(1);
  network.isolate(1);
  network.cut(1, 2);
  network.mend(1, 2);
  network.rejoin(1);
  CHECK_FALSE(arrives(1, 2));
  CHECK_FALSE(arrives(3, 1));
  CHECK(arrives(2, 3));
  CHECK_FALSE(network.is_cut(1, 1));
  network.rejoin(1);
  CHECK(arrives(1, 2));
}

TEST_CASE_FIXTURE(Net, "sim network: loss, duplication and reordering occur at the link's rates") {
  network.set_default({.latency_min = {10},
                       .latency_max = {10},
                       .lose_ppm = 100'000,
                       .double_ppm = 200'000,
                       .reorder_ppm = 300'000,
                       .reorder_max = {1000}});
  int lost = 0, doubled = 0, late = 0;
  for (int i = 0; i < 10'000; ++i) {
    const Times at = carry(1, 2);
    lost += at.empty();
    doubled += at.size() == 2;
    late += !at.empty() && at[0] > Instant{10};
    if (!at.empty()) CHECK(at[0] <= Instant{1010});
  }
  CHECK(std::abs(lost - 1000) < 150);
  CHECK(std::abs(doubled - 1800) < 200);
  CHECK(std::abs(late - 2700) < 250);
}

TEST_CASE("sim network: a fault on one link does not change the draws of other messages and senders") {
  const auto others = [](bool fault) {
    SimNetwork network(3);
    if (fault) network.cut(1, 2);
    if (fault) network.set_link(1, 3, {.lose_ppm = 1'000'000});
    std::vector<Instant> all, arrivals;
    for (std::int64_t i = 0; i < 100; ++i) {
      network.carry({i}, 1, 2, 1, arrivals);
      network.carry({i}, 1, 3, 1, arrivals);
      for (const auto& [from, to] : {std::pair<NodeId, NodeId>(1, 4), {5, 2}}) {
        network.carry({i}, from, to, 1, arrivals);
        all.insert(all.end(), arrivals.begin(), arrivals.end());
      }
    }
    return all;
  };
  CHECK(others(false).size() == 200);
  CHECK(others(false) == others(true));
}
