#pragma once
// Forwards the requests of a node's server of HTTP and gRPC to actors. Requests for a router go to one
// that is connected, if this node has none. Requests that go to this node's own routers can be
// captured on the way (`troupe trace capture`).
#include <functional>
#include <map>

#include "deploy/node/membership.h"
#include "deploy/tracing/trace_capture.h"
#include "runtime/actor/core.h"
#include "runtime/actor/model_actor_ids.h"

namespace troupe::deploy {

class RequestForwarder {
 public:
  using Post = std::function<void(Address to, Message message)>;

  // `peers` must outlive this object.
  RequestForwarder(ModelActorIds actor_ids, const ConnectedPeers& peers, Post post);

  // Returns the capture of a router of this node. Called before the first request.
  TraceCapture& capture_of(NodeId router) { return captures_[router]; }

  // Both are called by the threads of the servers and the host.
  void forward(Address to, Message message);
  void note_reply(const Message& reply);  // for the captures; every reply that comes back

 private:
  Address connected_router(Address router) const;

  const ModelActorIds actor_ids_;
  const ConnectedPeers& peers_;
  const Post post_;
  std::map<NodeId, TraceCapture> captures_;  // by actor id of the router
};

}  // namespace troupe::deploy
