@0xd094e8f54729c483;
# Serving: requests of the HTTP server to the router, plans of the router for inference workers, and
# the answers.
#
# Who talks to whom
#   HTTP server → router       RankRequest, ScoreRequest, GenerateRequest, CompleteRequest,
#                              EmbedRequest, PutUser, AppendEvents, GetUser, DeleteUser, PutItem, GetItem,
#                              DeleteItem, Reload, ReplayRequest; Cancel of one of them
#   router → HTTP server       RankReply, ScoreReply, GenerateReply, CompleteReply, EmbedReply, Stored,
#                              Appended, UserReply, ItemReply, ReplayReply, or Refused instead of
#                              any of them
#   router → inference worker  Execute, answered by Executed or Refused; Cancel of one
#
# Order: none is assumed. An answer carries the `id` of its request, which the sender of the request
# chose. A request may arrive twice; an answer may be late, come twice or never. The sender gives up
# when its own budget is spent.
#
# The HTTP bodies are these structs as JSON: the key of a member is its $Json.name, or its own name;
# members marked $internal do not exist there. The C++ structs have the members in the order of this
# file. Comments on a member follow it.

using Cxx = import "/capnp/c++.capnp";
using Json = import "/capnp/compat/json.capnp";
using Notes = import "annotations.capnp";
using internal = Notes.internal;
using ifAny = Notes.ifAny;
using cppType = Notes.cppType;
using cppMember = Notes.cppMember;
using cppDefault = Notes.cppDefault;
$Cxx.namespace("troupe::schema");

using RequestId = UInt64;                         # chosen by the sender of the request; unique per sender
using NodeId = UInt32;                            # 0 = no node
using Token = Int32;
using BlockName = Data;                           # 32 bytes (SHA-256)
using Micros = Int64;                             # microseconds

struct TraceContext $cppType("TraceContext") {
  # Trace of the client to which a request belongs (W3C traceparent). Absent = none is known.
  high @0 :UInt64;
  low @1 :UInt64;
  span @2 :UInt64;
  sampled @3 :Bool;                               # the client records this trace
}

# ---- Answers to anything -----------------------------------------------------------------------------------

struct Refusal $cppType("Refusal") {
  # A typed rejection (runtime/actor/refusal.h).
  status @0 :UInt16 $cppMember("kind") $cppType("RefusalKind");
  # Number of its kind (runtime/wire/refusal_numbers.h).
  code @1 :Text;                                  # a stable word for programs
  what @2 :Text;                                  # what is wrong
  where @3 :Text;                                 # the field, file or actor concerned
  expected @4 :Text;                              # what a valid input would be
  retryAfterS @5 :UInt16;                         # seconds to wait before a retry; 0 = unknown
}

struct Refused {
  # Answer to any request of this file: a typed rejection.
  id @0 :RequestId $internal;
  refusal @1 :Refusal;
}

struct Timings {
  # Duration of each step of a request in microseconds; the steps follow one another.
  features @0 :Micros;
  lookup @1 :Micros;
  blocks @2 :Micros;
  queue @3 :Micros;
  compute @4 :Micros;
  total @5 :Micros;
  pull @6 :Micros;                                # part of `blocks`: until other nodes' blocks had arrived
  predicted @7 :Micros;
  # The router's estimate, when it chose the node, of the time until the answer; 0 = none.
  turn @8 :Micros;
  # Between lookup and blocks: waiting at the router for a worker.
}

struct Feature {
  # One number per event of a user, under the name that the model gives it, e.g. "timestamps".
  name @0 :Text;
  values @1 :List(Int64);
}

# ---- Ranking -----------------------------------------------------------------------------------------------

struct RankRequest {
  # HTTP server → router. Answered by RankReply or Refused.
  id @0 :RequestId $internal;
  tenant @1 :Text $internal;                      # "" = the default tenant; an HTTP header
  user @2 :Text;
  candidates @3 :List(Text);                      # item ids
  topK @4 :UInt32 $Json.name("top_k");            # items to return; 0 = all candidates
  policy @5 :Text;
  # One of recompute | user | item | bat | …; "" = the configured policy.
  budgetUs @6 :Micros $Json.name("budget_us");    # from receipt to answer; 0 = the configured budget
  requestTimestamp @7 :Int64 $Json.name("request_timestamp");
  # Seconds since 1970, for models that use times; 0 = the HTTP server sets the present.
  approximate @8 :Float64 = -1;
  # Maximum share of the prompt's tokens that may be approximate (Repair); negative = no limit beyond
  # the policy's.
  scenario @9 :UInt32;
  # Scenario of the request, for models that distinguish scenarios: below the model's number of them.
  task @10 :Text;
  # Name of the model's task that orders the candidates; "" = the first one.
  features @11 :Text $cppType("Freshness") $cppDefault("Freshness::configured");
  # Required freshness of features: exact | wait | behind; "" = as configured.
  unknown @12 :Text $cppType("UnknownCandidates") $cppDefault("UnknownCandidates::refuse");
  # Treatment of candidates missing from the catalog: refuse | skip; "" = refuse.
  history @13 :List(Text);
  # The request's own history, in place of `user`: item ids, oldest first. Members of a history are
  # those of PutUser; over HTTP a feature may have a member of its own name there, too.
  trace @14 :TraceContext $internal $ifAny;
  arrangement @15 :Text $cppType("Arrangement") $cppDefault("Arrangement::unnamed");
  # Declared arrangement to be served: causal | user_first | item_first | candidates_apart; "" = the
  # form's first, or one of those that it lists as interchangeable.
  explain @16 :Bool;                              # the reply includes an explanation
  clientRequestId @17 :Text $internal;
  # The client's x-request-id; "" = the request id is the trace id.
  historyTokens @18 :List(Token) $Json.name("tokens");  # the own history as tokens, instead of `history`
  eventFeatures @19 :List(Feature) $Json.name("event_features");
  # Features of the own history's events. Over HTTP "features" may be this list, too, as in PutUser.
  ownHistory @20 :Bool $internal;
  # The request has its own history, which may be empty: that of a user without events. Over HTTP true
  # if there is a member "history" or "tokens".
  unknownUser @21 :Text $Json.name("unknown_user") $cppType("UnknownUser")
      $cppDefault("UnknownUser::configured");
  # Treatment of a user that is not stored: refuse | cold; "" = as configured.
}

struct RankedItem {
  id @0 :Text;                                    # item id
  title @1 :Text;
  score @2 :Float64;
  # Logit of the item's identifier token at the discriminant token, or score of the ordering task.
  probability @3 :Float64;
  # Softmax of the scores over this request's candidates (BAT §2.2).
  taskScores @4 :List(Float64) $Json.name("task_scores") $ifAny;  # parallel to RankReply.tasks
}

struct TokenRange {
  # Half-open range of a segment's tokens.
  segment @0 :UInt32;
  begin @1 :UInt32;
  end @2 :UInt32;
}

struct ExplainedSegment {
  # A run of the prompt's tokens that attend to the same segments, and where its keys and values came
  # from.
  kind @0 :SegmentKind;
  item @1 :Text;                                  # candidate whose tokens these are; "" = none
  tokens @2 :List(Token);
  texts @3 :List(Text) $ifAny;
  # One per token, from the model's tokenizer or vocabulary; empty = the model has neither.
  features @4 :List(Int64) $ifAny;                # [token][feature], of models whose tokens are items
  start @5 :Int32;                                # position of the first token; later ones follow it
  computedAt @6 :Int32 $Json.name("computed_at");
  # Position of the first token when its keys and values were computed. Unequal to `start` only if the
  # segment is moved.
  sees @7 :List(SeenRange);
  # Earlier segments that all its tokens attend to, beside the earlier tokens of the segment itself.
  replaces @8 :List(TokenRange) $ifAny;
  # Tokens of an earlier segment that this one replaces for later segments; at most one range.
  filledBy @9 :List(UInt32) $Json.name("filled_by") $ifAny;
  # Segment whose keys and values fill this one approximately; at most one.
  source @10 :Text;
  # computed | cached | pulled | prototypes | filled: where its keys and values came from.
  node @11 :NodeId;                               # node from which it was pulled; 0 = not pulled
  block @12 :Text;
  # Name of its cached block, 64 hexadecimal digits; "" = it is neither reused nor kept.
}

struct ExplainedScore {
  # Where a candidate's score is read. It is the logit of `rows[0]`, less that of `rows[1]` if there are
  # two, or the value of `head`.
  item @0 :Text;
  task @1 :Text;                                  # "" = the model has a single task without a name
  segment @2 :UInt32;
  offset @3 :UInt32;                              # token inside the segment
  rows @4 :List(Token) $ifAny;                    # vocabulary rows
  head @5 :UInt32;
}

struct Explanation {
  # The prompt as the model computed it.
  segments @0 :List(ExplainedSegment);
  scores @1 :List(ExplainedScore);                # in the order of the request's candidates
  positionsMax @2 :UInt32 $Json.name("positions_max");
  cut @3 :Text;                                   # what was left out of the prompt, and why; "" = nothing
}

struct RankReply {
  # router → HTTP server.
  id @0 :RequestId $internal;
  user @1 :Text;
  items @2 :List(RankedItem);                     # best first; ties in candidate order
  policy @3 :Text;                                # policy that chose the plan
  plan @4 :Text;                                  # plan that was run: "user", "item", …
  tokensTotal @5 :UInt32 $Json.name("tokens_total");
  tokensComputed @6 :UInt32 $Json.name("tokens_computed");
  tokensReused @7 :UInt32 $Json.name("tokens_reused");
  blocksReused @8 :UInt32 $Json.name("blocks_reused");
  blocksWritten @9 :UInt32 $Json.name("blocks_written");
  historyCut @10 :UInt32 $Json.name("history_cut");
  # History events dropped (oldest first) to fit the model's positions.
  modelVersion @11 :Text $Json.name("model_version");
  catalogVersion @12 :Text $Json.name("catalog_version");
  profileVersion @13 :UInt64 $Json.name("profile_version");
  node @14 :NodeId;                               # node that ran the plan
  timings @15 :Timings;
  approximate @16 :Float64;
  # Share of the prompt's tokens that differ from the plain computation of the arrangement: their keys
  # and values come from blocks computed apart, or they are repaired tokens of "item+N"; 0 = none.
  tasks @17 :List(Text) $ifAny;
  # Names of the model's tasks; empty = a single task without a name.
  featuresStale @18 :UInt32 $Json.name("features_stale");      # 1 if the answer used stale features
  featuresMissing @19 :UInt32 $Json.name("features_missing");  # 1 if the answer used no features
  skipped @20 :List(Text) $ifAny;                 # candidates missing from the catalog
  arrangement @21 :Text $cppType("Arrangement") $cppDefault("Arrangement::unnamed");
  # Arrangement whose scores these are.
  explanation @22 :Explanation $ifAny;            # if requested
  inPlace @23 :List(Text) $Json.name("in_place") $ifAny;
  # Candidates that were computed exactly in their place, because no node had their blocks, under a plan
  # that reuses the blocks of the others.
  unknownUser @24 :Text $Json.name("unknown_user") $ifAny;
  # "cold" = the user is not stored, and was answered as one without events.
}

# ---- Scores of label tokens --------------------------------------------------------------------------------

struct TokenList {
  tokens @0 :List(Token);
}

struct ScoreRow {
  scores @0 :List(Float64);                       # one per label token
}

struct ScoreRequest {
  # HTTP server → router. Answered by ScoreReply or Refused. Asks for scores of label tokens after
  # query + item, item by item (a request form that other engines offer).
  id @0 :RequestId $internal;
  tenant @1 :Text $internal;
  query @2 :List(Token);                          # tokens before every item
  items @3 :List(TokenList);
  labelTokens @4 :List(Token) $Json.name("label_tokens");
  applySoftmax @5 :Bool $Json.name("apply_softmax");  # over the label tokens
  budgetUs @6 :Micros $Json.name("budget_us");
  trace @7 :TraceContext $internal $ifAny;
  clientRequestId @8 :Text $internal;             # as in RankRequest
}

struct ScoreReply {
  # router → HTTP server.
  id @0 :RequestId $internal;
  items @1 :List(ScoreRow);                       # parallel to ScoreRequest.items
  tokensTotal @2 :UInt32 $Json.name("tokens_total");
  tokensComputed @3 :UInt32 $Json.name("tokens_computed");
  tokensReused @4 :UInt32 $Json.name("tokens_reused");
  modelVersion @5 :Text $Json.name("model_version");
  timings @6 :Timings;
}

# ---- Items found by beam search ----------------------------------------------------------------------------

struct GenerateRequest {
  # HTTP server → router. Answered by GenerateReply or Refused. Asks for items of the whole catalog
  # that a user may want next: those whose identifiers (their tokens) a beam search finds most
  # probable behind the user's history, or, of a model that scores the next item, the best of all items.
  id @0 :RequestId $internal;
  tenant @1 :Text $internal;                      # "" = the default tenant
  user @2 :Text;
  topK @3 :UInt32 $Json.name("top_k");            # items to return; 0 = the default number
  width @4 :UInt32;                               # paths kept at each step; 0 = the default number
  excludeSeen @5 :Bool $Json.name("exclude_seen");  # excludes items whose identifiers are in the history
  allow @6 :List(Text);                           # item ids to choose from; empty = the whole catalog
  deny @7 :List(Text);                            # item ids to exclude; unknown ids are ignored
  amongAllowed @8 :Bool $Json.name("among_allowed");  # true = normalised "allowed", an older spelling
  budgetUs @9 :Micros $Json.name("budget_us");    # from receipt to answer; 0 = the configured budget
  logprobs @10 :Bool;                             # the answer includes the log probability of each token
  features @11 :Text $cppType("Freshness") $cppDefault("Freshness::configured");  # as in RankRequest
  trace @12 :TraceContext $internal $ifAny;
  clientRequestId @13 :Text $internal;            # as in RankRequest
  requestTimestamp @14 :Int64 $Json.name("request_timestamp");  # as in RankRequest
  history @15 :List(Text);                        # this and the next three as in RankRequest
  historyTokens @16 :List(Token) $Json.name("tokens");
  eventFeatures @17 :List(Feature) $Json.name("event_features");
  ownHistory @18 :Bool $internal;
  unknownUser @19 :Text $Json.name("unknown_user") $cppType("UnknownUser")
      $cppDefault("UnknownUser::configured");     # as in RankRequest
  normalised @20 :Text $cppType("Normalised") $cppDefault("Normalised::by_model");
  # Probabilities over the whole "vocabulary", or over the "allowed" tokens, those that may follow;
  # "" = as the model's form says.
}

struct GeneratedItem {
  id @0 :Text;
  title @1 :Text;
  tokens @2 :List(Token);                         # its identifier
  logProbability @3 :Float64 $Json.name("log_probability");
  tokenLogprobs @4 :List(Float64) $Cxx.name("byToken") $Json.name("token_logprobs") $ifAny;
  # One per token, if requested.
  score @5 :Float64;
  # What orders the items: the similarity to the user's next item if the model scores the next item,
  # else log_probability.
}

struct GenerateReply {
  # router → HTTP server.
  id @0 :RequestId $internal;
  user @1 :Text;
  items @2 :List(GeneratedItem);
  # Best first; items that share an identifier are in the order of their ids, compared as texts.
  reason @3 :Text;
  # Why there are fewer items than requested; "" = there are enough.
  width @4 :UInt32;                               # width of the search
  tokensTotal @5 :UInt32 $Json.name("tokens_total");  # tokens of the prompt
  tokensComputed @6 :UInt32 $Json.name("tokens_computed");
  tokensReused @7 :UInt32 $Json.name("tokens_reused");
  blocksReused @8 :UInt32 $Json.name("blocks_reused");
  blocksWritten @9 :UInt32 $Json.name("blocks_written");
  historyCut @10 :UInt32 $Json.name("history_cut");
  # History events dropped (oldest first) to fit the model's positions.
  modelVersion @11 :Text $Json.name("model_version");
  catalogVersion @12 :Text $Json.name("catalog_version");
  profileVersion @13 :UInt64 $Json.name("profile_version");
  node @14 :NodeId;                               # node that ran the plan
  timings @15 :Timings;
  featuresStale @16 :UInt32 $Json.name("features_stale");  # as in RankReply
  featuresMissing @17 :UInt32 $Json.name("features_missing");
  unknownUser @18 :Text $Json.name("unknown_user") $ifAny;  # as in RankReply
}

# ---- Continuations of a prompt -----------------------------------------------------------------------------

struct CompleteRequest {
  # HTTP server → router. Answered by CompleteReply or Refused. Asks a generator for the most probable
  # continuations of a prompt that a beam search finds. Over HTTP both have OpenAI's form
  # (server/http/completions.h). The catalog is used only if `items` is set.
  id @0 :RequestId;
  tenant @1 :Text;                                # "" = the default tenant
  model @2 :Text;                                 # model version; "" = the served one
  prompt @3 :List(Token);
  maxTokens @4 :UInt32 = 16;
  # Exact length of each completion; with `items`, the maximum length.
  n @5 :UInt32 = 1;                               # completions to return
  beamWidth @6 :UInt32;                           # paths kept at each step; 0 = n; 1 = greedy decoding
  items @7 :Bool;                                 # only identifiers of the catalog are completions
  logprobs @8 :Bool;                              # the answer includes log probabilities
  budgetUs @9 :Micros;                            # from receipt to answer; 0 = the configured budget
  trace @10 :TraceContext $ifAny;
  clientRequestId @11 :Text;                      # as in RankRequest
}

struct CompleteReply {
  # router → HTTP server.
  id @0 :RequestId;
  completions @1 :List(Beam);
  # Most probable first; fewer than `n` only if there are no more.
  tokensTotal @2 :UInt32;                         # tokens of the prompt
  tokensComputed @3 :UInt32;
  tokensReused @4 :UInt32;
  logprobs @5 :Bool;                              # as in the request
  items @6 :Bool;                                 # as in the request
  modelVersion @7 :Text;
  catalogVersion @8 :Text;                        # empty unless `items` is set
  node @9 :NodeId;                                # node that ran the plan
  timings @10 :Timings;
}

# ---- Embeddings --------------------------------------------------------------------------------------------

struct EmbedRequest {
  # HTTP server → router. Answered by EmbedReply or Refused. Asks for the final hidden state of the last
  # token of each text, or of a user's last event.
  id @0 :RequestId $internal;
  tenant @1 :Text $internal;
  texts @2 :List(TokenList);                      # of a model that reads text; empty = `user` is asked
  user @3 :Text;                                  # of a model whose tokens are items
  requestTimestamp @4 :Int64 $Json.name("request_timestamp");  # as in RankRequest
  budgetUs @5 :Micros $Json.name("budget_us");
  trace @6 :TraceContext $internal $ifAny;
  clientRequestId @7 :Text $internal;             # as in RankRequest
  history @8 :List(Text);                         # this and the next three as in RankRequest
  historyTokens @9 :List(Token) $Json.name("tokens");
  eventFeatures @10 :List(Feature) $Json.name("event_features");
  ownHistory @11 :Bool $internal;
}

struct EmbedReply {
  # router → HTTP server.
  id @0 :RequestId $internal;
  embeddings @1 :List(ScoreRow);                  # parallel to `texts`; of length 1, or all 0
  tokensTotal @2 :UInt32 $Json.name("tokens_total");
  tokensComputed @3 :UInt32 $Json.name("tokens_computed");
  tokensReused @4 :UInt32 $Json.name("tokens_reused");
  modelVersion @5 :Text $Json.name("model_version");
  timings @6 :Timings;
  node @7 :NodeId;                                # node that ran the plan
}

# ---- Profiles and catalog ----------------------------------------------------------------------------------

struct Condition {
  # State that a write expects. If it finds another one, it changes nothing and is refused
  # (precondition_failed, `changed_meanwhile`). Over HTTP: If-Match and If-None-Match.
  absent @0 :Bool;                                # there must be no entry
  present @1 :Bool;                               # there must be an entry, of any version
  version @2 :UInt64;                             # the entry must have this version; 0 = any
}

struct PutUser {
  # HTTP server → router. Answered by Stored or Refused. A history is given as item ids (resolved to
  # their tokens when it is written) or as tokens, not both.
  id @0 :RequestId $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
  history @3 :List(Text);                         # item ids, oldest first
  tokens @4 :List(Token);
  features @5 :List(Feature);                     # one value per event, or per token where tokens are given
  eventIds @6 :List(Text) $Json.name("event_ids");
  # One per event, or empty; by it an event that is appended again is recognised.
  condition @7 :Condition $internal;
}

struct AppendEvents {
  # HTTP server → router. Answered by Appended or Refused. Appends events to a user's history, which
  # need not exist; the newest up to the limit are kept. An event whose id is among the kept ones is
  # skipped as known. Members are those of PutUser; over HTTP it has another form
  # (server/formats/event_list.h).
  id @0 :RequestId $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
  history @3 :List(Text);                         # item ids, oldest first
  tokens @4 :List(Token);                         # instead of `history`
  features @5 :List(Feature);
  eventIds @6 :List(Text) $Json.name("event_ids");  # one per event, or empty
  condition @7 :Condition $internal;
}

struct Appended {
  # router → HTTP server.
  id @0 :RequestId $internal;
  version @1 :UInt64;                             # version of the profile
  appended @2 :UInt32;                            # events of this request that were appended
  repeated @3 :UInt32;                            # events that were known already
  dropped @4 :UInt32;                             # oldest events dropped to make the others fit
  events @5 :UInt32;                              # events that the profile has now
}

struct GetUser {
  # HTTP server → router. Answered by UserReply or Refused.
  id @0 :RequestId $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
}

struct UserReply {
  # router → HTTP server. The profile as it was put.
  id @0 :RequestId $internal;
  user @1 :Text;
  version @2 :UInt64;
  history @3 :List(Text);
  # Item id of each event; "" = the event was put as tokens. Empty = all were.
  tokens @4 :List(Token) $ifAny;                  # tokens of all events; empty if every event has its item
  eventTokens @5 :List(UInt32) $Json.name("event_tokens") $ifAny;  # tokens per event; empty = one each
  features @6 :List(Feature) $ifAny;
  eventIds @7 :List(Text) $Json.name("event_ids") $ifAny;
  # "" = the event has none; empty = no event has one.
}

struct DeleteUser {
  # HTTP server → router. Answered by Stored or Refused.
  id @0 :RequestId $internal;
  tenant @1 :Text $internal;
  user @2 :Text;
  condition @3 :Condition $internal;
}

struct PutItem {
  # HTTP server → router. Answered by Stored or Refused.
  id @0 :RequestId $internal;
  item @1 :Text;
  title @2 :Text;
  tokens @3 :List(Token);
  identifier @4 :Token = -1;                      # vocabulary row whose logit is the item's score
  condition @5 :Condition $internal;
  publish @6 :Bool = true;
  # False: the item is stored, but requests see it only from the next write of the catalog that publishes, or
  # from a restart. An import of many items so makes one version of the catalog for them. A Redis of several
  # routers publishes each write.
}

struct DeleteItem {
  # HTTP server → router. Answered by Stored or Refused.
  id @0 :RequestId $internal;
  item @1 :Text;
  condition @2 :Condition $internal;
}

struct GetItem {
  # HTTP server → router. Answered by ItemReply or Refused.
  id @0 :RequestId $internal;
  item @1 :Text;
}

struct ItemReply {
  # router → HTTP server. The item as it was put.
  id @0 :RequestId $internal;
  item @1 :Text;
  title @2 :Text;
  tokens @3 :List(Token);
  identifier @4 :Token $cppDefault("-1");
  version @5 :UInt64;                             # catalog version that wrote it
}

struct Reload {
  # HTTP server → router. Operator's command: serve another model or catalog from now on. Answered by
  # Stored when every live worker has loaded the new versions and no request of this router runs on
  # the old ones any more (promise 4), or by Refused.
  id @0 :RequestId $internal;
  modelVersion @1 :Text $Json.name("model");      # "" keeps the present one
  catalogVersion @2 :Text $Json.name("catalog");  # "" keeps the present one
  share @3 :Float64 = 1;
  # Share of users that get the model, 0 to 1; below 1 the present model keeps serving the others.
}

struct Cancel {
  # HTTP server → router, router → inference worker. Nobody waits for the answer to the sender's
  # request `id`: it is dropped unless it has begun. Answered by nothing; the request keeps its one
  # outcome, which its sender ignores.
  id @0 :RequestId;
}

struct Stored {
  # router → HTTP server. Answer to writes and reloads.
  id @0 :RequestId $internal;
  version @1 :UInt64;
  # Version of the profile or the catalog; for Reload, the epoch of the versions.
}

# ---- Replays -----------------------------------------------------------------------------------------------

struct ReplayRequest {
  # HTTP server → router, router → router. Answered by ReplayReply or Refused. Asks to compute a
  # recorded request again (`replay.keep`), on the model version that answered it and without any
  # cached block.
  id @0 :RequestId $internal;
  requestId @1 :Text $Json.name("request_id");
  # x-request-id of its response.
  forwarded @2 :Bool $internal;                   # by another router, which has no such record
  tenant @3 :Text $internal;                      # tenant of the recorded request
}

struct ReplayedValue {
  name @0 :Text;
  # Candidate, label or generated tokens whose value it is; with the task where there are several.
  recorded @1 :Float64;
  replayed @2 :Float64;
}

struct ReplayReply {
  # router → HTTP server, router → router.
  id @0 :RequestId $internal;
  requestId @1 :Text $Json.name("request_id");
  kind @2 :Text;                                  # rank | score | generate | complete
  tenant @3 :Text;
  user @4 :Text;
  answeredAt @5 :Int64 $Json.name("answered_at"); # seconds since 1970
  modelVersion @6 :Text $Json.name("model_version");
  catalogVersion @7 :Text $Json.name("catalog_version");
  profileVersion @8 :UInt64 $Json.name("profile_version");
  plan @9 :Text;
  node @10 :NodeId;                               # node that replayed it
  values @11 :List(ReplayedValue);                # scores or log probabilities, in the order of the request
  largestDifference @12 :Float64 $Json.name("largest_difference");
  bound @13 :Float64;                             # differences up to it are rounding
  equal @14 :Bool;                                # all differences are rounding
}

# ---- Execution ---------------------------------------------------------------------------------------------

enum SegmentKind $cppType("SegmentKind") {
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

struct SeenRange $cppType("VisibleSegments::Range") {
  # Half-open range of segments.
  begin @0 :UInt32;
  end @1 :UInt32;
}

struct Segment $cppType("Segment") {
  # Members: see kernels/base/plan.h.
  kind @0 :SegmentKind;
  tokens @1 :List(Token);
  start @2 :Int32;                                # position of the first token
  sees @3 :List(SeenRange);                       # earlier segments, ascending
  shift @4 :Int32;                                # shift of its keys' positions, as seen by later segments
  replaces @5 :UInt32 = 4294967295 $cppMember("replaces.segment");  # an earlier segment; default = none
  replacesOffset @6 :UInt32 $cppMember("replaces.offset");
  features @7 :List(Int64);                       # the model's number of features, for each token
}

struct Readout $cppType("Readout") {
  segment @0 :UInt32;
  offset @1 :UInt32;                              # token inside the segment
  rows @2 :List(Token);                           # vocabulary rows whose logits are read
  what @3 :What;
  head @4 :UInt32;
  enum What {
    rows @0;
    allRows @1;
    head @2;
    state @3;
  }
}

struct Search $cppType("Search") {
  segment @0 :UInt32;                             # the search begins behind this segment's last token
  width @1 :UInt32;                               # 0 = no search
  results @2 :UInt32;
  steps @3 :UInt32;
  normalised @4 :Normalisation;
  allowed @5 :List(TokenList);                    # complete paths
  denied @6 :List(TokenList);
  byToken @7 :Bool;                               # beams include each token's log probability
  ofItems @8 :Bool;                               # paths are one token, a row of the item table
  enum Normalisation {
    vocabulary @0;
    allowed @1;
  }
}

struct Repair $cppType("Repair") {
  # Members: see kernels/base/repair.h.
  places @0 :List(Place) $Cxx.name("reusedSpans");  # empty = no repair
  budgets @1 :List(UInt32);
  always @2 :List(UInt32);
  attention @3 :Float32;
  divergence @4 :Float32;
  attending @5 :UInt32;
  exactLayers @6 :UInt32 = 1;
  mean @7 :Bool;
  prototypes @8 :Text;                            # checksum of the file; empty = no span uses prototypes
  factors @9 :List(Factors);                      # of the weights, by budget; empty = 1 for all
  struct Factors $cppType("Repair::Weights") {
    attention @0 :Float32 = 1;
    divergence @1 :Float32 = 1;
  }
  struct Place $cppType("Repair::ReusedSpan") {
    segment @0 :UInt32;
    block @1 :UInt32;
    budget @2 :UInt32;
    ofPrototypes @3 :Bool;
  }
}

struct Plan $cppType("Plan") {
  segments @0 :List(Segment);
  readouts @1 :List(Readout);
  search @2 :Search $ifAny;
  repair @3 :Repair $ifAny;
}

struct Beam $cppType("Beam") {
  path @0 :List(Token);
  logProbability @1 :Float64;
  byToken @2 :List(Float64) $ifAny;               # empty unless Search.byToken is set
  score @3 :Float64;                              # logit of its one token, of models that score items
}

struct SegmentBlock {
  # Block under which the keys and values of a plan's segment may be reused.
  name @0 :BlockName $cppType("std::optional<BlockName>");  # absent = never reused, never kept
  owner @1 :Text;
  # User or item id that owns the block; "" = the system segment.
  at @2 :NodeId;                                  # another node reported to hold the block; 0 = none known
}

struct ObsoletePlannedSegment {
  kind @0 :SegmentKind;
  tokens @1 :List(Token);
  start @2 :Int32;                                # position of the first token
  sees @3 :List(UInt32);                          # earlier segments, attended to in full
  block @4 :BlockName;                            # empty = never reused, never kept
  owner @5 :Text;                                 # user or item id that owns the block
  at @6 :NodeId;                                  # another node reported to hold the block; 0 = none known
}

struct ObsoletePlannedReadout {
  segment @0 :UInt32;
  offset @1 :UInt32;                              # token inside the segment
  rows @2 :List(Token);                           # vocabulary rows whose logits are read
}

struct BlockUse {
  # Uses of a block that its home node did not see because the requests ran on other nodes. They help
  # to decide which blocks are worth keeping.
  name @0 :BlockName;
  tokens @1 :UInt32;
  times @2 :UInt32 $cppDefault("1");              # uses since the last report to the node
  sparedUs @3 :Float32;
  # Microseconds that finding it there would have saved per use.
}

struct Retention {
  # Tells the KV-cache worker which blocks may be evicted for a request's blocks, and how long those
  # are worth keeping. The sender of the plan fills it; the inference worker forwards it.
  evictFirst @0 :List(BlockName);
  # Coldest user blocks, evicted first if pages are needed (BAT §5.3).
  keepHotter @1 :Bool;
  # All areas share one LRU; copies that other nodes have are evicted earlier. An item's block is kept
  # only if it was wanted more often lately than the blocks it would evict. A user's block is always
  # kept, since the sender of the plan weighed it.
  belongs @2 :Bool;
  # The blocks belong on this node: pulled ones, too, evict others and stay.
  copyWorth @3 :Float64;
  # With keepHotter: cost of pulling a block again relative to computing it, 0 to 1.
  guest @4 :Bool $Cxx.name("remoteHome");
  # The user's home is another node, or the home was told of this request: this node does not count
  # the savings of keeping the user's blocks.
  elsewhere @5 :List(BlockUse) $ifAny;
  # Blocks of users whose home is this node, but whose recent requests ran elsewhere: the savings that
  # keeping them here would have brought.
}

struct Execute {
  # router → inference worker. Answered by Executed or Refused.
  id @0 :RequestId;
  priority @1 :Priority;
  budgetUs @2 :Micros;                            # time left, counted from receipt
  plan @11 :Plan;
  blocks @12 :List(SegmentBlock);                 # one per segment of the plan
  retention @13 :Retention;
  modelVersion @6 :Text;
  # Version that the plan was made for and is computed with; a worker that lacks it refuses.
  catalogVersion @14 :Text;
  # Likewise for the catalog; "" = the plan uses the catalog only through its tokens.
  alone @7 :Bool;
  # Runs in a batch of its own, because a worker was lost while it ran (promise 12).
  trace @15 :TraceContext $ifAny;

  obsoleteSegments @3 :List(ObsoletePlannedSegment);
  obsoleteReadouts @4 :List(ObsoletePlannedReadout);
  obsoleteEvictFirst @5 :List(BlockName);
  obsoleteKeepHotter @8 :Bool;
  obsoleteBelongs @9 :Bool;
  obsoleteCopyWorth @10 :Float64;
}

struct Executed {
  # inference worker → router.
  id @0 :RequestId;
  readouts @1 :List(ScoreRow);                    # logits, one row per readout
  reused @2 :List(UInt8);                         # per segment: 1 if its block was reused
  blocksWritten @3 :UInt32;
  blocksUs @4 :Micros;                            # waiting for blocks
  queueUs @5 :Micros;
  computeUs @6 :Micros;
  modelVersion @7 :Text;                          # version that computed it
  pullUs @8 :Micros;                              # part of blocksUs: until other nodes' blocks had arrived
  beams @9 :List(Beam);                           # beams of the plan's search, best first
}
