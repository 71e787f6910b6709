@0x8df3e2343b86f5bb;
# The envelope: the form of a message between two actors on different hosts, and in the simulation
# between any two.
#
# An envelope holds one message and its sender. Nothing is assumed about order, loss or doubling;
# the file of each conversation says what its messages need. The transport knows the receiver's
# address.
#
# The union lists the kinds of messages: the C++ variant has the same alternatives in the same order.
# A member is never renumbered or reused: a removed member stays as `obsolete…`. A receiver that
# does not know a member refuses the envelope.

using Cxx = import "/capnp/c++.capnp";
using Serving = import "serving.capnp";
using Cache = import "cache.capnp";
using Cluster = import "cluster.capnp";
$Cxx.namespace("troupe::schema");

struct Envelope {
  fromNode @0 :UInt32;                            # 0 = no node
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
    reload @10 :Serving.Reload;
    stored @11 :Serving.Stored;
    refused @12 :Serving.Refused;
    execute @13 :Serving.Execute;
    executed @14 :Serving.Executed;
    lookupBlocks @15 :Cache.LookupBlocks;
    blocksFound @16 :Cache.BlocksFound;
    acquireBlocks @17 :Cache.AcquireBlocks;
    blocksAcquired @18 :Cache.BlocksAcquired;
    releaseBlocks @19 :Cache.ReleaseBlocks;
    cacheChanges @20 :Cache.CacheChanges;
    inventoryRequest @21 :Cache.InventoryRequest;
    inventoryPart @22 :Cache.InventoryPart;
    forget @23 :Cache.Forget;
    setSplit @24 :Cluster.SetSplit;
    poolReport @25 :Cluster.PoolReport;
    heartbeat @26 :Cluster.Heartbeat;
    versions @27 :Cluster.Versions;
    suspect @28 :Cluster.Suspect;
    leaderBeat @29 :Cluster.LeaderBeat;
    drain @30 :Cluster.Drain;
    statusRequest @31 :Cluster.StatusRequest;
    statusReply @32 :Cluster.StatusReply;
    generateRequest @33 :Serving.GenerateRequest;
    generateReply @34 :Serving.GenerateReply;
    completeRequest @35 :Serving.CompleteRequest;
    completeReply @36 :Serving.CompleteReply;
    lendPages @37 :Cluster.LendPages;
    pagesLent @38 :Cluster.PagesLent;
    appendEvents @39 :Serving.AppendEvents;
    appended @40 :Serving.Appended;
    getUser @41 :Serving.GetUser;
    userReply @42 :Serving.UserReply;
    getItem @43 :Serving.GetItem;
    itemReply @44 :Serving.ItemReply;
    replayRequest @45 :Serving.ReplayRequest;
    replayReply @46 :Serving.ReplayReply;
    cancel @47 :Serving.Cancel;
    embedRequest @48 :Serving.EmbedRequest;
    embedReply @49 :Serving.EmbedReply;
  }
}
