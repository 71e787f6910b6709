// Converts requests for rankings, scores and generation, their execution on workers, and the
// answers to their Cap'n Proto form (schema/serving.capnp) and back. Profiles and the catalog
// are in codec_features.cc.
#include "runtime/wire/codec_fields.h"

namespace troupe::codec {

static_assert(static_cast<int>(schema::SegmentKind::SYSTEM) == static_cast<int>(SegmentKind::system));
static_assert(static_cast<int>(schema::SegmentKind::USER) == static_cast<int>(SegmentKind::user));
static_assert(static_cast<int>(schema::SegmentKind::ITEM) == static_cast<int>(SegmentKind::item));
static_assert(static_cast<int>(schema::SegmentKind::INSTRUCTION) ==
              static_cast<int>(SegmentKind::instruction));
static_assert(static_cast<int>(schema::SegmentKind::DISCRIMINANT) ==
              static_cast<int>(SegmentKind::discriminant));
static_assert(static_cast<int>(schema::SegmentKind::BEAM) == static_cast<int>(SegmentKind::beam));
static_assert(static_cast<int>(schema::Readout::What::ROWS) == static_cast<int>(Readout::What::rows));
static_assert(static_cast<int>(schema::Readout::What::ALL_ROWS) == static_cast<int>(Readout::What::all_rows));
static_assert(static_cast<int>(schema::Readout::What::HEAD) == static_cast<int>(Readout::What::head));
static_assert(static_cast<int>(schema::Search::Normalisation::VOCABULARY) ==
              static_cast<int>(Search::Normalisation::vocabulary));
static_assert(static_cast<int>(schema::Search::Normalisation::ALLOWED) ==
              static_cast<int>(Search::Normalisation::allowed));
static_assert(static_cast<int>(schema::Priority::SERVING) == static_cast<int>(Priority::serving));
static_assert(static_cast<int>(schema::Priority::BACKGROUND) == static_cast<int>(Priority::background));

void get(capnp::Data::Reader name, BlockName& out) {
  KJ_REQUIRE(name.size() == out.bytes.size(), "a block name has the wrong length; expected 32 bytes",
             name.size());
  std::copy(name.begin(), name.end(), out.bytes.begin());
}

void get(capnp::Data::Reader name, std::optional<BlockName>& out) {
  out.reset();
  if (name.size() > 0) get(name, out.emplace());
}

void put(const Refusal& m, schema::Refusal::Builder to) {
  to.setStatus(m.status);
  to.setCode(wire(m.code));
  to.setWhat(wire(m.what));
  to.setWhere(wire(m.where));
  to.setExpected(wire(m.expected));
  to.setRetryAfterS(m.retry_after_s);
}
void get(schema::Refusal::Reader from, Refusal& m) {
  m.status = from.getStatus();
  get(from.getCode(), m.code);
  get(from.getWhat(), m.what);
  get(from.getWhere(), m.where);
  get(from.getExpected(), m.expected);
  m.retry_after_s = from.getRetryAfterS();
}

void put(const RankRequest& m, schema::RankRequest::Builder to) {
  to.setId(m.id);
  to.setTenant(wire(m.tenant));
  to.setUser(wire(m.user));
  put_list(m.candidates, to.initCandidates(m.candidates.size()));
  to.setTopK(m.top_k);
  to.setPolicy(wire(m.policy));
  to.setBudgetUs(m.budget_us);
  to.setRequestTimestamp(m.request_timestamp);
  to.setApproximate(m.approximate);
  to.setScenario(m.scenario);
  to.setTask(wire(m.task));
  to.setFeatures(wire(m.features));
  to.setUnknown(wire(m.unknown));
  put_list(m.history, to.initHistory(m.history.size()));
  put_trace(m, to);
}
void get(schema::RankRequest::Reader from, RankRequest& m) {
  m.id = from.getId();
  get(from.getTenant(), m.tenant);
  get(from.getUser(), m.user);
  get_list(from.getCandidates(), m.candidates);
  m.top_k = from.getTopK();
  get(from.getPolicy(), m.policy);
  m.budget_us = from.getBudgetUs();
  m.request_timestamp = from.getRequestTimestamp();
  m.approximate = from.getApproximate();
  m.scenario = from.getScenario();
  get(from.getTask(), m.task);
  get(from.getFeatures(), m.features);
  get(from.getUnknown(), m.unknown);
  get_list(from.getHistory(), m.history);
  get_trace(from, m);
}

void put(const RankedItem& m, schema::RankedItem::Builder to) {
  to.setId(wire(m.id));
  to.setTitle(wire(m.title));
  to.setScore(m.score);
  to.setProbability(m.probability);
  if (!m.task_scores.empty()) put_list(m.task_scores, to.initTaskScores(m.task_scores.size()));
}
void get(schema::RankedItem::Reader from, RankedItem& m) {
  get(from.getId(), m.id);
  get(from.getTitle(), m.title);
  m.score = from.getScore();
  m.probability = from.getProbability();
  get_list(from.getTaskScores(), m.task_scores);
}

void put(const Timings& m, schema::Timings::Builder to) {
  to.setFeatures(m.features);
  to.setLookup(m.lookup);
  to.setBlocks(m.blocks);
  to.setQueue(m.queue);
  to.setCompute(m.compute);
  to.setTotal(m.total);
  to.setPull(m.pull);
  to.setPredicted(m.predicted);
  to.setTurn(m.turn);
}
void get(schema::Timings::Reader from, Timings& m) {
  m.features = from.getFeatures();
  m.lookup = from.getLookup();
  m.blocks = from.getBlocks();
  m.queue = from.getQueue();
  m.compute = from.getCompute();
  m.total = from.getTotal();
  m.pull = from.getPull();
  m.predicted = from.getPredicted();
  m.turn = from.getTurn();
}

void put(const RankReply& m, schema::RankReply::Builder to) {
  to.setId(m.id);
  to.setUser(wire(m.user));
  put_list(m.items, to.initItems(m.items.size()));
  to.setPolicy(wire(m.policy));
  to.setPlan(wire(m.plan));
  to.setTokensTotal(m.tokens_total);
  to.setTokensComputed(m.tokens_computed);
  to.setTokensReused(m.tokens_reused);
  to.setBlocksReused(m.blocks_reused);
  to.setBlocksWritten(m.blocks_written);
  to.setHistoryCut(m.history_cut);
  to.setModelVersion(wire(m.model_version));
  to.setCatalogVersion(wire(m.catalog_version));
  to.setProfileVersion(m.profile_version);
  to.setNode(m.node);
  put(m.timings, to.initTimings());
  to.setApproximate(m.approximate);
  if (!m.tasks.empty()) put_list(m.tasks, to.initTasks(m.tasks.size()));
  to.setFeaturesStale(m.features_stale);
  to.setFeaturesMissing(m.features_missing);
  if (!m.skipped.empty()) put_list(m.skipped, to.initSkipped(m.skipped.size()));
}
void get(schema::RankReply::Reader from, RankReply& m) {
  m.id = from.getId();
  get(from.getUser(), m.user);
  get_list(from.getItems(), m.items);
  get(from.getPolicy(), m.policy);
  get(from.getPlan(), m.plan);
  m.tokens_total = from.getTokensTotal();
  m.tokens_computed = from.getTokensComputed();
  m.tokens_reused = from.getTokensReused();
  m.blocks_reused = from.getBlocksReused();
  m.blocks_written = from.getBlocksWritten();
  m.history_cut = from.getHistoryCut();
  get(from.getModelVersion(), m.model_version);
  get(from.getCatalogVersion(), m.catalog_version);
  m.profile_version = from.getProfileVersion();
  m.node = from.getNode();
  get(from.getTimings(), m.timings);
  m.approximate = from.getApproximate();
  get_list(from.getTasks(), m.tasks);
  m.features_stale = from.getFeaturesStale();
  m.features_missing = from.getFeaturesMissing();
  get_list(from.getSkipped(), m.skipped);
}

void put(const TokenList& m, schema::TokenList::Builder to) {
  put_list(m.tokens, to.initTokens(m.tokens.size()));
}
void get(schema::TokenList::Reader from, TokenList& m) { get_list(from.getTokens(), m.tokens); }

void put(const ScoreRequest& m, schema::ScoreRequest::Builder to) {
  to.setId(m.id);
  to.setTenant(wire(m.tenant));
  put_list(m.query, to.initQuery(m.query.size()));
  put_list(m.items, to.initItems(m.items.size()));
  put_list(m.label_tokens, to.initLabelTokens(m.label_tokens.size()));
  to.setApplySoftmax(m.apply_softmax);
  to.setBudgetUs(m.budget_us);
  put_trace(m, to);
}
void get(schema::ScoreRequest::Reader from, ScoreRequest& m) {
  m.id = from.getId();
  get(from.getTenant(), m.tenant);
  get_list(from.getQuery(), m.query);
  get_list(from.getItems(), m.items);
  get_list(from.getLabelTokens(), m.label_tokens);
  m.apply_softmax = from.getApplySoftmax();
  m.budget_us = from.getBudgetUs();
  get_trace(from, m);
}

void put(const ScoreRow& m, schema::ScoreRow::Builder to) {
  put_list(m.scores, to.initScores(m.scores.size()));
}
void get(schema::ScoreRow::Reader from, ScoreRow& m) { get_list(from.getScores(), m.scores); }

void put(const ScoreReply& m, schema::ScoreReply::Builder to) {
  to.setId(m.id);
  put_list(m.items, to.initItems(m.items.size()));
  to.setTokensTotal(m.tokens_total);
  to.setTokensComputed(m.tokens_computed);
  to.setTokensReused(m.tokens_reused);
  to.setModelVersion(wire(m.model_version));
  put(m.timings, to.initTimings());
}
void get(schema::ScoreReply::Reader from, ScoreReply& m) {
  m.id = from.getId();
  get_list(from.getItems(), m.items);
  m.tokens_total = from.getTokensTotal();
  m.tokens_computed = from.getTokensComputed();
  m.tokens_reused = from.getTokensReused();
  get(from.getModelVersion(), m.model_version);
  get(from.getTimings(), m.timings);
}

void put(const GenerateRequest& m, schema::GenerateRequest::Builder to) {
  to.setId(m.id);
  to.setTenant(wire(m.tenant));
  to.setUser(wire(m.user));
  to.setTopK(m.top_k);
  to.setWidth(m.width);
  to.setExcludeSeen(m.exclude_seen);
  put_list(m.allow, to.initAllow(m.allow.size()));
  put_list(m.deny, to.initDeny(m.deny.size()));
  to.setAmongAllowed(m.among_allowed);
  to.setBudgetUs(m.budget_us);
  to.setLogprobs(m.logprobs);
  to.setFeatures(wire(m.features));
  put_trace(m, to);
}
void get(schema::GenerateRequest::Reader from, GenerateRequest& m) {
  m.id = from.getId();
  get(from.getTenant(), m.tenant);
  get(from.getUser(), m.user);
  m.top_k = from.getTopK();
  m.width = from.getWidth();
  m.exclude_seen = from.getExcludeSeen();
  get_list(from.getAllow(), m.allow);
  get_list(from.getDeny(), m.deny);
  m.among_allowed = from.getAmongAllowed();
  m.budget_us = from.getBudgetUs();
  m.logprobs = from.getLogprobs();
  get(from.getFeatures(), m.features);
  get_trace(from, m);
}

void put(const GeneratedItem& m, schema::GeneratedItem::Builder to) {
  to.setId(wire(m.id));
  to.setTitle(wire(m.title));
  put_list(m.tokens, to.initTokens(m.tokens.size()));
  to.setLogProbability(m.log_probability);
  if (!m.by_token.empty()) put_list(m.by_token, to.initTokenLogprobs(m.by_token.size()));
}
void get(schema::GeneratedItem::Reader from, GeneratedItem& m) {
  get(from.getId(), m.id);
  get(from.getTitle(), m.title);
  get_list(from.getTokens(), m.tokens);
  m.log_probability = from.getLogProbability();
  get_list(from.getTokenLogprobs(), m.by_token);
}

void put(const GenerateReply& m, schema::GenerateReply::Builder to) {
  to.setId(m.id);
  to.setUser(wire(m.user));
  put_list(m.items, to.initItems(m.items.size()));
  to.setReason(wire(m.reason));
  to.setWidth(m.width);
  to.setTokensTotal(m.tokens_total);
  to.setTokensComputed(m.tokens_computed);
  to.setTokensReused(m.tokens_reused);
  to.setBlocksReused(m.blocks_reused);
  to.setBlocksWritten(m.blocks_written);
  to.setHistoryCut(m.history_cut);
  to.setModelVersion(wire(m.model_version));
  to.setCatalogVersion(wire(m.catalog_version));
  to.setProfileVersion(m.profile_version);
  to.setNode(m.node);
  put(m.timings, to.initTimings());
  to.setFeaturesStale(m.features_stale);
  to.setFeaturesMissing(m.features_missing);
}
void get(schema::GenerateReply::Reader from, GenerateReply& m) {
  m.id = from.getId();
  get(from.getUser(), m.user);
  get_list(from.getItems(), m.items);
  get(from.getReason(), m.reason);
  m.width = from.getWidth();
  m.tokens_total = from.getTokensTotal();
  m.tokens_computed = from.getTokensComputed();
  m.tokens_reused = from.getTokensReused();
  m.blocks_reused = from.getBlocksReused();
  m.blocks_written = from.getBlocksWritten();
  m.history_cut = from.getHistoryCut();
  get(from.getModelVersion(), m.model_version);
  get(from.getCatalogVersion(), m.catalog_version);
  m.profile_version = from.getProfileVersion();
  m.node = from.getNode();
  get(from.getTimings(), m.timings);
  m.features_stale = from.getFeaturesStale();
  m.features_missing = from.getFeaturesMissing();
}

void put(const CompleteRequest& m, schema::CompleteRequest::Builder to) {
  to.setId(m.id);
  to.setTenant(wire(m.tenant));
  to.setModel(wire(m.model));
  put_list(m.prompt, to.initPrompt(m.prompt.size()));
  to.setMaxTokens(m.max_tokens);
  to.setN(m.n);
  to.setBeamWidth(m.beam_width);
  to.setItems(m.items);
  to.setLogprobs(m.logprobs);
  to.setBudgetUs(m.budget_us);
  put_trace(m, to);
}
void get(schema::CompleteRequest::Reader from, CompleteRequest& m) {
  m.id = from.getId();
  get(from.getTenant(), m.tenant);
  get(from.getModel(), m.model);
  get_list(from.getPrompt(), m.prompt);
  m.max_tokens = from.getMaxTokens();
  m.n = from.getN();
  m.beam_width = from.getBeamWidth();
  m.items = from.getItems();
  m.logprobs = from.getLogprobs();
  m.budget_us = from.getBudgetUs();
  get_trace(from, m);
}

void put(const CompleteReply& m, schema::CompleteReply::Builder to) {
  to.setId(m.id);
  put_list(m.completions, to.initCompletions(m.completions.size()));
  to.setTokensTotal(m.tokens_total);
  to.setTokensComputed(m.tokens_computed);
  to.setTokensReused(m.tokens_reused);
  to.setLogprobs(m.logprobs);
  to.setItems(m.items);
  to.setModelVersion(wire(m.model_version));
  to.setCatalogVersion(wire(m.catalog_version));
  to.setNode(m.node);
  put(m.timings, to.initTimings());
}
void get(schema::CompleteReply::Reader from, CompleteReply& m) {
  m.id = from.getId();
  get_list(from.getCompletions(), m.completions);
  m.tokens_total = from.getTokensTotal();
  m.tokens_computed = from.getTokensComputed();
  m.tokens_reused = from.getTokensReused();
  m.logprobs = from.getLogprobs();
  m.items = from.getItems();
  get(from.getModelVersion(), m.model_version);
  get(from.getCatalogVersion(), m.catalog_version);
  m.node = from.getNode();
  get(from.getTimings(), m.timings);
}

void put(const Reload& m, schema::Reload::Builder to) {
  to.setId(m.id);
  to.setModelVersion(wire(m.model_version));
  to.setCatalogVersion(wire(m.catalog_version));
  to.setShare(m.share);
}
void get(schema::Reload::Reader from, Reload& m) {
  m.id = from.getId();
  get(from.getModelVersion(), m.model_version);
  get(from.getCatalogVersion(), m.catalog_version);
  m.share = from.getShare();
}

void put(const Stored& m, schema::Stored::Builder to) {
  to.setId(m.id);
  to.setVersion(m.version);
}
void get(schema::Stored::Reader from, Stored& m) {
  m.id = from.getId();
  m.version = from.getVersion();
}

void put(const Refused& m, schema::Refused::Builder to) {
  to.setId(m.id);
  put(m.refusal, to.initRefusal());
}
void get(schema::Refused::Reader from, Refused& m) {
  m.id = from.getId();
  get(from.getRefusal(), m.refusal);
}

void put(const Segment& m, schema::Segment::Builder to) {
  to.setKind(wire<schema::SegmentKind>(m.kind));
  put_list(m.tokens, to.initTokens(m.tokens.size()));
  to.setStart(m.start);
  const std::span<const VisibleSegments::Range> ranges = m.sees.ranges();
  auto sees = to.initSees(ranges.size());
  for (std::uint32_t i = 0; i < ranges.size(); ++i) {
    sees[i].setBegin(ranges[i].begin);
    sees[i].setEnd(ranges[i].end);
  }
  to.setShift(m.shift);
  to.setReplaces(m.replaces.segment);
  to.setReplacesOffset(m.replaces.offset);
  put_list(m.features, to.initFeatures(m.features.size()));
}
void get(schema::Segment::Reader from, Segment& m) {
  get(from.getKind(), m.kind);
  std::vector<Token> tokens;
  get_list(from.getTokens(), tokens);
  m.tokens = std::move(tokens);
  m.start = from.getStart();
  const auto sees = from.getSees();
  check_inline(sees);
  for (const auto range : sees) {
    KJ_REQUIRE(range.getBegin() < range.getEnd(), "a range of segments is empty or ends before it begins");
    m.sees.add({range.getBegin(), range.getEnd()});
  }
  m.shift = from.getShift();
  m.replaces = {from.getReplaces(), from.getReplacesOffset()};
  get_list(from.getFeatures(), m.features);
}

void put(const Readout& m, schema::Readout::Builder to) {
  to.setSegment(m.segment);
  to.setOffset(m.offset);
  put_list(m.rows, to.initRows(m.rows.size()));
  to.setWhat(wire<schema::Readout::What>(m.what));
  to.setHead(m.head);
}
void get(schema::Readout::Reader from, Readout& m) {
  m.segment = from.getSegment();
  m.offset = from.getOffset();
  get_list(from.getRows(), m.rows);
  get(from.getWhat(), m.what);
  m.head = from.getHead();
}

namespace {

void put_paths(const std::vector<Tokens>& paths, capnp::List<schema::TokenList>::Builder to) {
  for (std::uint32_t i = 0; i < paths.size(); ++i) put_list(paths[i], to[i].initTokens(paths[i].size()));
}

void get_paths(capnp::List<schema::TokenList>::Reader from, std::vector<Tokens>& to) {
  std::vector<TokenList> paths;
  get_list(from, paths);
  to.reserve(paths.size());
  for (TokenList& path : paths) to.emplace_back(std::move(path.tokens));
}

}  // namespace

void put(const Search& m, schema::Search::Builder to) {
  to.setSegment(m.segment);
  to.setWidth(m.width);
  to.setResults(m.results);
  to.setSteps(m.steps);
  to.setNormalised(wire<schema::Search::Normalisation>(m.normalised));
  put_paths(m.allowed, to.initAllowed(m.allowed.size()));
  put_paths(m.denied, to.initDenied(m.denied.size()));
  to.setByToken(m.by_token);
}
void get(schema::Search::Reader from, Search& m) {
  m.segment = from.getSegment();
  m.width = from.getWidth();
  m.results = from.getResults();
  m.steps = from.getSteps();
  get(from.getNormalised(), m.normalised);
  get_paths(from.getAllowed(), m.allowed);
  get_paths(from.getDenied(), m.denied);
  m.by_token = from.getByToken();
}

void put(const Repair& m, schema::Repair::Builder to) {
  auto places = to.initPlaces(m.reused_spans.size());
  for (std::uint32_t i = 0; i < m.reused_spans.size(); ++i) {
    places[i].setSegment(m.reused_spans[i].segment);
    places[i].setBlock(m.reused_spans[i].block);
    places[i].setBudget(m.reused_spans[i].budget);
    places[i].setOfPrototypes(m.reused_spans[i].of_prototypes);
  }
  put_list(m.budgets, to.initBudgets(m.budgets.size()));
  put_list(m.always, to.initAlways(m.always.size()));
  to.setAttention(m.attention);
  to.setDivergence(m.divergence);
  to.setAttending(m.attending);
  to.setExactLayers(m.exact_layers);
  to.setMean(m.mean);
  to.setPrototypes(wire(m.prototypes));
}
void get(schema::Repair::Reader from, Repair& m) {
  const auto places = from.getPlaces();
  check_inline(places);
  for (const auto place : places)
    m.reused_spans.push_back(
        {place.getSegment(), place.getBlock(), place.getBudget(), place.getOfPrototypes()});
  get_list(from.getBudgets(), m.budgets);
  get_list(from.getAlways(), m.always);
  m.attention = from.getAttention(), m.divergence = from.getDivergence();
  m.attending = from.getAttending(), m.exact_layers = from.getExactLayers(), m.mean = from.getMean();
  get(from.getPrototypes(), m.prototypes);
}

void put(const Plan& m, schema::Plan::Builder to) {
  put_list(m.segments, to.initSegments(m.segments.size()));
  put_list(m.readouts, to.initReadouts(m.readouts.size()));
  if (m.search != Search{}) put(m.search, to.initSearch());
  if (m.repair != Repair{}) put(m.repair, to.initRepair());
}
void get(schema::Plan::Reader from, Plan& m) {
  get_list(from.getSegments(), m.segments);
  get_list(from.getReadouts(), m.readouts);
  get(from.getSearch(), m.search);
  get(from.getRepair(), m.repair);
}

void put(const Beam& m, schema::Beam::Builder to) {
  put_list(m.path, to.initPath(m.path.size()));
  to.setLogProbability(m.log_probability);
  if (!m.by_token.empty()) put_list(m.by_token, to.initByToken(m.by_token.size()));
}
void get(schema::Beam::Reader from, Beam& m) {
  get_list(from.getPath(), m.path);
  m.log_probability = from.getLogProbability();
  get_list(from.getByToken(), m.by_token);
}

void put(const SegmentBlock& m, schema::SegmentBlock::Builder to) {
  to.setName(wire(m.name));
  to.setOwner(wire(m.owner));
  to.setAt(m.at);
}
void get(schema::SegmentBlock::Reader from, SegmentBlock& m) {
  get(from.getName(), m.name);
  get(from.getOwner(), m.owner);
  m.at = from.getAt();
}

void put(const Execute& m, schema::Execute::Builder to) {
  to.setId(m.id);
  to.setPriority(wire<schema::Priority>(m.priority));
  to.setBudgetUs(m.budget_us);
  put(m.plan, to.initPlan());
  put_list(m.blocks, to.initBlocks(m.blocks.size()));
  put(m.retention, to.initRetention());
  to.setModelVersion(wire(m.model_version));
  to.setCatalogVersion(wire(m.catalog_version));
  to.setAlone(m.alone);
  put_trace(m, to);
}
void get(schema::Execute::Reader from, Execute& m) {
  m.id = from.getId();
  get(from.getPriority(), m.priority);
  m.budget_us = from.getBudgetUs();
  get(from.getPlan(), m.plan);
  get_list(from.getBlocks(), m.blocks);
  get(from.getRetention(), m.retention);
  get(from.getModelVersion(), m.model_version);
  get(from.getCatalogVersion(), m.catalog_version);
  m.alone = from.getAlone();
  get_trace(from, m);
}

void put(const Executed& m, schema::Executed::Builder to) {
  to.setId(m.id);
  put_list(m.readouts, to.initReadouts(m.readouts.size()));
  put_list(m.reused, to.initReused(m.reused.size()));
  to.setBlocksWritten(m.blocks_written);
  to.setBlocksUs(m.blocks_us);
  to.setQueueUs(m.queue_us);
  to.setComputeUs(m.compute_us);
  to.setModelVersion(wire(m.model_version));
  to.setPullUs(m.pull_us);
  put_list(m.beams, to.initBeams(m.beams.size()));
}
void get(schema::Executed::Reader from, Executed& m) {
  m.id = from.getId();
  get_list(from.getReadouts(), m.readouts);
  get_list(from.getReused(), m.reused);
  m.blocks_written = from.getBlocksWritten();
  m.blocks_us = from.getBlocksUs();
  m.queue_us = from.getQueueUs();
  m.compute_us = from.getComputeUs();
  get(from.getModelVersion(), m.model_version);
  m.pull_us = from.getPullUs();
  get_list(from.getBeams(), m.beams);
}

}  // namespace troupe::codec
