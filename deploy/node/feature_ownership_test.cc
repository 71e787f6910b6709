#include "deploy/node/feature_ownership.h"

#include <doctest/doctest.h>

#include "runtime/features/store_features.h"
#include "runtime/redis/redis_features.h"
#include "runtime/testing/redis_test_server.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

const ModelFingerprints ours{"model-of-ours", "words-of-ours", "prompt-of-ours"};

struct Rows {
  TestFolder folder;
  Config config;
  std::unique_ptr<Store> store = std::make_unique<Store>(folder.path());
  std::unique_ptr<RocksFeaturePort> port;
  std::vector<std::string> reported;

  Rows() {
    config.set("node.data_dir", "DATA");
    config.set("model.directory", "MODEL");
    open();
  }
  void open() {
    const FeatureLimits limits{.vocabulary = 10, .item_tokens_max = 4, .history_events_max = 4};
    port = std::make_unique<RocksFeaturePort>(*store, limits, [](auto) { return BlockName{}; });
  }
  void put_item() { port->run(Write{PutItem{0, "a", "", {1}, 2}}, 0); }
  std::string refusal(const ModelFingerprints& present) {
    try {
      claim_rows(*port, present, config, [this](const std::string& what) { reported.push_back(what); });
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  bool refused(const ModelFingerprints& present, const char* what) {
    const std::string why = refusal(present);
    CAPTURE(why);
    return why.starts_with("DATA: ") && why.find(what) != std::string::npos &&
           why.find("; expected ") != std::string::npos;
  }
};

}  // namespace

TEST_SUITE("feature rows") {
  TEST_CASE("fingerprints: vocabularies and prompts of equal length differ, and are stable") {
    TestFolder folder;
    const auto words = [&](const char* text) {
      folder.write("vocab.json", text);
      return kernels::read_vocabulary(folder.path(), 4);
    };
    const PromptForm form{{1, 2}, {3}, {4, 5}, {6}, 64, 4};
    const ModelFingerprints one = made_for("m", words(R"({"ab":1,"c":2})"), form);
    CHECK(one == made_for("m", words(R"({"ab":1,"c":2})"), form));
    for (const char* others :
         {R"({"ab":1,"d":2})", R"({"a":1,"bc":2})", R"({"ab":2,"c":1})", R"({"ab":1,"c":3})"}) {
      const ModelFingerprints other = made_for("m", words(others), form);
      CHECK(other.vocabulary != one.vocabulary);
      CHECK(other.prompt == one.prompt);
    }
    for (Tokens PromptForm::*part :
         {&PromptForm::system, &PromptForm::user, &PromptForm::instruction, &PromptForm::discriminant}) {
      PromptForm changed = form;
      std::vector<Token> tokens((changed.*part).begin(), (changed.*part).end());
      ++tokens.back();
      changed.*part = tokens;
      CHECK(made_for("m", words(R"({"ab":1,"c":2})"), changed).prompt != one.prompt);
    }
  }

  TEST_CASE("feature rows: belong to the model that was served when they were written") {
    Rows rows;
    CHECK(rows.refusal(ours).empty());
    rows.put_item();
    rows.open();
    CHECK(rows.refusal(ours).empty());
    CHECK(rows.reported.empty());
    CHECK(rows.refused({"model-of-ours", "others", "prompt-of-ours"},
                       "another vocabulary (words-of-our) than that of MODEL (others)"));
    CHECK(rows.refused({"others", "words-of-ours", "prompt-of-ours"}, "another model"));
    CHECK(rows.refused({"model-of-ours", "words-of-ours", "others"}, "--adopt"));
    rows.config.set("model.versions", "VERSIONS");
    CHECK(rows.refusal({"others", "words-of-ours", "prompt-of-ours"}).empty());
  }

  TEST_CASE("feature rows: an untouched folder accepts any model") {
    Rows rows;
    CHECK(rows.refusal(ours).empty());
    CHECK(rows.refusal({"m", "v", "p"}).empty());
    rows.put_item();
    CHECK(rows.refused(ours, "another vocabulary"));
  }

  TEST_CASE("feature rows: rows without a note are served with a warning, unless they do not fit") {
    Rows rows;
    rows.put_item();
    CHECK(rows.refusal(ours).empty());
    CHECK(rows.reported.size() == 1);
    CHECK(rows.refusal(ours).empty());
    CHECK(rows.reported.size() == 1);

    Rows damaged;
    damaged.put_item();
    const Change change{Column::items, "b", "not a row"};
    damaged.store->write({&change, 1}, Durability::buffered);
    damaged.open();
    CHECK(damaged.refused(ours, "1 rows do not fit this model"));
  }

  TEST_CASE("feature rows: a damaged or lost note fits no model until the rows are adopted") {
    Rows rows;
    CHECK(rows.refusal(ours).empty());
    rows.put_item();
    rows.port->note_made_for("lost with damage");
    CHECK(rows.refused(ours, "the note of its model is damaged or lost"));
    CHECK(rows.refused({"m", "v", "p"}, "--adopt"));
    rows.port->note_made_for(encode(ours));
    CHECK(rows.refusal(ours).empty());
  }

  TEST_CASE("feature rows: advice for a Redis names no folder and no import that Redis refuses") {
    Config config;
    config.set("model.directory", "MODEL");
    config.set("features.store", "redis://127.0.0.1:1");
    const std::string another = describe_mismatch(encode(ModelFingerprints{"m", "v", "p"}), ours, config),
                      damaged = describe_mismatch("nonsense", ours, config);
    for (const std::string& why : {another, damaged}) {
      CAPTURE(why);
      CHECK(why.starts_with("the Redis of features.store: "));
      CHECK(why.find("another features.store or cluster.name") != why.npos);
      CHECK(why.find("data_dir") == why.npos);
      CHECK(why.find("--replace") == why.npos);
    }
    CHECK(damaged.find("--adopt") != damaged.npos);
  }

  TEST_CASE("feature rows: rows of another model in a Redis are refused before each answer") {
    if (!RedisTestServer::is_installed()) return;
    RedisTestServer server;
    Config config;
    config.set("features.store", "redis://127.0.0.1:1");
    const FeatureLimits limits{.vocabulary = 10, .item_tokens_max = 4, .history_events_max = 4};
    const auto open = [&](const ModelFingerprints& present) {
      RedisFeatureOptions options{.address = server.address(), .time_limit = std::chrono::seconds(2)};
      options.refuses = [&config, present](const std::string& noted) {
        return describe_mismatch(noted, present, config);
      };
      return std::make_unique<RedisFeaturePort>(options, limits, [](auto) { return BlockName{}; });
    };
    const ModelFingerprints theirs{"m", "v", "p"};
    const PutItem items[] = {{0, "a", "", {1}, 2}};
    open(theirs)->import({.items = items, .made_for = encode(theirs)});
    const auto claimed = [&](const ModelFingerprints& present) {
      claim_rows(*open(present), present, config, [](auto&) {});
    };
    CHECK_THROWS_WITH_AS(claimed(ours), doctest::Contains("another vocabulary"), ConfigError);
    CHECK_THROWS_AS(claimed(ours), ConfigError);  // was not claimed meanwhile
    CHECK_NOTHROW(claimed(theirs));
    server.kill();
    CHECK_NOTHROW(claimed(ours));
  }

  TEST_CASE("feature rows: half an import is never served") {
    Rows rows;
    rows.put_item();
    CHECK(rows.refusal(ours).empty());
    const Change change{Column::meta, "importing", "an import"};
    rows.store->write({&change, 1}, Durability::buffered);
    rows.open();
    CHECK(rows.refused(ours, "an import into it did not finish"));
  }
}
