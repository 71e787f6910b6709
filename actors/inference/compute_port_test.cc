#include "actors/inference/compute_port.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>
#include <thread>

#include "kernels/base/errors.h"
#include "kernels/decoder/decoder.h"
#include "runtime/testing/batch_of.h"
#include "runtime/testing/catalog_test.h"

namespace troupe::actors {
namespace compute_port_test {

std::unique_ptr<kernels::Executor> decoder(std::uint64_t seed, std::uint32_t layers = 2) {
  kernels::DecoderConfig config;
  config.family = kernels::Family::llama;
  config.layers = layers, config.hidden = 16, config.heads = 2, config.kv_heads = 2, config.head_dim = 8;
  config.intermediate = 24, config.vocabulary = 40, config.positions_max = 100;
  return kernels::make_cpu_decoder(kernels::random_decoder(config, seed), {.page_tokens = 4});
}

BatchRequest request(const std::string& model_version, std::vector<BatchSegmentKv> kv = {{}}) {
  BatchRequest r;
  r.plan.segments = {{SegmentKind::user, {1, 2, 3}}};
  r.plan.readouts = {{0, 2, {4, 5}}};
  r.blocks.resize(1);
  r.kv = std::move(kv);
  r.model_version = model_version;
  return r;
}

ComputePort::Options options(PageArena& arena, LoadedModel model, std::uint32_t slots = 1,
                             bool verify_on_read = true, ComputePort::Loader loader = {},
                             FindCatalog find_catalog = {}) {
  return {.model = std::move(model),
          .model_version = "one",
          .arena = arena,
          .slots = slots,
          .make_pages = ComputePort::arena_pages(verify_on_read),
          .loader = std::move(loader),
          .find_catalog = std::move(find_catalog)};
}

// Model "one" is loaded from the start; "two" and "three" can be loaded, "deep" has another layout.
struct Bench {
  PageArena arena{decoder(1)->layout().page_bytes(), 8};
  int loads = 0;
  ComputePort port{options(arena, decoder(1), 2, true, [this](const std::string& version) {
    ++loads;
    if (version == "two") return decoder(2);
    if (version == "three") return decoder(3);
    if (version == "deep") return decoder(4, 3);
    if (version == "huge") throw std::bad_alloc();
    throw kernels::LoadError(version + ": no such directory; expected a model directory");
  })};

  BatchReply run(const BatchRequest& r, std::uint32_t slot = 0) {
    return std::get<BatchDone>(port.run(batch_of({r}), slot)).replies.at(0);
  }
  bool load(const std::string& v) { return std::holds_alternative<ModelChanged>(port.run(LoadModel{v}, 0)); }
  Refusal refused_load(const std::string& v) { return std::get<Refusal>(port.run(LoadModel{v}, 0)); }
  std::vector<ScoreRow> scores(const std::string& version, std::uint32_t slot = 0) {
    return run(request(version), slot).readouts;
  }
};

TEST_CASE(
    "compute port: each request runs on its own model, even in one batch, and \"\" is the first model") {
  Bench b;
  REQUIRE(b.load("two"));
  const auto one = b.scores("one"), two = b.scores("two");
  CHECK(one != two);
  CHECK(b.scores("") == one);
  CHECK(b.scores("two", 1) == two);
  const auto mixed =
      std::get<BatchDone>(b.port.run(batch_of({request("two"), request("x"), request("")}), 0));
  CHECK(mixed.replies.at(0).readouts == two);
  CHECK(mixed.replies.at(1).refusal->code == "wrong_model");
  CHECK(mixed.replies.at(1).refusal->kind == RefusalKind::unavailable);
  CHECK(mixed.replies.at(2).readouts == one);
}

TEST_CASE("compute port: a dropped model is gone until loaded again, and a loaded one is not loaded twice") {
  Bench b;
  REQUIRE(b.load("two"));
  REQUIRE(b.load("two"));
  CHECK(b.loads == 1);
  const auto one = b.scores("one");
  CHECK(std::holds_alternative<ModelChanged>(b.port.run(DropModel{"one"}, 0)));
  CHECK(std::holds_alternative<ModelChanged>(b.port.run(DropModel{"never"}, 0)));
  CHECK(b.run(request("one")).refusal->code == "wrong_model");
  CHECK(b.run(request("")).refusal->code == "wrong_model");
  CHECK_FALSE(b.run(request("two")).refusal);
  CHECK(b.refused_load("one").code == "bad_model");
}

TEST_CASE("compute port: a failed load is refused with the reason") {
  Bench b;
  CHECK(b.refused_load("absent").code == "bad_model");
  CHECK(b.refused_load("absent").what == "absent: no such directory; expected a model directory");
  CHECK(b.refused_load("huge").code == "no_memory");
  const Refusal deep = b.refused_load("deep");
  CHECK(deep.kind == RefusalKind::unprocessable);
  CHECK(deep.code == "other_layout");
  CHECK(deep.what ==
        "the model's pages of 4 tokens hold keys and values of 3 layers, 2 heads of 8, f32; the pool's pages "
        "of 4 tokens hold keys and values of 2 layers, 2 heads of 8, f32");
  ComputePort fixed(options(b.arena, decoder(1)));
  CHECK(std::get<Refusal>(fixed.run(LoadModel{"two"}, 0)).kind == RefusalKind::unsupported);
}

TEST_CASE(
    "compute port: a search of fixed length needs no catalog, one among identifiers is refused without") {
  Bench b;
  BatchRequest search = request("one");
  search.plan.readouts.clear();
  search.plan.search = {.width = 3, .results = 2, .steps = 4};
  const BatchReply found = b.run(search);
  REQUIRE_FALSE(found.refusal);
  REQUIRE(found.beams.size() == 2);
  CHECK(found.beams[0].path.size() == 4);
  search.plan.search.steps = 0;
  const BatchReply among_none = b.run(search);
  REQUIRE(among_none.refusal);
  CHECK(among_none.refusal->code == "wrong_catalog");
  search.plan.search.steps = 99;  // after three tokens, of 100 positions
  const BatchReply refused = b.run(search);
  REQUIRE(refused.refusal);
  CHECK(refused.refusal->code == "bad_plan");
}

TEST_CASE("compute port: pages are written, verified and read in place") {
  Bench b;
  const BatchReply written = b.run(request("", {{Grant::write, 0, {3}}}));
  CHECK(written.checksums.at(0) == checksum_pages(b.arena, std::vector<std::uint32_t>{3}));
  BatchRequest reader = request("");
  reader.plan.segments.push_back({SegmentKind::discriminant, {7}, 3, {0}});
  reader.plan.readouts = {{1, 0, {4, 5}}};
  reader.blocks.resize(2);
  reader.kv = {{}, {}};
  const BatchReply computed = b.run(reader);
  reader.kv[0] = {Grant::read, written.checksums[0], {3}};
  const BatchReply reused = b.run(reader);
  CHECK(reused.corrupt.empty());
  for (int row = 0; row < 2; ++row)
    CHECK(reused.readouts[0].scores[row] == doctest::Approx(computed.readouts[0].scores[row]).epsilon(1e-4));
  reader.kv[0].checksum += 1;
  const BatchReply corrupt = b.run(reader);
  CHECK(corrupt.corrupt == std::vector<std::uint32_t>{0});
  CHECK(corrupt.readouts == computed.readouts);
  reader.kv[0].pages = {99};
  CHECK(b.run(reader).refusal->code == "bad_plan");
}

TEST_CASE(
    "compute port: the rest of a page larger than the model's own is cleared, so equal blocks have equal "
    "sums") {
  const std::size_t own = decoder(1)->layout().page_bytes();
  PageArena arena(own + 100, 8);
  ComputePort port(options(arena, decoder(1)));
  std::memset(arena.page(2), 0x55, own + 100);  // another model's block was here
  const auto written_to = [&](std::uint32_t page) {
    const auto done =
        std::get<BatchDone>(port.run(batch_of({request("one", {{Grant::write, 0, {page}}})}), 0));
    return done.replies.at(0).checksums.at(0);
  };
  const std::uint64_t sum = written_to(2);
  CHECK(std::all_of(arena.page(2) + own, arena.page(2) + own + 100,
                    [](std::byte b) { return b == std::byte{0}; }));
  CHECK(written_to(5) == sum);
}

TEST_CASE("compute port: without verify_on_read only reads with `check` are verified") {
  Bench b;
  ComputePort port(options(b.arena, decoder(1), 1, false));
  const auto run = [&](const BatchRequest& r) {
    return std::get<BatchDone>(port.run(batch_of({r}), 0)).replies.at(0);
  };
  const BatchReply written = run(request("", {{Grant::write, 0, {3}}}));
  BatchRequest reader = request("");
  reader.plan.segments.push_back({SegmentKind::discriminant, {7}, 3, {0}});
  reader.plan.readouts = {{1, 0, {4, 5}}};
  reader.blocks.resize(2);
  reader.kv = {{Grant::read, written.checksums[0], {3}}, {}};
  const BatchReply right = run(reader);
  b.arena.page(3)[5] ^= std::byte{16};
  const BatchReply wrong = run(reader);
  CHECK(wrong.corrupt.empty());
  CHECK(wrong.readouts != right.readouts);
  reader.kv[0].check = true;
  CHECK(run(reader).corrupt == std::vector<std::uint32_t>{0});
  CHECK(check_blocks(b.arena, {{{1, written.checksums[0], {3}}}}).ok == std::vector<std::uint8_t>{0});
  b.arena.page(3)[5] ^= std::byte{16};
  CHECK(check_blocks(b.arena, {{{1, written.checksums[0], {3}}}}).ok == std::vector<std::uint8_t>{1});
}

TEST_CASE("compute port: models are loaded and dropped while other slots compute") {
  Bench b;
  const auto one = b.scores("one");
  std::thread changes([&] {
    for (int i = 0; i < 20; ++i) {
      b.port.run(LoadModel{i % 2 ? "two" : "three"}, 1);
      b.port.run(DropModel{i % 3 ? "two" : "three"}, 1);
    }
  });
  bool same = true;
  for (int i = 0; i < 100; ++i) same = same && b.scores("one") == one;
  changes.join();
  CHECK(same);
}

// Adds to each logit the offset in the assets of its request. Remembers the plans of its last batch.
struct Offset : kernels::CatalogAssets {
  explicit Offset(float by) : offset(by) {}
  const float offset;
};
class OffsetExecutor final : public kernels::Executor {
 public:
  explicit OffsetExecutor(std::unique_ptr<kernels::Executor> inner) : inner_(std::move(inner)) {}
  static inline std::vector<const kernels::Plan*> last_plans;
  kernels::PlanLimits limits() const override { return inner_->limits(); }
  std::string fault(const kernels::Plan& plan) const override {
    return plan.segments.size() > 3 ? "four segments; expected fewer" : "";
  }
  const kernels::PageLayout& layout() const override { return inner_->layout(); }
  void run(std::span<const kernels::Request> batch, std::vector<kernels::Reply>& replies) override {
    inner_->run(batch, replies);
    last_plans.clear();
    for (const kernels::Request& request : batch) last_plans.push_back(request.plan);
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (const auto* assets = static_cast<const Offset*>(batch[i].assets.get()))
        for (auto& row : replies[i].readouts)
          for (float& logit : row) logit += assets->offset;
  }
  void measure(kernels::PassTimes* times) override { inner_->measure(times); }
  std::unique_ptr<kernels::Executor> share(std::uint32_t executor) const override {
    return std::make_unique<OffsetExecutor>(inner_->share(executor));
  }

 private:
  std::unique_ptr<kernels::Executor> inner_;
};

TEST_CASE(
    "compute port: each request of a batch is computed with its model's assets of the catalog it names") {
  Bench b;
  std::map<std::string, CatalogPointer> catalogs;
  for (const char* version : {"c1", "c2"}) catalogs[version] = features_of(nullptr, {}, version).catalog;
  std::vector<std::weak_ptr<const kernels::CatalogAssets>> made;
  const auto loaded = [&](std::uint64_t seed, float times) {
    return LoadedModel(std::make_unique<OffsetExecutor>(decoder(seed)), [&, times](CatalogPointer catalog) {
      const auto assets =
          std::make_shared<const Offset>(times * (catalog->version() == "c1" ? 100.0f : 200.0f));
      made.push_back(assets);
      return assets;
    });
  };
  ComputePort port(options(
      b.arena, loaded(1, 1), 2, true, [&](const std::string&) { return loaded(1, 4); },
      [&](const std::string& version) {
        const auto at = catalogs.find(version);
        return at == catalogs.end() ? nullptr : at->second;
      }));
  const auto run = [&](const char* model, std::vector<const char*> versions) {
    std::vector<BatchRequest> requests;
    for (const char* version : versions) {
      requests.push_back(request(model));
      requests.back().catalog_version = version;
    }
    return std::get<BatchDone>(port.run(batch_of(std::move(requests)), 0)).replies;
  };
  const auto replies = run("one", {"", "c2", "c1", "c9"});
  const double plain = replies[0].readouts[0].scores[0];  // without a catalog version
  CHECK(replies[1].readouts[0].scores[0] == doctest::Approx(plain + 200));
  CHECK(replies[2].readouts[0].scores[0] == doctest::Approx(plain + 100));
  CHECK(replies[3].refusal->code == "wrong_catalog");
  CHECK(replies[3].refusal->kind == RefusalKind::unavailable);

  REQUIRE(std::holds_alternative<ModelChanged>(port.run(LoadModel{"two"}, 2)));
  CHECK(run("two", {"c1"})[0].readouts[0].scores[0] == doctest::Approx(plain + 400));
  CHECK(made.size() == 3);
  port.run(DropModel{"one"}, 2);  // drops its assets, too
  CHECK(made[0].expired());
  CHECK(made[1].expired());
  CHECK_FALSE(made[2].expired());
}

TEST_CASE("compute port: the executor reads each plan of a batch where the job has it") {
  Bench b;
  ComputePort port(options(b.arena, LoadedModel(std::make_unique<OffsetExecutor>(decoder(1)))));
  const RunBatch batch = batch_of({request("one"), request("one"), request("one")});
  CHECK(std::get<BatchDone>(port.run(batch, 0)).replies.size() == 3);
  REQUIRE(OffsetExecutor::last_plans.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(OffsetExecutor::last_plans[i] == &batch.requests[i]->plan);
}

TEST_CASE("compute port: a valid plan that the executor does not accept is refused alone") {
  Bench b;
  ComputePort port(options(b.arena, LoadedModel(std::make_unique<OffsetExecutor>(decoder(1)))));
  BatchRequest large = request("one");
  while (large.plan.segments.size() < 4) {
    large.plan.segments.push_back(large.plan.segments.back());
    large.kv.emplace_back();
    large.blocks.emplace_back();
  }
  const auto replies = std::get<BatchDone>(port.run(batch_of({large, request("one")}), 0)).replies;
  REQUIRE(replies[0].refusal);
  CHECK(replies[0].refusal->code == "bad_plan");
  CHECK(replies[0].refusal->what.find("four segments; expected fewer") != std::string::npos);
  CHECK_FALSE(replies[1].refusal);
}

TEST_CASE("compute port: plans are refused alone if their model cannot make assets of the catalog") {
  Bench b;
  const CatalogPointer catalog = features_of(nullptr, {}, "c1").catalog;
  ComputePort port(options(
      b.arena,
      LoadedModel(decoder(1), [](CatalogPointer) -> AssetsPointer { throw std::runtime_error("no items"); }),
      1, true, {}, [&](const std::string&) { return catalog; }));
  BatchRequest wanting = request("one");
  wanting.catalog_version = "c1";
  const auto replies = std::get<BatchDone>(port.run(batch_of({wanting, request("one")}), 0)).replies;
  CHECK(replies[0].refusal->kind == RefusalKind::unavailable);
  CHECK(replies[0].refusal->what == "for catalog c1: no items");
  CHECK_FALSE(replies[1].refusal);
}

}  // namespace compute_port_test
}  // namespace troupe::actors
