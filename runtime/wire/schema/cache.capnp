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
# Mirrors runtime/actor/messages.h one to one.

using Cxx = import "/capnp/c++.capnp";
using Serving = import "serving.capnp";
$Cxx.namespace("troupe::schema");

using BlockName = Data;
# 32 bytes (SHA-256). An optional name is empty when absent.

struct BlockQuery {
  name @0 :BlockName;
  kind @1 :Serving.SegmentKind;
  tokens @2 :UInt32;                              # tokens that it would take in the pool
}

struct LookupBlocks {
  # router → cache-meta. Answered by BlocksFound.
  id @0 :UInt64;
  user @1 :Text;                                  # tenant-qualified key; "" = the request has no user
  obsoleteUserBlock @2 :BlockName;
  obsoleteUserTokens @3 :UInt32;
  obsoleteItemBlocks @4 :List(BlockName);
  prefer @5 :List(UInt32);                        # nodes that may run the plan; named first among many
                                                  # holders
  countAccess @6 :Bool = true;                    # counts one access of the user and of each item
  allHolders @7 :Bool;                            # false = names only a few of many holders
  blocks @8 :List(BlockQuery);                    # blocks of all plans that could answer the request
  trace @9 :Serving.TraceContext;
}

struct BlocksFound {
  # cache-meta → router.
  id @0 :UInt64;
  obsoleteUserHolders @1 :List(UInt32);
  counts @2 :List(UInt8);                         # number of `holders` for each of LookupBlocks.blocks
  holders @3 :List(UInt32);
  userFrequency @4 :Float64;                      # accesses in the sliding window, including this one
  coldestFrequency @5 :Float64;                   # lowest of the cached user blocks; 0 while pages are free
  coldest @6 :List(BlockName);                    # user blocks to evict, coldest first
  obsoleteMissingItemUses @7 :Float64;
  obsoleteUserUses @8 :Float64;
  uses @9 :List(Float64);                         # expected further uses of each block, if it were kept
}

struct BlockWant {
  name @0 :BlockName;
  kind @1 :Serving.SegmentKind;
  owner @2 :Text;
  tokens @3 :UInt32;
  at @4 :UInt32;                                  # another node reported to hold it; 0 = none known
  computeUs @5 :Float32;                          # microseconds that finding the block saves
}

struct AcquireBlocks {
  # inference worker or another node's KV-cache worker → KV-cache worker. Answered by
  # BlocksAcquired. Each block is granted completely or not at all.
  id @0 :UInt64;
  budgetUs @1 :Int64;                             # how long to wait for a block that another request computes
  wants @2 :List(BlockWant);
  obsoleteEvictFirst @3 :List(BlockName);
  mayEvict @4 :Bool = true;                       # false = uses only free pages
  readOnly @5 :Bool;                              # reserves nothing and waits for nothing
  obsoleteKeepHotter @6 :Bool;
  obsoleteBelongs @7 :Bool;
  obsoleteCopyWorth @8 :Float64;
  retention @9 :Serving.Retention;
  trace @10 :Serving.TraceContext;
  early @11 :Bool;                                # answered when the last missing block begins to arrive, and
                                                  # again at the end
}

enum Grant {
  none @0;                                        # missing, and no pages are free: compute it, do not keep it
  read @1;                                        # present and pinned: reuse it
  write @2;                                       # reserved for this request: compute into the pages, then
                                                  # report
}

struct BlockGrant {
  grant @0 :Grant;
  generation @1 :UInt64;
  checksum @2 :UInt64;                            # for read: checksum of the bytes
  pages @3 :List(UInt32);                         # page ids in the worker's own pool
  check @4 :Bool;                                 # for read: compare the bytes with the checksum and report
                                                  # the outcome
  coming @5 :Bool;                                # for read: in flight; see AcquireBlocks.early
  pulled @6 :Bool;                                # for read: pulled from another node for this request
}

struct BlocksAcquired {
  # KV-cache worker → sender of the AcquireBlocks.
  id @0 :UInt64;
  incarnation @1 :UInt64;                         # incarnation of the pages' owner
  leaseUs @2 :Int64;                              # counted from the sending of the request; 0 = until
                                                  # released
  grants @3 :List(BlockGrant);                    # parallel to AcquireBlocks.wants
  pullUs @4 :Int64;                               # until the last block of another node arrived; 0 = none was
                                                  # pulled
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
  # inference worker → KV-cache worker. No answer.
  id @0 :UInt64;                                  # id of the AcquireBlocks
  outcomes @1 :List(BlockOutcome);
}

struct BlockEntry {
  # A ready block, as the index stores it.
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

struct AreaCapacity {
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
  areas @8 :List(AreaCapacity);                       # in order of the pool's areas
  refused @9 :List(BlockName);                    # users' blocks that requests wanted to keep but that got no
                                                  # pages
}

struct InventoryRequest {
  # cache-meta → KV-cache worker. Answered by InventoryPart.
  incarnation @0 :UInt64;                         # the worker's, as far as known; 0 = any
  after @1 :UInt64;                               # generation; 0 = from the beginning
}

struct InventoryPart {
  # KV-cache worker → cache-meta.
  incarnation @0 :UInt64;
  after @1 :UInt64;                               # `after` of the request
  sequence @2 :UInt64;                            # sequence of the last CacheChanges before this part
  blocks @3 :List(BlockEntry);                    # ready, in order of generation
  last @4 :Bool;
}

struct Forget {
  # router → leading cache-meta → KV-cache workers. No answer. The owner's content has changed.
  kind @0 :Serving.SegmentKind = user;
  owner @1 :Text;
  token @2 :UInt64;                               # fencing token of the leader; 0 from a router
  present @3 :Data;                               # name of the new content's block, which stays; empty =
                                                  # unknown
  below @4 :UInt32;                               # forgets only blocks with fewer tokens; 0 = all
}
