#include "sim/injector/active_faults.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::sim;

namespace {

Scenario with(std::vector<Fault> faults) {
  Scenario s;
  s.faults = std::move(faults);
  return s;
}

}  // namespace

TEST_CASE("active faults: the strongest active fault of a kind on a node counts") {
  ActiveFaults faults(with({{FaultKind::loss, {100}, {500}, 4, 0, 0.3},
                            {FaultKind::loss, {200}, {100}, 4, 0, 0.8},
                            {FaultKind::loss, {200}, {900}, 5, 0, 0.9},
                            {FaultKind::delay, {200}, {900}, 4, 0, 1}}));
  CHECK(faults.strongest(FaultKind::loss, 4) == 0);
  for (std::size_t i = 0; i < faults.size(); ++i) faults.begin(i);
  CHECK(faults.count(FaultKind::loss) == 3);
  CHECK(faults.count(FaultKind::loss, 4) == 2);
  CHECK(faults.strongest(FaultKind::loss, 4) == 0.8);
  CHECK(faults.strongest_fault(FaultKind::loss, 0) == nullptr);
  CHECK(faults.last_end(FaultKind::loss, 4) == Instant{600});
  CHECK(faults.end(1));
  CHECK_FALSE(faults.end(1));
  CHECK(faults.strongest(FaultKind::loss, 4) == 0.3);
  CHECK(faults.slowness(FaultKind::loss, 4, 7).factor == 7);
  CHECK(faults.slowness(FaultKind::loss, 6, 7).factor == 1);
}

TEST_CASE("active faults: a fault is counted as acted once") {
  ActiveFaults faults(with({{FaultKind::kill, {100}, {500}, 4}}));
  CHECK_FALSE(faults.has_acted(0));
  CHECK(faults.set_acted(0));
  CHECK_FALSE(faults.set_acted(0));
  CHECK(faults.has_acted(0));
}

TEST_CASE("active faults: the draws of a fault depend on seed, kind, node and time only") {
  const Fault fault{FaultKind::disk_corrupt, {100}, {500}, 4};
  const auto first = [](const ActiveFaults& faults, const Fault& one, Instant now) {
    return faults.draws(one, now).next();
  };
  const ActiveFaults alone(with({fault})), beside(with({{FaultKind::kill, {50}, {900}, 5}, fault}));
  const std::uint64_t drawn = first(alone, fault, {100});
  CHECK(first(beside, fault, {100}) == drawn);
  CHECK(first(alone, fault, {101}) != drawn);
  CHECK(first(alone, {FaultKind::disk_corrupt, {100}, {500}, 5}, {100}) != drawn);
  CHECK(first(alone, {FaultKind::disk_swapped, {100}, {500}, 4}, {100}) != drawn);
  Scenario other = with({fault});
  other.seed = 2;
  CHECK(first(ActiveFaults(other), fault, {100}) != drawn);
}
