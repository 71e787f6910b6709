@0xd094e8f54729c483;
# Serving: what the front door asks of the router, what the router asks of an inference worker, and the answers.
#
# Who talks to whom
#   door → router             RankRequest, ScoreRequest, GenerateRequest, CompleteRequest, PutUser, AppendEvents, GetUser, DeleteUser, PutItem,
#                             GetItem, DeleteItem, Reload
#   router → door             RankReply, ScoreReply, GenerateReply, CompleteReply, Stored, Appended, UserReply, ItemReply, or Refused
#                             instead of any of them
#   router → inference worker Execute, answered by Executed or Refused
#
# Order: none is assumed. An answer is matched to its question by `id`, which the asker chose; a question may arrive
# twice, an answer late, twice or never, and whoever asked gives up when its own budget is spent.
#
# The HTTP bodies are these structs as JSON: the key of a member is its $Json.name, or its own name; members marked
# $internal do not exist there. Mirrors runtime/actor/messages.h one to one.

using Cxx = import "/capnp/c++.capnp";
using Json = import "/capnp/compat/json.capnp";
$Cxx.namespace("troupe::schema");

annotation internal @0xa180aca20b223898 (field) :Void;
# Not part of the HTTP form: never written to JSON, and refused as unknown when read from it.

annotation ifAny @0xc3b1f05a92d7e846 (field) :Void;
# Of a list: left out of the JSON that is written where it is empty.

using BlockName = Data;
# 32 bytes (SHA-256). Where a name is optional, absent is empty.

struct TraceContext {
  # To which trace of its client's a request belongs (W3C traceparent). Absent: none is known.
  high @0 :UInt64;
  low @1 :UInt64;
  span @2 :UInt64;
  sampled @3 :Bool;                               # its client records this trace
}

# ---- Answers to anything -----------------------------------------------------------------------------------

struct Refusal {
  status @0 :UInt16;                              # the HTTP status that the door answers with
  code @1 :Text;                                  # a stable word for programs
  what @2 :Text $Json.name("message");            # what is wrong
  where @3 :Text;                                 # the field, file or actor
  expected @4 :Text;                              # what would have been right
  retryAfterS @5 :UInt16 $internal;               # how long a client should wait; over HTTP a header says it
}

struct Refused {
  # Answer to any request of this file: a typed "no".
  id @0 :UInt64 $internal;
  refusal @1 :Refusal;
}

struct Timings {
  # Microseconds that the steps of one request took, one after the other.
  features @0 :Int64;
  lookup @1 :Int64;
  blocks @2 :Int64;
  queue @3 :Int64;
  compute @4 :Int64;
  total @5 :Int64;
  pull @6 :Int64;                                 # of `blocks`: until those of other nodes were here
  predicted @7 :Int64;                            # by the router when it chose the node: from then to the answer
  turn @8 :Int64;                                 # between lookup and blocks: until it was its turn at the worker
}

# ---- Ranking -----------------------------------------------------------------------------------------------

struct RankRequest {
  # door → router. Answered by RankReply or Refused.
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;                      # "" is the default tenant; over HTTP a header names it
  user @2 :Text;
  candidates @3 :List(Text);                      # item ids
  topK @4 :UInt32 $Json.name("top_k");            # 0: all candidates
  policy @5 :Text;                                # "" is the configured one; else recompute | user | item | bat
  budgetUs @6 :Int64 $Json.name("budget_us");     # from receipt to answer; 0: the configured one
  requestTimestamp @7 :Int64 $Json.name("request_timestamp");  # seconds since 1970; over HTTP 0 is the present
  approximate @8 :Float64 = -1;                   # largest share of the prompt's tokens that may be approximate; -1: any
                                                  # that the policy leaves
  scenario @9 :UInt32;                            # for models that know scenarios: below as many as they have
  task @10 :Text;                                 # of the model's tasks, the one that orders; "": the first
  features @11 :Text;                             # how new they have to be: exact | wait | behind; "": as configured
  unknown @12 :Text;                              # candidates that the catalog does not have: refuse | skip; "": refuse
  history @13 :List(Text);                        # instead of a user: item ids, oldest first
  trace @14 :TraceContext $internal;
}

struct RankedItem {
  id @0 :Text;                                    # item id
  title @1 :Text;
  score @2 :Float64;                              # logit of the item's identifier token, or of the task that orders
  probability @3 :Float64;                        # softmax over this request's candidates
  taskScores @4 :List(Float64) $Json.name("task_scores") $ifAny;  # parallel to RankReply.tasks
}

struct RankReply {
  # router → door.
  id @0 :UInt64 $internal;
  user @1 :Text;
  items @2 :List(RankedItem);                     # best first; ties by candidate order
  policy @3 :Text;                                # the policy that chose
  plan @4 :Text;                                  # "user" | "item": which prefix
  tokensTotal @5 :UInt32 $Json.name("tokens_total");
  tokensComputed @6 :UInt32 $Json.name("tokens_computed");
  tokensReused @7 :UInt32 $Json.name("tokens_reused");
  blocksReused @8 :UInt32 $Json.name("blocks_reused");
  blocksWritten @9 :UInt32 $Json.name("blocks_written");
  historyCut @10 :UInt32 $Json.name("history_cut");   # history events dropped, oldest first
  modelVersion @11 :Text $Json.name("model_version");
  catalogVersion @12 :Text $Json.name("catalog_version");
  profileVersion @13 :UInt64 $Json.name("profile_version");
  node @14 :UInt32;                               # where it ran
  timings @15 :Timings;
  approximate @16 :Float64;                       # share of the prompt's tokens that are approximate; 0: none
  tasks @17 :List(Text) $ifAny;                   # names of the model's tasks; none: it has one without a name
  featuresStale @18 :UInt32 $Json.name("features_stale");      # that it was answered with
  featuresMissing @19 :UInt32 $Json.name("features_missing");  # that it was answered without
  skipped @20 :List(Text) $ifAny;                 # candidates that the catalog does not have
}

# ---- Scores of label tokens --------------------------------------------------------------------------------

struct TokenList {
  tokens @0 :List(Int32);
}

struct ScoreRow {
  scores @0 :List(Float64);                       # one per label token
}

struct ScoreRequest {
  # door → router. Answered by ScoreReply or Refused.
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
  # router → door.
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
  # door → router. Answered by GenerateReply or Refused.
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
  topK @3 :UInt32 $Json.name("top_k");            # items; 0: as many as are usual
  width @4 :UInt32;                               # paths kept at each step; 0: as many as are usual
  excludeSeen @5 :Bool $Json.name("exclude_seen");
  allow @6 :List(Text);                           # item ids; not empty: only these
  deny @7 :List(Text);                            # item ids: none of these
  amongAllowed @8 :Bool $Json.name("among_allowed");  # probabilities over the tokens that may follow
  budgetUs @9 :Int64 $Json.name("budget_us");
  logprobs @10 :Bool;                             # the answer says each token's, too
  features @11 :Text;                             # as RankRequest.features
  trace @12 :TraceContext $internal;
}

struct GeneratedItem {
  id @0 :Text;
  title @1 :Text;
  tokens @2 :List(Int32);                         # its identifier
  logProbability @3 :Float64 $Json.name("log_probability");
  tokenLogprobs @4 :List(Float64) $Json.name("token_logprobs") $ifAny;  # of `tokens`, where it was asked for
}

struct GenerateReply {
  # router → door.
  id @0 :UInt64 $internal;
  user @1 :Text;
  items @2 :List(GeneratedItem);                  # best first; items that share an identifier by id
  reason @3 :Text;                                # why there are fewer than were asked for; "": there are as many
  width @4 :UInt32;                               # that was searched with
  tokensTotal @5 :UInt32 $Json.name("tokens_total");      # of the prompt
  tokensComputed @6 :UInt32 $Json.name("tokens_computed");
  tokensReused @7 :UInt32 $Json.name("tokens_reused");
  blocksReused @8 :UInt32 $Json.name("blocks_reused");
  blocksWritten @9 :UInt32 $Json.name("blocks_written");
  historyCut @10 :UInt32 $Json.name("history_cut");   # history events dropped, oldest first
  modelVersion @11 :Text $Json.name("model_version");
  catalogVersion @12 :Text $Json.name("catalog_version");
  profileVersion @13 :UInt64 $Json.name("profile_version");
  node @14 :UInt32;                               # where it ran
  timings @15 :Timings;
  featuresStale @16 :UInt32 $Json.name("features_stale");      # as RankReply's
  featuresMissing @17 :UInt32 $Json.name("features_missing");
}

# ---- Continuations of a prompt -----------------------------------------------------------------------------

struct CompleteRequest {
  # door → router. Answered by CompleteReply or Refused. Over HTTP both have OpenAI's form (server/http/completions.h).
  id @0 :UInt64;
  tenant @1 :Text;
  model @2 :Text;                                 # the version that is asked; "": whichever is served
  prompt @3 :List(Int32);
  maxTokens @4 :UInt32 = 16;
  n @5 :UInt32 = 1;                               # completions
  beamWidth @6 :UInt32;                           # paths kept at each step; 0: n
  items @7 :Bool;                                 # only identifiers of the catalog
  logprobs @8 :Bool;                              # the answer says them
  budgetUs @9 :Int64;
  trace @10 :TraceContext;
}

struct CompleteReply {
  # router → door.
  id @0 :UInt64;
  completions @1 :List(Beam);                     # most probable first
  tokensTotal @2 :UInt32;                         # of the prompt
  tokensComputed @3 :UInt32;
  tokensReused @4 :UInt32;
  logprobs @5 :Bool;                              # as it was asked for
  items @6 :Bool;
  modelVersion @7 :Text;
  catalogVersion @8 :Text;                        # of `items`
  node @9 :UInt32;                                # where it ran
  timings @10 :Timings;
}

# ---- Profiles and catalog ----------------------------------------------------------------------------------

struct Feature {
  # Numbers of a user's events, one for each, under the name that the model's family has for them.
  name @0 :Text;
  values @1 :List(Int64);
}

struct Condition {
  # What a write expects to find. Over HTTP: If-Match and If-None-Match.
  absent @0 :Bool;
  present @1 :Bool;
  version @2 :UInt64;                             # 0: whichever
}

struct PutUser {
  # door → router. Answered by Stored or Refused. Either `history` or `tokens`, not both.
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
  history @3 :List(Text);                         # item ids, oldest first
  tokens @4 :List(Int32);
  features @5 :List(Feature);                     # of the events
  eventIds @6 :List(Text) $Json.name("event_ids");  # of the events, or none
  condition @7 :Condition $internal;
}

struct AppendEvents {
  # door → router. Answered by Appended or Refused. Members are those of PutUser; over HTTP it has another form
  # (server/http/door_events.h).
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
  # router → door.
  id @0 :UInt64 $internal;
  version @1 :UInt64;                             # of the profile
  appended @2 :UInt32;
  repeated @3 :UInt32;                            # events that were known already
  dropped @4 :UInt32;                             # the oldest
  events @5 :UInt32;                              # that the profile has now
}

struct GetUser {
  # door → router. Answered by UserReply or Refused.
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
}

struct UserReply {
  # router → door. As it was put.
  id @0 :UInt64 $internal;
  user @1 :Text;
  version @2 :UInt64;
  history @3 :List(Text);                         # "": an event that was put as tokens
  tokens @4 :List(Int32) $ifAny;                  # of all events, unless each has its item
  eventTokens @5 :List(UInt32) $Json.name("event_tokens") $ifAny;
  features @6 :List(Feature) $ifAny;
  eventIds @7 :List(Text) $Json.name("event_ids") $ifAny;
}

struct DeleteUser {
  # door → router. Answered by Stored or Refused.
  id @0 :UInt64 $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
  condition @3 :Condition $internal;
}

struct PutItem {
  # door → router. Answered by Stored or Refused.
  id @0 :UInt64 $internal;
  item @1 :Text;
  title @2 :Text;
  tokens @3 :List(Int32);
  identifier @4 :Int32 = -1;                      # vocabulary row whose logit is the item's score
  condition @5 :Condition $internal;
}

struct DeleteItem {
  # door → router. Answered by Stored or Refused.
  id @0 :UInt64 $internal;
  item @1 :Text;
  condition @2 :Condition $internal;
}

struct GetItem {
  # door → router. Answered by ItemReply or Refused.
  id @0 :UInt64 $internal;
  item @1 :Text;
}

struct ItemReply {
  # router → door. As it was put.
  id @0 :UInt64 $internal;
  item @1 :Text;
  title @2 :Text;
  tokens @3 :List(Int32);
  identifier @4 :Int32;
  version @5 :UInt64;                             # of the catalog, that wrote it
}

struct Reload {
  # door → router. Answered by Stored when the new versions serve and the old ones have ended, or by Refused.
  id @0 :UInt64 $internal;
  modelVersion @1 :Text $Json.name("model");      # "" keeps the present one
  catalogVersion @2 :Text $Json.name("catalog");  # "" keeps the present one
  share @3 :Float64 = 1;                          # of users that get the model, 0 to 1; below 1 the present one serves the others
}

struct Stored {
  # router → door.
  id @0 :UInt64 $internal;
  version @1 :UInt64;                             # of the profile, of the catalog, or the epoch of the versions
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

struct SeenRange {                                # of segments, half open
  begin @0 :UInt32;
  end @1 :UInt32;
}

struct Segment {                                  # kernels/base/plan.h says what each member means
  kind @0 :SegmentKind;
  tokens @1 :List(Int32);
  start @2 :Int32;                                # position of the first token
  sees @3 :List(SeenRange);                       # earlier segments, ascending
  shift @4 :Int32;                                # of its keys' positions, for those that see them
  replaces @5 :UInt32 = 4294967295;               # an earlier segment; by default none
  replacesOffset @6 :UInt32;
  features @7 :List(Int64);                       # of each token as many as the model's family takes
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
  segment @0 :UInt32;                             # behind whose last token it begins
  width @1 :UInt32;                               # 0: there is none
  results @2 :UInt32;
  steps @3 :UInt32;
  normalised @4 :Normalised;
  allowed @5 :List(TokenList);                    # whole paths
  denied @6 :List(TokenList);
  byToken @7 :Bool;                               # beams say each token's log-probability, too
  enum Normalised {
    vocabulary @0;
    allowed @1;
  }
}

struct Repair {                                   # kernels/base/repair.h says what each member means
  places @0 :List(Place);                         # none: there is no repair
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
  prototypes @8 :Text;                            # checksum of the file; empty: no place is of any
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
  byToken @2 :List(Float64);                      # none, unless the search was asked for them
}

struct SegmentBlock {
  name @0 :BlockName;                             # empty: never reused, never kept
  owner @1 :Text;                                 # user or item id that the block belongs to
  at @2 :UInt32;                                  # another node that is said to hold the block; 0: none is known
}

struct ObsoletePlannedSegment {
  kind @0 :SegmentKind;
  tokens @1 :List(Int32);
  start @2 :Int32;                                # position of the first token
  sees @3 :List(UInt32);                          # indices of earlier segments, attended to in full
  block @4 :BlockName;                            # empty: never reused, never kept
  owner @5 :Text;                                 # user or item id that the block belongs to
  at @6 :UInt32;                                  # another node that is said to hold the block; 0: none is known
}

struct ObsoletePlannedReadout {
  segment @0 :UInt32;
  offset @1 :UInt32;                              # token inside the segment
  rows @2 :List(Int32);                           # vocabulary rows whose logits are read
}

struct BlockUse {
  # Of a block that a node's requests did not want because they ran on other nodes.
  name @0 :BlockName;
  tokens @1 :UInt32;
  times @2 :UInt32;                               # that it was used since the node was last told
  sparedUs @3 :Float32;                           # what finding it there would have spared each
}

struct Retention {
  # What may make room for a request's blocks, and what they are worth once they are there.
  evictFirst @0 :List(BlockName);                 # coldest user blocks, if room must be made
  keepHotter @1 :Bool;                            # all areas are one; items are kept only if wanted more often lately
                                                  # than what must go
  belongs @2 :Bool;                               # pulled blocks, too, displace others and stay
  copyWorth @3 :Float64;                          # with keepHotter: of 0 to 1, pulling a block again over computing it
  guest @4 :Bool;                                 # the user's home is another node
  elsewhere @5 :List(BlockUse);                   # of users whose home is here and whose requests were sent elsewhere lately
}

struct Execute {
  # router → inference worker. Answered by Executed or Refused.
  id @0 :UInt64;
  priority @1 :Priority;
  budgetUs @2 :Int64;                             # time left, counted from receipt
  obsoleteSegments @3 :List(ObsoletePlannedSegment);
  obsoleteReadouts @4 :List(ObsoletePlannedReadout);
  obsoleteEvictFirst @5 :List(BlockName);
  modelVersion @6 :Text;                          # that the request is pinned to
  alone @7 :Bool;                                 # in a batch of its own
  obsoleteKeepHotter @8 :Bool;
  obsoleteBelongs @9 :Bool;
  obsoleteCopyWorth @10 :Float64;
  plan @11 :Plan;
  blocks @12 :List(SegmentBlock);                 # one for each of the plan's segments
  retention @13 :Retention;
  catalogVersion @14 :Text;                       # that the plan was made against; "": it needs nothing of one
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
  modelVersion @7 :Text;                          # that computed it
  pullUs @8 :Int64;                               # of blocksUs: until those of other nodes were here
  beams @9 :List(Beam);                           # of the plan's search, best first
}
