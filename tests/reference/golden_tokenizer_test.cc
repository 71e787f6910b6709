// Tests the tokenizers of Qwen3 and Llama 3.1 against an independent program's results on the same texts.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "deploy/data/text_file.h"
#include "runtime/tokenizer/tokenizer_file.h"

namespace troupe::reference {
namespace {

std::string whole(const std::filesystem::path& path) {
  deploy::TextFile file(path);
  std::string text, line;
  while (file.next(line)) text += line + "\n";
  return text;
}

void compare(const std::string& name, bool composes) {
  const std::filesystem::path folder = std::filesystem::path(TROUPE_ROOT_DIR) / "../shared/tokenizers" / name;
  if (!std::filesystem::exists(folder)) {
    MESSAGE("skipped: no ../shared/tokenizers/", name);
    return;
  }
  const Tokenizer tokenizer = tokenizer_of(name, whole(folder / "tokenizer.json.gz"));
  deploy::TextFile golden(folder / "golden.jsonl.gz");
  std::size_t texts = 0, others = 0;
  for (std::string line; golden.next(line); ++texts) {
    const auto row = nlohmann::json::parse(line);
    const auto& text = row.at("text").get_ref<const std::string&>();
    std::vector<Token> tokens;
    REQUIRE(tokenizer.encode(text, 10'000, tokens) == Tokenizer::Fault::none);
    const bool same = tokens == row.at("ids").get<std::vector<Token>>() &&
                      tokenizer.decode(tokens) == (composes ? composed(text) : text);
    if (!same) MESSAGE("differs: ", text);
    others += !same;
  }
  CHECK(others == 0);
  CHECK(texts > 5'000);
}

}  // namespace

TEST_SUITE("golden tokenizers") {
  TEST_CASE("golden tokenizer: Qwen3 encodes every title and hard string equally and decodes it") {
    compare("qwen3", true);
  }
  TEST_CASE("golden tokenizer: Llama 3.1 encodes every title and hard string equally and decodes it") {
    compare("llama3_1", false);
  }
}

}  // namespace troupe::reference
