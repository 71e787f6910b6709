// Declares the options that name a user or give a history, and makes the members of a request of them.
#include "deploy/commands/asker_options.h"

namespace troupe::deploy {

using nlohmann::json;

void AskerOptions::add_to(Command command) {
  const Option id = command.add_option("--user", user, "User id");
  Option events = command
                      .add_option("--history", history,
                                  "History in place of a stored user: item ids, oldest first, separated by "
                                  "commas; \"\": a user without events")
                      .comma_separated()
                      .excludes(id);
  command
      .add_option("--timestamps", timestamps,
                  "Times of the history's events, in seconds since 1970, for models that read them")
      .comma_separated()
      .needs(events);
  command.add_option("--actions", actions, "Actions of the history's events, for models that read them")
      .comma_separated()
      .needs(events);
  command
      .add_option("--unknown-user", unknown_user,
                  "Treatment of a user that is not stored: answered as one without events, or refused; "
                  "default: as configured")
      .one_of({"cold", "refuse"});
}

json AskerOptions::members() const {
  json members = json::object();
  if (!unknown_user.empty()) members["unknown_user"] = unknown_user;
  if (history.empty()) {
    members["user"] = user;
    return members;
  }
  members["history"] = json::array();
  for (const std::string& item : history)
    if (!item.empty()) members["history"].push_back(item);
  if (!timestamps.empty()) members["timestamps"] = timestamps;
  if (!actions.empty()) members["actions"] = actions;
  return members;
}

}  // namespace troupe::deploy
