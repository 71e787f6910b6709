// Simulates the device of an inference worker: it runs batches on the toy model over simulated
// pages. It reports pages that are wrong, foreign or changed during a batch.
#include "sim/ports/compute_port.h"

#include <algorithm>
#include <limits>

#include "kernels/base/check.h"
#include "placement/cost/plan_work.h"
#include "runtime/actor/block_name.h"
#include "runtime/actor/table_shard.h"
#include "sim/base/random.h"
#include "sim/world/toy_search.h"

namespace troupe::sim {
namespace {

Refusal bad_plan(std::string what) {
  return {RefusalKind::unprocessable, "bad_plan", std::move(what), "plan", "a plan that the model supports"};
}
Refusal device_error(std::string what) {
  return {RefusalKind::unavailable, "device_error", std::move(what), "inference worker", "a working device"};
}

bool comes(const BatchSegmentKv& kv) { return kv.grant == Grant::read && kv.in_flight; }

bool is_reused(const BatchRequest& request, std::size_t segment, std::span<const std::uint32_t> missed) {
  return segment < request.kv.size() && request.kv[segment].grant == Grant::read &&
         std::ranges::find(missed, segment) == missed.end();
}

// Interval for checking a copy whose arrival times are still unknown.
constexpr Duration look_again{100};

// Time to read a shard from its table; also the time of a pass that ends because shards are missing.
constexpr Duration shard_time{20};

}  // namespace

// Invalid plans are refused when they begin; their cost counts whatever is valid.
placement::Pass pass_of(const BatchRequest& request, std::uint32_t layers,
                        std::span<const std::uint32_t> missed) {
  return placement::pass_of(
      request.plan, [&](std::size_t i) { return is_reused(request, i, missed); }, layers);
}

std::uint64_t pulled_tokens(const BatchRequest& request, std::span<const std::uint32_t> missed) {
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < request.blocks.size(); ++i)
    if (request.blocks[i].at != 0 && is_reused(request, i, missed))
      tokens += request.plan.segments[i].tokens.size();
  return tokens;
}

bool awaits(const BatchRequest& request) { return std::ranges::any_of(request.kv, comes); }

std::vector<Token> user_tokens(const Plan& plan) {
  std::vector<Token> tokens;
  for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
    const Segment& segment = plan.segments[s];
    const bool stands_elsewhere =
        std::ranges::find(plan.repair.reused_spans, s, &kernels::Repair::ReusedSpan::block) !=
        plan.repair.reused_spans.end();
    if (segment.kind == SegmentKind::user && !stands_elsewhere)
      tokens.insert(tokens.end(), segment.tokens.begin(), segment.tokens.end());
  }
  return tokens;
}

std::uint64_t poison_of(std::span<const Token> user_tokens) { return mix(hash_of(user_tokens), 0xdead); }

SimComputePort::SimComputePort(ComputeOptions options, Pages& pages, const DeviceFaults& faults,
                               const std::set<std::uint64_t>& poisons, Violations& violations)
    : options_(std::move(options)),
      pages_(pages),
      faults_(faults),
      poisons_(poisons),
      violations_(violations),
      models_{options_.model_version} {
  TROUPE_CHECK(options_.batch_time && options_.now, "batch_time and now must be set");
  if (options_.page_rows > 0) rows_.emplace(pages_, options_.page_rows);
  if (!rows_ || options_.shard_rows == 0) return;
  shards_.emplace(pages_, options_.page_rows, options_.shard_rows,
                  [this](int promise, const TableShard& shard, std::string_view what) {
                    violations_.report(promise,
                                       "node " + std::to_string(options_.node) + ": shard " +
                                           std::to_string(shard.shard) + " of a table (" +
                                           to_hex(block_of(shard)).substr(0, 8) + ") " + std::string(what),
                                       options_.now());
                  });
}

// ---- the start of a job ----

std::optional<Duration> SimComputePort::begin(Instant now, const Job& job, std::uint32_t slot) {
  if (faults_.hung) return std::nullopt;
  if (std::holds_alternative<LoadModel>(job)) return faults_.slowness.stretch(now, options_.load_time);
  if (const auto* fill = std::get_if<FillShards>(&job))
    return faults_.slowness.stretch(now, {shard_time.us * static_cast<std::int64_t>(fill->shards.size())});
  const auto* batch = std::get_if<RunBatch>(&job);
  if (!batch) return Duration{0};
  if (const BatchRequest* poison = find_poison(*batch)) {
    if (options_.on_poison) options_.on_poison(options_.node, content_of(*poison));
    return std::nullopt;
  }
  Running& running = running_[slot] = Running{};
  running.away = shards_away(*batch);
  if (!running.away.empty()) {
    for (const auto& request : batch->requests) running.models.insert(model_of(*request));
    running.layers.begun = now;
    return keep_busy(faults_.slowness.stretch(now, shard_time));
  }
  running.shards = SimShards::granted(*batch);
  granted_ = &running.shards;
  for (const auto& request : batch->requests) {
    running.requests.push_back(awaits(*request) ? begin_awaiting(*request) : begin_request(*request));
    running.models.insert(model_of(*request));
  }
  const Duration alone = time_of(*batch, running.requests),
                 beside = options_.beside ? options_.beside(*batch, now - ended_[slot]) : Duration{};
  computed_.us += alone.us;
  running.layers = {now, faults_.slowness.stretch(now, {alone.us + beside.us}),
                    std::max(options_.layers, 2U)};
  running.waits = std::ranges::any_of(running.requests, &StartedRequest::awaits);
  return keep_busy(running.waits ? await_copies(now, *batch, now)
                                 : share_device(running.layers.compute, slot));
}

Duration SimComputePort::keep_busy(Duration takes) {
  busy_.us += takes.us;
  return takes;
}

// Shares the device among more batches than it has slots: a device does not get faster. While an additional
// batch runs, all others are slower by as much as it takes.
Duration SimComputePort::share_device(Duration takes, std::uint32_t slot) {
  if (options_.slots == 0 || running_.size() <= options_.slots) return takes;
  const std::int64_t part = takes.us / options_.slots;
  for (auto& [other, running] : running_)
    if (other != slot) running.owed.us += part;
  return {takes.us + part};
}

// Layers computed during a wait are not charged to processors: no configuration with shared processors has
// arriving blocks.
std::optional<double> SimComputePort::computes(const Job& job, std::uint32_t slot) const {
  if (!std::holds_alternative<RunBatch>(job) || running_.at(slot).waits) return std::nullopt;
  return options_.split_share;
}

std::optional<Duration> SimComputePort::goes_on(Instant now, const Job& job, std::uint32_t slot) {
  const auto* batch = std::get_if<RunBatch>(&job);
  if (!batch) return std::nullopt;
  Running& running = running_.at(slot);
  granted_ = &running.shards;
  if (!running.waits && running.owed.us > 0) return keep_busy(std::exchange(running.owed, Duration{}));
  if (!running.waits) return std::nullopt;
  const Duration wait = await_copies(now, *batch, running.layers.begun);
  return keep_busy(wait.us > 0 ? wait : end_wait(now, *batch, running));
}

// Returns the time until all copies have ended; 0 = they have ended or have been waited for as long as
// allowed. The end of a copy is visible one microsecond later.
Duration SimComputePort::await_copies(Instant now, const RunBatch& batch, Instant begun) const {
  std::int64_t until = now.us;
  for (const auto& request : batch.requests)
    for (const BatchSegmentKv& kv : request->kv) {
      const Arrival* const arrival = pages_.arrival(kv.generation);
      if (!comes(kv) || (arrival && arrival->ended)) continue;
      const std::int64_t next =
          arrival && arrival->ends_us >= now.us ? arrival->ends_us + 1 : now.us + look_again.us;
      until = std::max(until, std::min(next, begun.us + batch.in_flight_us));
    }
  return {until - now.us};
}

// Returns the remaining compute time: of the remaining layers, or, if a block is missing, of the current
// layer plus all layers again.
Duration SimComputePort::end_wait(Instant now, const RunBatch& batch, Running& running) {
  const std::optional<ArrivalInterval> copies = copies_of(batch);
  const Duration computed = copies ? computed_by(now, running.layers, *copies) : Duration{};
  running.waits = false;
  running.waited = {(now - running.layers.begun).us - computed.us};
  for (std::size_t i = 0; i < batch.requests.size(); ++i)
    if (running.requests[i].awaits) await_end(*batch.requests[i], running.requests[i]);
  if (std::ranges::all_of(running.requests,
                          [](const StartedRequest& begun) { return begun.reply.missed.empty(); })) {
    if (copies) running.came = {std::max<std::int64_t>((copies->ends - running.layers.begun).us, 0)};
    return {running.layers.compute.us - computed.us};
  }
  const Duration alone = time_of(batch, running.requests);
  computed_.us += alone.us;
  return {left_of_layer(computed, running.layers).us + faults_.slowness.stretch(now, alone).us};
}

// Returns the arrival of the latest block, which decides when a layer can start; nullopt if one is unknown.
std::optional<ArrivalInterval> SimComputePort::copies_of(const RunBatch& batch) const {
  ArrivalInterval all{{std::numeric_limits<std::int64_t>::min()}, {std::numeric_limits<std::int64_t>::min()}};
  for (const auto& request : batch.requests)
    for (const BatchSegmentKv& kv : request->kv) {
      if (!comes(kv)) continue;
      const Arrival* const arrival = pages_.arrival(kv.generation);
      if (!arrival) return std::nullopt;
      all = {std::max(all.begins, Instant{arrival->begins_us}),
             std::max(all.ends, Instant{arrival->ends_us})};
    }
  return all;
}

Duration SimComputePort::time_of(const RunBatch& batch, std::span<const StartedRequest> started) const {
  placement::Pass pass;
  std::uint64_t pulled = 0;
  for (std::size_t i = 0; i < batch.requests.size(); ++i) {
    const std::span<const std::uint32_t> missed = started[i].reply.missed;
    pass += pass_of(*batch.requests[i], options_.layers, missed);
    pulled += pulled_tokens(*batch.requests[i], missed);
  }
  return options_.batch_time(pass, pulled);
}

const BatchRequest* SimComputePort::find_poison(const RunBatch& batch) const {
  if (poisons_.empty()) return nullptr;
  for (const auto& request : batch.requests)
    if (poisons_.contains(poison_of(user_tokens(request->plan)))) return request.get();
  return nullptr;
}

std::uint64_t content_of(const BatchRequest& request) {
  std::uint64_t items = 0, others = 0;
  for (const Segment& segment : request.plan.segments) {
    const std::uint64_t tokens = hash_of(std::span<const Token>(segment.tokens));
    if (segment.kind == SegmentKind::item) {
      items = mix(items, tokens);
    } else {
      others += mix(static_cast<std::uint64_t>(segment.kind), tokens);
    }
  }
  const Search& search = request.plan.search;
  if (search.width == 0) return mix(items, others);
  std::uint64_t asked = mix(search.width, search.results, static_cast<std::uint64_t>(search.normalised));
  for (const std::vector<Tokens>* paths : {&search.allowed, &search.denied})
    for (const Tokens& path : *paths) asked = mix(asked, paths == &search.allowed, hash_of(path));
  return mix(asked, others);
}

const std::string& SimComputePort::model_of(const BatchRequest& request) const {
  return request.model_version.empty() ? options_.model_version : request.model_version;
}

std::optional<Refusal> SimComputePort::validate_request(const BatchRequest& request) const {
  if (!models_.contains(model_of(request)))
    return Refusal{RefusalKind::unavailable, "wrong_model",
                   "model \"" + model_of(request) + "\" is not loaded", "inference worker", "a loaded model"};
  if (std::string fault = validate_plan(request.plan); !fault.empty()) return bad_plan(std::move(fault));
  const Search& search = request.plan.search;
  const bool has_paths =
      !search.allowed.empty() || (options_.find_catalog && options_.find_catalog(request.catalog_version));
  if (search.width > 0 && (search.segment >= request.plan.segments.size() || !has_paths))
    return bad_plan("the search starts outside the plan or has no paths");
  const std::size_t segments = request.plan.segments.size();
  if (request.kv.size() != segments || request.blocks.size() != segments)
    return bad_plan("kv and blocks must have one entry per segment");
  for (const Readout& readout : request.plan.readouts)
    if (request.kv[readout.segment].grant == Grant::read)
      return bad_plan("segment " + std::to_string(readout.segment) + " is reused but also read out");
  for (std::size_t i = 0; i < request.kv.size(); ++i)
    if (request.kv[i].grant != Grant::none &&
        !pages_.hold(request.kv[i].pages, request.plan.segments[i].tokens.size()))
      return bad_plan("segment " + std::to_string(i) +
                      " has a number of pages that does not match its tokens");
  return {};
}

// Checks the pages that are not arriving now and when the wait ends; in between they belong to this
// request. The rows of the segments that it computes are held until it ends.
SimComputePort::StartedRequest SimComputePort::begin_awaiting(const BatchRequest& request) {
  StartedRequest begun;
  begun.reply.refusal = validate_request(request);
  if (begun.reply.refusal) return begun;
  begun.awaits = true;
  for (std::uint32_t i = 0; i < request.kv.size(); ++i)
    if (request.kv[i].grant != Grant::none && !request.kv[i].in_flight) note(request, i, false, begun);
  for (std::uint32_t i = 0; rows_ && i < request.kv.size(); ++i)
    if (request.kv[i].grant != Grant::read && !place_of_prototypes(request.plan, i))
      hold_rows(request, i, begun);
  return begun;
}

void SimComputePort::await_end(const BatchRequest& request, StartedRequest& begun) {
  for (const Reading& reading : begun.readings)
    if (pages_.rewritten(request.kv[reading.segment].pages, std::span(begun.pages).subspan(reading.first)))
      report(3, request, reading.segment,
             "changed under its reader or writer, which waited for other blocks");
  begun = begin_request(request, std::move(begun.rows));
}

// Nobody else may write to these pages before their reader ends, even if the copy failed.
bool SimComputePort::take_arriving(const BatchRequest& request, std::uint32_t segment,
                                   StartedRequest& begun) {
  const BatchSegmentKv& kv = request.kv[segment];
  const Arrival* const arrival = pages_.arrival(kv.generation);
  if (arrival && arrival->ended && arrival->good) return true;
  if (arrival && arrival->ended && pages_.rewritten(kv.pages, arrival->left))
    report(3, request, segment, "changed under its reader while it was arriving");
  begun.reply.missed.push_back(segment);
  return false;
}

SimComputePort::StartedRequest SimComputePort::begin_request(const BatchRequest& request,
                                                             std::vector<Rows> rows) {
  StartedRequest begun;
  begun.rows = std::move(rows);
  begun.reply.refusal = validate_request(request);
  if (begun.reply.refusal) return begun;
  check_catalog(request);
  const std::uint64_t key = model_key(model_of(request));
  std::vector<SegmentValue> seen;
  begun.values.reserve(request.plan.segments.size());
  for (std::uint32_t i = 0; i < request.plan.segments.size(); ++i) {
    if (request.kv[i].grant == Grant::read && take_block(request, i, begun)) continue;
    if (make_of_prototypes(request, i, begun)) continue;
    const Segment& segment = request.plan.segments[i];
    gather_seen(request.plan, i, begun.values, seen);
    begun.struck.resize(i + 1);
    for (const std::uint32_t s : segment.sees)
      if (begun.struck[s]) begun.struck[i] = true;
    for (const kernels::Repair::ReusedSpan& place : request.plan.repair.reused_spans)
      if (place.segment == i && begun.struck[place.block]) begun.struck[i] = true;
    begun.values.push_back(options_.family->value_of(key, segment.tokens, segment.start, seen));
    read_rows(request, i, begun);
    if (request.kv[i].grant != Grant::write) continue;
    if (begun.struck[i]) report(2, request, i, "is kept although it was computed from flipped bits");
    write_block(request, i, begun.values.back(), true);
    note(request, i, true, begun);
  }
  return begun;
}

// A block of prototypes is neither computed nor read from a cache. A real device refuses another model's
// prototypes.
bool SimComputePort::make_of_prototypes(const BatchRequest& request, std::uint32_t segment,
                                        StartedRequest& begun) {
  const kernels::Repair::ReusedSpan* const place = place_of_prototypes(request.plan, segment);
  if (!place) return false;
  const std::string& model = model_of(request);
  const std::string& made_of = request.plan.repair.prototypes;
  if (!options_.prototypes || options_.prototypes(model) != made_of)
    report(4, request, segment, "is made of prototypes that are not the model's");
  if (request.kv[segment].grant != Grant::none)
    report(2, request, segment, "is made of prototypes and must not be kept");
  begun.struck.resize(segment + 1);
  begun.values.push_back(prototypes_value(model_key(model), made_of, request.plan.segments[segment].tokens,
                                          request.plan.segments[place->segment].start));
  return true;
}

// Returns the rows held since the request began to wait, or reads them now.
const SimRows::Reading& SimComputePort::hold_rows(const BatchRequest& request, std::uint32_t segment,
                                                  StartedRequest& begun) {
  const auto held = std::ranges::find(begun.rows, segment, &Rows::segment);
  if (held != begun.rows.end()) return held->reading;
  const std::string& model = model_of(request);
  const auto find = [&](std::uint32_t row) { return shards_->read(model, row, *granted_); };
  const auto& tokens = request.plan.segments[segment].tokens;
  begun.rows.push_back({segment, rows_->begin(model, tokens, shards_ ? SimRows::FindRow(find) : nullptr)});
  return begun.rows.back().reading;
}

// Returns the shards of all rows that the batch will miss, each once; empty if the batch has asked before.
std::vector<TableShard> SimComputePort::shards_away(const RunBatch& batch) {
  std::set<TableShard> away;
  if (!shards_ || !batch.asks_for_shards) return {};
  for (const auto& pointer : batch.requests) {
    const BatchRequest& request = *pointer;
    if (validate_request(request)) continue;
    for (std::uint32_t i = 0; i < request.kv.size(); ++i) {
      if (request.kv[i].grant == Grant::read || place_of_prototypes(request.plan, i)) continue;
      for (const std::uint32_t row : rows_->missed(model_of(request), request.plan.segments[i].tokens))
        away.insert(shards_->shard_of(model_of(request), row));
    }
  }
  return {away.begin(), away.end()};
}

RowTotals SimComputePort::row_totals() const {
  RowTotals totals = rows_->totals();
  if (shards_) shards_->add_to(totals);
  return totals;
}

// A value computed from wrong rows differs from the right one.
void SimComputePort::read_rows(const BatchRequest& request, std::uint32_t segment, StartedRequest& begun) {
  if (!rows_) return;
  const SimRows::Reading& reading = hold_rows(request, segment, begun);
  begun.values.back().of_layer[0] ^= reading.wrong;
  if (reading.struck) begun.struck[segment] = true;
  if (reading.other_model) report(4, request, segment, "is computed from another model's row");
  if (reading.overwritten) report(3, request, segment, "is computed from a row whose page was written to");
}

// A real device's index of that catalog would not contain these items.
void SimComputePort::check_catalog(const BatchRequest& request) {
  if (request.catalog_version.empty() || !options_.had_tokens) return;
  for (std::uint32_t i = 0; i < request.plan.segments.size(); ++i) {
    const Segment& segment = request.plan.segments[i];
    const std::string& item = request.blocks[i].owner;
    if (segment.kind != SegmentKind::item || item.empty()) continue;
    if (!options_.had_tokens(item, request.catalog_version, segment.tokens))
      return report(4, request, i, "is not of catalog  \"" + request.catalog_version + "\"");
  }
}

std::span<const Page> SimComputePort::note(const BatchRequest& request, std::uint32_t segment,
                                           bool half_written, StartedRequest& begun) {
  const auto first = static_cast<std::uint32_t>(begun.pages.size());
  const BatchSegmentKv& kv = request.kv[segment];
  const Arrival* const came = kv.in_flight ? pages_.arrival(kv.generation) : nullptr;
  if (came) begun.pages.insert(begun.pages.end(), came->left.begin(), came->left.end());
  for (std::size_t i = 0; !came && i < kv.pages.size(); ++i) begun.pages.push_back(pages_.at(kv.pages[i]));
  begun.readings.push_back({segment, first, half_written});
  return std::span(begun.pages).subspan(first);
}

// Adds the value of a cached block; false if its pages do not match their checksum.
bool SimComputePort::take_block(const BatchRequest& request, std::uint32_t segment, StartedRequest& begun) {
  const BatchSegmentKv& kv = request.kv[segment];
  if (kv.in_flight && !take_arriving(request, segment, begun)) return false;
  const bool verify = (options_.verify_on_read || kv.check) && !kv.in_flight;
  if (verify && pages_.checksum(kv.pages) != kv.checksum) {
    begun.reply.corrupt.push_back(segment);
    return false;
  }
  const std::span<const Page> pages = note(request, segment, false, begun);
  check_origin(request, segment, pages);
  begun.struck.resize(segment + 1);
  if (verify) {
    pages_.set_checked(kv.pages);
  } else {
    begun.struck[segment] = find_struck(request, segment, pages);
  }
  prints_.clear();
  for (const Page& page : pages) prints_.push_back(page.print);
  begun.values.push_back(
      seen_through(prints_, request.plan.segments[segment].tokens.size(), pages_.page_tokens()));
  return true;
}

Provenance SimComputePort::origin(const BatchRequest& request, std::uint32_t segment) const {
  const SegmentBlock& block = request.blocks[segment];
  return {block.name ? block_mark(*block.name) : 0,
          tenant_mark(request.plan.segments[segment].kind, block.owner), model_mark(model_of(request))};
}

bool SimComputePort::find_struck(const BatchRequest& request, std::uint32_t segment,
                                 std::span<const Page> pages) {
  bool struck = false;
  for (const Page& page : pages) {
    struck = struck || page.struck;
    if (!page.struck || !page.fresh) continue;
    report(2, request, segment, "is used but was never compared with its checksum since it was computed");
    break;
  }
  return struck;
}

void SimComputePort::check_origin(const BatchRequest& request, std::uint32_t segment,
                                  std::span<const Page> pages) {
  const Provenance right = origin(request, segment);
  for (const Page& page : pages) {
    if (page.late) return report(3, request, segment, "was pulled after the lease had ended");
    if (page.from.tenant != right.tenant) return report(14, request, segment, "is another tenant's");
    if (page.from.model != right.model) return report(4, request, segment, "is another model's");
    if (page.from.block != right.block) return report(2, request, segment, "is another block");
  }
}

// Writes all of the block's pages, or only the first half.
void SimComputePort::write_block(const BatchRequest& request, std::uint32_t segment,
                                 const SegmentValue& value, bool half) {
  const std::vector<std::uint32_t>& ids = request.kv[segment].pages;
  const Provenance from = origin(request, segment);
  const std::size_t tokens = request.plan.segments[segment].tokens.size();
  const std::size_t count = half ? (ids.size() + 1) / 2 : ids.size();
  for (std::uint32_t i = 0; i < count; ++i)
    pages_.write(ids[i], fingerprint(value, i, tokens, pages_.page_tokens()), from);
}

// ---- the end of a job ----

JobResult SimComputePort::run(const Job& job, std::uint32_t slot) {
  if (const auto* batch = std::get_if<RunBatch>(&job)) return run_batch(*batch, slot);
  if (const auto* wanted = std::get_if<LoadModel>(&job)) return load(*wanted);
  if (const auto* wanted = std::get_if<DropModel>(&job)) return drop(*wanted);
  if (const auto* change = std::get_if<ChangeRowPages>(&job); change && rows_) return rows_->change(*change);
  if (const auto* refill = std::get_if<RefillRows>(&job); refill && rows_) return rows_->refill(*refill);
  if (const auto* fill = std::get_if<FillShards>(&job); fill && shards_)
    return shards_->fill(*fill, std::vector<std::string>(models_.begin(), models_.end()));
  return Refusal{RefusalKind::internal, "wrong_job", "not a job of a device", "inference worker",
                 "RunBatch, LoadModel or DropModel"};
}

JobResult SimComputePort::run_batch(const RunBatch& batch, std::uint32_t slot) {
  auto running = running_.extract(slot);
  TROUPE_CHECK(!running.empty(), "begin() must be called before run()");
  ended_[slot] = options_.now();
  TROUPE_CHECK(!running.mapped().waits, "a batch must not end while it waits for blocks");
  std::vector<BlockOutcome> shards;
  if (shards_) shards = shards_->end(running.mapped().shards);
  for (std::size_t i = 0; rows_ && i < running.mapped().requests.size(); ++i)
    for (const Rows& rows : running.mapped().requests[i].rows)
      if (!rows_->end(rows.reading, !faults_.broken))
        report(3, *batch.requests[i], 0, "is computed from rows that changed meanwhile");
  if (faults_.broken) return device_error("the device is in an error state");
  BatchDone done;
  if (rows_) done.rows = row_totals();
  done.shards = std::move(shards);
  done.compute_us = (options_.now() - running.mapped().layers.begun).us;
  done.away = std::move(running.mapped().away);
  if (!done.away.empty()) return done;
  done.replies.reserve(batch.requests.size());
  for (std::size_t i = 0; i < batch.requests.size(); ++i) {
    StartedRequest& begun = running.mapped().requests[i];
    if (!begun.reply.refusal) end_request(*batch.requests[i], begun);
    done.replies.push_back(std::move(begun.reply));
  }
  done.waited_us = running.mapped().waited.us;
  done.in_flight_us = running.mapped().came.us;
  return done;
}

void SimComputePort::end_request(const BatchRequest& request, StartedRequest& begun) {
  for (const Reading& reading : begun.readings)
    if (pages_.rewritten(request.kv[reading.segment].pages, std::span(begun.pages).subspan(reading.first)))
      report(3, request, reading.segment,
             reading.half_written ? "changed under its writer" : "changed under its reader");
  begun.reply.checksums.assign(request.plan.segments.size(), 0);
  for (const Reading& reading : begun.readings) {
    if (!reading.half_written) continue;
    write_block(request, reading.segment, begun.values[reading.segment], false);
    begun.reply.checksums[reading.segment] = pages_.checksum(request.kv[reading.segment].pages);
  }
  const std::vector<Readout>& readouts = request.plan.readouts;
  begun.reply.readouts.reserve(readouts.size());
  // A reply has the scores of all readouts, so that all are noted if one of them is struck.
  const bool struck =
      std::ranges::any_of(readouts, [&](const Readout& readout) { return begun.struck[readout.segment]; });
  for (const Readout& readout : readouts) {
    const auto head = static_cast<Token>(readout.head);  // gives one number, that of its task
    const std::span<const Token> rows =
        readout.what == Readout::What::head ? std::span(&head, 1) : std::span(readout.rows);
    begun.reply.readouts.push_back(
        options_.family->logits_of(begun.values[readout.segment], readout.offset, rows));
    if (struck && options_.struck) options_.struck->note(begun.reply.readouts.back());
  }
  if (const Search& search = request.plan.search; search.width > 0) {
    begun.reply.beams = this->search(request, begun.values[search.segment]);
    if (begun.struck[search.segment] && options_.struck) options_.struck->note(begun.reply.beams);
    if (faults_.nan && !begun.reply.beams.empty())
      begun.reply.beams.back().log_probability = std::numeric_limits<double>::quiet_NaN();
  }
  if (!faults_.nan) return;
  for (ScoreRow& row : begun.reply.readouts)
    if (!row.scores.empty()) row.scores[row.scores.size() / 2] = std::numeric_limits<double>::quiet_NaN();
}

std::vector<Beam> SimComputePort::search(const BatchRequest& request, const SegmentValue& value) const {
  const Search& search = request.plan.search;
  const auto last = static_cast<std::uint32_t>(request.plan.segments[search.segment].tokens.size() - 1);
  std::shared_ptr<const kernels::PathIndex> paths;
  if (search.allowed.empty()) paths = options_.find_catalog(request.catalog_version)->paths();
  return search_paths(*options_.family, model_key(model_of(request)), value, last, search, paths.get());
}

void SimComputePort::report(int promise, const BatchRequest& request, std::uint32_t segment,
                            std::string_view what) {
  const SegmentBlock& block = request.blocks[segment];
  violations_.report(promise,
                     "node " + std::to_string(options_.node) + ": the block of \"" + block.owner +
                         "\" (segment " + std::to_string(segment) + ", " +
                         (block.name ? to_hex(*block.name).substr(0, 8) : "no name") + ") " +
                         std::string(what),
                     options_.now());
}

// ---- models ----

JobResult SimComputePort::load(const LoadModel& wanted) {
  const std::string& version = wanted.model_version;
  if (faults_.broken || faults_.load_fails) return device_error("model \"" + version + "\" cannot be loaded");
  if (options_.model_exists && !options_.model_exists(version))
    return Refusal{RefusalKind::not_found, "unknown_model", "there is no model \"" + version + "\"",
                   "inference worker", "an existing model"};
  if (models_.contains(version)) return ModelChanged{};
  if (models_.size() >= options_.models_max)
    return Refusal{RefusalKind::unavailable, "no_room", "no free slot for model \"" + version + "\"",
                   "inference worker", "at most " + std::to_string(options_.models_max) + " models"};
  models_.insert(version);
  return ModelChanged{};
}

JobResult SimComputePort::drop(const DropModel& wanted) {
  for (const auto& [slot, running] : running_)
    if (running.models.contains(wanted.model_version))
      violations_.report(4,
                         "node " + std::to_string(options_.node) + ": model \"" + wanted.model_version +
                             "\" is dropped while a batch runs on it",
                         options_.now());
  models_.erase(wanted.model_version);
  if (rows_) rows_->drop(wanted.model_version);
  return ModelChanged{};
}

}  // namespace troupe::sim
