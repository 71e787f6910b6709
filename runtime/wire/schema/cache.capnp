@0xc3ddc1a0d5143acb;
# The cache: finding blocks, pinning and writing them, and keeping the index up to date.
#
# Who talks to whom
#   router → cache-meta                 LookupBlocks, answered by BlocksFound; Forget, no answer
#   inference worker → KV-cache worker  of the same node: AcquireBlocks, answered by BlocksAcquired;
#                                       ReleaseBlocks, no answer
#   KV-cache worker → KV-cache worker   AcquireBlocks and ReleaseBlocks, with `readOnly` around a pull
#                                       of pages; without it, a leaving worker offers its blocks, after
#                                       a LookupBlocks to a cache-meta
#   KV-cache worker → every cache-meta  CacheChanges, no answer
#   cache-meta → KV-cache workers       InventoryRequest, answered by InventoryPart; Forget, no answer
#
# Order: an AcquireBlocks precedes the ReleaseBlocks of the same id. Between nodes the release may
# be lost (the lease ends by itself), late or doubled. CacheChanges carry a sequence number within
# an incarnation; the inventory repairs a gap. The index is soft state: a wrong index costs a miss,
# never a wrong block.
#
# The C++ structs have the members in the order of this file. Comments on a member follow it.

using Cxx = import "/capnp/c++.capnp";
using Notes = import "annotations.capnp";
using ifAny = Notes.ifAny;
using cppType = Notes.cppType;
using cppDefault = Notes.cppDefault;
using Serving = import "serving.capnp";
using Serving.RequestId;
using Serving.NodeId;
using Serving.BlockName;
using Serving.Micros;
using Cluster = import "cluster.capnp";
using Cluster.Incarnation;
$Cxx.namespace("troupe::schema");

struct BlockQuery {
  name @0 :BlockName;
  kind @1 :Serving.SegmentKind $cppDefault("SegmentKind::item");
  # Users and items have separate popularity.
  tokens @2 :UInt32;                              # tokens that it would take in the pool
}

struct LookupBlocks {
  # router → cache-meta. Answered by BlocksFound. BAT's "read": asks which of these blocks exist, which
  # nodes hold them, and how popular their users and items are.
  id @0 :RequestId;
  user @1 :Text;                                  # tenant-qualified key; "" = the request has no user
  blocks @8 :List(BlockQuery);                    # blocks of all plans that could answer the request
  prefer @5 :List(NodeId);
  # Nodes that may run the plan; they are named first among many holders.
  countAccess @6 :Bool = true;
  # Counts one access of the user and of each item's block; background precomputation does not count.
  allHolders @7 :Bool;                            # false = names only a few of many holders
  trace @9 :Serving.TraceContext $ifAny;

  obsoleteUserBlock @2 :BlockName;
  obsoleteUserTokens @3 :UInt32;
  obsoleteItemBlocks @4 :List(BlockName);
}

struct BlocksFound {
  # cache-meta → router.
  id @0 :RequestId;
  counts @2 :List(UInt8);                         # number of `holders` for each of LookupBlocks.blocks
  holders @3 :List(NodeId);
  # Holders of all blocks in one list: the first counts[0] belong to LookupBlocks.blocks[0], and so on.
  uses @9 :List(Float64);
  # Expected further uses of each block, if it were kept as long as others. For a user's block: from
  # how often such blocks are wanted again. For an item's block: its earlier uses in the window, or 0
  # while no node that may run the plan has free pages.
  userFrequency @4 :Float64;                      # accesses in the sliding window, including this one
  coldestFrequency @5 :Float64;
  # Lowest frequency of the cached user blocks; 0 while the user area has free pages for the requested
  # block.
  coldest @6 :List(BlockName);
  # User blocks to evict, coldest first, enough for the requested block.

  obsoleteUserHolders @1 :List(UInt32);
  obsoleteMissingItemUses @7 :Float64;
  obsoleteUserUses @8 :Float64;
}

struct BlockWant {
  name @0 :BlockName;
  kind @1 :Serving.SegmentKind $cppDefault("SegmentKind::item");
  owner @2 :Text;
  tokens @3 :UInt32;
  at @4 :NodeId;                                  # another node reported to hold it; 0 = none known
  computeUs @5 :Float32;
  # Microseconds that finding the block saves: computing less reading, as far as the requester knows.
}

struct AcquireBlocks {
  # Answered by BlocksAcquired. Each block is granted completely or not at all.
  #
  # inference worker → KV-cache worker of the same node: pins the blocks that exist and reserves pages
  # for those that will be written. Grants last until they are released, as both actors are in one
  # process.
  #
  # KV-cache worker → KV-cache worker of another node, with `readOnly`: pins existing blocks so that
  # they can be pulled. Those grants end after BlocksAcquired.leaseUs, which the requester counts from
  # the moment it asked.
  id @0 :RequestId;
  budgetUs @1 :Micros;                            # how long to wait for a block that another request computes
  wants @2 :List(BlockWant);
  retention @9 :Serving.Retention;
  mayEvict @4 :Bool = true;                       # false = uses only free pages (background precomputation)
  readOnly @5 :Bool;                              # reserves nothing and waits for nothing
  early @11 :Bool;
  # If every missing block is on its way from other nodes, the worker answers twice: when the transfers
  # begin, with grants marked as in flight, and when all have ended.
  trace @10 :Serving.TraceContext $ifAny;

  obsoleteEvictFirst @3 :List(BlockName);
  obsoleteKeepHotter @6 :Bool;
  obsoleteBelongs @7 :Bool;
  obsoleteCopyWorth @8 :Float64;
}

enum Grant {
  none @0;                                        # missing, and no pages are free: compute it, do not keep it
  read @1;                                        # present and pinned: reuse it
  write @2;
  # Reserved for this request: compute into the pages, then report.
}

struct BlockGrant {
  grant @0 :Grant;
  generation @1 :UInt64;
  checksum @2 :UInt64;                            # for read: checksum of the bytes
  pages @3 :List(UInt32);                         # page ids in the worker's own pool
  check @4 :Bool;
  # For read: compare the bytes with the checksum and report the outcome.
  coming @5 :Bool $Cxx.name("inFlight");
  # For read: in flight; PageArrivals tells which parts may be read. Do not answer before the transfer
  # has succeeded. See AcquireBlocks.early.
  pulled @6 :Bool;
  # For read: pulled from another node's memory for this request.
}

struct BlocksAcquired {
  # KV-cache worker → sender of the AcquireBlocks.
  id @0 :RequestId;
  incarnation @1 :Incarnation;                    # incarnation of the pages' owner
  leaseUs @2 :Micros;
  # Counted from the sending of the request; 0 = until released.
  grants @3 :List(BlockGrant);                    # parallel to AcquireBlocks.wants
  pullUs @4 :Micros;
  # From the request until the last block of another node arrived; 0 = none was pulled.
}

enum Outcome {
  done @0;                                        # read: the bytes were checked, if requested
  written @1;                                     # write: the pages hold the block
  abandoned @2;                                   # write: nothing was written
  corrupt @3;                                     # read: the bytes failed their checksum
}

struct BlockOutcome {
  name @0 :BlockName;
  generation @1 :UInt64;
  outcome @2 :Outcome;
  checksum @3 :UInt64;                            # for written: checksum of the bytes
}

struct ReleaseBlocks {
  # inference worker → KV-cache worker: releases a request's grants. No answer. A read that succeeded
  # without a check need not be listed; a write that is not listed was abandoned.
  id @0 :RequestId;                               # id of the AcquireBlocks
  outcomes @1 :List(BlockOutcome);
}

struct BlockEntry {
  # A ready block, as the index stores it.
  name @0 :BlockName;
  kind @1 :Serving.SegmentKind $cppDefault("SegmentKind::item");
  owner @2 :Text;
  tokens @3 :UInt32;
  generation @4 :UInt64;
}

struct BlockVersion {
  name @0 :BlockName;
  generation @1 :UInt64;
}

struct AreaCapacity {
  freeTokens @0 :UInt64;
  totalTokens @1 :UInt64;
}

struct CacheChanges {
  # KV-cache worker → every cache-meta, at every change and on a timer. No answer. BAT's "write": the
  # index follows the owner of the blocks. A receiver that sees a gap in `sequence` or a new
  # incarnation asks for the inventory.
  incarnation @0 :Incarnation;
  sequence @1 :UInt64;                            # counts these messages from 1 within the incarnation
  added @2 :List(BlockEntry);                     # in order of generation; applied before `removed`
  removed @3 :List(BlockVersion);
  areas @8 :List(AreaCapacity);                   # in order of the pool's areas (runtime/pool/pool_areas.h)
  refused @9 :List(BlockName);
  # Users' blocks that requests wanted to keep but that got no pages.

  obsoleteUserFreeTokens @4 :UInt64;
  obsoleteUserTotalTokens @5 :UInt64;
  obsoleteItemFreeTokens @6 :UInt64;
  obsoleteItemTotalTokens @7 :UInt64;
}

struct InventoryRequest {
  # cache-meta → KV-cache worker. Answered by InventoryPart. Asks for the next part of the ready blocks,
  # those with a generation above `after`, in order of generation.
  incarnation @0 :Incarnation;                    # the worker's, as far as known; 0 = any
  after @1 :UInt64;                               # 0 = from the beginning
}

struct InventoryPart {
  # KV-cache worker → cache-meta.
  incarnation @0 :Incarnation;
  after @1 :UInt64;                               # `after` of the request
  sequence @2 :UInt64;                            # sequence of the last CacheChanges before this part
  blocks @3 :List(BlockEntry);                    # ready, in order of generation
  last @4 :Bool;
}

struct Forget {
  # router → leading cache-meta → KV-cache workers. No answer. The content of this owner changed, so its
  # blocks will not be requested again. Workers obey the highest token that they have seen and refuse
  # lower ones (promise 5).
  kind @0 :Serving.SegmentKind = user;
  owner @1 :Text;
  token @2 :UInt64;                               # fencing token of the leader; 0 from a router
  present @3 :BlockName $cppType("std::optional<BlockName>") $ifAny;
  # Block of the new content, if known: it stays.
  below @4 :UInt32;
  # Forgets only blocks with fewer tokens; 0 = blocks of any size.
}
