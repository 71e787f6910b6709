@0x8df3e2343b86f5bb;
# The envelope: what travels between two actors on different hosts, and in the simulation between any two.
#
# One envelope holds one message and who sent it. Nothing is assumed about order, loss or doubling; each
# conversation's own file says what its messages need. The receiver's address is the transport's business.
#
# A member is never renumbered or reused: one that goes stays as `obsolete…`. A receiver that does not know a member
# refuses the envelope.

using Cxx = import "/capnp/c++.capnp";
using Serving = import "serving.capnp";
using Cache = import "cache.capnp";
using Cluster = import "cluster.capnp";
$Cxx.namespace("troupe::schema");

struct Envelope {
  fromNode @0 :UInt32;                            # 0 is "no node"
  fromRole @1 :Cluster.Role;

  union {
    rankRequest @2 :Serving.RankRequest;
    rankReply @3 :Serving.RankReply;
    scoreRequest @4 :Serving.ScoreRequest;
    scoreReply @5 :Serving.ScoreReply;
    putUser @6 :Serving.PutUser;
    deleteUser @7 :Serving.DeleteUser;
    putItem @8 :Serving.PutItem;
    deleteItem @9 :Serving.DeleteItem;
    stored @10 :Serving.Stored;
    refused @11 :Serving.Refused;
    execute @12 :Serving.Execute;
    executed @13 :Serving.Executed;
    lookupBlocks @14 :Cache.LookupBlocks;
    blocksFound @15 :Cache.BlocksFound;
    acquireBlocks @16 :Cache.AcquireBlocks;
    blocksAcquired @17 :Cache.BlocksAcquired;
    releaseBlocks @18 :Cache.ReleaseBlocks;
    blockAdded @19 :Cache.BlockAdded;
    blockRemoved @20 :Cache.BlockRemoved;
    userArea @21 :Cache.UserArea;
    forget @22 :Cache.Forget;
    setSplit @23 :Cluster.SetSplit;
    poolReport @24 :Cluster.PoolReport;
    statusRequest @25 :Cluster.StatusRequest;
    statusReply @26 :Cluster.StatusReply;
  }
}
