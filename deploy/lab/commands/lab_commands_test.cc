#include "deploy/lab/commands/lab_commands.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "deploy/lab/commands/command_sim.h"
#include "deploy/lab/testing/small_generator_test.h"
#include "deploy/testing/command_run_test.h"
#include "kernels/testing/test_folder.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;
using nlohmann::json;

namespace {

CommandRun run(std::vector<std::string> words) { return run_command(lab_program(), std::move(words)); }

json json_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "-"});
  return json::parse(run(std::move(words)).out);
}

TEST_SUITE("lab commands") {
  TEST_CASE("sim: the replay command has the seed's options and the numbers of the sufficient faults") {
    sim::Failure failure{.seed = 17};
    for (const std::int64_t at : {1, 2, 2, 3}) failure.faults.push_back({.at = {at}});
    SimCommandOptions options;
    CHECK(replay_command(failure, options) == "troupe-lab sim --replay 17 --keep none");
    failure.shrunk = {failure.faults[1], failure.faults[2], failure.faults[3]};  // two are equal
    CHECK(replay_command(failure, options) == "troupe-lab sim --replay 17 --keep 1,2,3");
    failure.shrunk = {failure.faults[0]};
    options.faults = "kill,pause";
    CHECK(replay_command(failure, options) == "troupe-lab sim --replay 17 --faults kill,pause --keep 0");
    options.nodes = 3;
    options.minutes = 0.25;
    CHECK(replay_command(failure, options) ==
          "troupe-lab sim --replay 17 --nodes 3 --minutes 0.25 --faults kill,pause --keep 0");
  }

  TEST_CASE("options: a value outside its range is refused with the range") {
    const CommandRun ran =
        run({"plan", "--memory", "1GB", "--items", "10", "--zipf", "1", "--user-tokens", "0.5"});
    CHECK(ran.status != 0);
    CHECK(ran.err.find("not in range 1") != std::string::npos);
    const CommandRun sized = run({"plan", "--memory", "1Gx", "--items", "10", "--zipf", "1"});
    CHECK(sized.status == 2);
    CHECK(sized.err.find("the value is \"1Gx\"; expected a size, such as 512MiB, 16Gi or 16GB") !=
          std::string::npos);
  }

  TEST_CASE(
      "plan --serve: names the cheapest nodes that meet the target, or reports that none does with its "
      "reason") {
    const kernels::TestFolder folder;
    const std::string trace = (folder.path() / "trace.jsonl").string();
    run({"trace", "generate", "--items", "300", "--out", trace, "--requests", "600", "--users", "100",
         "--candidates", "20", "--history", "5", "--rate", "100"});
    const auto ask = [&](const std::string& p99, std::vector<std::string> more) {
      std::vector<std::string> words{"plan",  "--serve", trace,         "--memory", "1GB",
                                     "--p99", p99,       "--nodes-max", "4"};
      words.insert(words.end(), more.begin(), more.end());
      return words;
    };
    const json found = json_of(ask("400", {"--node", "A100-40G=3", "--node", "H20=2"}));
    CHECK(found.at("cheapest") == "H20");
    CHECK(found.at("types").at(0).at("least").at("nodes") == 1);
    const CommandRun none = run(ask("1", {"--node", "A100-40G=3"}));
    CHECK(none.status == 1);
    CHECK(none.err.find("a mean request alone, with nothing cached") != std::string::npos);
    CHECK_THROWS_WITH(run(ask("1", {})),
                      doctest::Contains("expected at least one, such as --node A100-40G=3.2"));
    CHECK_THROWS_WITH(run(ask("1", {"--node", "A100-40G=3", "--data", "."})),
                      doctest::Contains("--data is about the placement of items"));
  }

  TEST_CASE("trace generate: uses all items of a catalog and no others") {
    const kernels::TestFolder folder;
    folder.write("items.tsv", "item_id\tsid\nx\t1\ny\t2\nz\t3\n");
    const std::string trace = (folder.path() / "trace.jsonl").string();
    run({"trace", "generate", "--catalog", folder.path().string(), "--out", trace, "--requests", "20",
         "--users", "3", "--candidates", "3", "--history", "2"});
    CHECK(json_of({"trace", "stats", trace}).at("requests") == 20);
    const std::string text = folder.read("trace.jsonl");
    for (const char* item : {"\"x\"", "\"y\"", "\"z\""}) CHECK(text.find(item) != std::string::npos);
  }

  TEST_CASE("sim --experiments: an experiment that cannot run is reported, and the others' results remain") {
    const kernels::TestFolder folder;
    folder.write("list.json", R"([{"name":"a","device":"nothing"}])");
    const CommandRun ran = run({"sim", "--experiments", (folder.path() / "list.json").string()});
    CHECK(ran.status == 1);
    CHECK(ran.err.find("a: device is nothing") != std::string::npos);
  }

  TEST_CASE("sim --seeds: reports the phases in which faults struck") {
    const CommandRun ran =
        run({"sim", "--seeds", "1..1", "--minutes", "0.05", "--faults", "kill", "--threads", "1"});
    CHECK(ran.out.find("\nkill ") != std::string::npos);
    CHECK(ran.out.find("\nwipe ") == std::string::npos);
  }

  TEST_CASE("plan: names the source of the accesses, Zipf's law or the histories") {
    const auto plan = [](std::vector<std::string> more) {
      more.insert(more.begin(), {"plan", "--memory", "1GB", "--data", demo("world"), "--candidates", "4"});
      return run(std::move(more)).out;
    };
    CHECK(plan({"--zipf", "1.25"}).find("Zipf 1.25, hottest first") != std::string::npos);
    CHECK(plan({}).find("accessed as in 1676 runs of histories (750 more are held out);") !=
          std::string::npos);
  }

  TEST_CASE("json output: an unwritable file is refused before any work") {
    const std::vector<std::vector<std::string>> asked{
        {"bench", "accuracy", "--model", "none", "--data", "none"},
        {"bench", "calibrate"},
        {"bench", "engine", "--shape", "tiny", "--rounds", "1"},
        {"bench", "generate"},
        {"bench", "plans", "--model", "none", "--data", "none"},
        {"bench", "serve", "--url", "http://127.0.0.1:1", "--trace", "none"},
        {"sim", "--experiments", "none"},
        {"sim", "--refresh"},
        {"sim", "--model", "none", "--data", "none"},
        {"sim", "--seeds", "1..100000"}};
    for (std::vector<std::string> words : asked) {
      CAPTURE(words[0] + " " + words[1]);
      words.insert(words.end(), {"--json", "/nowhere/x.json"});
      CHECK_THROWS_WITH(run(words), doctest::Contains("/nowhere/x.json: cannot be written"));
    }
  }

  TEST_CASE("sim --trace: replays the requested number of requests, also one") {
    const TestFolder folder;
    const std::string trace = (folder.path() / "t.jsonl").string();
    run({"trace", "generate", "--out", trace, "--requests", "7", "--users", "3", "--items", "9",
         "--candidates", "2", "--history", "2", "--rate", "50"});
    for (const std::uint64_t requests : {0, 1, 3}) {
      const json reported =
          json_of({"sim", "--trace", trace, "--nodes", "2", "--requests", std::to_string(requests)});
      CHECK(reported.at("answered") == (requests > 0 ? requests : 7));
    }
  }

  TEST_CASE(
      "make-model: the vocabulary has the prompt form's names, four levels of 256 codes, and identifiers") {
    const TestFolder folder;
    const std::string model = (folder.path() / "m").string();
    run({"bench", "make-model", "--shape", "tiny", "--out", model});
    std::ifstream file(model + "/vocab.json");
    const json vocabulary = json::parse(file);
    CHECK(vocabulary.size() == 32'768);
    CHECK(vocabulary.at("<yes>") == 6);
    CHECK(vocabulary.at("<instr_3>") == 9);
    CHECK(vocabulary.at("<sys_7>") == 16);
    CHECK(vocabulary.at("<a_0>") == 17);
    CHECK(vocabulary.at("<a_255>") == 17 + 255);
    CHECK(vocabulary.at("<b_0>") == 17 + 256);
    CHECK(vocabulary.at("<d_255>") == 17 + 4 * 256 - 1);
    CHECK(vocabulary.at("<item_0>") == 17 + 4 * 256);
  }

  TEST_CASE("make-model: a small vocabulary has three levels of the codes asked for, or is refused") {
    const TestFolder folder;
    const std::string model = (folder.path() / "m").string();
    run({"bench", "make-model", "--shape", "tiny", "--vocabulary", "800", "--codes", "200", "--out", model});
    std::ifstream file(model + "/vocab.json");
    const json vocabulary = json::parse(file);
    CHECK(vocabulary.size() == 800);
    CHECK(vocabulary.at("<c_199>") == 17 + 3 * 200 - 1);
    CHECK(vocabulary.at("<item_0>") == 17 + 3 * 200);
    const std::string other = (folder.path() / "n").string();
    CHECK_THROWS_WITH(run({"bench", "make-model", "--shape", "tiny", "--vocabulary", "700", "--out", other}),
                      doctest::Contains("--vocabulary is 700; expected at least 785"));
  }

  TEST_CASE("bench rank: prints the sizes of item blocks and user blocks") {
    const json bench = json_of({"bench", "rank", "--model", demo("model"), "--data", demo("world"),
                                "--policy", "bat", "--requests", "2"});
    CHECK(bench.at("item_bytes") > bench.at("user_bytes"));
    CHECK(bench.at("user_bytes") > 0);
    CHECK(bench.at("runs").at(0).at("requests") == 2);
  }

  TEST_CASE("bench accuracy: prints a mean and its error") {
    const SmallGenerator world;
    const std::string folder = world.folder().path().string();
    const json run = json_of({"bench", "accuracy", "--model", folder, "--data", folder, "--formats",
                              "f32/f32", "--width", "4"})
                         .at("runs")
                         .at(0);
    CHECK(run.at("nll").at("standard_error") > 0);
    CHECK(run.at("nll").at("standard_error") < run.at("nll").at("mean"));
  }

  TEST_CASE("bench engine: formats in one run have a ratio to float32 and name what multiplies") {
    const json bench =
        json_of({"bench", "suffix", "--shape", "tiny", "--rounds", "1", "--weights", "f32,bf16,int8"});
    const json& runs = bench.at("runs");
    REQUIRE(runs.size() == 3);
    const char* const weights[] = {"f32", "bf16", "int8"};
    const char* const kv[] = {"f32", "bf16", "bf16"};
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(runs.at(i).at("weights") == weights[i]);
      CHECK(runs.at(i).at("kv") == kv[i]);
      CHECK(runs.at(i).at("ratio_to_f32") > 0);
      CHECK(runs.at(i).at("linear_instruction") != "");
      CHECK(runs.at(i).at("attention_version") != "");
    }
    CHECK(runs.at(0).at("ratio_to_f32") == 1);
  }

  TEST_CASE("bench engine: names the number formats of the run") {
    const json bench =
        json_of({"bench", "engine", "--shape", "tiny", "--rounds", "1", "--weights", "int8", "--kv", "f16"});
    CHECK(bench.at("runs").at(0).at("weights") == "int8");
    CHECK(bench.at("runs").at(0).at("kv") == "f16");
    double shares = 0;
    for (const char* part :
         {"linear", "attention", "elementwise", "embedding", "keys_values", "planning", "readout"}) {
      CAPTURE(part);
      shares += bench.at("runs").at(0).at("parts").at(part).get<double>();
    }
    CHECK(shares > 0.5);
  }

  TEST_CASE("commands: a command of troupe is refused with its program") {
    const auto error_of = [](std::vector<std::string> words) { return run(std::move(words)).err; };
    CHECK(error_of({"serve", "--model", "m"}) == "troupe-lab: `troupe-lab serve` is `troupe serve`\n");
    CHECK(error_of({"trace", "capture"}) ==
          "troupe-lab: `troupe-lab trace capture` is `troupe trace capture`\n");
    CHECK(error_of({"trace", "captura"}).find("expected one of convert, generate, stats") !=
          std::string::npos);
  }

  TEST_CASE("sim: --routers is refused where it would not be read") {
    CHECK_THROWS_WITH_AS(run({"sim", "--requests", "10", "--routers", "2"}),
                         "--routers is given without --model; expected a model whose cluster is simulated",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(
        run({"sim", "--compare", "none.json", "--routers", "2"}),
        "--routers is given with --compare; expected none, because bench rank measures a single node",
        std::invalid_argument);
  }

  TEST_CASE("commands: every command has an example in its help, which the program takes") {
    CHECK(commands_without_example(lab_program()).empty());
    const std::vector<std::string> refused = examples_refused(lab_program());
    for (const std::string& error : refused) CHECK_MESSAGE(false, error);
  }

  TEST_CASE("commands: troupe knows the commands of troupe-lab, and no command is in both programs") {
    const auto commands_of = [](const Program& program) {
      CommandLine line(program.name, "", "");
      declare_commands(line, program);
      std::vector<std::string> found;
      for (const CommandHelp& top : line.describe().commands)
        if (top.name != "trace")
          found.push_back(top.name);
        else
          for (const CommandHelp& below : top.commands) found.push_back("trace " + below.name);
      std::erase_if(found, [](const std::string& name) { return name == "manual" || name == "completion"; });
      std::ranges::sort(found);
      return found;
    };
    const std::vector<std::string> lab = commands_of(lab_program()), own = commands_of(troupe_program());
    std::vector<std::string> known = troupe_program().elsewhere.commands, both;
    std::ranges::sort(known);
    CHECK(known == lab);
    std::ranges::set_intersection(lab, own, std::back_inserter(both));
    CHECK(both.empty());
  }
}

}  // namespace
