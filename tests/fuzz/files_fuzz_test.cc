// Damages files of every kind that users provide: each is read, or fails with the documented error, which
// names the place and what was expected.
#include <doctest/doctest.h>
#include <zlib.h>

#include <functional>
#include <typeinfo>

#include "deploy/data/dataset.h"
#include "deploy/lab/traces/trace_stats.h"
#include "deploy/node/item_placement.h"
#include "deploy/node/local_node.h"
#include "deploy/node/prompt_file.h"
#include "runtime/config/config.h"
#include "runtime/features/store_features.h"
#include "tests/fuzz/damage.h"
#include "tests/fuzz/tiny_world.h"

using namespace troupe;
using namespace troupe::fuzz;

namespace files_fuzz_test {

constexpr std::uint64_t seed = 7'707;

std::string gzipped(const std::string& text, const kernels::TestFolder& folder) {
  const std::string file = (folder.path() / "packed").string();
  const gzFile out = gzopen(file.c_str(), "wb");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
  return folder.read("packed");
}

// Returns whether `read` succeeds; fails the test at any error but `Promised` with a useful text.
template <class Promised>
bool reads(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const Promised& error) {
    const std::string text = error.what();
    CHECK_MESSAGE(text.find("; expected ") != text.npos, text);
  } catch (const std::exception& error) {
    FAIL_CHECK(typeid(error).name(), ": ", error.what());
  }
  return false;
}

struct Tally {
  int read = 0, refused = 0;
  void count(bool was_read) { ++(was_read ? read : refused); }
  void tell(const std::string& what) const {
    MESSAGE(what, ": seed ", seed, ", ", read + refused, " damaged files, ", refused, " refused");
    CHECK(refused > (read + refused) / 4);  // most damage is noticed
    CHECK(read > 0);                        // harmless damage is accepted
  }
};

void damage(std::string& text, Chance& chance) {
  for (std::size_t times = draw(chance, 3) + 1; times > 0; --times)
    draw(chance, 3) == 0 ? damage_bytes(text, chance) : damage_text(text, chance);
}

// Returns a text file, packed or not. Packed ones are damaged before or after packing.
std::pair<std::string, std::string> damaged_file(std::string name, std::string text, Chance& chance,
                                                 const kernels::TestFolder& folder) {
  const std::size_t form = draw(chance, 3);
  if (form != 1) damage(text, chance);
  if (form == 0) return {name, text};
  std::string packed = gzipped(text, folder);
  if (form == 1) damage_bytes(packed, chance);
  return {name + ".gz", packed};
}

void clear(const std::filesystem::path& folder) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
}

const char* const items_jsonl = R"({"id":"i1","title":"A tent","tokens":["<a_1>",5],"identifier":"<item_0>"})"
                                "\n"
                                R"({"id":"i2","title":"","tokens":[7,8,9],"identifier":41})"
                                "\n";
const char* const users_jsonl =
    "{\"id\":\"u1\",\"history\":[\"i1\",\"i2\"]}\n\n{\"id\":\"u2\",\"history\":[]}\n";
const char* const items_tsv = "item_id\tsid\ttitle\n0\t1,2\tA tent\n1\t1,2\tA stove\n";
const char* const sequences_tsv =
    "user_id\tn_train\tn_valid\tn_test\titems\nu1\t1\t0\t1\t0 1\nu2\t0\t0\t0\t\n";
const char* const ratings_tsv = "user_id\titem_id\trating\ttimestamp\nu1\t1\t5\t20\nu1\t0\t3\t10\n";
const char* const eval_tsv = "user_id\thistory\tcandidates\ttrue_index\nu1\t0 1\t1 0\t1\n";
const char* const requests_jsonl =
    R"({"user":"u1","history":["i1"],"candidates":["i1","i2"],"true_item":"i2"})";
const char* const trace_jsonl =
    "{\"format\":\"troupe-trace\",\"version\":1,\"source\":\"a test\"}\n"
    R"({"at_us":0,"tenant":"t","user":"u1","profile":2,"events":["i1","i2"],"candidates":["i3",)"
    R"("i4"],"truth":"i3"})"
    "\n"
    R"({"at_us":250000,"user":"u2","profile":0,"candidates":["i\u00e9"]})"
    "\n"
    R"({"at_us":250001,"tenant":"t","user":"u1","profile":3,"events":["i3"],"candidates":["i4","i5","i6"]})"
    "\n";
const char* const plan_json =
    R"({"input": {"memory_bytes": 90}, "placements": [{"name": "hrcs", "nodes": [1, 4], "everywhere": ["i1"],
    "nowhere": ["i4", "i5"], "shards": {"1": ["i2"], "4": ["i3", "i\u00e9"]}}]})";

TEST_SUITE("files fuzz") {
  TEST_CASE("file fuzz: a damaged configuration is a ConfigError with its place, or is read") {
    CAPTURE(seed);
    const kernels::TestFolder folder;
    const std::string file = (folder.path() / "config.yaml").string();
    Tally tally;
    for (std::uint64_t i = 0; i < 1'000; ++i) {
      CAPTURE(i);
      Chance chance(seed + i);
      std::string text = example_yaml();
      if (draw(chance, 2) == 0) text.erase(0, text.find("router:"));  // fewer lines, hit more often
      damage(text, chance);
      folder.write("config.yaml", text);
      tally.count(reads<ConfigError>([&] { load_config(file); }));
    }
    tally.tell("configurations");
  }

  TEST_CASE("file fuzz: a damaged model directory is a LoadError, or is read") {
    CAPTURE(seed);
    const kernels::TestFolder folder;
    write_tiny_model(folder.path() / "sound");
    const std::vector<std::string> names{"config.json", "model.safetensors", "vocab.json", "prompt.json"};
    Tally tally;
    for (std::uint64_t i = 0; i < 1'000; ++i) {
      CAPTURE(i);
      Chance chance(seed + i);
      clear(folder.path() / "model");
      const std::string& victim = pick(chance, names);
      for (const std::string& name : names) {
        std::string bytes = folder.read("sound/" + name);
        if (name == victim) damage(bytes, chance);
        folder.write("model/" + name, bytes);
      }
      if (draw(chance, 20) == 0) std::filesystem::remove(folder.path() / "model" / victim);
      tally.count(reads<kernels::LoadError>([&] {
        const kernels::PlanLimits limits = plan_limits(kernels::read_decoder(folder.path() / "model").config);
        const auto vocabulary = deploy::read_vocabulary_if_any(folder.path() / "model", limits);
        deploy::read_prompt_form(folder.path() / "model", std::nullopt, limits, vocabulary);
      }));
    }
    tally.tell("model directories");
  }

  TEST_CASE("file fuzz: a damaged catalog or history is an ImportError or StoreError, or is stored") {
    CAPTURE(seed);
    const kernels::TestFolder folder;
    write_tiny_model(folder.path() / "model");
    const auto vocabulary = kernels::read_vocabulary(folder.path() / "model", tiny_shape().vocabulary);
    Store store(folder.path() / "store");
    FeatureLimits limits;
    limits.vocabulary = 64, limits.item_tokens_max = 96, limits.history_events_max = 100;
    RocksFeaturePort features(store, limits, [](auto) { return BlockName{}; });
    const std::filesystem::path data = folder.path() / "data";
    Tally tally;
    for (std::uint64_t i = 0; i < 1'000; ++i) {
      CAPTURE(i);
      Chance chance(seed + i);
      clear(data);
      const bool lines = draw(chance, 2) == 0;
      const auto items = lines ? damaged_file("items.jsonl", items_jsonl, chance, folder)
                               : damaged_file("items.tsv", items_tsv, chance, folder);
      const auto users = lines                  ? damaged_file("users.jsonl", users_jsonl, chance, folder)
                         : draw(chance, 2) == 0 ? damaged_file("sequences.tsv", sequences_tsv, chance, folder)
                                                : damaged_file("ratings.tsv", ratings_tsv, chance, folder);
      folder.write("data/" + items.first, items.second);
      folder.write("data/" + users.first, users.second);
      auto import_into = [&](auto read) {  // the store may still refuse what was read
        try {
          read();
        } catch (const StoreError& error) {
          throw deploy::ImportError(error.what());
        }
      };
      tally.count(reads<deploy::ImportError>(
          [&] { import_into([&] { features.import_items(deploy::read_items(data, vocabulary)); }); }));
      tally.count(reads<deploy::ImportError>([&] {
        import_into([&] { features.import_users(deploy::read_users(data, deploy::HistoryPart::all)); });
      }));
    }
    tally.tell("catalogs and histories");
  }

  TEST_CASE("file fuzz: a damaged evaluation file is an ImportError, or is read") {
    CAPTURE(seed);
    const kernels::TestFolder folder;
    Tally tally;
    for (std::uint64_t i = 0; i < 500; ++i) {
      CAPTURE(i);
      Chance chance(seed + i);
      const bool lines = draw(chance, 2) == 0;
      const auto file = lines ? damaged_file("requests.jsonl", requests_jsonl, chance, folder)
                              : damaged_file("eval.tsv", eval_tsv, chance, folder);
      folder.write(file.first, file.second);
      tally.count(reads<deploy::ImportError>([&] {
        for (const deploy::EvaluationRow& row : deploy::read_evaluation(folder.path() / file.first))
          CHECK(row.true_index < row.candidates.size());
      }));
    }
    tally.tell("evaluation files");
  }

  TEST_CASE("file fuzz: a damaged request trace is an ImportError, or is read") {
    CAPTURE(seed);
    const kernels::TestFolder folder;
    Tally tally;
    for (std::uint64_t i = 0; i < 3'000; ++i) {
      CAPTURE(i);
      Chance chance(seed + i);
      const auto file = damaged_file("trace.jsonl", trace_jsonl, chance, folder);
      folder.write(file.first, file.second);
      tally.count(reads<deploy::ImportError>([&] {
        deploy::TraceReader reader(folder.path() / file.first);
        const deploy::TraceStats stats = deploy::measure_trace(reader);
        CHECK(stats.users <= stats.requests);
      }));
    }
    tally.tell("request traces");
  }

  TEST_CASE("file fuzz: a damaged placement plan is a ConfigError that names the setting, or is used") {
    CAPTURE(seed);
    const kernels::TestFolder folder;
    const std::string file = (folder.path() / "plan.json").string();
    Tally tally;
    for (std::uint64_t i = 0; i < 3'000; ++i) {
      CAPTURE(i);
      Chance chance(seed + i);
      std::string text = plan_json;
      damage(text, chance);
      folder.write("plan.json", text);
      tally.count(reads<ConfigError>([&] {
        try {
          const auto places = deploy::item_places(file, {1, 4});
          for (const char* item : {"i1", "i2", "i4", "i9"}) CHECK(places->nodes_of(item).size() <= 2);
        } catch (const ConfigError& error) {
          CHECK(std::string(error.what()).starts_with("pool.placement: " + file));
          throw;
        }
      }));
    }
    tally.tell("plans");
  }
}

}  // namespace files_fuzz_test
