#pragma once
// Options of commands that ask a server on behalf of a user: the user's id, or a history in place of a
// stored user (docs/reference/request-fields.md).
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "deploy/commands/command_line.h"

namespace troupe::deploy {

struct AskerOptions {
  std::string user, unknown_user;
  std::vector<std::string> history;
  std::vector<std::int64_t> timestamps, actions;

  void add_to(Command command);
  bool is_given() const { return !user.empty() || !history.empty(); }
  // Returns the members of a request that say who asks. An empty item id stands for no events.
  nlohmann::json members() const;
};

}  // namespace troupe::deploy
