@0xd094e8f54729c483;
# Serving: requests of the HTTP server to the router, plans of the router for inference workers, and
# the answers.
#
# Who talks to whom
#   HTTP server → router       RankRequest, ScoreRequest, GenerateRequest, CompleteRequest,
#                              PutUser, AppendEvents, GetUser, DeleteUser, PutItem, GetItem,
#                              DeleteItem, Reload
#   router → HTTP server       RankReply, ScoreReply, GenerateReply, CompleteReply, Stored,
#                              Appended, UserReply, ItemReply, or Refused instead of any of them
#   router → inference worker  Execute, answered by Executed or Refused
#
# Order: none is assumed. An answer carries the `id` of its request, which the sender of the request
# chose. A request may arrive twice; an answer may be late, come twice or never. The sender gives up
# when its own budget is spent.
#
# The HTTP bodies are these structs as JSON: the key of a member is its $Json.name, or its own name;
# members marked $internal do not exist there. Mirrors runtime/actor/messages.h one to one.

using Cxx = import "/capnp/c++.capnp";
using Json = import "/capnp/compat/json.capnp";
$Cxx.namespace("troupe::schema");

annotation internal @0xa180aca20b223898 (field) :Void;
# The member is not part of the HTTP form: it is never written to JSON, and refused as unknown when
# read from it.

annotation ifAny @0xc3b1f05a92d7e846 (field) :Void;
# An empty list is omitted from the JSON that is written.

using BlockName = Data;
# 32 bytes (SHA-256). An optional name is empty when absent.

struct TraceContext {
  # Trace of the client to which a request belongs (W3C traceparent). Absent = none is known.
  high @0 :UInt64;
  low @1 :UInt64;
  span @2 :UInt64;
  sampled @3 :Bool;                               # the client records this trace
}

# ---- Answers to anything -----------------------------------------------------------------------------------

struct Refusal {
  status @0 :UInt16;                              # HTTP status of the answer
  code @1 :Text;                                  # a stable word for programs
  what @2 :Text $Json.name("message");            # what is wrong
  where @3 :Text;                                 # the field, file or actor concerned
  expected @4 :Text;                              # what a valid input would be
  retryAfterS @5 :UInt16 $internal;               # seconds to wait before a retry; an HTTP header
}

struct Refused {
  # Answer to any request of this file: a typed rejection.
  id @0 :UInt64 $internal;
  refusal @1 :Refusal;
}

struct Timings {
  # Duration of each step of a request in microseconds; the steps follow one another.
  features @0 :Int64;
  lookup @1 :Int64;
  blocks @2 :Int64;
  queue @3 :Int64;
  compute @4 :Int64;
  total @5 :Int64;
  pull @6 :Int64;                                 # part of `blocks`: until other nodes' blocks had arrived
  predicted @7 :Int64;                            # the router's estimate, when it chose the node, of the time
                                                  # until the answer
  turn @8 :Int64;                                 # between lookup and blocks: waiting at the router for a
                                                  # worker
}

# ---- Ranking -----------------------------------------------------------------------------------------------

struct RankRequest {
  # HTTP server → router. Answered by RankReply or Refused.
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;                      # "" = the default tenant; an HTTP header
  user @2 :Text;
  candidates @3 :List(Text);                      # item ids
  topK @4 :UInt32 $Json.name("top_k");            # items to return; 0 = all candidates
  policy @5 :Text;                                # recompute | user | item | bat | …; "" = the configured
                                                  # policy
  budgetUs @6 :Int64 $Json.name("budget_us");     # from receipt to answer; 0 = the configured budget
  requestTimestamp @7 :Int64 $Json.name("request_timestamp");  # seconds since 1970; over HTTP 0 = the present
  approximate @8 :Float64 = -1;                   # maximum share of the prompt's tokens that may be
                                                  # approximate; -1 = no limit beyond the policy's
  scenario @9 :UInt32;                            # scenario of the request, below the model's number of
                                                  # scenarios
  task @10 :Text;                                 # task that orders the candidates; "" = the first one
  features @11 :Text;                             # required freshness: exact | wait | behind; "" = as
                                                  # configured
  unknown @12 :Text;                              # candidates missing from the catalog: refuse | skip; "" =
                                                  # refuse
  history @13 :List(Text);                        # in place of `user`: item ids, oldest first
  trace @14 :TraceContext $internal;
}

struct RankedItem {
  id @0 :Text;                                    # item id
  title @1 :Text;
  score @2 :Float64;                              # logit of the item's identifier token, or score of the
                                                  # ordering task
  probability @3 :Float64;                        # softmax over this request's candidates
  taskScores @4 :List(Float64) $Json.name("task_scores") $ifAny;  # parallel to RankReply.tasks
}

struct RankReply {
  # router → HTTP server.
  id @0 :UInt64 $internal;
  user @1 :Text;
  items @2 :List(RankedItem);                     # best first; ties in candidate order
  policy @3 :Text;                                # policy that chose the plan
  plan @4 :Text;                                  # plan that was run: "user", "item", …
  tokensTotal @5 :UInt32 $Json.name("tokens_total");
  tokensComputed @6 :UInt32 $Json.name("tokens_computed");
  tokensReused @7 :UInt32 $Json.name("tokens_reused");
  blocksReused @8 :UInt32 $Json.name("blocks_reused");
  blocksWritten @9 :UInt32 $Json.name("blocks_written");
  historyCut @10 :UInt32 $Json.name("history_cut");   # history events dropped, oldest first
  modelVersion @11 :Text $Json.name("model_version");
  catalogVersion @12 :Text $Json.name("catalog_version");
  profileVersion @13 :UInt64 $Json.name("profile_version");
  node @14 :UInt32;                               # node that ran the plan
  timings @15 :Timings;
  approximate @16 :Float64;                       # share of the prompt's tokens that are approximate; 0 =
                                                  # none
  tasks @17 :List(Text) $ifAny;                   # names of the model's tasks; empty = one without a name
  featuresStale @18 :UInt32 $Json.name("features_stale");      # 1 if the answer used stale features
  featuresMissing @19 :UInt32 $Json.name("features_missing");  # 1 if the answer used no features
  skipped @20 :List(Text) $ifAny;                 # candidates missing from the catalog
}

# ---- Scores of label tokens --------------------------------------------------------------------------------

struct TokenList {
  tokens @0 :List(Int32);
}

struct ScoreRow {
  scores @0 :List(Float64);                       # one per label token
}

struct ScoreRequest {
  # HTTP server → router. Answered by ScoreReply or Refused.
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;
  query @2 :List(Int32);                          # tokens before every item
  items @3 :List(TokenList);
  labelTokens @4 :List(Int32) $Json.name("label_tokens");
  applySoftmax @5 :Bool $Json.name("apply_softmax");  # over the label tokens
  budgetUs @6 :Int64 $Json.name("budget_us");
  trace @7 :TraceContext $internal;
}

struct ScoreReply {
  # router → HTTP server.
  id @0 :UInt64 $internal;
  items @1 :List(ScoreRow);                       # parallel to ScoreRequest.items
  tokensTotal @2 :UInt32 $Json.name("tokens_total");
  tokensComputed @3 :UInt32 $Json.name("tokens_computed");
  tokensReused @4 :UInt32 $Json.name("tokens_reused");
  modelVersion @5 :Text $Json.name("model_version");
  timings @6 :Timings;
}

# ---- Items found by beam search ----------------------------------------------------------------------------

struct GenerateRequest {
  # HTTP server → router. Answered by GenerateReply or Refused.
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
  topK @3 :UInt32 $Json.name("top_k");            # items to return; 0 = the default number
  width @4 :UInt32;                               # paths kept at each step; 0 = the default number
  excludeSeen @5 :Bool $Json.name("exclude_seen");
  allow @6 :List(Text);                           # item ids to choose from; empty = the whole catalog
  deny @7 :List(Text);                            # item ids to exclude
  amongAllowed @8 :Bool $Json.name("among_allowed");  # probabilities over the allowed tokens
  budgetUs @9 :Int64 $Json.name("budget_us");
  logprobs @10 :Bool;                             # the answer includes each token's log probability
  features @11 :Text;                             # as in RankRequest
  trace @12 :TraceContext $internal;
}

struct GeneratedItem {
  id @0 :Text;
  title @1 :Text;
  tokens @2 :List(Int32);                         # its identifier
  logProbability @3 :Float64 $Json.name("log_probability");
  tokenLogprobs @4 :List(Float64) $Json.name("token_logprobs") $ifAny;  # one per token, if requested
}

struct GenerateReply {
  # router → HTTP server.
  id @0 :UInt64 $internal;
  user @1 :Text;
  items @2 :List(GeneratedItem);                  # best first; items that share an identifier in order of id
  reason @3 :Text;                                # why there are fewer items than requested; "" = enough
  width @4 :UInt32;                               # width of the search
  tokensTotal @5 :UInt32 $Json.name("tokens_total");      # tokens of the prompt
  tokensComputed @6 :UInt32 $Json.name("tokens_computed");
  tokensReused @7 :UInt32 $Json.name("tokens_reused");
  blocksReused @8 :UInt32 $Json.name("blocks_reused");
  blocksWritten @9 :UInt32 $Json.name("blocks_written");
  historyCut @10 :UInt32 $Json.name("history_cut");   # history events dropped, oldest first
  modelVersion @11 :Text $Json.name("model_version");
  catalogVersion @12 :Text $Json.name("catalog_version");
  profileVersion @13 :UInt64 $Json.name("profile_version");
  node @14 :UInt32;                               # node that ran the plan
  timings @15 :Timings;
  featuresStale @16 :UInt32 $Json.name("features_stale");      # as in RankReply
  featuresMissing @17 :UInt32 $Json.name("features_missing");
}

# ---- Continuations of a prompt -----------------------------------------------------------------------------

struct CompleteRequest {
  # HTTP server → router. Answered by CompleteReply or Refused. Over HTTP both have OpenAI's form
  # (server/http/completions.h).
  id @0 :UInt64;
  tenant @1 :Text;
  model @2 :Text;                                 # model version; "" = the served one
  prompt @3 :List(Int32);
  maxTokens @4 :UInt32 = 16;
  n @5 :UInt32 = 1;                               # completions to return
  beamWidth @6 :UInt32;                           # paths kept at each step; 0 = n
  items @7 :Bool;                                 # only identifiers of the catalog are completions
  logprobs @8 :Bool;                              # the answer includes log probabilities
  budgetUs @9 :Int64;
  trace @10 :TraceContext;
}

struct CompleteReply {
  # router → HTTP server.
  id @0 :UInt64;
  completions @1 :List(Beam);                     # most probable first
  tokensTotal @2 :UInt32;                         # tokens of the prompt
  tokensComputed @3 :UInt32;
  tokensReused @4 :UInt32;
  logprobs @5 :Bool;                              # as in the request
  items @6 :Bool;
  modelVersion @7 :Text;
  catalogVersion @8 :Text;                        # empty unless `items` is set
  node @9 :UInt32;                                # node that ran the plan
  timings @10 :Timings;
}

# ---- Profiles and catalog ----------------------------------------------------------------------------------

struct Feature {
  # One number per event of a user, under the name that the model gives it.
  name @0 :Text;
  values @1 :List(Int64);
}

struct Condition {
  # State that a write expects. Over HTTP: If-Match and If-None-Match.
  absent @0 :Bool;
  present @1 :Bool;
  version @2 :UInt64;                             # 0 = any
}

struct PutUser {
  # HTTP server → router. Answered by Stored or Refused. Either `history` or `tokens`, not both.
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
  history @3 :List(Text);                         # item ids, oldest first
  tokens @4 :List(Int32);
  features @5 :List(Feature);                     # one value per event
  eventIds @6 :List(Text) $Json.name("event_ids");  # one per event, or empty
  condition @7 :Condition $internal;
}

struct AppendEvents {
  # HTTP server → router. Answered by Appended or Refused. Members are those of PutUser; over HTTP
  # it has another form (server/http/door_events.h).
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
  history @3 :List(Text);
  tokens @4 :List(Int32);
  features @5 :List(Feature);
  eventIds @6 :List(Text) $Json.name("event_ids");
  condition @7 :Condition $internal;
}

struct Appended {
  # router → HTTP server.
  id @0 :UInt64 $internal;
  version @1 :UInt64;                             # version of the profile
  appended @2 :UInt32;
  repeated @3 :UInt32;                            # events that were known already
  dropped @4 :UInt32;                             # oldest events dropped to make the others fit
  events @5 :UInt32;                              # events that the profile has now
}

struct GetUser {
  # HTTP server → router. Answered by UserReply or Refused.
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
}

struct UserReply {
  # router → HTTP server. The profile as it was put.
  id @0 :UInt64 $internal;
  user @1 :Text;
  version @2 :UInt64;
  history @3 :List(Text);                         # item id of each event; "" = the event was put as tokens
  tokens @4 :List(Int32) $ifAny;                  # tokens of all events; empty if every event has its item
  eventTokens @5 :List(UInt32) $Json.name("event_tokens") $ifAny;
  features @6 :List(Feature) $ifAny;
  eventIds @7 :List(Text) $Json.name("event_ids") $ifAny;
}

struct DeleteUser {
  # HTTP server → router. Answered by Stored or Refused.
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
  condition @3 :Condition $internal;
}

struct PutItem {
  # HTTP server → router. Answered by Stored or Refused.
  id @0 :UInt64 $internal;
  item @1 :Text;
  title @2 :Text;
  tokens @3 :List(Int32);
  identifier @4 :Int32 = -1;                      # vocabulary row whose logit is the item's score
  condition @5 :Condition $internal;
}

struct DeleteItem {
  # HTTP server → router. Answered by Stored or Refused.
  id @0 :UInt64 $internal;
  item @1 :Text;
  condition @2 :Condition $internal;
}

struct GetItem {
  # HTTP server → router. Answered by ItemReply or Refused.
  id @0 :UInt64 $internal;
  item @1 :Text;
}

struct ItemReply {
  # router → HTTP server. The item as it was put.
  id @0 :UInt64 $internal;
  item @1 :Text;
  title @2 :Text;
  tokens @3 :List(Int32);
  identifier @4 :Int32;
  version @5 :UInt64;                             # catalog version that wrote it
}

struct Reload {
  # HTTP server → router. Answered by Stored when the new versions are served and no request runs on
  # the old ones any more, or by Refused.
  id @0 :UInt64 $internal;
  modelVersion @1 :Text $Json.name("model");      # "" keeps the present one
  catalogVersion @2 :Text $Json.name("catalog");  # "" keeps the present one
  share @3 :Float64 = 1;                          # share of users that get the model, 0 to 1; below 1 the
                                                  # present model serves the others
}

struct Stored {
  # router → HTTP server.
  id @0 :UInt64 $internal;
  version @1 :UInt64;                             # version of the profile or the catalog, or the epoch of the
                                                  # versions
}

# ---- Execution ---------------------------------------------------------------------------------------------

enum SegmentKind {
  system @0;
  user @1;
  item @2;
  instruction @3;
  discriminant @4;
  beam @5;
}

enum Priority {
  serving @0;
  background @1;
}

struct SeenRange {                                # half-open range of segments
  begin @0 :UInt32;
  end @1 :UInt32;
}

struct Segment {                                  # members: see kernels/base/plan.h
  kind @0 :SegmentKind;
  tokens @1 :List(Int32);
  start @2 :Int32;                                # position of the first token
  sees @3 :List(SeenRange);                       # earlier segments, ascending
  shift @4 :Int32;                                # shift of its keys' positions, as seen by later segments
  replaces @5 :UInt32 = 4294967295;               # an earlier segment; default = none
  replacesOffset @6 :UInt32;
  features @7 :List(Int64);                       # the model's number of features, for each token
}

struct Readout {
  segment @0 :UInt32;
  offset @1 :UInt32;                              # token inside the segment
  rows @2 :List(Int32);                           # vocabulary rows whose logits are read
  what @3 :What;
  head @4 :UInt32;
  enum What {
    rows @0;
    allRows @1;
    head @2;
  }
}

struct Search {
  segment @0 :UInt32;                             # the search begins behind this segment's last token
  width @1 :UInt32;                               # 0 = no search
  results @2 :UInt32;
  steps @3 :UInt32;
  normalised @4 :Normalisation;
  allowed @5 :List(TokenList);                    # complete paths
  denied @6 :List(TokenList);
  byToken @7 :Bool;                               # beams include each token's log probability
  enum Normalisation {
    vocabulary @0;
    allowed @1;
  }
}

struct Repair {                                   # members: see kernels/base/repair.h
  places @0 :List(Place);                         # empty = no repair
  budgets @1 :List(UInt32);
  always @2 :List(UInt32);
  attention @3 :Float32;
  divergence @4 :Float32;
  attending @5 :UInt32;
  exactLayers @6 :UInt32 = 1;
  mean @7 :Bool;
  struct Place {
    segment @0 :UInt32;
    block @1 :UInt32;
    budget @2 :UInt32;
    ofPrototypes @3 :Bool;
  }
  prototypes @8 :Text;                            # checksum of the file; empty = no span uses prototypes
}

struct Plan {
  segments @0 :List(Segment);
  readouts @1 :List(Readout);
  search @2 :Search;
  repair @3 :Repair;
}

struct Beam {
  path @0 :List(Int32);
  logProbability @1 :Float64;
  byToken @2 :List(Float64);                      # empty unless Search.byToken is set
}

struct SegmentBlock {
  name @0 :BlockName;                             # empty = never reused, never kept
  owner @1 :Text;                                 # user or item id that owns the block
  at @2 :UInt32;                                  # another node reported to hold the block; 0 = none known
}

struct ObsoletePlannedSegment {
  kind @0 :SegmentKind;
  tokens @1 :List(Int32);
  start @2 :Int32;                                # position of the first token
  sees @3 :List(UInt32);                          # earlier segments, attended to in full
  block @4 :BlockName;                            # empty = never reused, never kept
  owner @5 :Text;                                 # user or item id that owns the block
  at @6 :UInt32;                                  # another node reported to hold the block; 0 = none known
}

struct ObsoletePlannedReadout {
  segment @0 :UInt32;
  offset @1 :UInt32;                              # token inside the segment
  rows @2 :List(Int32);                           # vocabulary rows whose logits are read
}

struct BlockUse {
  # Uses of a block that its home node did not see because the requests ran on other nodes.
  name @0 :BlockName;
  tokens @1 :UInt32;
  times @2 :UInt32;                               # uses since the last report to the node
  sparedUs @3 :Float32;                           # microseconds that finding it there would have saved per
                                                  # use
}

struct Retention {
  # Tells which blocks may be evicted for a request's blocks, and how long those are worth keeping.
  evictFirst @0 :List(BlockName);                 # coldest user blocks, evicted first if pages are needed
  keepHotter @1 :Bool;                            # all areas share one LRU; an item is kept only if it was
                                                  # wanted more often lately than the blocks it would evict
  belongs @2 :Bool;                               # pulled blocks, too, evict others and stay
  copyWorth @3 :Float64;                          # with keepHotter: cost of pulling relative to computing, 0
                                                  # to 1
  guest @4 :Bool;                                 # the user's home is another node, or was told of the
                                                  # request
  elsewhere @5 :List(BlockUse);                   # uses by users whose home is here and whose requests ran
                                                  # elsewhere
}

struct Execute {
  # router → inference worker. Answered by Executed or Refused.
  id @0 :UInt64;
  priority @1 :Priority;
  budgetUs @2 :Int64;                             # time left, counted from receipt
  obsoleteSegments @3 :List(ObsoletePlannedSegment);
  obsoleteReadouts @4 :List(ObsoletePlannedReadout);
  obsoleteEvictFirst @5 :List(BlockName);
  modelVersion @6 :Text;                          # version to which the request is pinned
  alone @7 :Bool;                                 # in a batch of its own
  obsoleteKeepHotter @8 :Bool;
  obsoleteBelongs @9 :Bool;
  obsoleteCopyWorth @10 :Float64;
  plan @11 :Plan;
  blocks @12 :List(SegmentBlock);                 # one per segment of the plan
  retention @13 :Retention;
  catalogVersion @14 :Text;                       # version that the plan was made for; "" = it needs none
  trace @15 :TraceContext;
}

struct Executed {
  # inference worker → router.
  id @0 :UInt64;
  readouts @1 :List(ScoreRow);                    # logits, one row per readout
  reused @2 :List(UInt8);                         # per segment: 1 if its block was reused
  blocksWritten @3 :UInt32;
  blocksUs @4 :Int64;                             # waiting for blocks
  queueUs @5 :Int64;
  computeUs @6 :Int64;
  modelVersion @7 :Text;                          # version that computed it
  pullUs @8 :Int64;                               # part of blocksUs: until other nodes' blocks had arrived
  beams @9 :List(Beam);                           # beams of the plan's search, best first
}
