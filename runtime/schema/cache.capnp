@0xc3ddc1a0d5143acb;
# The cache: who asks where blocks are, who pins and writes them, and how the index learns of it.
#
# Who talks to whom
#   router → cache-meta                 LookupBlocks, answered by BlocksFound; Forget, no answer
#   inference worker → KV-cache worker  AcquireBlocks, answered by BlocksAcquired; ReleaseBlocks, no answer
#   KV-cache worker → cache-meta        BlockAdded, BlockRemoved, UserArea, no answers
#   cache-meta → KV-cache workers       Forget, no answer
#
# Order: an AcquireBlocks comes before the ReleaseBlocks of the same id, but the release may be lost (the worker's
# pins end by themselves) or doubled. The index is soft: BlockAdded and BlockRemoved of one block may arrive in any
# order, and `generation` says which is newer. A wrong index costs a miss, never a wrong block.
#
# Mirrors runtime/messages.h one to one.

using Cxx = import "/capnp/c++.capnp";
using Serving = import "serving.capnp";
$Cxx.namespace("troupe::schema");

using BlockName = Data;
# 32 bytes (SHA-256). Where a name is optional, absent is empty.

struct LookupBlocks {
  # router → cache-meta. Answered by BlocksFound.
  id @0 :UInt64;
  user @1 :Text;                                  # tenant-qualified key; "" if the request has no user
  userBlock @2 :BlockName;                        # empty: not asked for
  userTokens @3 :UInt32;                          # room that the user's block would need
  itemBlocks @4 :List(BlockName);
  countAccess @5 :Bool = true;                    # counts one access of the user and of each item
}

struct BlocksFound {
  # cache-meta → router.
  id @0 :UInt64;
  userNode @1 :UInt32;                            # 0: not cached
  itemNodes @2 :List(UInt32);                     # parallel to LookupBlocks.itemBlocks
  userFrequency @3 :Float64;                      # accesses in the sliding window, this one included
  coldestFrequency @4 :Float64;                   # of the cached user blocks; 0 while there is room
  coldest @5 :List(BlockName);                    # user blocks to give up, coldest first
}

struct BlockWant {
  name @0 :BlockName;
  kind @1 :Serving.SegmentKind;
  owner @2 :Text;
  tokens @3 :UInt32;
}

struct AcquireBlocks {
  # inference worker → KV-cache worker. Answered by BlocksAcquired. All or nothing per block.
  id @0 :UInt64;
  budgetUs @1 :Int64;                             # how long to wait for a block that another request is computing
  wants @2 :List(BlockWant);
  evictFirst @3 :List(BlockName);
  mayEvict @4 :Bool = true;                       # false: only free room is taken
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
}

struct BlocksAcquired {
  # KV-cache worker → inference worker.
  id @0 :UInt64;
  grants @1 :List(BlockGrant);                    # parallel to AcquireBlocks.wants
}

enum Outcome {
  done @0;                                        # of a read
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

struct BlockAdded {
  # KV-cache worker → cache-meta. No answer.
  name @0 :BlockName;
  kind @1 :Serving.SegmentKind;
  owner @2 :Text;
  tokens @3 :UInt32;
  generation @4 :UInt64;
}

struct BlockRemoved {
  # KV-cache worker → cache-meta. No answer.
  name @0 :BlockName;
  generation @1 :UInt64;
}

struct UserArea {
  # KV-cache worker → cache-meta, when it changes. No answer.
  freeTokens @0 :UInt64;
  totalTokens @1 :UInt64;
}

struct Forget {
  # router → cache-meta → KV-cache workers. No answer. The owner's content changed.
  kind @0 :Serving.SegmentKind = user;
  owner @1 :Text;
}
