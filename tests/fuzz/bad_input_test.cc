// Common bad inputs, one case each: the error says what is wrong, where and what was expected, and the
// server goes on as before.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "deploy/data/dataset.h"
#include "runtime/testing/store_test_folder.h"
#include "tests/fuzz/tiny_world.h"

using namespace troupe;
using namespace troupe::fuzz;

namespace {

struct Expected {
  unsigned status = 0;
  std::string code, where, expected;  // where and expected: parts of the texts
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

void check_refused(const Reply& reply, const Expected& refusal) {
  CAPTURE(reply.body.dump());
  CHECK(reply.status == refusal.status);
  REQUIRE(reply.body.contains("error"));
  const auto& error = reply.body["error"];
  CHECK(error.at("status") == refusal.status);
  CHECK(error.at("code") == refusal.code);
  CHECK_FALSE(error.at("message").get<std::string>().empty());
  CHECK(has(error.at("where").get<std::string>(), refusal.where));
  CHECK(has(error.at("expected").get<std::string>(), refusal.expected));
}

struct HttpAnswer {
  std::string method, target, body;
  Expected refusal;
};

// Sends all cases to one server: each is refused and harms none of the others.
void check_all_refused(const std::vector<HttpAnswer>& cases) {
  const ServedNode box;
  for (const HttpAnswer& asked : cases) {
    CAPTURE(asked.method);
    CAPTURE(asked.target);
    CAPTURE(asked.body.substr(0, 200));
    check_refused(box.ask(asked.method, asked.target, asked.body), asked.refusal);
    box.check_steady();
  }
}

std::string list_of(const std::string& item, std::size_t times) {
  std::string out = "[";
  for (std::size_t i = 0; i < times; ++i) out += (i ? "," : "") + item;
  return out + "]";
}

// Returns the error of starting a node with this configuration.
template <class Error>
std::string start_error(const Config& config) {
  try {
    deploy::LocalNode box(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("bad input over HTTP") {
  TEST_CASE("bad input: unknown users, unknown items and bad candidate lists are refused") {
    check_all_refused({
        {"POST",
         "/v1/rank",
         R"({"user":"nobody","candidates":["item-1"]})",
         {404, "unknown_user", "user", "a user"}},
        {"POST",
         "/v1/rank",
         R"({"user":"ana","candidates":["item-1","nothing"]})",
         {404, "unknown_item", "candidates[1]", "catalog"}},
        {"POST",
         "/v1/rank",
         R"({"user":"ana","candidates":[]})",
         {400, "no_candidates", "candidates", "1..64"}},
        {"POST",
         "/v1/rank",
         R"({"user":"ana","candidates":["item-1","item-1"]})",
         {422, "repeated_candidate", "candidates", "once"}},
        {"POST",
         "/v1/rank",
         R"({"user":"ana","candidates":)" + list_of("\"item-1\"", 65) + "}",
         {413, "too_many_candidates", "candidates", "64 (router.candidates_max)"}},
        {"POST",
         "/v1/rank",
         R"({"user":"ana","candidates":["item-1"],"policy":"best"})",
         {400, "unknown_policy", "policy", "recompute"}},
        {"POST",
         "/v1/rank",
         R"({"user":"ana","candidates":["item-1"],"budget_us":-5})",
         {400, "bad_budget", "budget_us", "at least 0"}},
    });
  }

  TEST_CASE("bad input: bodies that are not JSON, of wrong types or too long are refused") {
    check_all_refused({
        {"POST", "/v1/rank", "", {400, "malformed_json", "byte", "JSON"}},
        {"POST", "/v1/rank", R"({"user":"ana",)", {400, "malformed_json", "byte", "JSON"}},
        {"POST", "/v1/rank", R"({"user":"ana","user":"bob"})", {400, "malformed_json", "user", "once"}},
        {"POST", "/v1/rank", std::string(60'000, '['), {400, "wrong_type", "body", "an object"}},
        {"POST", "/v1/rank", R"([1,2])", {400, "wrong_type", "body", "an object"}},
        {"POST",
         "/v1/rank",
         R"({"user":7,"candidates":["item-1"]})",
         {400, "wrong_type", "user", "a string"}},
        {"POST",
         "/v1/rank",
         R"({"user":"ana","candidates":["item-1",2]})",
         {400, "wrong_type", "candidates[1]", "a string"}},
        {"POST",
         "/v1/rank",
         R"({"user":"ana","candidates":["item-1"],"top_k":4294967296})",
         {400, "wrong_type", "top_k", "4294967295"}},
        {"POST",
         "/v1/rank",
         R"({"user":"ana","candidates":["item-1"],"topk":1})",
         {400, "unknown_field", "topk", "top_k"}},
        {"POST",
         "/v1/rank",
         std::string(ServedNode::body_bytes_max + 1, ' '),
         {413, "body_too_long", "body", std::to_string(ServedNode::body_bytes_max)}},
    });
  }

  TEST_CASE("bad input: tokens outside the vocabulary or beyond the positions are refused") {
    check_all_refused({
        {"PUT",
         "/v1/items/x",
         R"({"tokens":[5,64],"identifier":1})",
         {422, "unknown_token", "tokens[1]", "0..63"}},
        {"PUT",
         "/v1/items/x",
         R"({"tokens":[5],"identifier":-2})",
         {400, "wrong_type", "identifier", "0 to 2147483647"}},
        {"PUT",
         "/v1/items/x",
         R"({"tokens":[5],"identifier":64})",
         {422, "unknown_token", "identifier", "0..63"}},
        {"PUT",
         "/v1/items/x",
         R"({"tokens":[],"identifier":1})",
         {400, "empty_item", "tokens", "at least one"}},
        {"PUT",
         "/v1/items/x",
         R"({"tokens":)" + list_of("9", 93) + R"(,"identifier":1})",
         {422, "too_long", "tokens", "96"}},
        {"PUT", "/v1/users/ana", R"({"tokens":[-1]})", {422, "unknown_token", "tokens[0]", "0..63"}},
        {"PUT", "/v1/users/ana", R"({"history":["item-1","x"]})", {422, "unknown_item", "history[1]", ""}},
        {"PUT", "/v1/users/ana", "{}", {400, "missing_field", "history or tokens", "item ids"}},
        {"PUT", "/v1/items/x", R"({"tokens":[5]})", {400, "missing_field", "identifier", "row"}},
        {"PUT",
         "/v1/users/ana",
         R"({"history":["item-1"],"tokens":[1]})",
         {400, "ambiguous_history", "", "one"}},
        {"PUT",
         "/v1/users/ana",
         R"({"history":)" + list_of("\"i\"", 16'000) + "}",
         {413, "too_many_events", "history", "10000 (router.history_events_max)"}},
        {"POST",
         "/v1/score",
         R"({"query":[1],"items":[{"tokens":[64]}],"label_tokens":[1]})",
         {422, "unknown_token", "items[0]", "0..63"}},
        {"POST",
         "/v1/score",
         R"({"query":)" + list_of("1", 96) + R"(,"items":[{"tokens":[2]}],"label_tokens":[1]})",
         {422, "too_long", "query", "96"}},
    });
  }

  TEST_CASE("bad input: unknown paths and methods are refused") {
    check_all_refused({
        {"GET", "/v1/nothing", "", {404, "no_such_path", "path", "/v1/rank"}},
        {"GET", "/v1/rank", "", {405, "wrong_method", "method", "POST"}},
        {"PUT", "/v1/users/%ff", "{}", {400, "bad_id", "path", "UTF-8"}},
        {"PUT", "/v1/users/ana", R"({"user":"bob","history":[]})", {400, "id_mismatch", "body", "path"}},
    });
  }

  TEST_CASE(
      "bad input: a profile longer than the positions loses its oldest events, and the reply counts them") {
    const ServedNode box;
    const int events = 100;
    std::string all, kept;
    for (int i = 0; i < events; ++i) all += (i ? ",\"item-" : "\"item-") + std::to_string(i % 12) + "\"";
    REQUIRE(box.ask("PUT", "/v1/users/old", R"({"history":[)" + all + "]}").status == 200);
    const std::string candidates = R"(","candidates":["item-3","item-7"],"policy":"user"})";
    const Reply cut = box.ask("POST", "/v1/rank", R"({"user":"old)" + candidates);
    REQUIRE(cut.status == 200);
    const int history_cut = cut.body.at("history_cut").get<int>();
    // 96 positions, less 4 of the prompt and 2 of an item, leave 45 events of 2 tokens.
    CHECK(history_cut == events - 45);
    for (int i = history_cut; i < events; ++i)
      kept += (i > history_cut ? ",\"item-" : "\"item-") + std::to_string(i % 12) + "\"";
    REQUIRE(box.ask("PUT", "/v1/users/new", R"({"history":[)" + kept + "]}").status == 200);
    const Reply whole = box.ask("POST", "/v1/rank", R"({"user":"new)" + candidates);
    CHECK(whole.body.at("history_cut") == 0);
    for (std::size_t i = 0; i < 2; ++i) {  // only the newest events count
      CHECK(whole.body["items"][i]["id"] == cut.body["items"][i]["id"]);
      const double difference =
          whole.body["items"][i]["score"].get<double>() - cut.body["items"][i]["score"].get<double>();
      CHECK(std::abs(difference) < 1e-4);
    }
  }

  TEST_CASE("bad input: a pool too small for a user's block answers and keeps nothing") {
    const ServedNode box(SettingTexts{{"pool.item_share", "1"}});
    const std::string body = R"({"user":"ana","candidates":["item-1","item-2"],"policy":"user"})";
    const Reply first = box.ask("POST", "/v1/rank", body), second = box.ask("POST", "/v1/rank", body);
    CHECK(first.status == 200);
    CHECK(second.body.at("tokens_computed") == first.body.at("tokens_computed"));
    box.check_steady();
  }

  TEST_CASE("bad input: on a full disk writes are refused until space is free, reads are served") {
    const TestFolder disk("160m");
    if (!disk.mounted()) {
      MESSAGE("SKIPPED: no right to mount a disk of its own for this test");
      return;
    }
    const ServedNode box({}, disk.path() / "data");
    const std::string put = R"({"history":["item-1"]})";
    CHECK(box.ask("PUT", "/v1/users/early", put).status == 200);
    const std::filesystem::path ballast = disk.path() / "ballast";
    std::ofstream(ballast) << std::string(150 << 20, 'x');
    check_refused(box.ask("PUT", "/v1/users/late", put),
                  {503, "storage_failed", "store", "a disk with more than 67108864 bytes free"});
    box.check_steady();
    CHECK(box.ask("POST", "/v1/rank", R"({"user":"early","candidates":["item-1"]})").status == 200);
    check_refused(box.ask("POST", "/v1/rank", R"({"user":"late","candidates":["item-1"]})"),
                  {404, "unknown_user", "user", ""});
    std::filesystem::remove(ballast);
    CHECK(box.ask("PUT", "/v1/users/late", put).status == 200);
    CHECK(box.ask("POST", "/v1/rank", R"({"user":"late","candidates":["item-1"]})").status == 200);
  }
}

TEST_SUITE("bad input at the start") {
  TEST_CASE("bad input: truncated weights or a wrong header are refused by file name") {
    const kernels::TestFolder folder;
    write_tiny_model(folder.path() / "model");
    const Config config = tiny_config(folder.path());
    const std::string weights = folder.read("model/model.safetensors");
    folder.write("model/model.safetensors", weights.substr(0, weights.size() - 100));
    CHECK(has(start_error<kernels::LoadError>(config), "model.safetensors: "));
    std::string lying = weights;
    lying[7] = '\x7f';  // the length of the header
    folder.write("model/model.safetensors", lying);
    CHECK(has(start_error<kernels::LoadError>(config), "; expected "));
    folder.write("model/model.safetensors", weights);
    CHECK(start_error<std::exception>(config) == "");
  }

  TEST_CASE("bad input: an unknown model family is refused with the known ones") {
    const kernels::TestFolder folder;
    write_tiny_model(folder.path() / "model");
    std::string text = folder.read("model/config.json");
    for (const char* name : {"qwen2", "Qwen2ForCausalLM"})
      if (const auto at = text.find(std::string("\"") + name); at != text.npos)
        text.replace(at, std::string(name).size() + 2, "\"mamba\"");
    folder.write("model/config.json", text);
    const std::string error = start_error<kernels::LoadError>(tiny_config(folder.path()));
    CHECK(has(error, "config.json: "));
    CHECK(has(error, "mamba"));
    CHECK(has(error, "expected"));
  }

  TEST_CASE("bad input: a bad catalog row is refused by its line, a bad import row by its number") {
    const kernels::TestFolder folder;
    write_tiny_model(folder.path() / "model");
    const auto vocabulary = kernels::read_vocabulary(folder.path() / "model", 64);
    folder.write("items.jsonl",
                 "{\"id\":\"a\",\"tokens\":[4],\"identifier\":5}\n"
                 "{\"id\":\"b\",\"tokens\":[\"<c_9>\"],\"identifier\":5}\n");
    CHECK_THROWS_WITH_AS(deploy::read_items(folder.path(), vocabulary),
                         doctest::Contains("items.jsonl:2: tokens[0]: \"<c_9>\""), deploy::ImportError);
    folder.write("items.jsonl",
                 "{\"id\":\"a\",\"tokens\":[4],\"identifier\":5}\n"
                 "{\"id\":\"b\",\"tokens\":[64],\"identifier\":5}\n");
    const Config config = tiny_config(folder.path());
    deploy::LocalNode box(config);
    CHECK_THROWS_WITH_AS(box.features().import_items(deploy::read_items(folder.path(), vocabulary)),
                         doctest::Contains("row 2"), StoreError);
    CHECK(box.features().items() == 0);
  }

  TEST_CASE("bad input: a pool smaller than a page is refused with the minimum") {
    const kernels::TestFolder folder;
    kernels::DecoderConfig shape = tiny_shape();
    shape.layers = 3, shape.heads = shape.kv_heads = 4, shape.head_dim = 64;
    write_tiny_model(folder.path() / "model", shape);
    const Config config = tiny_config(folder.path(), {{"pool.page_tokens", "256"}});
    const std::string error = start_error<ConfigError>(config);
    CHECK(has(error, "pool.memory is 1048576"));
    CHECK(has(error, std::to_string(256 * 3 * 4 * 64 * 2 * 4)));
  }

  TEST_CASE("bad input: a port in use is refused by its number") {
    const ServedNode box;
    server::HttpServerConfig taken;
    taken.port = box.port();
    MetricRegistry metrics;
    CHECK_THROWS_WITH_AS(server::HttpServer(taken, {}, metrics),
                         doctest::Contains(std::to_string(box.port()).c_str()), server::ServerError);
    box.check_steady();
  }

  TEST_CASE("bad input: a data folder that cannot be created or is in use is refused by name") {
    const kernels::TestFolder folder;
    write_tiny_model(folder.path() / "model");
    folder.write("file", "");
    Config config = tiny_config(folder.path());
    const deploy::LocalNode first(config);
    CHECK(has(start_error<StoreError>(config), "locked"));
    config.set("node.data_dir", (folder.path() / "file" / "data").string());
    const std::string error = start_error<StoreError>(config);
    CHECK(has(error, (folder.path() / "file" / "data").string()));
    CHECK(has(error, "cannot be created"));
    CHECK(has(error, "; expected a folder"));
  }
}
