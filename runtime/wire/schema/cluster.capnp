@0xd091301b3f3ba1c6;
# The cluster: who is alive and how busy, who leads, which versions are served, how each node's memory is split.
#
# Who talks to whom
#   inference worker → routers          Heartbeat, no answer
#   router → inference worker           Versions, no answer; to those whose heartbeat shows an older epoch
#   router → routers                    Versions and Suspect, no answers
#   leading cache-meta → routers,
#     KV-cache workers                  LeaderBeat, no answer
#   allocator agent → KV-cache worker   SetSplit, answered by PoolReport
#   KV-cache worker → allocator agent   PoolReport, also on a timer
#   KV-cache worker → inference worker  LendPages, told again until it is answered by PagesLent
#   operator → any of these roles       Drain, answered by StatusReply
#   anyone → anyone                     StatusRequest, answered by StatusReply
#
# Order: none is assumed. `epoch` orders the splits of one incarnation of a worker, and the versions; a lower one than
# the last is ignored. `sequence` orders the heartbeats of one incarnation. `token` orders the leaders. A silence of three heartbeats is taken for a loss, so a Heartbeat or
# LeaderBeat may get lost. An `incarnation` that differs from the known one is another process: what the old one had
# is gone.
#
# GET /v1/cluster shows StatusReply as JSON. Mirrors runtime/actor/messages.h one to one.

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

struct AreaSplit {
  pages @0 :UInt64;
  least @1 :UInt64;                               # what it keeps whatever other areas would borrow of it
}

struct SetSplit {
  # allocator agent → KV-cache worker. Answered by PoolReport.
  incarnation @0 :UInt64;                         # of the worker that is meant
  epoch @1 :UInt64;
  obsoleteItemPages @2 :UInt64;
  obsoleteUserPages @3 :UInt64;
  areas @4 :List(AreaSplit);                      # in order of the pool's areas
}

struct AreaReport {
  pages @0 :UInt64;                               # of the split, with what was borrowed since, without what was lent
  used @1 :UInt64;
  hits @2 :UInt64;                                # blocks that requests wanted since the start, and that were there
  misses @3 :UInt64;
  savedUs @4 :Float64;                            # by those hits
  savings @5 :List(Float64);                      # what would have been, with 0 to 100 hundredths of the pool
}

struct ServedReport {
  # What a node's requests came to since the start.
  requests @0 :UInt64;
  hotRequests @1 :UInt64;                         # of users who come often
  userTokens @2 :UInt64;                          # of users' blocks
  latencies @3 :List(UInt64);                     # requests by the time for which they held blocks
}

struct PoolReport {
  # KV-cache worker → allocator agent.
  incarnation @0 :UInt64;
  epoch @1 :UInt64;                               # of the split that is in force
  obsoleteItemPagesUsed @2 :UInt64;
  obsoleteUserPagesUsed @3 :UInt64;
  obsoleteItemPages @4 :UInt64;
  obsoleteUserPages @5 :UInt64;
  areas @6 :List(AreaReport);                     # in order of the pool's areas
  served @7 :ServedReport;
}

struct LendPages {
  # KV-cache worker → inference worker of its node. Answered by PagesLent. One at a time.
  incarnation @0 :UInt64;                         # of both
  number @1 :UInt64;                              # orders them
  pages @2 :List(UInt32);                         # of the pool, that rows of embedding tables may fill
  giveBack @3 :UInt32;                            # how many it has to give back; as many as can be are
}

struct PagesLent {
  # inference worker → KV-cache worker.
  incarnation @0 :UInt64;
  number @1 :UInt64;
  givenBack @2 :List(UInt32);
  hits @3 :UInt64;                                # rows that passes wanted since the start, and that were there
  misses @4 :UInt64;
  savedUs @5 :Float64;                            # as AreaReport's
  savings @6 :List(Float64);
}

struct Heartbeat {
  # inference worker → every router, once per heartbeat and when draining starts or stops. No answer.
  incarnation @0 :UInt64;
  draining @1 :Bool;                              # takes no new plans
  lanes @2 :UInt32;
  lanesBusy @3 :UInt32;
  plansWaiting @4 :UInt32;
  obsoleteTokensWaiting @5 :UInt64;
  obsoleteUsPerToken @6 :Float64;
  plansExecuted @7 :UInt64;                       # since its start: progress
  versionsEpoch @8 :UInt64;                       # of the Versions it follows
  models @9 :List(Text);                          # loaded
  refusedModel @10 :Text;                         # the next model, if it can never be loaded here; "" if none
  refusedWhy @11 :Text;
  sequence @12 :UInt64;                           # counts them from 1 within an incarnation
  operationsWaiting @13 :Float64;                 # the work of the plans that wait, as far as known
  bytesWaiting @14 :Float64;
  passesWaiting @15 :Float64;
  usPerOperation @16 :Float64;                    # lane time per unit of work, lately; 0: nothing computed yet
  usPerByte @17 :Float64;
  usPerPass @18 :Float64;
  usPerRow @19 :Float64;                          # that is fetched from an embedding table that is not in memory
  shardRows @20 :UInt32;                          # of that table: consecutive rows that are a shard; 0: there is none
  rowsFound @21 :List(UInt8);                     # of each shard: hundredths of its rows that were wanted lately and found
}

struct Versions {
  # router → inference workers and routers. No answer.
  epoch @0 :UInt64;                               # revision of the hard state
  modelVersion @1 :Text;
  catalogVersion @2 :Text;
  nextModel @3 :Text;                             # to be loaded beside the present one; "" if none
  nextCatalog @4 :Text;                           # comes with nextModel; "" keeps the present one
  nextShare @5 :UInt32 = 1000;                    # thousandths of users that have nextModel; below 1000 both are served
}

struct Loss {
  # A process that seems lost, and is not if it says something later.
  node @0 :UInt32;
  process @1 :UInt64;                             # its incarnation
  proof @2 :UInt64;                               # a heartbeat of it with this number, or a higher one, shows that it lives
}

struct Strike {
  losses @0 :List(Loss);                          # that may turn out to be none
  sure @1 :Bool = true;
}

struct Suspect {
  # router → routers. No answer.
  fingerprint @0 :UInt64;                         # of tenant, user, profile version and candidates
  strikes @1 :UInt32;                             # workers lost while they ran it; 0: it ran well
  doubted @2 :List(Strike);                       # the latest of them; earlier ones are sure
}

struct LeaderBeat {
  # leading cache-meta → routers and KV-cache workers, once per heartbeat. No answer.
  token @0 :UInt64;                               # fencing token
}

struct Drain {
  # operator → router, inference worker or cache-meta, or, where its node leaves for good, KV-cache worker. Answered by StatusReply.
  id @0 :UInt64;
  on @1 :Bool = true;                             # false: serve again
  usersTo @2 :List(UInt32);                       # nodes that get the users' blocks of a KV-cache worker that leaves
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
