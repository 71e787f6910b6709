#include "actors/inference/compute_port.h"

#include <doctest/doctest.h>

#include <new>
#include <thread>

#include "kernels/base/errors.h"
#include "kernels/decoder/decoder.h"

namespace troupe::actors {
namespace {

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

// Model "one" from the start; "two" and "three" can be loaded, "deep" has another layout.
struct Bench {
  PageArena arena{decoder(1)->layout().page_bytes(), 8};
  int loads = 0;
  ComputePort port{decoder(1), "one", arena, 2, true, [this](const std::string& version) {
                     ++loads;
                     if (version == "two") return decoder(2);
                     if (version == "three") return decoder(3);
                     if (version == "deep") return decoder(4, 3);
                     if (version == "huge") throw std::bad_alloc();
                     throw kernels::LoadError(version + ": no such directory; expected a model directory");
                   }};

  BatchReply run(const BatchRequest& r, std::uint32_t lane = 0) {
    return std::get<BatchDone>(port.run(RunBatch{{r}}, lane)).replies.at(0);
  }
  bool load(const std::string& v) { return std::holds_alternative<ModelChanged>(port.run(LoadModel{v}, 0)); }
  Refusal refused_load(const std::string& v) { return std::get<Refusal>(port.run(LoadModel{v}, 0)); }
  std::vector<ScoreRow> scores(const std::string& version, std::uint32_t lane = 0) {
    return run(request(version), lane).readouts;
  }
};

TEST_CASE("each request runs on its own model, in one batch too, and \"\" is the first model") {
  Bench b;
  REQUIRE(b.load("two"));
  const auto one = b.scores("one"), two = b.scores("two");
  CHECK(one != two);
  CHECK(b.scores("") == one);
  CHECK(b.scores("two", 1) == two);
  const auto mixed =
      std::get<BatchDone>(b.port.run(RunBatch{{request("two"), request("x"), request("")}}, 0));
  CHECK(mixed.replies.at(0).readouts == two);
  CHECK(mixed.replies.at(1).refusal->code == "wrong_model");
  CHECK(mixed.replies.at(1).refusal->status == 503);
  CHECK(mixed.replies.at(2).readouts == one);
}

TEST_CASE("a dropped model is gone until it is loaded again; a loaded one is not loaded twice") {
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

TEST_CASE("what cannot be loaded is refused with the reason") {
  Bench b;
  CHECK(b.refused_load("absent").code == "bad_model");
  CHECK(b.refused_load("absent").what == "absent: no such directory; expected a model directory");
  CHECK(b.refused_load("huge").code == "no_memory");
  const Refusal deep = b.refused_load("deep");
  CHECK(deep.status == 422);
  CHECK(deep.code == "other_layout");
  CHECK(deep.what ==
        "the model's pages of 4 tokens hold keys and values of 3 layers, 2 heads of 8, f32; the pool's pages "
        "of 4 tokens hold keys and values of 2 layers, 2 heads of 8, f32");
  ComputePort fixed(decoder(1), "one", b.arena, 1, true);
  CHECK(std::get<Refusal>(fixed.run(LoadModel{"two"}, 0)).status == 501);
}

TEST_CASE("pages are written, checked and read in place") {
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

TEST_CASE("without checks at every read only what is to be checked is") {
  Bench b;
  ComputePort port(decoder(1), "one", b.arena, 1, false);
  const auto run = [&](const BatchRequest& r) {
    return std::get<BatchDone>(port.run(RunBatch{{r}}, 0)).replies.at(0);
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

TEST_CASE("models come and go while other lanes compute") {
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

}  // namespace
}  // namespace troupe::actors
