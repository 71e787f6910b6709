#include "kernels/decoder/prototypes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "kernels/base/float_formats.h"
#include "kernels/checkpoint/version_hash.h"
#include "kernels/decoder/decoder.h"
#include "kernels/testing/small_decoder_test.h"
#include "kernels/testing/test_folder.h"

namespace troupe::kernels {
namespace {
namespace prototypes_test {

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double(a[i]) * b[i];
  return sum;
}

// A history of distinct tokens behind a first token of another kind, computed once.
struct History {
  DecoderModel model = random_decoder(small_config(), 5);
  std::unique_ptr<Executor> decoder = make_cpu_decoder(model, {.page_tokens = 4});
  KvLayout layout = kv_layout(model.config, 4, KvFormat::f32);
  std::vector<Token> tokens{3, 17, 4, 31, 9, 26, 5};
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> memory;  // of all allocated pages
  std::vector<std::byte*> pages = allocate_pages(tokens.size());

  // The prompt's first token is not part of the history.
  static constexpr std::uint32_t start = 1;

  std::vector<std::byte*> allocate_pages(std::size_t count) {
    std::vector<std::byte*> addresses;
    for (std::size_t i = 0; i < layout.pages_for(count); ++i) {
      memory.emplace_back(
          static_cast<std::byte*>(std::aligned_alloc(64, (layout.page_bytes() + 63) / 64 * 64)), &std::free);
      std::memset(memory.back().get(), 0xff, layout.page_bytes());
      addresses.push_back(memory.back().get());
    }
    return addresses;
  }
  Plan plain() const {
    Plan plan;
    plan.segments = {{SegmentKind::system, {1}, 0, {}},
                     {SegmentKind::user, tokens, start, {0}},
                     {SegmentKind::discriminant, {2, 8}, 8, {0, 1}}};
    plan.readouts = {{2, 1, {1, 2, 3, 40}}};
    return plan;
  }
  std::vector<float> run(const Plan& plan, std::vector<SegmentKv> kv) const {
    const Request request{&plan, std::move(kv)};
    return decoder->run({&request, 1})[0].readouts[0];
  }
  // Makes prototypes; each token of the history is its own.
  PrototypeMaker made(PrototypeOptions options = {.cosine_min = 0.999}) {
    const Plan plan = plain();
    run(plan, {{}, {Source::compute, pages}, {}});
    PrototypeMaker maker(model, options);
    for (std::uint32_t t = 0; t < tokens.size(); ++t) maker.see(tokens[t], start + t);
    maker.settle();
    for (std::uint32_t t = 0; t < tokens.size(); ++t) maker.take(tokens[t], start + t, layout, pages, t);
    return maker;
  }
};

TEST_CASE("prototypes: a token is close to itself nearby, less so far away, and not to others") {
  const DecoderModel model = random_decoder(small_config(), 5);
  const PositionalEmbedding embedding(model.weights.embedding.values, model.config.hidden, 0.3);
  const std::vector<float> here = embedding.direction(7, 20);
  CHECK(here.size() == embedding.width());
  CHECK(cosine(here, here) == doctest::Approx(1));
  CHECK(cosine(here, embedding.direction(7, 21)) > 0.9);
  CHECK(cosine(here, embedding.direction(7, 150)) < cosine(here, embedding.direction(7, 21)));
  CHECK(cosine(here, embedding.direction(8, 20)) < 0.9);
  const PositionalEmbedding nowhere(model.weights.embedding.values, model.config.hidden, 0);
  CHECK(cosine(nowhere.direction(7, 20), nowhere.direction(7, 250)) == doctest::Approx(1));
}

TEST_CASE(
    "prototypes: hash tables find near directions, the lowest number among equals, and the same each time") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto draw = [&](const std::vector<float>& near, float off) {
    std::vector<float> made(near.size());
    double length = 0;
    for (std::size_t i = 0; i < made.size(); ++i)
      made[i] = near[i] + off * normal(random), length += made[i] * made[i];
    for (float& x : made) x /= static_cast<float>(std::sqrt(length));
    return made;
  };
  const PrototypeOptions options;
  HashTables tables(32, options), other(32, {.seed = 2});
  std::vector<std::vector<float>> all;
  for (std::uint32_t i = 0; i < 500; ++i) {
    all.push_back(draw(std::vector<float>(32), 1));
    tables.add(all.back(), i);
    other.add(all.back(), i);
  }
  CHECK_FALSE(HashTables(32, options).nearest(all[0]));
  int found = 0;
  for (std::uint32_t i = 0; i < 500; ++i) {
    CHECK(tables.nearest(all[i])->number == i);
    const auto near = tables.nearest(draw(all[i], 0.05f));
    found += near && near->number == i && near->cosine > 0.9;
  }
  CHECK(found >= 475);
  tables.add(all[4], 500);
  CHECK(tables.nearest(all[4])->number == 4);
}

TEST_CASE(
    "prototypes: frequent tokens become prototypes, close ones join them, and their number is limited") {
  const DecoderModel model = random_decoder(small_config(), 5);
  PrototypeMaker maker(model, {.position_weight = 0.1, .cosine_min = 0.9});
  for (int i = 0; i < 5; ++i) maker.see(7, 20);
  maker.see(7, 21);
  maker.see(9, 20);
  maker.settle();
  CHECK(maker.report().tokens == 7);
  CHECK(maker.report().covered == 7);
  CHECK(maker.report().places == 3);
  CHECK(maker.report().prototypes == 2);
  CHECK(maker.report().cosine < 1);
  CHECK(maker.report().cosine > 0.9);
  PrototypeMaker few(model, {.cosine_min = 0.9, .prototypes_max = 1});
  for (int i = 0; i < 5; ++i) few.see(7, 20);
  few.see(9, 20);
  few.settle();
  CHECK(few.report().covered == 5);
}

TEST_CASE("prototypes: identifiers and separators never get a prototype, however close one is") {
  History history;
  history.made();
  std::vector<std::uint8_t> never(history.model.config.vocabulary);
  never[9] = 1;
  PrototypeMaker maker(history.model, {.planes = 1, .position_weight = 0, .cosine_min = -1}, never);
  for (std::uint32_t t = 0; t < history.tokens.size(); ++t) maker.see(history.tokens[t], History::start + t);
  maker.settle();
  for (std::uint32_t t = 0; t < history.tokens.size(); ++t)
    maker.take(history.tokens[t], History::start + t, history.layout, history.pages, t);
  CHECK(maker.report().tokens == 7);
  CHECK(maker.report().never == 1);
  CHECK(maker.report().covered == 6);
  const TestFolder folder;
  maker.write(folder.path() / "p");
  const Prototypes prototypes(folder.path() / "p", history.model.config, history.model.version);
  CHECK(prototypes.find(17, 2));
  for (const std::uint32_t position : {5u, 100u}) {
    CHECK_FALSE(prototypes.nearest(9, position));
    CHECK_FALSE(prototypes.find(9, position));
  }
}

struct CountingRows final : EmbeddingTable {
  explicit CountingRows(std::shared_ptr<const Prototypes> prototypes) : table(std::move(prototypes)) {}
  std::uint32_t rows() const override { return table.rows(); }
  std::uint32_t columns() const override { return table.columns(); }
  void fetch(std::span<const Token> rows, float* out) override {
    asked.insert(asked.end(), rows.begin(), rows.end());
    table.fetch(rows, out);
  }
  PrototypeRows table;
  std::vector<Token> asked;
};

TEST_CASE("prototypes: a history made of its own prototypes equals the computed history") {
  History history;
  const TestFolder folder;
  history.made().write(folder.path() / "p");
  const Prototypes prototypes(folder.path() / "p", history.model.config, history.model.version);
  CHECK(prototypes.size() == history.tokens.size());
  CHECK(prototypes.checksum().size() == 64);
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t t = 0; t < history.tokens.size(); ++t) {
    const auto match = prototypes.nearest(history.tokens[t], History::start + t);
    REQUIRE(match);
    CHECK(match->cosine == doctest::Approx(1));
    CHECK(prototypes.cosine(history.tokens[t], History::start + t, match->number) == match->cosine);
    numbers.push_back(match->number);
  }
  CHECK_FALSE(prototypes.find(40, 3));
  CHECK_FALSE(prototypes.find(history.tokens[0], 200));

  // The plan reuses a block at 0 in place of the history, and computes nothing of it.
  const std::vector<std::byte*> block = history.allocate_pages(numbers.size());
  prototypes.fill(history.layout, numbers, 0, block);
  Plan reusing = history.plain();
  reusing.segments.insert(reusing.segments.begin() + 1, {SegmentKind::user, history.tokens, 0, {}});
  reusing.segments[2].sees = {0};
  reusing.segments[3].sees = {0, 2};
  reusing.readouts[0].segment = 3;
  reusing.repair = {.reused_spans = {{2, 1, 0}}, .budgets = {0}};
  REQUIRE(validate(reusing, history.decoder->limits()) == "");
  const std::vector<float> exact = history.run(history.plain(), {{}, {}, {}});
  const std::vector<float> reused = history.run(reusing, {{}, {Source::cached, block}, {}, {}});
  for (std::size_t i = 0; i < exact.size(); ++i) CHECK(std::abs(exact[i] - reused[i]) < 1e-4);

  // The executor makes the same block, in a batch with plans that have no prototypes.
  const auto shared =
      std::make_shared<Prototypes>(folder.path() / "p", history.model.config, history.model.version);
  const auto making =
      with_prototypes(make_cpu_decoder(history.model, {.page_tokens = 4}), history.layout, shared);
  Plan made = reusing;
  made.repair.reused_spans[0].of_prototypes = true;
  made.repair.prototypes = prototypes.checksum();
  CHECK(validate(made, making->limits()) == "");
  CHECK(making->fault(made) == "");
  CHECK(validate(made, history.decoder->limits()).find("repair.prototypes is ") == 0);
  const Plan plain = history.plain();
  const auto other_lane = making->share(1);
  for (Executor* executor : {making.get(), other_lane.get()}) {
    const Request batch[] = {{&plain, std::vector<SegmentKv>(3)},
                             {&made, std::vector<SegmentKv>(4)},
                             {&made, std::vector<SegmentKv>(4)}};
    const std::vector<Reply> replies = executor->run(batch);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      CHECK(std::abs(exact[i] - replies[0].readouts[0][i]) < 1e-4);
      CHECK(replies[1].readouts[0][i] == doctest::Approx(reused[i]).epsilon(1e-5));
      CHECK(replies[2].readouts[0][i] == doctest::Approx(reused[i]).epsilon(1e-5));
    }
  }

  // The same holds if the rows are read through a table in front of the file.
  const auto rows = std::make_shared<CountingRows>(shared);
  const auto through =
      with_prototypes(make_cpu_decoder(history.model, {.page_tokens = 4}), history.layout, shared, rows)
          ->share(1);
  const Request one[] = {{&made, std::vector<SegmentKv>(4)}};
  CHECK(through->run(one)[0].readouts == making->run(one)[0].readouts);
  CHECK(rows->asked == std::vector<Token>(numbers.begin(), numbers.end()));

  made.segments[1].tokens = made.segments[2].tokens = std::vector<Token>{3, 17, 40};
  CHECK(making->fault(made).find("token 2 of segment 2 has no prototype") == 0);
  made.repair.prototypes.clear();
  CHECK(validate(made, making->limits()).find("repair.places[0].of_prototypes is true") == 0);

  std::swap(numbers[1], numbers[2]);
  prototypes.fill(history.layout, numbers, 0, block);
  double off = 0;
  const std::vector<float> other = history.run(reusing, {{}, {Source::cached, block}, {}, {}});
  for (std::size_t i = 0; i < exact.size(); ++i) off = std::max<double>(off, std::abs(exact[i] - other[i]));
  CHECK(off > 1e-3);
}

TEST_CASE("prototypes: a prototype has the mean of its tokens, and numbers are narrowed as pages are") {
  History history;
  PrototypeMaker maker =
      history.made({.tables = 4, .planes = 1, .position_weight = 0, .cosine_min = -1, .prototypes_max = 1});
  CHECK(maker.report().prototypes == 1);
  const TestFolder folder;
  maker.write(folder.path() / "p");
  const Prototypes prototypes(folder.path() / "p", history.model.config, history.model.version);
  const std::uint32_t number[] = {0};
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::bf16}) {
    KvLayout layout = history.layout;
    layout.format = format;
    const std::vector<std::byte*> block = history.allocate_pages(1);
    prototypes.fill(layout, number, 0, block);
    double mean = 0;
    const std::size_t value = history.layout.values(1, 1);
    for (std::size_t t = 0; t < history.tokens.size(); ++t) {
      float stored;
      std::memcpy(&stored, history.pages[t / 4] + value + t % 4 * history.layout.vector_bytes(), 4);
      mean += stored / double(history.tokens.size());
    }
    std::uint16_t narrow;
    float wide;
    std::memcpy(&narrow, block[0] + layout.values(1, 1), 2);
    std::memcpy(&wide, block[0] + layout.values(1, 1), 4);
    const float found = format == KvFormat::f32   ? wide
                        : format == KvFormat::f16 ? from_f16(narrow)
                                                  : from_bf16(narrow);
    CHECK(found == doctest::Approx(mean).epsilon(format == KvFormat::bf16 ? 0.01 : 1e-3));
  }
}

TEST_CASE("prototypes: the table equals hashing for every token and position that it covers") {
  History history;
  const TestFolder folder;
  for (const double weight : {0.0, 0.2, 0.5})
    for (const double cosine_min : {0.5, 0.9}) {
      CAPTURE(weight);
      CAPTURE(cosine_min);
      PrototypeMaker maker = history.made({.position_weight = weight, .cosine_min = cosine_min});
      maker.write(folder.path() / "p");
      const Prototypes prototypes(folder.path() / "p", history.model.config, history.model.version);
      const PrototypeTable& table = prototypes.table();
      // Every position is like all others if it has no weight.
      CHECK(table.first == (weight == 0 ? 0 : History::start));
      CHECK(table.end ==
            (weight == 0 ? history.model.config.positions_max : History::start + history.tokens.size()));
      std::size_t by_table = 0, without = 0;
      for (Token token = 0; token < Token(history.model.config.vocabulary); ++token)
        for (std::uint32_t position = 0; position < 20; ++position) {
          const Prototypes::Match match = prototypes.match(token, position);
          const auto hashed = prototypes.nearest(token, position);
          CHECK(match.prototype == (hashed ? std::optional(hashed->number) : std::nullopt));
          CHECK(prototypes.find(token, position) == match.prototype);  // again, from the newest results
          const bool seen = std::ranges::count(history.tokens, token) > 0;
          CHECK(match.by_table == (seen && position >= table.first && position < table.end));
          by_table += match.by_table && match.prototype;
          without += match.by_table && !match.prototype;
        }
      CHECK(by_table >= history.tokens.size());
      if (weight == 0.5 && cosine_min == 0.9) CHECK(without > 0);
    }
}

TEST_CASE("prototypes: the table keeps whole tokens, the most frequent first, within its bound") {
  const DecoderModel model = random_decoder(small_config(), 5);
  const PrototypeOptions options{.position_weight = 0.5, .runs_max = 5};
  const PositionalEmbedding embedding(model.weights.embedding.values, model.config.hidden, 0.5);
  HashTables hash(embedding.width(), options, PositionalEmbedding::waves);
  hash.add(embedding.direction(7, 20), 0);
  hash.add(embedding.direction(9, 20), 1);
  const TokenCounts counts{{{7, 20}, 2}, {{9, 1}, 1}, {{9, 40}, 2}, {{11, 30}, 1}};
  const auto made = [&](std::uint32_t runs_max) {
    PrototypeOptions bounded = options;
    bounded.runs_max = runs_max;
    return make_prototype_table(counts, embedding, hash, bounded, model.config.vocabulary,
                                model.config.positions_max);
  };
  const PrototypeTableDraft all = made(1'000);
  CHECK(all.first == 1);
  CHECK(all.end == 41);
  CHECK(all.view().fault(2) == "");
  CHECK(all.view().find(7, 20) == 0);
  CHECK(all.view().find(9, 20) == 1);
  CHECK(all.view().find(9, 40) == no_prototype);
  CHECK(all.view().find(11, 40) == no_prototype);
  CHECK_FALSE(all.view().find(7, 0));
  CHECK_FALSE(all.view().find(7, 41));
  CHECK_FALSE(all.view().find(8, 20));
  const auto runs_of = [&](Token token) { return all.starts[token + 1] - all.starts[token]; };
  CHECK(runs_of(7) == 3);
  CHECK(runs_of(9) == 3);
  CHECK(runs_of(11) == 1);
  for (const std::uint32_t runs_max : {0u, 2u, 3u, 5u, 6u, 7u}) {
    CAPTURE(runs_max);
    const PrototypeTableDraft some = made(runs_max);
    CHECK(some.runs.size() <= runs_max);
    CHECK(some.view().find(9, 20).has_value() == (runs_max >= 3));
    CHECK(some.view().find(7, 20).has_value() == (runs_max >= 6));
    CHECK(some.view().find(11, 20).has_value() == (runs_max >= 7));
  }
}

TEST_CASE("prototypes: results of hashing are kept until newer ones take their entry") {
  HashedTokens hashed;
  CHECK_FALSE(hashed.find(0, 0));
  hashed.keep(3, 4, 5);
  hashed.keep(4, 3, no_prototype);
  CHECK(hashed.find(3, 4) == 5);
  CHECK(hashed.find(4, 3) == no_prototype);
  CHECK_FALSE(hashed.find(3, 5));
  for (std::uint32_t i = 0; i < 500'000; ++i) hashed.keep(100, i, i);
  CHECK_FALSE(hashed.find(3, 4));
  for (std::uint32_t i = 0; i < 500'000; ++i) {
    const auto found = hashed.find(100, i);
    if (found && *found != i) FAIL("another token's result");
  }
  CHECK(hashed.find(100, 499'999) == 499'999);
}

TEST_CASE("prototypes: a scalar product of any length equals the one of 64-bit numbers") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (std::size_t length = 0; length < 70; ++length) {
    std::vector<float> a(length), b(length);
    double sum = 0;
    for (std::size_t i = 0; i < length; ++i)
      a[i] = normal(random), b[i] = normal(random), sum += double(a[i]) * b[i];
    CHECK(dot(a, b) == doctest::Approx(sum).epsilon(1e-5));
  }
}

// Replaces numbers of a file, and its checksum.
std::string with_number(std::string whole, std::size_t at, std::uint32_t number) {
  std::memcpy(whole.data() + at, &number, sizeof number);
  VersionHash hash;
  hash.part(std::as_bytes(std::span(whole)).first(whole.size() - 64));
  return whole.replace(whole.size() - 64, 64, hash.hex());
}

TEST_CASE(
    "prototypes: a table that is not sound, and a file of the former format, are refused by what is wrong") {
  History history;
  const TestFolder folder;
  const std::size_t runs = history.made({.position_weight = 0.5}).write(folder.path() / "p");
  REQUIRE(runs > history.tokens.size());
  const std::string whole = folder.read("p");
  const auto error = [&](const std::string& bytes) {
    folder.write("x", bytes);
    return load_error_of(
        [&] { Prototypes(folder.path() / "x", history.model.config, history.model.version); });
  };
  const auto expect = [&](std::size_t at, std::uint32_t number, const char* text) {
    const std::string found = error(with_number(whole, at, number));
    CAPTURE(found);
    CHECK(found.find(text) != std::string::npos);
    CHECK(found.find("; expected ") != std::string::npos);
  };
  const std::size_t head = 8 + 64 + 8 * 4 + 8 + 16, runs_at = whole.size() - 64 - (runs * 8 + 63) / 64 * 64,
                    starts_bytes = (std::size_t{history.model.config.vocabulary} + 1) * 4,
                    starts_at = runs_at - (starts_bytes + 63) / 64 * 64;
  const std::uint32_t positions = history.model.config.positions_max;
  CHECK(error(with_number(whole, head + 12, 0)) == "");  // changes nothing
  expect(head, 9, "has a table for positions 9 to 8");
  expect(head, 8, "has a table for positions 8 to 8");
  expect(head + 4, positions + 1, "has a table for positions 1 to ");
  expect(head + 8, 1u << 29, "has a table of 536870912 runs");
  expect(head + 8, static_cast<std::uint32_t>(runs) + 100, " bytes");
  expect(starts_at, 1, "the table's start of token 0 is 1");
  expect(starts_at + 8, 0x7fffffff, "the table's start of token 2 is 2147483647");
  expect(starts_at + starts_bytes - 4, 0, "the table's start of token ");
  expect(runs_at, 0, "the table's runs of token 3 have position 0");
  expect(runs_at, 2, "the table's runs of token 3 have position 2");
  expect(runs_at + 8, positions, "have position ");
  expect(runs_at + 4, 7, "the table's runs of token 3 have prototype 7; expected less than 7");
  std::string former = whole;
  former[7] = '1';
  CHECK(error(former).find("is a file of prototypes of format \"1\"; expected format \"2\"; make it again") !=
        std::string::npos);
}

TEST_CASE(
    "prototypes: a file that is damaged, truncated, of another model or no prototype file is refused with a "
    "reason") {
  History history;
  const TestFolder folder;
  history.made().write(folder.path() / "p");
  const auto error = [&](const DecoderModel& model, const char* name = "x") {
    return load_error_of([&] { Prototypes(folder.path() / name, model.config, model.version); });
  };
  CHECK(error(history.model, "p") == "");
  CHECK(error(random_decoder(small_config(), 6), "p").find("is of another model") != std::string::npos);
  CHECK(error(history.model, "none").find("open failed") != std::string::npos);
  const std::string whole = folder.read("p");
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    folder.write("x", damaged);
    CHECK(error(history.model) != "");
  }
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, std::size_t{400}, whole.size() - 1}) {
    folder.write("x", whole.substr(0, length));
    CHECK(error(history.model) != "");
  }
  folder.write("x", whole + '\0');
  CHECK(error(history.model) != "");
}

}  // namespace prototypes_test
}  // namespace
}  // namespace troupe::kernels
