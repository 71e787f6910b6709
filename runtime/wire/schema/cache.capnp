@0xc3ddc1a0d5143acb;
# The cache: who asks where blocks are, who pins and writes them, and how the index learns of it.
#
# Who talks to whom
#   router → cache-meta                 LookupBlocks, answered by BlocksFound; Forget, no answer
#   inference worker → KV-cache worker  of its node: AcquireBlocks, answered by BlocksAcquired; ReleaseBlocks, no answer
#   KV-cache worker → KV-cache worker   the same with `readOnly`, around a pull of pages; without it, of blocks that the asker has and offers
#                                       since it leaves. LookupBlocks to a cache-meta before that
#   KV-cache worker → every cache-meta  CacheChanges, no answer
#   cache-meta → KV-cache workers       InventoryRequest, answered by InventoryPart; Forget, no answer
#
# Order: an AcquireBlocks comes before the ReleaseBlocks of the same id. Between nodes the release may be lost (the
# lease ends by itself), late or doubled. CacheChanges carry a sequence number within an incarnation; a gap is mended
# by the inventory. The index is soft: a wrong one costs a miss, never a wrong block.
#
# Mirrors runtime/actor/messages.h one to one.

using Cxx = import "/capnp/c++.capnp";
using Serving = import "serving.capnp";
$Cxx.namespace("troupe::schema");

using BlockName = Data;
# 32 bytes (SHA-256). Where a name is optional, absent is empty.

struct AskedBlock {
  name @0 :BlockName;
  kind @1 :Serving.SegmentKind;
  tokens @2 :UInt32;                              # room that it would need
}

struct LookupBlocks {
  # router → cache-meta. Answered by BlocksFound.
  id @0 :UInt64;
  user @1 :Text;                                  # tenant-qualified key; "" if the request has no user
  obsoleteUserBlock @2 :BlockName;
  obsoleteUserTokens @3 :UInt32;
  obsoleteItemBlocks @4 :List(BlockName);
  prefer @5 :List(UInt32);                        # nodes where the plan may run: of many holders these come first
  countAccess @6 :Bool = true;                    # counts one access of the user and of each item
  allHolders @7 :Bool;                            # false: of many holders a few are named
  blocks @8 :List(AskedBlock);                    # of all plans by which the request could be answered
  trace @9 :Serving.TraceContext;
}

struct BlocksFound {
  # cache-meta → router.
  id @0 :UInt64;
  obsoleteUserHolders @1 :List(UInt32);
  counts @2 :List(UInt8);                         # how many of `holders` belong to each of LookupBlocks.blocks
  holders @3 :List(UInt32);
  userFrequency @4 :Float64;                      # accesses in the sliding window, this one included
  coldestFrequency @5 :Float64;                   # of the cached user blocks; 0 while there is room
  coldest @6 :List(BlockName);                    # user blocks to give up, coldest first
  obsoleteMissingItemUses @7 :Float64;
  obsoleteUserUses @8 :Float64;
  uses @9 :List(Float64);                         # of each block: further uses to expect, were it kept
}

struct BlockWant {
  name @0 :BlockName;
  kind @1 :Serving.SegmentKind;
  owner @2 :Text;
  tokens @3 :UInt32;
  at @4 :UInt32;                                  # another node that is said to hold it; 0: none is known
  computeUs @5 :Float32;                          # what whoever finds it is spared
}

struct AcquireBlocks {
  # inference worker or another node's KV-cache worker → KV-cache worker. Answered by BlocksAcquired. All or nothing
  # per block.
  id @0 :UInt64;
  budgetUs @1 :Int64;                             # how long to wait for a block that another request is computing
  wants @2 :List(BlockWant);
  obsoleteEvictFirst @3 :List(BlockName);
  mayEvict @4 :Bool = true;                       # false: only free room is taken
  readOnly @5 :Bool;                              # nothing is reserved, nothing waited for
  obsoleteKeepHotter @6 :Bool;
  obsoleteBelongs @7 :Bool;
  obsoleteCopyWorth @8 :Float64;
  retention @9 :Serving.Retention;
  trace @10 :Serving.TraceContext;
  early @11 :Bool;                                # answered when the last missing block begins to come, and again at the end
}

enum Grant {
  none @0;                                        # not there and no room: compute, do not keep
  read @1;                                        # there and pinned: reuse
  write @2;                                       # reserved for this request: compute into these pages, then report
}

struct BlockGrant {
  grant @0 :Grant;
  generation @1 :UInt64;
  checksum @2 :UInt64;                            # of the bytes, for read
  pages @3 :List(UInt32);                         # page ids in the worker's own pool
  check @4 :Bool;                                 # for read: compare the bytes with the checksum, and say how it went
  coming @5 :Bool;                                # for read: on its way; see AcquireBlocks.early
  pulled @6 :Bool;                                # for read: another node had it, and this request brought it here
}

struct BlocksAcquired {
  # KV-cache worker → whoever asked.
  id @0 :UInt64;
  incarnation @1 :UInt64;                         # of the owner of the pages
  leaseUs @2 :Int64;                              # from the moment of asking; 0: until released
  grants @3 :List(BlockGrant);                    # parallel to AcquireBlocks.wants
  pullUs @4 :Int64;                               # until the last block of another node was here; 0: none
}

enum Outcome {
  done @0;                                        # of a read: the bytes were checked, if that was asked for
  written @1;                                     # of a write
  abandoned @2;                                   # of a write
  corrupt @3;                                     # of a read: the bytes failed their checksum
}

struct BlockOutcome {
  name @0 :BlockName;
  generation @1 :UInt64;
  outcome @2 :Outcome;
  checksum @3 :UInt64;                            # for written
}

struct ReleaseBlocks {
  # inference worker → KV-cache worker. No answer.
  id @0 :UInt64;                                  # of the AcquireBlocks
  outcomes @1 :List(BlockOutcome);
}

struct BlockEntry {
  # A ready block, as the index knows it.
  name @0 :BlockName;
  kind @1 :Serving.SegmentKind;
  owner @2 :Text;
  tokens @3 :UInt32;
  generation @4 :UInt64;
}

struct BlockVersion {
  name @0 :BlockName;
  generation @1 :UInt64;
}

struct AreaRoom {
  freeTokens @0 :UInt64;
  totalTokens @1 :UInt64;
}

struct CacheChanges {
  # KV-cache worker → every cache-meta, at every change and on a timer. No answer.
  incarnation @0 :UInt64;
  sequence @1 :UInt64;                            # counts these messages from 1 within the incarnation
  added @2 :List(BlockEntry);                     # in order of generation; applied before `removed`
  removed @3 :List(BlockVersion);
  obsoleteUserFreeTokens @4 :UInt64;
  obsoleteUserTotalTokens @5 :UInt64;
  obsoleteItemFreeTokens @6 :UInt64;
  obsoleteItemTotalTokens @7 :UInt64;
  areas @8 :List(AreaRoom);                       # in order of the pool's areas
  refused @9 :List(BlockName);                    # users' blocks that requests wanted to keep, and found no room for
}

struct InventoryRequest {
  # cache-meta → KV-cache worker. Answered by InventoryPart.
  incarnation @0 :UInt64;                         # of the worker, as far as known; 0: any
  after @1 :UInt64;                               # generation; 0: from the beginning
}

struct InventoryPart {
  # KV-cache worker → cache-meta.
  incarnation @0 :UInt64;
  after @1 :UInt64;                               # of the request
  sequence @2 :UInt64;                            # of the last CacheChanges before this part
  blocks @3 :List(BlockEntry);                    # ready, in order of generation
  last @4 :Bool;
}

struct Forget {
  # router → leading cache-meta → KV-cache workers. No answer. The owner's content changed.
  kind @0 :Serving.SegmentKind = user;
  owner @1 :Text;
  token @2 :UInt64;                               # fencing token of the leader; 0 from a router
  present @3 :Data;                               # name of the new content's block, which stays; empty: not known
  below @4 :UInt32;                               # only blocks of fewer tokens are forgotten; 0: all
}
