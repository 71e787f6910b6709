#pragma once
// Test helpers: read the effects of a part of a core.
#include <utility>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe::actors {

template <class T>
std::vector<T> sent(const Effects& effects) {
  std::vector<T> found;
  for (const auto& effect : effects.list)
    if (const auto* send = std::get_if<Effects::Send>(&effect))
      if (const auto* message = std::get_if<T>(&send->message)) found.push_back(*message);
  return found;
}

// Returns the started jobs of one kind: id and work.
template <class T>
std::vector<std::pair<std::uint64_t, T>> started(const Effects& effects) {
  std::vector<std::pair<std::uint64_t, T>> found;
  for (const auto& effect : effects.list)
    if (const auto* start = std::get_if<Effects::Start>(&effect))
      if (const auto* work = std::get_if<T>(&start->work)) found.emplace_back(start->job, *work);
  return found;
}

}  // namespace troupe::actors
