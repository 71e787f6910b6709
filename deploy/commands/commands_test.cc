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
#include <optional>
#include <thread>
#include <tuple>

#include "deploy/testing/command_run_test.h"
#include "kernels/climber/climber_reference.h"
#include "kernels/testing/small_climber_test.h"
#include "kernels/testing/test_folder.h"
#include "runtime/store/store.h"
#include "runtime/store/store_rows.h"
#include "runtime/testing/redis_test_server.h"

using namespace troupe;
using namespace troupe::deploy;
using nlohmann::json;

namespace {

CommandRun run(std::vector<std::string> words) { return run_command(troupe_program(), std::move(words)); }

json json_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "-"});
  return json::parse(run(std::move(words)).out);
}

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

  TEST_CASE("rank: requests --top items and prints the server's answer") {
    OneRequest server;
    CHECK_THROWS_WITH_AS(
        run({"rank", "--server", server.server(), "--user", "ann", "--candidates", "x,y", "--top", "7"}),
        doctest::Contains("not today"), std::runtime_error);
    CHECK(server.body() == json{{"user", "ann"}, {"candidates", {"x", "y"}}, {"top_k", 7}});
  }

  TEST_CASE("replay: asks for the request id, which must be given") {
    OneRequest server;
    CHECK_THROWS_WITH_AS(run({"replay", "r-1", "--server", server.server(), "--model", "games"}),
                         doctest::Contains("not today"), std::runtime_error);
    CHECK(server.body() == json{{"request_id", "r-1"}});
    CHECK(run({"replay"}).status != 0);
  }

  TEST_CASE("rank: a named arrangement and policy are sent as they are") {
    OneRequest server;
    CHECK_THROWS_WITH_AS(run({"rank", "--server", server.server(), "--user", "ann", "--candidates", "x",
                              "--arrangement", "item_first", "--policy", "planner"}),
                         doctest::Contains("not today"), std::runtime_error);
    CHECK(server.body() == json{{"user", "ann"},
                                {"candidates", {"x"}},
                                {"top_k", 5},
                                {"arrangement", "item_first"},
                                {"policy", "planner"}});
  }

  TEST_CASE("rank, generate, explain: a history stands in place of a user, with what the model reads of it") {
    const json history{{"history", {"a", "b"}}, {"timestamps", {5, 6}}, {"actions", {0, 1}}};
    const auto body = [&](std::vector<std::string> words) {
      OneRequest server;
      words.insert(words.end(), {"--server", server.server()});
      CHECK_THROWS_AS(run(words), std::runtime_error);
      return server.body();
    };
    const std::vector<std::string> asker{"--history", "a,b", "--timestamps", "5,6", "--actions", "0,1"};
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(), asker.begin(), asker.end());
      return body(words);
    };
    json expected = history;
    expected.update(json{{"candidates", {"x"}}, {"top_k", 5}});
    CHECK(with({"rank", "--candidates", "x"}) == expected);
    expected = history;
    expected["top_k"] = 10;
    CHECK(with({"generate"}) == expected);
    expected = history;
    expected.update(json{{"candidates", {"x"}}, {"explain", true}});
    CHECK(with({"explain", "--candidates", "x"}) == expected);
    CHECK(body({"generate", "--history", ""}) == json{{"history", json::array()}, {"top_k", 10}});
    CHECK(body({"generate", "--user", "ann", "--unknown-user", "cold"}) ==
          json{{"user", "ann"}, {"unknown_user", "cold"}, {"top_k", 10}});
  }

  TEST_CASE("explain: it asks for an explanation of the named arrangement and all candidates") {
    OneRequest server;
    CHECK_THROWS_WITH_AS(run({"explain", "--server", server.server(), "--user", "ann", "--candidates", "x,y",
                              "--arrangement", "item_first"}),
                         doctest::Contains("not today"), std::runtime_error);
    CHECK(
        server.body() ==
        json{{"user", "ann"}, {"candidates", {"x", "y"}}, {"arrangement", "item_first"}, {"explain", true}});
    CHECK_THROWS_WITH(run({"explain", "--user", "ann"}), "explain needs --user and --candidates");
    CHECK_THROWS_WITH(run({"explain", "--candidates", "x"}), "explain needs --user and --candidates");
  }

  TEST_CASE("prototypes: the prompt form of --prompt replaces that of the model directory") {
    const TestFolder folder;
    const std::string form = folder.path() / "form.json", out = folder.path() / "out";
    folder.write("form.json",
                 R"({"system":["<nosuch>"],"user":["<user>"],"instruction":[],"discriminant":["<disc>"]})");
    CHECK_THROWS_WITH_AS(run({"prototypes", "--model", demo("model"), "--data", demo("world"), "--out", out,
                              "--prompt", form}),
                         doctest::Contains((form + ": system has \"<nosuch>\"").c_str()), std::exception);
  }

  TEST_CASE("check: a damaged coordination file is told of once, and nothing is called undamaged") {
    const TestFolder folder;
    for (const bool has_store : {false, true}) {
      CAPTURE(has_store);
      if (has_store) const Store made(folder.path());
      std::filesystem::remove(folder.path() / "coordination");
      CHECK(run({"check", folder.path()}).status == 0);
      folder.write("coordination", "troupe coordination 1\nlast 1 2\n");
      const CommandRun checked = run({"check", folder.path()});
      CHECK(checked.status == 1);
      CHECK(checked.out.find("expected a line break") != std::string::npos);
      CHECK(checked.out.find(": damaged: the coordination file") != std::string::npos);
      CHECK(checked.out.find("undamaged") == std::string::npos);
      CHECK(checked.out.find("no store") == std::string::npos);
    }
  }

  TEST_CASE("import: --tenant names the owner of the users, in the words of requests") {
    const TestFolder folder;
    const auto import_as = [&](const std::string& tenant) {
      return run({"import", "--model", demo("model"), "--data-dir", folder.path() / "data", "--data",
                  demo("world"), "--tenant", tenant});
    };
    CHECK_THROWS_WITH_AS(import_as("caf\xe9"), doctest::Contains("--tenant: the tenant's name is no UTF-8"),
                         ConfigError);
    CHECK_THROWS_WITH_AS(import_as(std::string(300, 'a')), doctest::Contains("--tenant has 300 bytes"),
                         ConfigError);
    CHECK(import_as("acme").out.find("500 users of tenant acme into ") != std::string::npos);
    const Store store(folder.path() / "data", {});
    const auto has = [&](const char* tenant) {
      return store.read(Column::users, user_key(tenant, "ana"), [](std::string_view) {}) ==
             Store::Read::found;
    };
    CHECK(has("acme"));
    CHECK_FALSE(has(""));
  }

  TEST_CASE("keys: a scrape key is listed as one, and is no other kind of key") {
    const TestFolder folder;
    const std::string location = folder.path() / "keys";
    run({"keys", "add", location, "--scrape"});
    CHECK(run({"keys", "list", location}).out.find("read metrics") != std::string::npos);
    for (const char* other : {"--admin", "--any-tenant", "--tenant=acme"})
      CHECK_THROWS_WITH_AS(run({"keys", "add", location, "--scrape", other}), doctest::Contains("--scrape"),
                           std::invalid_argument);
  }

  TEST_CASE("keys: keys in a file are added and revoked beside the others") {
    const TestFolder folder;
    const std::string location = folder.path() / "keys";
    std::vector<std::string> ids;
    for (const char* whose : {"--tenant=acme", "--admin"}) {
      const CommandRun made = run({"keys", "add", location, whose});
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

  TEST_CASE("keys: keys in a Redis are added and revoked, with a warning for the last one") {
    if (!RedisTestServer::is_installed()) return;
    const RedisTestServer redis;
    const std::string location = "redis://127.0.0.1:" + std::to_string(redis.address().port);
    CHECK(run({"keys", "add", location, "--cluster", "shop"})
              .err.starts_with("troupe: warning: " + location +
                               "/0 has neither keys nor data of a cluster "
                               "named shop. Servers read"));
    CHECK(run({"keys", "add", location, "--cluster", "shop"}).err.starts_with("troupe: key "));
    const std::string forgotten = run({"keys", "add", location}).err;
    CHECK(forgotten.find("of a cluster named troupe; it has those of shop. Servers") != std::string::npos);
    std::vector<std::string> ids;
    for (const std::string& said : {forgotten, run({"keys", "add", location}).err}) {
      const std::size_t at = said.find("troupe: key ") + 12;
      ids.push_back(said.substr(at, said.find(' ', at) - at));
    }
    const std::string listed = run({"keys", "list", location}).out;
    for (const std::string& id : ids) CHECK(listed.find(id) != std::string::npos);
    CHECK(run({"keys", "revoke", location, ids[0]}).err.find("within http.api_keys_refresh") !=
          std::string::npos);
    CHECK(run({"keys", "revoke", location, ids[1]}).err.find("was the last") != std::string::npos);
  }

  TEST_CASE("commands: an option with an optional value has its initial one if it is given without") {
    const auto parsed = [](std::vector<std::string> words) {
      words.insert(words.begin(), {"program", "look"});
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      std::optional<double> every;
      bool all = false;
      CommandLine line("program", "", "");
      Command look = line.program().add_command("look", "Look");
      look.add_option("--watch", every, "Look again").optional_value("2").between(0.1, 60.0);
      look.add_flag("--all", all, "Look at all");
      look.runs([] { return 0; });
      const CapturedStream out(std::cout), err(std::cerr);
      Action chosen;
      const std::optional<int> ended = line.parse(static_cast<int>(argv.size()), argv.data(), chosen);
      return std::tuple(ended.value_or(0), every, all);
    };
    CHECK(parsed({}) == std::tuple(0, std::optional<double>(), false));
    CHECK(parsed({"--watch"}) == std::tuple(0, std::optional(2.0), false));
    CHECK(parsed({"--watch", "--all"}) == std::tuple(0, std::optional(2.0), true));
    CHECK(parsed({"--watch", "0.5"}) == std::tuple(0, std::optional(0.5), false));
    CHECK(std::get<0>(parsed({"--watch", "0"})) == 2);
  }

  TEST_CASE("commands: every command has an example in its help, which the program takes") {
    CHECK(commands_without_example(troupe_program()).empty());
    const std::vector<std::string> refused = examples_refused(troupe_program());
    for (const std::string& error : refused) CHECK_MESSAGE(false, error);
    const std::string help = run({"import", "--help"}).out;
    CHECK(help.find("\nExample:\n  troupe import --model ") != std::string::npos);
  }

  TEST_CASE("commands: help lists all commands in groups") {
    const std::string help = run({"--help"}).out;
    std::size_t last = 0;
    for (const char* title : {"\nServe:\n", "\nData:\n", "\nAsk a server:\n", "\nOperate:\n", "\nMeasure:\n",
                              "\nDocumentation:\n"}) {
      const std::size_t at = help.find(title);
      CHECK_MESSAGE((at != std::string::npos && at > last), title);
      last = at;
    }
    CHECK(help.find("Subcommands:") == std::string::npos);
  }

  TEST_CASE("commands: an error names its command, the first unknown word, and the nearest option") {
    const auto error_of = [](std::vector<std::string> words) {
      const CommandRun ran = run(std::move(words));
      CHECK(ran.status == 2);
      return ran.err;
    };
    const std::string end = "Run `troupe import --help` for its options.\n";
    CHECK(error_of({"import", "--modle", "x"}) ==
          "troupe import: there is no option --modle; did you mean --model?\n" + end);
    CHECK(error_of({"import", "--modle=x"}) ==
          "troupe import: there is no option --modle; did you mean --model?\n" + end);
    CHECK(error_of({"import", "--somewhere", "x", "--modle", "y"}) ==
          "troupe import: there is no option --somewhere\n" + end);
    CHECK(error_of({"import", "stray", "--modle"}) == "troupe import: \"stray\" was not expected\n" + end);
    CHECK(error_of({"keys", "add"}) ==
          "troupe keys add: file is required\nRun `troupe keys add --help` for its options.\n");
    CHECK(error_of({"keys"}) ==
          "troupe keys: no command is named; expected one of add, list, revoke\n"
          "Run `troupe keys --help` for its commands.\n");
    CHECK(error_of({"serve", "--port", "many"}).starts_with("troupe serve: "));
  }

  TEST_CASE("commands: help of a command that another program has, or none, is not the program's help") {
    const auto run_help = [](const char* command) { return run({command, "--help"}); };
    CHECK(run_help("bench").err == "troupe: `troupe bench` is now `troupe-lab bench`\n");
    CHECK(run_help("bench").status == 2);
    CHECK(run_help("imprt").err.ends_with("Did you mean import?\n"));
    CHECK(run_help("import").status == 0);
  }

  TEST_CASE("commands: a command of troupe-lab is refused with its present name") {
    const auto error_of = [](std::vector<std::string> words) { return run(std::move(words)).err; };
    CHECK(error_of({"sim", "--seeds", "1..2"}) == "troupe: `troupe sim` is now `troupe-lab sim`\n");
    CHECK(error_of({"bench", "rank"}) == "troupe: `troupe bench` is now `troupe-lab bench`\n");
    CHECK(error_of({"trace", "stats", "t.jsonl"}) ==
          "troupe: `troupe trace stats` is now `troupe-lab trace stats`\n");
    CHECK(error_of({"simm"}).starts_with("troupe: there is no command \"simm\"; expected one of serve, "));
    CHECK(run({"sim"}).status == 2);
  }
}

}  // namespace
