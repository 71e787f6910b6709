#include "router/request/model_names.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace model_names_test {

TEST_CASE("model names: each model has its own names, and the most recent models are kept") {
  const PromptForm form{{1, 2}, {3}, {4}, {5}, 64, 1'000};
  const NameContext own{"m1", "layout"};
  ModelNames names(form, own);
  const BlockNames& first = names.of("m1");
  const BlockName item = first.item(std::vector<Token>{7});
  CHECK(names.of("m2").item(std::vector<Token>{7}) != item);
  CHECK(&names.of("m1") == &first);
  names.of("m3");
  names.of("m4");
  CHECK(names.of("m1").item(std::vector<Token>{7}) == item);
}

TEST_CASE("model names: the catalog's block names belong to its own model") {
  const PromptForm form{{1, 2}, {3}, {4}, {5}, 64, 1'000};
  const NameContext own{"m1", "layout"};
  ModelNames names(form, own);
  Item item{"a", "the a", {7}, 1, {}};
  item.block.bytes[0] = 9;
  const ItemView view(item);
  CHECK(names.of("m1").item(view) == item.block);
  CHECK(names.of("m2").item(view) != item.block);
}

}  // namespace model_names_test
}  // namespace troupe::router
