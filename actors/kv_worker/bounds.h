#pragma once
// Texts about exceeded bounds, for the checkers of tests and of the simulation.
#include <cstddef>
#include <initializer_list>
#include <string>

namespace troupe::actors {

// Returns "" if the bound is kept, otherwise e.g. "pulls: 6 of 4".
inline std::string bound_fault(const char* what, std::size_t is, std::size_t max) {
  return is <= max ? "" : std::string(what) + ": " + std::to_string(is) + " of " + std::to_string(max);
}

// Returns the first text that is not empty; "" if there is none.
inline std::string first_fault(std::initializer_list<std::string> faults) {
  for (const std::string& fault : faults)
    if (!fault.empty()) return fault;
  return "";
}

}  // namespace troupe::actors
