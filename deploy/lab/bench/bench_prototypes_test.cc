#include "deploy/lab/bench/bench_prototypes.h"

#include <doctest/doctest.h>

#include <vector>

#include "kernels/decoder/decoder.h"
#include "kernels/testing/small_decoder_test.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

TEST_SUITE("bench prototypes") {
  TEST_CASE(
      "coverage: tokens are counted by whether the table has them, and by whether they have a prototype") {
    const kernels::DecoderModel model = kernels::random_decoder(kernels::small_config(), 5);
    const kernels::KvLayout layout = kernels::kv_layout(model.config, 4, kernels::KvFormat::f32);
    std::vector<float> page(layout.page_bytes() / sizeof(float), 0.5f);
    std::byte* const pages[] = {reinterpret_cast<std::byte*>(page.data())};
    std::vector<std::uint8_t> never(model.config.vocabulary);
    never[9] = 1;
    kernels::PrototypeMaker maker(model, {.cosine_min = 0.9}, never);
    for (const auto& [token, position] : {std::pair<Token, std::uint32_t>{11, 2}, {12, 3}, {9, 4}, {13, 5}})
      maker.see(token, position);
    maker.settle();
    maker.take(11, 2, layout, pages, 0);
    maker.take(12, 3, layout, pages, 1);  // 13 gets no keys and values, and so no prototype
    const kernels::TestFolder folder;
    CHECK(maker.write(folder.path() / "p") > 0);
    const kernels::Prototypes prototypes(folder.path() / "p", model.config, model.version);
    REQUIRE(prototypes.size() == 2);

    RankEvents events{.form = {.system = {1, 2}}};
    events.list.push_back({.history = {11, 12, 9, 13}});
    events.list.push_back({.history = {11, 12, 9, 13, 11, 14}});  // ends behind the table's positions
    const Coverage coverage = coverage_of(prototypes, events);
    const auto by_hash = static_cast<std::uint64_t>(prototypes.nearest(11, 6).has_value()) +
                         static_cast<std::uint64_t>(prototypes.nearest(14, 7).has_value());
    CHECK(coverage.tokens == 10);
    CHECK(coverage.by_table == 4);
    CHECK(coverage.hashed == 2);
    CHECK(coverage.by_hash == by_hash);
    CHECK(coverage.covered() == 4 + by_hash);
    CHECK(coverage.share(coverage.by_table) == doctest::Approx(0.4));
    CHECK(coverage.cosine > 0.9);
    CHECK(Coverage{}.share(0) == 0);
  }
}
