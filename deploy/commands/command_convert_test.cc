#include <doctest/doctest.h>

#include <filesystem>
#include <stdexcept>

#include "deploy/commands/commands.h"
#include "deploy/testing/command_run_test.h"
#include "deploy/testing/torch_archive_test.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace command_convert_test {

// A checkpoint of SASRec with 3 items of width 2, 3 positions and one layer.
std::string checkpoint() {
  const auto tensor = [](const std::string& name, std::vector<std::int64_t> shape) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = 0.25f * static_cast<float>(i % 5) - 0.5f;
    return float_tensor(name, std::move(shape), values);
  };
  return torch_archive(
      {tensor("_embedding_module._item_emb.weight", {4, 2}),
       tensor("_input_features_preproc._pos_emb.weight", {3, 2}),
       tensor("attention_layers.0.in_proj_weight", {6, 2}), tensor("attention_layers.0.in_proj_bias", {6}),
       tensor("attention_layers.0.out_proj.weight", {2, 2}), tensor("attention_layers.0.out_proj.bias", {2}),
       tensor("forward_layers.0._conv1d.0.weight", {2, 2, 1}), tensor("forward_layers.0._conv1d.0.bias", {2}),
       tensor("forward_layers.0._conv1d.3.weight", {2, 2, 1}),
       tensor("forward_layers.0._conv1d.3.bias", {2})});
}

const char* const bindings =
    "train_fn.max_sequence_length = 2\n"
    "train_fn.gr_output_length = 0\n"
    "train_fn.item_embedding_dim = 2\n"
    "train_fn.interaction_module_type = 'DotProduct'\n"
    "train_fn.item_l2_norm = True\n"
    "sasrec_encoder.num_blocks = 1\n"
    "sasrec_encoder.ffn_hidden_dim = 2\n";

struct Files : kernels::TestFolder {
  Files() {
    write("run.pt", checkpoint());
    write("run.gin", bindings);
  }
  CommandRun convert(const std::string& out, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"convert",          "--from",          "meta-research",
                                   "--checkpoint",     path() / "run.pt", "--config",
                                   path() / "run.gin", "--out",           path() / out};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(troupe_program(), words);
  }
  CommandRun check(const std::string& out, const std::string& golden) const {
    write("golden.json", golden);
    return convert(out, {"--check", path() / "golden.json"});
  }
  bool has(const std::string& folder) const { return std::filesystem::exists(path() / folder); }
};

TEST_SUITE("command convert") {
  TEST_CASE("command convert: --check ends with 0 only if every case agrees") {
    const Files files;
    const auto with = [](const std::string& similarity) {
      return R"({"cases": [{"item_ids": [1], "item_ids_scored": [2], "similarity": [)" + similarity + "]}]}";
    };
    const CommandRun wrong = files.check("wrong", with("9"));
    CHECK(wrong.status == 1);
    CHECK(wrong.out.find("0 of 1 cases agree") != std::string::npos);
    const std::string before = "the similarity of item 2 is ";
    const std::size_t begin = wrong.out.find(before), end = wrong.out.find(';', begin);
    REQUIRE(begin != std::string::npos);
    const std::string found = wrong.out.substr(begin + before.size(), end - begin - before.size());
    const CommandRun right = files.check("right", with(found));
    CHECK(right.status == 0);
    CHECK(right.out.find("1 of 1 cases agree: 1 numbers") != std::string::npos);
  }

  TEST_CASE("command convert: a golden file that cannot be checked is refused before a folder is written") {
    const Files files;
    for (const std::string golden : {"{", "{}", R"({"cases": []})", R"({"cases": 3})"}) {
      CAPTURE(golden);
      CHECK_THROWS(files.check("model", golden));
      CHECK_FALSE(files.has("model"));
    }
    CHECK_THROWS(files.convert("model", {"--check", files.path() / "missing.json"}));
    CHECK_FALSE(files.has("model"));
  }

  TEST_CASE("command convert: the report has no control characters of names") {
    const Files files;
    const CommandRun run = files.convert("a\x1b[31mb");
    CHECK(run.status == 0);
    CHECK(run.out.find('\x1b') == std::string::npos);
    CHECK(run.out.find("wrote ") != std::string::npos);
  }
}

}  // namespace command_convert_test
