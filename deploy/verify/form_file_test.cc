#include "deploy/verify/form_file.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "deploy/node/prompt_file.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace form_file_test {

constexpr Arrangement item_first = Arrangement::item_first, user_first = Arrangement::user_first,
                      causal = Arrangement::causal;

kernels::Vocabulary names() {
  return kernels::vocabulary_of("vocab.json", nlohmann::json::parse(R"({"<bos>":1,"<user>":2,"<disc>":4})"),
                                6);
}

}  // namespace form_file_test

TEST_SUITE("form file") {
  using namespace form_file_test;

  TEST_CASE("form text: other members stay as they are, in their order") {
    const std::string before =
        "{\"user\": [2], \"system\": [1, {\"text\": \"\\u00e9\"}],\n \"arrangements\": [\"causal\"], "
        "\"events_max\": 3}";
    const Arrangement both[] = {item_first, user_first};
    const std::string after = form_text(before, {}, {}, both, both);
    CHECK(after ==
          "{\n \"user\": [2],\n \"system\": [1,{\"text\":\"\u00e9\"}],\n"
          " \"arrangements\": [\"item_first\",\"user_first\"],\n \"events_max\": 3,\n"
          " \"interchangeable\": [\"item_first\",\"user_first\"]\n}\n");
    CHECK(form_text(after, {}, {}, both, {}).find("interchangeable") == std::string::npos);
    CHECK(form_text(after, {}, {}, both, std::span(both).first(1)).find("interchangeable") ==
          std::string::npos);
  }

  TEST_CASE("form text: without a file it has the tokens of the form in use, which reads back the same") {
    const PromptForm form{{1, 5}, {2}, {3}, {4}, 32, 6, 7};
    const Arrangement first[] = {causal};
    const std::string text = form_text("", form, names(), first, first);
    CHECK(text.starts_with(
        "{\n \"system\": [\"<bos>\",5],\n \"user\": [\"<user>\"],\n \"instruction\": [3],\n"));
    const kernels::TestFolder folder;
    folder.write("prompt.json", text);
    const PromptForm read =
        read_prompt_form(folder.path(), std::nullopt, {.vocabulary = 6, .positions_max = 32}, names());
    CHECK(read.system == form.system);
    CHECK(read.user == form.user);
    CHECK(read.instruction == form.instruction);
    CHECK(read.discriminant == form.discriminant);
    CHECK(read.events_max == 7);
    CHECK(read.arrangements == std::vector{causal});
    CHECK(read.interchangeable.empty());
  }

  TEST_CASE("form file: it says whether arrangements are declared, and what is not an object is refused") {
    const kernels::TestFolder folder;
    const auto file = folder.path() / "prompt.json";
    CHECK_FALSE(read_form_file(file).exists);
    folder.write("prompt.json", "{\"system\":[1]}");
    CHECK(read_form_file(file).exists);
    CHECK_FALSE(read_form_file(file).declares);
    folder.write("prompt.json", "{\"arrangements\":[\"causal\"]}");
    CHECK(read_form_file(file).declares);
    folder.write("prompt.json", "[]");
    CHECK(kernels::load_error_of([&] { read_form_file(file); }).find("is not a JSON object") !=
          std::string::npos);
  }

  TEST_CASE("describe_arrangements: it names what the form declares") {
    PromptForm form{{1}, {2}, {}, {4}};
    CHECK(describe_arrangements(form) == "the form declares causal");
    form.arrangements = {item_first, user_first};
    form.interchangeable = {item_first, user_first};
    CHECK(describe_arrangements(form) ==
          "the form declares item_first, user_first; interchangeable are item_first, user_first");
    form.arrangements = {Arrangement::history};
    CHECK(describe_arrangements(form) == "the model has one arrangement, history");
    CHECK(describe_arrangements(PromptForm{{1}, {}, {}, {}}).find("generator") != std::string::npos);
  }
}
