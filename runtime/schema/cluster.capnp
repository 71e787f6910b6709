@0xd091301b3f3ba1c6;
# The cluster: how each node's memory is split, and how any actor is doing.
#
# Who talks to whom
#   allocator agent → KV-cache worker   SetSplit, answered by PoolReport
#   KV-cache worker → allocator agent   PoolReport, also on a timer
#   anyone → anyone                     StatusRequest, answered by StatusReply
#
# Order: `epoch` orders the splits. A worker ignores a SetSplit whose epoch is not above the last it applied; an
# agent ignores a PoolReport of an older epoch.
#
# GET /v1/cluster shows StatusReply as JSON. Mirrors runtime/messages.h one to one.

using Cxx = import "/capnp/c++.capnp";
using Json = import "/capnp/compat/json.capnp";
using Serving = import "serving.capnp";
$Cxx.namespace("troupe::schema");

enum Role {
  door @0;
  router @1;
  cacheMeta @2 $Json.name("cache_meta");
  kvWorker @3 $Json.name("kv_worker");
  inferenceWorker @4 $Json.name("inference_worker");
  allocator @5;
}

struct SetSplit {
  # allocator agent → KV-cache worker. Answered by PoolReport.
  epoch @0 :UInt64;
  itemPages @1 :UInt64;
  userPages @2 :UInt64;
}

struct PoolReport {
  # KV-cache worker → allocator agent.
  epoch @0 :UInt64;                               # of the split that is in force
  itemPagesUsed @1 :UInt64;
  userPagesUsed @2 :UInt64;
  itemPages @3 :UInt64;
  userPages @4 :UInt64;
}

struct StatusRequest {
  # anyone → anyone. Answered by StatusReply.
  id @0 :UInt64;
}

struct StatusField {
  name @0 :Text;
  value @1 :Text;
}

struct StatusReply {
  id @0 :UInt64 $Serving.internal;
  node @1 :UInt32;
  role @2 :Role;
  ready @3 :Bool;                                 # this actor can serve
  fields @4 :List(StatusField);                   # for people: whatever the actor wants to show
}
