// Chooses the router of a server's request, shows the request to its capture, and posts it.
#include "deploy/node/request_forwarder.h"

#include <chrono>
#include <utility>

namespace troupe::deploy {
namespace {

std::int64_t forwarded_at_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

RequestForwarder::RequestForwarder(ModelActorIds actor_ids, const ConnectedPeers& peers, Post post)
    : actor_ids_(actor_ids), peers_(peers), post_(std::move(post)) {}

void RequestForwarder::forward(Address to, Message message) {
  if (to.role == Role::router && !std::holds_alternative<StatusRequest>(message)) to = connected_router(to);
  if (const auto of = captures_.find(to.node); of != captures_.end())
    of->second.on_request(message, forwarded_at_us());
  post_(to, std::move(message));
}

void RequestForwarder::note_reply(const Message& reply) {
  for (auto& [router, capture] : captures_) capture.on_reply(reply);
}

Address RequestForwarder::connected_router(Address router) const {
  const NodeId node = peers_.router(actor_ids_.node_of(router.node));
  return {actor_ids_.number(node, actor_ids_.model_of(router.node)), Role::router};
}

}  // namespace troupe::deploy
