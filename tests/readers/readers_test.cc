// Tests that no external byte is stored before its total is bounded: each reader of readers.h is given a
// terabyte, or something that never ends, and must keep its bound.
#include "tests/readers/readers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <set>

#include "tests/readers/attack.h"
#include "tests/readers/memory_peak.h"

using namespace troupe::readers;

namespace {

struct Outcome {
  std::string said;
  std::size_t most = 0;
};

Outcome outcome_of(const Attack& attack) {
  Outcome outcome;
  const MemoryPeak memory;
  try {
    outcome.said = attack.run();
  } catch (const std::exception& error) {
    outcome.said = error.what();
  }
  outcome.most = memory.most();
  return outcome;
}

void check(const std::vector<Attack>& attacks) {
  for (const Attack& attack : attacks) {
    CAPTURE(attack.reader);
    CAPTURE(attack.name);
    const Outcome outcome = outcome_of(attack);
    std::cout << attack.reader << ": " << attack.name << ": " << outcome.most / kib << " of "
              << attack.bytes_max / kib << " KiB" << std::endl;
    CHECK(outcome.most <= attack.bytes_max);
    for (const std::string& part : attack.says)
      CHECK_MESSAGE(outcome.said.find(part) != std::string::npos, outcome.said.substr(0, 600), "; expected ",
                    part);
  }
}

}  // namespace

TEST_SUITE("readers") {
  TEST_CASE("memory peak: requested terabytes and allocated mebibytes are both measured") {
    if (!MemoryPeak::works()) return;
    const MemoryPeak memory;
    void* volatile taken = std::malloc(mib);  // volatile, so that the compiler keeps it
    CHECK(memory.most() >= mib);
    CHECK(memory.most() < 2 * mib);
    CHECK_THROWS_AS(std::string().reserve(std::size_t{1} << 46), std::bad_alloc);
    CHECK(memory.most() >= std::size_t{1} << 46);
    std::free(taken);
  }

  TEST_CASE("readers: clients, peers and servers that announce much or never end are bounded") {
    check(network_attacks());
  }
  TEST_CASE("readers: a transport peer that sends much is bounded") { check(ucx_attacks()); }
  TEST_CASE("readers: files that announce much or never end are bounded") { check(file_attacks()); }
  TEST_CASE("readers: a store whose files announce much is bounded") { check(store_attacks()); }

  TEST_CASE("readers: exactly the readers of the table are attacked") {
    std::set<std::string_view> named(std::begin(parsers), std::end(parsers)), attacked;
    for (const ReaderFile& reader : reader_files) {
      CHECK(reader.attacks.empty() != reader.harmless.empty());
      if (!reader.attacks.empty()) named.insert(reader.attacks);
    }
    for (const auto& attacks : {network_attacks(), file_attacks(), store_attacks(), ucx_attacks()})
      for (const Attack& attack : attacks) attacked.insert(attack.reader);
    CHECK(std::vector(named.begin(), named.end()) == std::vector(attacked.begin(), attacked.end()));
  }
}
