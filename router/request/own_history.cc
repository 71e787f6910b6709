// Names the owner of a history that comes with its request.
#include "router/request/own_history.h"

#include <algorithm>
#include <charconv>

#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace {

// Enough that few different histories begin alike; a history has its final name from this length on.
constexpr std::size_t naming_events = 8;

template <class List>
std::size_t named(const List& list) {
  return std::min(list.size(), naming_events);
}

}  // namespace

std::string own_history_user(const GivenHistory& given) {
  std::string events;
  for (std::size_t i = 0; i < named(given.history); ++i) events += given.history[i] + '\0';
  for (std::size_t i = 0; i < named(given.tokens); ++i) events += std::to_string(given.tokens[i]) + '\0';
  for (const Feature& feature : given.features)
    for (std::size_t i = 0; i < named(feature.values); ++i)
      events += std::to_string(feature.values[i]) + '\0';
  char hash[17] = {};
  constexpr int hexadecimal = 16;
  std::to_chars(hash, hash + sizeof hash - 1, user_hash("", events), hexadecimal);
  return '\0' + std::string("history ") + hash;
}

}  // namespace troupe::router
