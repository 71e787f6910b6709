@0xd091301b3f3ba1c6;
# The cluster: liveness and load, leadership, served versions, and the split of each node's memory.
#
# Who talks to whom
#   inference worker → routers          Heartbeat, no answer
#   router → inference worker           Versions, no answer; if its heartbeat shows an older epoch
#   router → routers                    Versions and Suspect, no answers
#   leading cache-meta → routers,
#     KV-cache workers                  LeaderBeat, no answer
#   allocator agent → KV-cache worker   SetSplit, answered by PoolReport
#   KV-cache worker → allocator agent   PoolReport, also on a timer
#   KV-cache worker → inference worker  LendPages, repeated until PagesLent answers it
#   operator → any of these roles       Drain, answered by StatusReply
#   anyone → anyone                     StatusRequest, answered by StatusReply
#
# Order: none is assumed. `epoch` orders the splits of one incarnation of a worker, and the
# versions; a lower epoch than the last one is ignored. `sequence` orders the heartbeats of one
# incarnation. `token` orders the leaders. Three missing heartbeats count as a loss, so a single
# Heartbeat or LeaderBeat may get lost. An `incarnation` that differs from the known one belongs to
# another process: the state of the old one is gone.
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
  least @1 :UInt64;                               # minimum that other areas cannot borrow
}

struct SetSplit {
  # allocator agent → KV-cache worker. Answered by PoolReport.
  incarnation @0 :UInt64;                         # incarnation of the addressed worker
  epoch @1 :UInt64;
  obsoleteItemPages @2 :UInt64;
  obsoleteUserPages @3 :UInt64;
  areas @4 :List(AreaSplit);                      # in order of the pool's areas
}

struct AreaReport {
  pages @0 :UInt64;                               # pages of the split, plus pages borrowed since, less pages
                                                  # lent
  used @1 :UInt64;
  hits @2 :UInt64;                                # wanted blocks that were present, since the start
  misses @3 :UInt64;
  savedUs @4 :Float64;                            # microseconds that those hits saved
  savings @5 :List(Float64);                      # microseconds that would have been saved with 0 to 100
                                                  # hundredths of the pool
}

struct ServedReport {
  # Totals of a node's requests since the start.
  requests @0 :UInt64;
  hotRequests @1 :UInt64;                         # requests of frequent users
  userTokens @2 :UInt64;                          # tokens of users' blocks
  latencies @3 :List(UInt64);                     # histogram of the times for which requests held blocks
}

struct PoolReport {
  # KV-cache worker → allocator agent.
  incarnation @0 :UInt64;
  epoch @1 :UInt64;                               # epoch of the split in force
  obsoleteItemPagesUsed @2 :UInt64;
  obsoleteUserPagesUsed @3 :UInt64;
  obsoleteItemPages @4 :UInt64;
  obsoleteUserPages @5 :UInt64;
  areas @6 :List(AreaReport);                     # in order of the pool's areas
  served @7 :ServedReport;
}

struct LendPages {
  # KV-cache worker → inference worker of its node. Answered by PagesLent. One at a time.
  incarnation @0 :UInt64;                         # incarnation of both actors
  number @1 :UInt64;                              # counts these messages from 1
  pages @2 :List(UInt32);                         # pages of the pool that rows of embedding tables may fill
  giveBack @3 :UInt32;                            # pages to give back; fewer are given back while rows are
                                                  # read
}

struct PagesLent {
  # inference worker → KV-cache worker.
  incarnation @0 :UInt64;
  number @1 :UInt64;
  givenBack @2 :List(UInt32);
  hits @3 :UInt64;                                # wanted rows that were present, since the start
  misses @4 :UInt64;
  savedUs @5 :Float64;                            # as in AreaReport
  savings @6 :List(Float64);
}

struct Heartbeat {
  # inference worker → every router, once per heartbeat and when draining starts or stops. No answer.
  incarnation @0 :UInt64;
  draining @1 :Bool;                              # accepts no new plans
  lanes @2 :UInt32;
  lanesBusy @3 :UInt32;
  plansWaiting @4 :UInt32;
  obsoleteTokensWaiting @5 :UInt64;
  obsoleteUsPerToken @6 :Float64;
  plansExecuted @7 :UInt64;                       # since the start; shows progress
  versionsEpoch @8 :UInt64;                       # epoch of the Versions that it follows
  models @9 :List(Text);                          # loaded model versions
  refusedModel @10 :Text;                         # the next model, if it can never be loaded here; otherwise
                                                  # ""
  refusedWhy @11 :Text;
  sequence @12 :UInt64;                           # counts heartbeats from 1 within an incarnation
  operationsWaiting @13 :Float64;                 # work of the waiting plans, as far as known
  bytesWaiting @14 :Float64;
  passesWaiting @15 :Float64;
  usPerOperation @16 :Float64;                    # recent executor time per unit of work; 0 = nothing
                                                  # computed yet
  usPerByte @17 :Float64;
  usPerPass @18 :Float64;
  usPerRow @19 :Float64;                          # recent time to fetch a row of a table that is not in
                                                  # memory
  shardRows @20 :UInt32;                          # consecutive rows per shard of that table; 0 = no such
                                                  # table
  rowsFound @21 :List(UInt8);                     # per shard: hundredths of its recently wanted rows that
                                                  # were found
}

struct Versions {
  # router → inference workers and routers. No answer.
  epoch @0 :UInt64;                               # revision of the hard state
  modelVersion @1 :Text;
  catalogVersion @2 :Text;
  nextModel @3 :Text;                             # to be loaded beside the present one; "" = none
  nextCatalog @4 :Text;                           # changes together with nextModel; "" keeps the present one
  nextShare @5 :UInt32 = 1000;                    # thousandths of users that get nextModel; below 1000 both
                                                  # models are served
}

struct Loss {
  # A process that seems lost. A later heartbeat shows that it is alive.
  node @0 :UInt32;
  process @1 :UInt64;                             # its incarnation
  proof @2 :UInt64;                               # a heartbeat with this number or a higher one shows that it
                                                  # is alive
}

struct Strike {
  losses @0 :List(Loss);                          # losses that may turn out to be false
  sure @1 :Bool = true;
}

struct Suspect {
  # router → routers. No answer.
  fingerprint @0 :UInt64;                         # hash of tenant, user, profile version and candidates
  strikes @1 :UInt32;                             # workers lost while they ran it; 0 = it ran successfully
  doubted @2 :List(Strike);                       # the latest strikes; earlier ones are certain
}

struct LeaderBeat {
  # leading cache-meta → routers and KV-cache workers, once per heartbeat. No answer.
  token @0 :UInt64;                               # fencing token
}

struct Drain {
  # operator → router, inference worker or cache-meta, or, if its node leaves for good, KV-cache
  # worker. Answered by StatusReply.
  id @0 :UInt64;
  on @1 :Bool = true;                             # false = serve again
  usersTo @2 :List(UInt32);                       # nodes that receive the users' blocks of a leaving KV-cache
                                                  # worker
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
  fields @4 :List(StatusField);                   # for human readers: facts that the actor chooses to show
}
