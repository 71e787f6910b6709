#include "sim/ports/compute_port.h"

#include <doctest/doctest.h>

#include <cmath>

#include "runtime/testing/batch_of.h"
#include "sim/testing/evaluate.h"

using namespace troupe;
using namespace troupe::sim;

namespace {

BlockName name(std::uint8_t byte) { return {{byte}}; }

// Device on node 3 with 32 pages of 4 tokens; requests have a user block and a readout that sees it.
struct Device {
  Instant now;
  Pages pages{32, 4};
  DeviceFaults faults;
  std::set<std::uint64_t> poisons;
  std::vector<NodeId> poisoned;
  Violations violations;
  SimComputePort port;

  explicit Device(bool verify = true, std::uint32_t page_rows = 0, std::uint32_t slots = 0)
      : port(options(verify, page_rows, slots), pages, faults, poisons, violations) {}

  ComputeOptions options(bool verify, std::uint32_t page_rows = 0, std::uint32_t slots = 0) {
    ComputeOptions options{
        .node = 3, .model_version = "m1", .verify_on_read = verify, .page_rows = page_rows, .slots = slots};
    options.batch_time = [](const placement::Pass& pass, std::uint64_t) {
      return Duration{
          static_cast<std::int64_t>(100 * pass.new_tokens + pass.reused_tokens + 1000 * pass.readouts)};
    };
    options.now = [this] { return now; };
    options.on_poison = [this](NodeId node, std::uint64_t) { poisoned.push_back(node); };
    return options;
  }
  std::optional<Duration> begin(const Job& job, std::uint32_t slot = 0) { return port.begin(now, job, slot); }
  JobResult end(const Job& job, std::uint32_t slot = 0) { return port.run(job, slot); }
  // Advances `now` until the job ends; returns how much longer it takes than begin() returned.
  Duration go_on(const Job& job, std::uint32_t slot = 0) {
    const Instant from = now;
    while (const auto more = port.goes_on(now, job, slot)) now = now + *more;
    return now - from;
  }
  BatchDone end_waiting(const Job& job) {
    go_on(job);
    return std::get<BatchDone>(end(job));
  }
  BatchReply run(const BatchRequest& request) {
    const Job job = batch_of({request});
    begin(job);
    return std::get<BatchDone>(end(job)).replies.at(0);
  }
};

BatchRequest request(Grant grant, std::uint64_t checksum = 0) {
  BatchRequest request;
  request.plan.segments = {{SegmentKind::user, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0, {}},
                           {SegmentKind::discriminant, {11}, 10, {0}}};
  request.blocks = {{name(1), "1:au1"}, {}};
  request.plan.readouts = {{1, 0, {100, 200, 300}}};
  request.kv = {{grant, checksum, {4, 9, 5}}, {}};
  if (grant == Grant::none) request.kv[0].pages.clear();
  return request;
}

std::vector<ScoreRow> truth(const BatchRequest& request, std::string_view model = "m1") {
  return evaluate(model, request.plan);
}

std::vector<int> promises(const Violations& violations) {
  std::vector<int> numbers;
  for (const Violation& violation : violations.kept()) numbers.push_back(violation.promise);
  return numbers;
}

}  // namespace

TEST_CASE(
    "compute port: computed, written and reused blocks give correct results, and time follows computation") {
  Device device;
  CHECK(device.run(request(Grant::none)).readouts == truth(request(Grant::none)));
  const BatchReply written = device.run(request(Grant::write));
  CHECK(written.readouts == truth(request(Grant::write)));
  const BatchRequest reuse = request(Grant::read, written.checksums[0]);
  const BatchReply reused = device.run(reuse);
  CHECK(reused.readouts == truth(reuse));
  CHECK(reused.corrupt.empty());
  CHECK(device.begin(batch_of({reuse, reuse})) == Duration{2'220});
  device.faults.slowness = {3};
  CHECK(device.begin(batch_of({request(Grant::none)})) == Duration{6'300});
  device.faults.slowness = {3, {3'000}};  // 1,000 µs of it are done at the end of the slowdown
  CHECK(device.begin(batch_of({request(Grant::none)})) == Duration{4'100});
  CHECK(device.violations.count() == 0);
}

TEST_CASE("compute port: a batch beyond the executor slots takes its time from the others, in any order") {
  const Job job = batch_of({request(Grant::none)});  // 2,100 µs alone
  Device device(true, 0, 2), apart;
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    CHECK(device.begin(job, slot) == Duration{slot < 2 ? 2'100 : 3'150});
    CHECK(apart.begin(job, slot) == Duration{2'100});
  }
  const Duration both[] = {device.go_on(job, 0), device.go_on(job, 1)};
  CHECK(both[0] == Duration{1'050});
  CHECK(both[1] == Duration{1'050});
  CHECK(device.go_on(job, 2) == Duration{0});
  CHECK(apart.go_on(job, 0) == Duration{0});
  CHECK(device.port.busy() == Duration{3 * 2'100 + 3 * 1'050});
  CHECK(device.port.computed() == Duration{3 * 2'100});
  for (std::uint32_t slot = 0; slot < 3; ++slot) device.end(job, slot);
  CHECK(device.begin(job, 1) == Duration{2'100});
  CHECK(device.go_on(job, 1) == Duration{0});
}

TEST_CASE("compute port: a page reassigned under a reader or writer is reported, a flipped bit is not") {
  for (const bool reads : {true, false}) {
    Device device;
    const std::uint64_t checksum = device.run(request(Grant::write)).checksums[0];
    const Job job = batch_of({request(reads ? Grant::read : Grant::write, checksum)});
    device.begin(job);
    device.pages.flip(9, 3);
    device.end(job);
    CHECK(device.violations.count() == 0);
    device.run(request(Grant::write));
    device.begin(job);
    device.pages.copy(9, device.pages.at(9));
    device.end(job);
    CHECK(promises(device.violations) == std::vector<int>{3});
    CHECK(device.violations.kept()[0].what.find("node 3: the block of \"1:au1\"") == 0);
  }
}

TEST_CASE("compute port: a half-written block fails its checksum") {
  Device device;
  const std::uint64_t checksum = device.run(request(Grant::write)).checksums[0];
  for (const std::uint32_t page : {4, 9, 5}) device.pages.write(page, {}, {});
  const Job job = batch_of({request(Grant::write)});
  device.begin(job);
  const std::vector<std::uint32_t> ids{4, 9, 5};
  CHECK(device.pages.checksum(ids) != checksum);
  CHECK_FALSE(device.pages.at(9).print == PageFingerprint{});
  CHECK(device.pages.at(5).print == PageFingerprint{});
  device.end(job);
  CHECK(device.pages.checksum(ids) == checksum);
}

TEST_CASE("compute port: a corrupt block is computed again if checked, and changes the answer if not") {
  for (const bool verify : {true, false}) {
    Device device(verify);
    const BatchRequest reuse = request(Grant::read, device.run(request(Grant::write)).checksums[0]);
    device.pages.flip(5, 70);
    const BatchReply reply = device.run(reuse);
    CHECK(reply.corrupt == (verify ? std::vector<std::uint32_t>{0} : std::vector<std::uint32_t>{}));
    CHECK((reply.readouts == truth(reuse)) == verify);
  }
}

TEST_CASE("compute port: using a flipped block unchecked, or to compute a kept block, is reported") {
  Device device(false);
  BatchRequest reuse = request(Grant::read, device.run(request(Grant::write)).checksums[0]);
  device.pages.strike(5, 70);
  device.run(reuse);
  CHECK(promises(device.violations) == std::vector<int>{2});  // never checked since it was computed
  device.pages.strike(5, 70);
  reuse.kv[0].check = true;
  CHECK(device.run(reuse).corrupt.empty());
  device.pages.strike(5, 70);
  CHECK(device.run(reuse).corrupt == std::vector<std::uint32_t>{0});
  reuse.kv[0].check = false;
  device.run(reuse);
  CHECK(device.violations.count() == 1);  // allowed for a limited time
}

TEST_CASE("compute port: keeping a block computed or repaired from flipped bits is reported") {
  for (const char* from : {"nothing", "seen", "place"}) {
    CAPTURE(from);
    const std::string_view way = from;
    Device device(false);
    BatchRequest asked = request(Grant::read, device.run(request(Grant::write)).checksums[0]);
    asked.kv[0].check = true;
    device.run(asked);  // marks its page as checked
    asked.kv[0].check = false;
    asked.plan.segments[1].sees = {};
    asked.plan.segments.insert(asked.plan.segments.begin() + 1,
                               {SegmentKind::item, asked.plan.segments[0].tokens, 10, {}});
    if (way == "seen") asked.plan.segments[1].sees = {0};
    if (way == "place") asked.plan.repair = {.reused_spans = {{.segment = 1, .block = 0}}, .budgets = {0}};
    asked.blocks.insert(asked.blocks.begin() + 1, {name(4), "i1"});
    asked.kv.insert(asked.kv.begin() + 1, BatchSegmentKv{Grant::write, 0, {1, 2, 3}});
    asked.plan.readouts[0].segment = 2;
    device.pages.strike(5, 70);
    CHECK_FALSE(device.run(asked).refusal);
    CHECK(device.violations.count() == (way == "seen" || way == "place"));
  }
}

TEST_CASE("compute port: a plan with items of another catalog than it names is reported") {
  Device device;
  ComputeOptions options = device.options(true);
  options.had_tokens = [](std::string_view item, std::string_view catalog, std::span<const Token> tokens) {
    return item == "i1" && catalog == "c1" && tokens.size() == 2;
  };
  SimComputePort port(options, device.pages, device.faults, device.poisons, device.violations);
  const auto run = [&](std::vector<Token> tokens, const char* catalog, const char* item = "i1") {
    BatchRequest other = request(Grant::none);
    other.plan.segments.insert(other.plan.segments.begin() + 1,
                               {SegmentKind::item, std::move(tokens), 10, {0}});
    other.plan.readouts[0].segment = 2;
    other.blocks.insert(other.blocks.begin() + 1, {name(4), item});
    other.kv.emplace_back();
    other.catalog_version = catalog;
    const Job job = batch_of({other});
    port.begin(device.now, job, 0);
    port.run(job, 0);
    return device.violations.count();
  };
  CHECK(run({7, 8}, "c1") == 0);
  CHECK(run({7}, "") == 0);        // the plan needs no catalog
  CHECK(run({7}, "c1", "") == 0);  // the item is unknown
  CHECK(run({7, 8}, "c2") == 1);
  CHECK(run({7}, "c1") == 2);
  CHECK(promises(device.violations) == std::vector<int>{4, 4});
}

TEST_CASE("compute port: pages of another tenant, model or block, and late pages, are reported") {
  Device device;
  const std::uint64_t checksum = device.run(request(Grant::write)).checksums[0];
  const auto reuse = [&](auto change) {
    BatchRequest other = request(Grant::read, checksum);
    change(other);
    device.run(other);
  };
  device.run({});
  device.port.run(LoadModel{"m2"}, 0);
  reuse([](BatchRequest& other) { other.blocks[0].owner = "1:bu1"; });
  reuse([](BatchRequest& other) { other.model_version = "m2"; });
  reuse([](BatchRequest& other) { other.blocks[0].name = name(2); });
  device.pages.copy(9, device.pages.at(9), true);
  reuse([](BatchRequest&) {});
  CHECK(promises(device.violations) == std::vector<int>{14, 4, 2, 3});
}

TEST_CASE("compute port: an invalid request fails alone") {
  Device device;
  std::vector<BatchRequest> wrong(6, request(Grant::none));
  wrong[0].model_version = "m2";
  wrong[1].plan.segments[1].sees = {1};
  wrong[2].kv.pop_back();
  wrong[3] = request(Grant::write), wrong[3].kv[0].pages = {4, 32, 5};
  wrong[4] = request(Grant::write), wrong[4].kv[0].pages = {4, 5};
  wrong[5].kv[1] = {Grant::read, 0, {1}};
  wrong.push_back(request(Grant::none));
  const RunBatch batch = batch_of(wrong);
  device.begin(batch);
  const auto done = std::get<BatchDone>(device.end(batch));
  CHECK(done.replies[0].refusal->code == "wrong_model");
  for (std::size_t i = 1; i < 6; ++i) CHECK(done.replies[i].refusal->code == "bad_plan");
  CHECK(done.replies[6].readouts == truth(request(Grant::none)));
}

TEST_CASE("compute port: device faults hang, fail until healed, or compute NaN") {
  Device device;
  const Job job = batch_of({request(Grant::none)});
  device.faults.hung = true;
  CHECK(device.begin(job) == std::nullopt);
  device.faults = {.broken = true};
  device.begin(job);
  CHECK(std::get<Refusal>(device.end(job)).code == "device_error");
  device.faults = {.nan = true};
  const BatchReply reply = device.run(request(Grant::none));
  CHECK(std::isnan(reply.readouts[0].scores[1]));
  CHECK_FALSE(std::isnan(reply.readouts[0].scores[0]));
  device.faults = {};
  CHECK(device.run(request(Grant::none)).readouts == truth(request(Grant::none)));
}

TEST_CASE("compute port: a poisonous batch never ends and calls on_poison") {
  Device device;
  device.poisons = {poison_of(request(Grant::none).plan.segments[0].tokens)};
  BatchRequest harmless = request(Grant::none);
  harmless.plan.segments[0].tokens = harmless.plan.segments[0].tokens.part(0, 9);
  CHECK(device.begin(batch_of({harmless})));
  CHECK(device.poisoned.empty());
  CHECK(device.begin(batch_of({harmless, request(Grant::none)})) == std::nullopt);
  CHECK(device.poisoned == std::vector<NodeId>{3});
}

TEST_CASE("compute port: a history in parts has the same poison hash as a whole") {
  Device device;
  const Tokens whole = request(Grant::none).plan.segments[0].tokens;
  device.poisons = {poison_of(whole)};
  BatchRequest parts = request(Grant::none);
  parts.plan.segments.insert(parts.plan.segments.begin() + 1, {SegmentKind::user, whole.part(4, 6), 4, {0}});
  parts.plan.segments[0].tokens = whole.part(0, 4);
  parts.plan.segments[2].sees = {0, 1};
  parts.plan.readouts[0].segment = 2;
  parts.blocks.insert(parts.blocks.begin(), parts.blocks[0]);
  parts.kv.insert(parts.kv.begin(), parts.kv[0]);
  CHECK(device.begin(batch_of({parts})) == std::nullopt);
  CHECK(device.poisoned.size() == 1);
}

TEST_CASE("compute port: models load within their time up to models_max; dropping one in use is reported") {
  Device device;
  device.faults.slowness = {2};
  CHECK(device.begin(LoadModel{"m2"}) == Duration{4'000'000});
  device.faults.load_fails = true;
  CHECK(std::holds_alternative<Refusal>(device.end(LoadModel{"m2"})));
  device.faults = {};
  CHECK(std::holds_alternative<ModelChanged>(device.end(LoadModel{"m2"})));
  CHECK(std::holds_alternative<ModelChanged>(device.end(LoadModel{"m3"})));
  CHECK(std::get<Refusal>(device.end(LoadModel{"m4"})).code == "no_room");
  BatchRequest on_two = request(Grant::none);
  on_two.model_version = "m2";
  const Job job = batch_of({on_two});
  device.begin(job, 1);
  device.end(DropModel{"m3"});
  CHECK(device.violations.count() == 0);
  device.end(DropModel{"m2"});
  CHECK(promises(device.violations) == std::vector<int>{4});
  CHECK(std::get<BatchDone>(device.end(job, 1)).replies[0].readouts == truth(on_two, "m2"));
  CHECK(device.run(on_two).refusal->code == "wrong_model");
}

TEST_CASE("compute port: content_of is independent of the prefix but not of the items' order") {
  const Segment user{SegmentKind::user, {1, 2}}, first{SegmentKind::item, {3, 4}},
      second{SegmentKind::item, {5}};
  const auto content = [](const std::vector<Segment>& segments) {
    return content_of(BatchRequest{.plan = {segments, {}}});
  };
  CHECK(content({user, first, second}) == content({first, second, user}));
  CHECK(content({user, first, second}) != content({user, second, first}));
  CHECK(content({user, first, second}) != content({user, first}));
}

TEST_CASE("compute port: pass_of and pulled_tokens follow from a plan's grants") {
  BatchRequest plan;  // system of 2 tokens → two items of 3 that see it → user of 4 that sees all
  plan.plan.segments = {{SegmentKind::system, {1, 2}, 0, {}},
                        {SegmentKind::item, {3, 4, 5}, 2, {0}},
                        {SegmentKind::item, {6, 7, 8}, 2, {0}},
                        {SegmentKind::user, {9, 10, 11, 12}, 5, {0, 1, 2}}};
  plan.blocks = {{}, {name(1), "a"}, {name(2), "b"}, {{}, "u"}};
  plan.plan.readouts = {{3, 3, {100, 200}}};
  plan.kv = {{}, {Grant::read, 0, {1}}, {Grant::write, 0, {2}}, {}};
  plan.blocks[1].at = plan.blocks[2].at = 7;
  const placement::Pass pass = pass_of(plan);
  CHECK(pass.new_tokens == 2 + 3 + 4);
  CHECK(pass.reused_tokens == 3);
  CHECK(pass.pairs == (1 + 2) + (3 * 2 + 6) + (4 * 8 + 10));
  CHECK(pass.readouts == 1);
  CHECK(pulled_tokens(plan) == 3);  // the other block is not available and is computed
}

namespace {

// Returns a batch of `reuse` with a block whose copy into these pages takes from 0 to 400 µs.
RunBatch in_flight(Device& device, BatchRequest reuse, std::uint64_t generation = 7) {
  reuse.kv[0].in_flight = true;
  reuse.kv[0].generation = generation;
  device.pages.begin_arrival(7, {0, 400, false, false, {}});
  RunBatch batch = batch_of({std::move(reuse)});
  batch.in_flight_us = 1'000'000;
  return batch;
}

}  // namespace

TEST_CASE("compute port: a block that arrives during a batch delays its layers and is used on arrival") {
  Device device;
  const BatchRequest reuse = request(Grant::read, device.run(request(Grant::write)).checksums[0]);
  const Duration alone = *device.begin(batch_of({reuse}), 1);
  const Job job = in_flight(device, reuse);
  CHECK(device.begin(job) == Duration{401});
  CHECK(device.port.computes(job, 0) == std::nullopt);
  for (const std::uint32_t page : {4, 9, 5}) device.pages.copy(page, device.pages.at(page));
  device.pages.end_arrival(7, true, reuse.kv[0].pages);
  device.pages.strike(5, 70);  // the pages were read before that
  device.now.us = 401;
  // the part for the first of two layers arrived at 200
  CHECK(device.go_on(job) == Duration{alone.us - 201});
  CHECK(device.port.computes(job, 0) == 0.0);
  CHECK(device.port.busy().us == device.port.computed().us + 200);  // it keeps its executor slot
  const auto done = std::get<BatchDone>(device.end(job));
  CHECK(done.replies.at(0).readouts == truth(reuse));
  CHECK(done.replies[0].missed.empty());
  CHECK(done.in_flight_us == 400);
  CHECK(done.waited_us == 200);
  CHECK(device.violations.count() == 0);
}

TEST_CASE("compute port: a failed copy is computed by another pass; writes during it are reported") {
  for (const bool rewritten : {false, true}) {
    Device device;
    const BatchRequest reuse = request(Grant::read, device.run(request(Grant::write)).checksums[0]);
    const Duration all = *device.begin(batch_of({request(Grant::none)}), 1);
    const Duration alone = *device.begin(batch_of({reuse}), 1);
    const Job job = in_flight(device, reuse);
    device.begin(job);
    device.pages.flip(5, 70);
    device.pages.end_arrival(7, false, reuse.kv[0].pages);
    if (rewritten) device.pages.write(9, {}, {});
    device.now.us = 401;
    const Duration first_layer{alone.us / 2 - 201};  // it began at 200 and runs to its end
    CHECK(device.go_on(job) == Duration{first_layer.us + all.us});
    const auto done = std::get<BatchDone>(device.end(job));
    CHECK(done.replies.at(0).missed == std::vector<std::uint32_t>{0});
    CHECK(done.replies[0].readouts == truth(reuse));
    CHECK(done.in_flight_us == 0);
    CHECK(promises(device.violations) == (rewritten ? std::vector<int>{3} : std::vector<int>{}));
  }
}

TEST_CASE("compute port: other pages of a request that waits for a block must not change") {
  Device device;
  BatchRequest reuse = request(Grant::read, device.run(request(Grant::write)).checksums[0]);
  reuse.kv[1] = {Grant::write, 0, {6}};
  const Job job = in_flight(device, reuse);
  device.begin(job);
  device.pages.write(6, {}, {});
  device.pages.end_arrival(7, true, reuse.kv[0].pages);
  device.end_waiting(job);
  CHECK(promises(device.violations) == std::vector<int>{3});
}

TEST_CASE("compute port: rows of a request that waits for a block must not change") {
  Device device(true, 2);
  device.port.run(ChangeRowPages{{20, 21, 22, 23, 24, 25, 26, 27}, 0}, 1);
  const BatchRequest reuse = request(Grant::read, device.run(request(Grant::write)).checksums[0]);
  const Job job = in_flight(device, reuse);
  device.begin(job);
  const auto given_back = [&] {
    return std::get<RowPages>(device.port.run(ChangeRowPages{{}, 8}, 1)).given_back.size();
  };
  CHECK(given_back() == 7);
  device.pages.end_arrival(7, true, reuse.kv[0].pages);
  CHECK(device.end_waiting(job).replies.at(0).readouts == truth(reuse));
  CHECK(given_back() == 1);
  CHECK(device.violations.count() == 0);
}

TEST_CASE(
    "compute port: an unknown or too slow copy is waited for up to the limit, and the block is then "
    "computed") {
  Device device;
  const BatchRequest reuse = request(Grant::read, device.run(request(Grant::write)).checksums[0]);
  const Duration all = *device.begin(batch_of({request(Grant::none)}), 1);
  for (const std::uint64_t generation : {7, 8}) {
    RunBatch impatient = in_flight(device, reuse, generation);
    impatient.in_flight_us = 150;
    const Job job = impatient;
    device.now.us = device.begin(job)->us;
    CHECK(device.go_on(job) == Duration{150 + all.us - (generation == 7 ? 150 : 100)});
    const auto done = std::get<BatchDone>(device.end(job));
    CHECK(done.replies.at(0).readouts == truth(reuse));
    CHECK(done.replies[0].missed == std::vector<std::uint32_t>{0});
    CHECK(done.waited_us == 150);
    device.now.us = 0;
  }
}

TEST_CASE("compute port: a copy that begins after the batch is waited for exactly as long as it takes") {
  Device device;
  BatchRequest reuse = request(Grant::read, device.run(request(Grant::write)).checksums[0]);
  const Duration alone = *device.begin(batch_of({reuse}), 1);
  const Job job = in_flight(device, reuse, 8);
  device.now.us = device.begin(job)->us;
  device.pages.begin_arrival(8, {90, 290, false, false, {}});
  device.now.us += device.port.goes_on(device.now, job, 0)->us;
  CHECK(device.now.us == 291);
  device.pages.end_arrival(8, true, reuse.kv[0].pages);
  CHECK(device.go_on(job) == Duration{alone.us - 101});  // the part for its first layer arrived at 190
  CHECK(std::get<BatchDone>(device.end(job)).replies.at(0).missed.empty());
}

TEST_CASE(
    "compute port: a block of prototypes has their value at its place, and another model's is reported") {
  Device device;
  BatchRequest plan;
  plan.plan.segments = {{SegmentKind::user, {1, 2, 3}},
                        {SegmentKind::user, {1, 2, 3}, 5},
                        {SegmentKind::discriminant, {9}, 8, {1}}};
  plan.plan.repair.reused_spans = {{1, 0, 0, true}};
  plan.plan.repair.budgets = {1};
  plan.plan.repair.prototypes = "some";
  plan.plan.readouts = {{2, 0, {100, 200}}};
  plan.blocks.resize(3);
  plan.kv.resize(3);
  const auto scores = device.run(plan).readouts;
  CHECK(promises(device.violations) == std::vector<int>{4});  // this device has no prototypes
  CHECK(scores == truth(plan));
  plan.plan.segments[1].start = 6;
  CHECK(device.run(plan).readouts != scores);
  plan.plan.repair.prototypes = "others";
  CHECK(device.run(plan).readouts == truth(plan));
}
