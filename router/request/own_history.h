#pragma once
// The history that a request has in place of a user: from a client that keeps histories itself, or of
// a visitor without an id. It becomes a profile by the rules of a stored one, so its plans and the
// names of its blocks are those of a stored user with the same events.
#include <optional>
#include <string>

#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

// True if the request has its own history, even an empty one. A sender from before `own_history` says
// so by the events alone.
template <class Request>
bool has_own_history(const Request& request) {
  return request.own_history || !request.history.empty() || !request.history_tokens.empty();
}

template <class Request>
std::optional<GivenHistory> own_history(const Request& request) {
  if (!has_own_history(request)) return std::nullopt;
  return GivenHistory{request.history, request.history_tokens, request.event_features};
}

// Returns the name of the user whose blocks those of this history are. It depends on the first events
// alone, so that a history keeps its home and its accesses are counted together while it grows. No user
// has such an id: it has U+0000.
std::string own_history_user(const GivenHistory& given);

// Returns the id of the request's user, or that of its own history.
template <class Request>
std::string history_user(const Request& request) {
  const std::optional<GivenHistory> given = own_history(request);
  return given ? own_history_user(*given) : request.user;
}

// Refuses a history without events for a model that scores items by the state after the last one.
template <class Request>
Refusal empty_history(const Request& request) {
  const bool own = has_own_history(request);
  return {RefusalKind::unprocessable, "empty_history",
          own ? "the history is empty" : "user \"" + request.user + "\" has no events",
          own ? "history" : "user",
          "at least one event, because the model scores items by its state after the last one"};
}

}  // namespace troupe::router
