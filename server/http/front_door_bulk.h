#pragma once
// Where a request of many lines is: some lines at a time are with the actors; when all have their results,
// these are written, and the next are read. So it keeps that many lines, however many come, and a client that
// does not take its results gets no more.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "server/http/front_door_server.h"

namespace troupe::server {

struct FrontDoor::Session::Bulk {
  static constexpr std::size_t lines_at_once = 32;

  BulkKind kind = BulkKind::users;
  std::uint64_t lines = 0, failed = 0;  // so far, and of those
  std::size_t open = 0;                 // of those at hand, without a result
  std::vector<std::string> results;     // of those at hand
  std::set<std::string> subjects;       // that those at hand change
  std::string later;                    // a line that waits for one of those
  std::string out;                      // being written
  std::size_t bytes = 0;                // written, and being written
  bool begun = false, ended = false;    // the answer
};

}  // namespace troupe::server
