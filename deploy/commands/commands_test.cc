#include "deploy/commands/commands.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "deploy/commands/command_sim.h"
#include "deploy/lab/testing/small_generator_test.h"
#include "kernels/climber/climber_reference.h"
#include "kernels/testing/small_climber_test.h"
#include "kernels/testing/test_folder.h"
#include "runtime/testing/redis_test_server.h"

using namespace troupe;
using namespace troupe::deploy;
using nlohmann::json;

namespace {

// Captures what is written to a stream for its lifetime.
class CapturedStream {
 public:
  explicit CapturedStream(std::ostream& stream) : stream_(stream), before_(stream.rdbuf(text_.rdbuf())) {}
  ~CapturedStream() { stream_.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::ostream& stream_;
  std::streambuf* before_;
};

struct Ran {
  int status = 0;
  std::string out, err;
};

// Runs `troupe` with these arguments.
Ran run(std::vector<std::string> words) {
  words.insert(words.begin(), "troupe");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  CommandLine line("troupe", "", "");
  for (const auto add : {add_rank, add_bench, add_sim, add_plan, add_trace, add_logits, add_keys})
    add(line.program());
  const CapturedStream out(std::cout), err(std::cerr);
  Action chosen;
  const std::optional<int> ended = line.parse(static_cast<int>(argv.size()), argv.data(), chosen);
  const int status = ended ? *ended : chosen();
  return {status, out.text(), err.text()};
}

json json_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "-"});
  return json::parse(run(std::move(words)).out);
}

std::string demo(const std::string& what) { return std::string(TROUPE_ROOT_DIR) + "/deploy/demo/" + what; }

// Server that answers one request with an error and keeps its body.
class OneRequest {
 public:
  OneRequest() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    REQUIRE(::listen(socket_, 1) == 0);
    server_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { answer(); });
  }
  ~OneRequest() { ::close(socket_); }
  const std::string& server() const { return server_; }
  json body() {
    thread_.join();
    return json::parse(text_.substr(text_.find("\r\n\r\n") + 4));
  }

 private:
  void answer() {
    const int client = ::accept(socket_, nullptr, nullptr);
    char bytes[4096];
    while (!text_.ends_with('}')) {
      const ssize_t count = ::read(client, bytes, sizeof bytes);
      if (count <= 0) break;
      text_.append(bytes, static_cast<std::size_t>(count));
    }
    constexpr std::string_view reply =
        "HTTP/1.1 503 no\r\ncontent-length: 32\r\n\r\n{\"error\":{\"message\":\"not today\"}}";
    [[maybe_unused]] const ssize_t sent = ::write(client, reply.data(), reply.size());
    ::close(client);
  }

  const int socket_;
  std::string server_, text_;
  std::thread thread_;
};

TEST_SUITE("commands") {
  TEST_CASE("sim: the replay command has the seed's options and the numbers of the sufficient faults") {
    sim::Failure failure{.seed = 17};
    for (const std::int64_t at : {1, 2, 2, 3}) failure.faults.push_back({.at = {at}});
    SimCommandOptions options;
    CHECK(replay_command(failure, options) == "troupe sim --replay 17 --keep none");
    failure.shrunk = {failure.faults[1], failure.faults[2], failure.faults[3]};  // two are equal
    CHECK(replay_command(failure, options) == "troupe sim --replay 17 --keep 1,2,3");
    failure.shrunk = {failure.faults[0]};
    options.faults = "kill,pause";
    CHECK(replay_command(failure, options) == "troupe sim --replay 17 --faults kill,pause --keep 0");
    options.nodes = 3;
    options.minutes = 0.25;
    CHECK(replay_command(failure, options) ==
          "troupe sim --replay 17 --nodes 3 --minutes 0.25 --faults kill,pause --keep 0");
  }

  TEST_CASE("logits: an HSTU request gives the golden logits, and a faulty file names the field") {
    const std::string model = std::string(TROUPE_ROOT_DIR) + "/../shared/models/tiny-hstu-movielens";
    if (!std::filesystem::exists(model + "/golden.json")) {
      MESSAGE("skipped: no ../shared/models/tiny-hstu-movielens");
      return;
    }
    const json golden = json::parse(std::ifstream(model + "/golden.json"));
    const kernels::TestFolder folder;
    const std::string file = (folder.path() / "request.json").string();
    for (const std::size_t number : {4, 18}) {
      const json& wanted = golden.at("cases").at(number);
      folder.write("request.json", wanted.dump());
      const json found = json_of({"logits", "--model", model, "--request", file});
      for (std::size_t i = 0; i < wanted.at("candidate_ids").size(); ++i) {
        CHECK(std::abs(found.at("next_item_logits")[i].get<double>() -
                       wanted.at("next_item_logits")[i].get<double>()) < 1e-5);
        CHECK(std::abs(found.at("task_logits")[i].get<double>() -
                       wanted.at("target_aware").at("task_logits")[i].get<double>()) < 1e-5);
      }
    }
    const auto error_with = [&](const char* key, const json& value) -> std::string {
      json request = golden.at("cases").at(8);  // with two events
      request[key] = value;
      folder.write("request.json", request.dump());
      try {
        run({"logits", "--model", model, "--request", file});
      } catch (const std::exception& error) {
        return std::string(error.what()).substr(file.size());
      }
      return "";
    };
    CHECK(error_with("item_ids", {1, 1683}) == ": item_ids[1] is 1683; expected an integer from 1 to 1682");
    CHECK(error_with("timestamps", {7}) == ": timestamps has 1 entries; expected 2, as many as item_ids");
    CHECK(error_with("timestamps", {7, 6}) == ": timestamps[1] is 6; expected at least the previous one, 7");
    CHECK(error_with("candidate_ids", "9").starts_with(": candidate_ids is "));
    CHECK(error_with("request_timestamp", 3)
              .starts_with(": request_timestamp is 3; expected an integer from "));
  }

  TEST_CASE("logits: a request file gives the logits of its tokens, and a wrong one names the field") {
    const kernels::TestFolder folder;
    const std::string file = (folder.path() / "request.json").string();
    const auto error_of = [&](const std::string& content) -> std::string {
      folder.write("request.json", content);
      try {
        run({"logits", "--model", demo("model"), "--request", file});
      } catch (const std::exception& error) {
        return error.what();
      }
      return "";
    };
    CHECK(error_of(R"({"tokens":[1,2,-3]})") ==
          file + ": tokens[2] is -3; expected an integer from 0 to 1891");
    CHECK(error_of(R"({"tokens":[]})") ==
          file + ": tokens is empty; expected a list of integers from 0 to 1891");
    CHECK(error_of("{}") == file + ": tokens is missing; expected a list of integers from 0 to 1891");
    folder.write("request.json", R"({"tokens":[1,2,3]})");
    const json asked = json_of({"logits", "--model", demo("model"), "--request", file});
    CHECK(asked == json_of({"logits", "--model", demo("model"), "--tokens", "1,2,3"}));
    CHECK(asked.at("logits").size() == 1892);
    CHECK_THROWS_WITH(run({"logits", "--model", demo("model")}), "expected one of --tokens and --request");
  }

  TEST_CASE("logits: a Climber request gives the logits of each task, and a wrong file names the field") {
    const kernels::TestFolder folder;
    kernels::write_climber(kernels::random_climber(kernels::small_climber_config(), 5),
                           folder.path() / "model");
    const std::string file = (folder.path() / "request.json").string(),
                      model = (folder.path() / "model").string();
    folder.write("request.json",
                 R"({"item_ids":[3,4],"actions":[5,1],"scenario":1,"candidate_ids":[7,8,3]})");
    const json answer = json_of({"logits", "--model", model, "--request", file});
    const kernels::ClimberAnswer expected = kernels::compute_climber(
        kernels::read_climber(model),
        {.items = {3, 4}, .actions = {5, 1}, .scenario = 1, .candidates = {7, 8, 3}});
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(answer.at("logits").at("click").at(i).get<double>() ==
            doctest::Approx(expected.logits[0][i]).epsilon(1e-4));
      CHECK(answer.at("logits").at("like").at(i).get<double>() ==
            doctest::Approx(expected.logits[1][i]).epsilon(1e-4));
    }
    CHECK(run({"logits", "--model", model, "--request", file}).out.find("\"like\"") != std::string::npos);
    folder.write("request.json", R"({"item_ids":[],"actions":[],"scenario":0,"candidate_ids":[7]})");
    CHECK(json_of({"logits", "--model", model, "--request", file}).at("logits").at("like").size() == 1);
    folder.write("request.json", R"({"item_ids":[3],"actions":[],"scenario":0,"candidate_ids":[7]})");
    CHECK_THROWS_WITH(run({"logits", "--model", model, "--request", file}),
                      (file + ": actions has 0 numbers; expected as many as item_ids, 1").c_str());
    folder.write("request.json", R"({"item_ids":[3],"actions":[6],"scenario":0,"candidate_ids":[7]})");
    CHECK_THROWS_WITH(run({"logits", "--model", model, "--request", file}),
                      (file + ": actions[0] is 6; expected an integer from 0 to 5").c_str());
  }

  TEST_CASE("options: a value outside its range is refused with the range") {
    const Ran ran = run({"plan", "--memory", "1GB", "--items", "10", "--zipf", "1", "--user-tokens", "0.5"});
    CHECK(ran.status != 0);
    CHECK(ran.err.find("not in range 1") != std::string::npos);
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
    const Ran none = run(ask("1", {"--node", "A100-40G=3"}));
    CHECK(none.status == 1);
    CHECK(none.err.find("a mean request alone, with nothing cached") != std::string::npos);
    CHECK_THROWS_WITH(run(ask("1", {})),
                      doctest::Contains("expected at least one, such as --node A100-40G=3.2"));
    CHECK_THROWS_WITH(run(ask("1", {"--node", "A100-40G=3", "--data", "."})),
                      doctest::Contains("--data is about the placement of items"));
  }

  TEST_CASE("rank: requests --top items and prints the server's answer") {
    OneRequest server;
    CHECK_THROWS_WITH_AS(
        run({"rank", "--server", server.server(), "--user", "ann", "--candidates", "x,y", "--top", "7"}),
        doctest::Contains("not today"), std::runtime_error);
    CHECK(server.body() == json{{"user", "ann"}, {"candidates", {"x", "y"}}, {"top_k", 7}});
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
    const Ran ran = run({"sim", "--experiments", (folder.path() / "list.json").string()});
    CHECK(ran.status == 1);
    CHECK(ran.err.find("a: device is nothing") != std::string::npos);
  }

  TEST_CASE("sim --seeds: reports the phases in which faults struck") {
    const Ran ran =
        run({"sim", "--seeds", "1..1", "--minutes", "0.05", "--faults", "kill", "--threads", "1"});
    CHECK(ran.out.find("\nkill ") != std::string::npos);
    CHECK(ran.out.find("\nwipe ") == std::string::npos);
  }

  TEST_CASE("keys: keys in a file are added and revoked beside the others") {
    const TestFolder folder;
    const std::string location = folder.path() / "keys";
    std::vector<std::string> ids;
    for (const char* whose : {"--tenant=acme", "--admin"}) {
      const Ran made = run({"keys", "add", location, whose});
      CHECK(made.out.size() > 20);
      REQUIRE(made.err.starts_with("troupe: key "));
      CHECK(made.err.find(" is in " + location + "; servers take it at SIGHUP") != std::string::npos);
      ids.push_back(made.err.substr(12, made.err.find(' ', 12) - 12));
    }
    const auto has = [&](const std::string& text) {
      return run({"keys", "list", location}).out.find(text) != std::string::npos;
    };
    for (const std::string& id : ids) CHECK(has(id));
    CHECK(has("acme"));
    CHECK(has("administer"));
    CHECK((std::filesystem::status(location).permissions() & std::filesystem::perms::all) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    CHECK(run({"keys", "revoke", location, ids[0]}).err ==
          "troupe: key " + ids[0] + " was revoked; servers refuse it at SIGHUP\n");
    CHECK_FALSE(has(ids[0]));
    CHECK(has(ids[1]));
    CHECK_THROWS_WITH_AS(
        run({"keys", "revoke", location, ids[0]}),
        (location + ": there is no key " + ids[0] + "; expected an id of troupe keys list").c_str(),
        std::runtime_error);
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

  TEST_CASE("keys: keys in a Redis are added and revoked, with a warning for the last one") {
    if (!RedisTestServer::is_installed()) return;
    const RedisTestServer redis;
    const std::string location = "redis://127.0.0.1:" + std::to_string(redis.address().port);
    std::vector<std::string> ids;
    for (int i = 0; i < 2; ++i) {
      const std::string said = run({"keys", "add", location}).err;
      REQUIRE(said.starts_with("troupe: key "));
      ids.push_back(said.substr(12, said.find(' ', 12) - 12));
    }
    const std::string listed = run({"keys", "list", location}).out;
    for (const std::string& id : ids) CHECK(listed.find(id) != std::string::npos);
    CHECK(run({"keys", "revoke", location, ids[0]}).err.find("within http.api_keys_refresh") !=
          std::string::npos);
    CHECK(run({"keys", "revoke", location, ids[1]}).err.find("was the last") != std::string::npos);
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
}

}  // namespace
