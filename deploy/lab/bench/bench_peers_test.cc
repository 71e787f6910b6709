#include "deploy/lab/bench/bench_peers.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

const std::string llama_rank =
    "llama.cpp rank 100x10 on 1500 n=1000 | wall med 272.7 min 265.5 | cpu med 268.0 min 250.0 ms | 3802.2 "
    "tok/cpu-s | 58.6 GF/cpu-s, peak now 191.7, % of peak med 32.7 max 33.9";
const std::string llama_prefill =
    "llama.cpp prefill 512 n=512 | wall med 87.6 min 67.4 | cpu med 51.2 min 46.9 ms | 10924.8 tok/cpu-s | "
    "89.2 GF/cpu-s, peak now 172.9, % of peak med 56.5 max 56.5";
const std::string onnx_suffix =
    "onnxruntime suffix 1000 on 1500 n=1000 | wall med 243.2 min 222.4 | cpu med 152.6 min 149.6 ms | 6682.6 "
    "tok/cpu-s | 105.3 GF/cpu-s, peak now NaN, % of peak med NaN max NaN";

}  // namespace

TEST_SUITE("bench peers") {
  TEST_CASE("peer line: a line of llama.cpp's driver is parsed") {
    const auto line = parse_peer_result(llama_rank);
    REQUIRE(line);
    CHECK(line->workload == "rank 100x10 on 1500");
    CHECK(line->tokens == 1000);
    CHECK(line->wall_ms == 272.7);
    CHECK(line->cpu_ms == 268.0);
    CHECK(line->best_cpu_ms == 250.0);
    CHECK(line->fma_gflops == 191.7);
    CHECK(line->share_of_fma == doctest::Approx(0.327));
    CHECK(line->best_tokens_per_cpu_second() == doctest::Approx(4000));
  }

  TEST_CASE("peer line: a line of onnxruntime's driver is parsed, even without a multiply-add rate") {
    const auto line = parse_peer_result(onnx_suffix);
    REQUIRE(line);
    CHECK(line->workload == "suffix 1000 on 1500");
    CHECK(line->tokens_per_cpu_second() == doctest::Approx(1000 / 0.1526));
    CHECK(std::isnan(line->fma_gflops));
  }

  TEST_CASE("peer line: other lines are ignored") {
    CHECK(!parse_peer_result(""));
    CHECK(!parse_peer_result("llama_decode=1 n=512"));
    CHECK(!parse_peer_result(llama_rank.substr(0, 120)));
    std::string zero = llama_prefill;
    zero.replace(zero.find("n=512"), 5, "n=0");
    CHECK(!parse_peer_result(zero));
    std::string generation = llama_prefill;
    generation.replace(generation.find("prefill 512"), 11, "gen total 3");
    CHECK(!parse_peer_result(generation));
  }

  TEST_CASE("peer run: a workload finds its line, and both rank workloads find the peer's single one") {
    PeerRun run{peers_to_race({}, false).front(), {}, {}};
    for (const std::string& line : {llama_rank, llama_prefill, onnx_suffix})
      run.lines.push_back(parse_peer_result(line).value());
    CHECK(run.find(Workload::rank) == &run.lines[0]);
    CHECK(run.find(Workload::rank_all_logits) == &run.lines[0]);
    CHECK(run.find(Workload::prefill_512) == &run.lines[1]);
    CHECK(run.find(Workload::suffix) == &run.lines[2]);
    CHECK(run.find(Workload::prefill_2048) == nullptr);
  }

  TEST_CASE("peers_to_race: peers with 8-bit and 16-bit weights run beside such weights, or on request") {
    using kernels::WeightFormat;
    const auto names = [](std::vector<WeightFormat> weights, bool all) {
      std::string text;
      for (const Peer& peer : peers_to_race(weights, all)) text += peer.name() + "; ";
      return text;
    };
    const std::string f32 = "llama.cpp+OpenBLAS f32; onnxruntime f32; ";
    const std::string int8 = "onnxruntime int8; llama.cpp q8_0; ", half = "llama.cpp f16; llama.cpp bf16; ";
    CHECK(names({WeightFormat::f32}, false) == f32);
    CHECK(names({WeightFormat::int8}, false) == f32 + int8);
    CHECK(names({WeightFormat::bf16, WeightFormat::f32}, false) == f32 + half);
    CHECK(names({}, true) == f32 + int8 + half);
  }

  TEST_CASE("peer: its width is that of its weights") {
    const auto width = [](const char* weights) { return Peer{Peer::Engine::llama_blas, weights}.width(); };
    CHECK(width("f32") == "f32");
    CHECK(width("f16") == "16-bit");
    CHECK(width("bf16") == "16-bit");
    CHECK(width("q8_0") == "int8");
    CHECK(width("int8") == "int8");
  }

  TEST_CASE("find_peers: missing peers are an error that names the install command") {
    const troupe::kernels::TestFolder folder;
    const std::string drivers = folder.path().string(), none = (folder.path() / "none").string();
    CHECK_THROWS_WITH_AS(find_peers(drivers, none),
                         ("--against " + drivers +
                          " has no setup.sh; expected the folder of the peers' drivers, tests/bench/peers")
                             .c_str(),
                         std::runtime_error);
    for (const char* file : {"setup.sh", "make_model.mjs", "onnx_peer.mjs"})
      std::ofstream(folder.path() / file) << "\n";
    CHECK_THROWS_WITH_AS(find_peers(drivers, none),
                         ("--peers " + none + " has no llama_peer; expected installed peers: run `" +
                          drivers + "/setup.sh " + none + "`")
                             .c_str(),
                         std::runtime_error);
  }
}
