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
# GET /v1/cluster shows StatusReply as JSON. The C++ structs have the members in the order of this
# file. Comments on a member follow it.

using Cxx = import "/capnp/c++.capnp";
using Json = import "/capnp/compat/json.capnp";
using Notes = import "annotations.capnp";
using internal = Notes.internal;
using ifAny = Notes.ifAny;
using cppType = Notes.cppType;
using cppMembers = Notes.cppMembers;
using Serving = import "serving.capnp";
using Serving.RequestId;
using Serving.NodeId;
$Cxx.namespace("troupe::schema");

using Incarnation = UInt64;
# Number of a process: every start of a node gets a larger one than all before it. 0 = none.

enum Role $cppType("Role") {
  door @0 $Cxx.name("server");
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
  incarnation @0 :Incarnation;                    # incarnation of the addressed worker
  epoch @1 :UInt64;
  areas @4 :List(AreaSplit);
  # In order of the pool's areas (the table in runtime/pool/pool_areas.h).

  obsoleteItemPages @2 :UInt64;
  obsoleteUserPages @3 :UInt64;
}

struct AreaReport {
  pages @0 :UInt64;
  # Pages of the split, plus pages borrowed since, less pages lent.
  used @1 :UInt64;
  hits @2 :UInt64;                                # wanted blocks, or rows, that were present, since the start
  misses @3 :UInt64;                              # wanted blocks, or rows, that were missing, since the start
  savedUs @4 :Float64;                            # microseconds that those hits saved
  savings @5 :List(Float64);
  # Microseconds that would have been saved with each share of the pool, 0 to 100 hundredths; never
  # falls with the share. Empty = not measured.
}

struct ServedReport {
  # Totals of a node's requests since the start, each from when its blocks were wanted until they were
  # released.
  requests @0 :UInt64;
  hotRequests @1 :UInt64;                         # requests of frequent users
  userTokens @2 :UInt64;                          # tokens of users' blocks
  latencies @3 :List(UInt64);
  # Histogram of request times (placement/split/latency_counts.h).
}

struct PoolReport {
  # KV-cache worker → allocator agent, after each SetSplit and on a timer.
  incarnation @0 :Incarnation;
  epoch @1 :UInt64;                               # epoch of the split in force
  areas @6 :List(AreaReport);                     # in order of the pool's areas
  served @7 :ServedReport;

  obsoleteItemPagesUsed @2 :UInt64;
  obsoleteUserPagesUsed @3 :UInt64;
  obsoleteItemPages @4 :UInt64;
  obsoleteUserPages @5 :UInt64;
}

struct LendPages {
  # KV-cache worker → inference worker of its node, which keeps rows of embedding tables. Only one is
  # outstanding; it is repeated until PagesLent answers it.
  incarnation @0 :Incarnation;                    # incarnation of both actors: they share one process
  number @1 :UInt64;
  # Counts these messages from 1: an earlier one is ignored, the same one is answered again.
  pages @2 :List(UInt32);
  # Pages of the pool's row area that rows of embedding tables may fill from now on.
  giveBack @3 :UInt32;
  # Pages to give back; the worker may give back fewer while rows are being read.
}

struct PagesLent {
  # inference worker → KV-cache worker.
  incarnation @0 :Incarnation;
  number @1 :UInt64;
  givenBack @2 :List(UInt32);                     # pages that are no longer read or written
  hits @3 :UInt64;                                # wanted rows that were present, since the start
  misses @4 :UInt64;                              # wanted rows that were missing, since the start
  savedUs @5 :Float64;                            # as in AreaReport
  savings @6 :List(Float64);
}

struct Heartbeat {
  # inference worker → every router, once per heartbeat and whenever it starts or stops draining. No
  # answer.
  incarnation @0 :Incarnation;
  sequence @12 :UInt64;
  # Counts heartbeats from 1 within an incarnation: an older one is ignored.
  draining @1 :Bool;                              # accepts no new plans
  lanes @2 :UInt32 $Cxx.name("slots");
  lanesBusy @3 :UInt32 $Cxx.name("slotsBusy");
  plansWaiting @4 :UInt32;                        # plans that do not run yet
  operationsWaiting @13 :Float64;
  # Work of the waiting plans, as far as known (placement/cost/work.h).
  bytesWaiting @14 :Float64;
  passesWaiting @15 :Float64;
  usPerOperation @16 :Float64;
  # Recent executor time per unit of work; 0 = nothing was computed yet.
  usPerByte @17 :Float64;
  usPerPass @18 :Float64;
  plansExecuted @7 :UInt64;                       # since the start; shows progress
  versionsEpoch @8 :UInt64;                       # epoch of the Versions that it follows
  models @9 :List(Text);                          # loaded models, in order of version
  refusedModel @10 :Text;
  # Next model of those Versions if it cannot be loaded here, however often that is tried; otherwise "".
  refusedWhy @11 :Text;                           # the reason
  usPerRow @19 :Float64;
  # For a table that is not in memory: recent time to fetch a row.
  shardRows @20 :UInt32;
  # Consecutive rows per shard of that table; 0 = no such table.
  rowsFound @21 :List(UInt8) $ifAny;
  # Per shard: hundredths of its recently wanted rows that were found.

  obsoleteTokensWaiting @5 :UInt64;
  obsoleteUsPerToken @6 :Float64;
}

struct Versions $cppMembers(
    "bool is_shared() const { return !next_model.empty() && next_share < all_users; }") {
  # router → inference workers whose heartbeat shows an older epoch, and routers. No answer. Model and
  # catalog to which new requests are pinned. Hard state: an actor that hears of a higher epoch
  # follows it.
  epoch @0 :UInt64;                               # revision of the hard state in the Coordination
  modelVersion @1 :Text;
  catalogVersion @2 :Text;
  nextModel @3 :Text;                             # model to be loaded beside the present one; "" = none
  nextCatalog @4 :Text;
  # Catalog that changes in the same step as nextModel; "" = the present one stays.
  const allUsers :UInt32 = 1000;
  nextShare @5 :UInt32 = .Versions.allUsers;
  # Thousandths of users that get nextModel once every worker has loaded it. All users: it becomes the
  # present model. Fewer: both models are served, chosen by user, until the operator decides
  # otherwise.
}

struct Loss {
  # A process that seems lost.
  node @0 :NodeId;
  process @1 :Incarnation;
  proof @2 :UInt64;
  # The process is alive if it sends a heartbeat with this number or a higher one.
}

struct Strike {
  # A strike against a request: one for all losses of concurrent runs, otherwise one per run. It counts
  # while at least one of the losses may be true.
  losses @0 :List(Loss);                          # losses that may turn out to be false
  sure @1 :Bool = true;
}

struct Suspect {
  # router → routers: a request of this content was running on workers that were lost (promise 12). No
  # answer.
  fingerprint @0 :UInt64;                         # hash of tenant, user, profile version and candidates
  strikes @1 :UInt32;                             # workers lost while they ran it; 0 = it ran successfully
  doubted @2 :List(Strike) $Cxx.name("uncertain");  # the latest strikes; earlier ones are certain
}

struct LeaderBeat {
  # leading cache-meta → routers and KV-cache workers, once per heartbeat. No answer.
  token @0 :UInt64;                               # fencing token: the revision at which it became leader
}

struct Drain {
  # operator → router, inference worker or cache-meta: accept nothing new and finish what runs.
  # operator → KV-cache worker, if its node leaves for good: migrate blocks to other nodes. Answered by
  # StatusReply, whose field "drained" is "yes" when nothing is left; the operator repeats the command
  # until then (promise 13).
  id @0 :RequestId;
  on @1 :Bool = true;                             # false = serve again
  usersTo @2 :List(NodeId) $Cxx.name("userTargets");
  # Nodes that receive the users' blocks of a KV-cache worker that leaves for good.
}

struct StatusRequest {
  # anyone → anyone. Answered by StatusReply.
  id @0 :RequestId;
}

struct StatusField {
  name @0 :Text;
  value @1 :Text;
}

struct StatusReply {
  id @0 :RequestId $internal;
  node @1 :NodeId;
  role @2 :Role;
  ready @3 :Bool;                                 # this actor can serve
  fields @4 :List(StatusField);                   # for human readers: facts that the actor chooses to show
}
