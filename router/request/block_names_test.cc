#include "router/request/block_names.h"

#include <doctest/doctest.h>

#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace {

const PromptForm form{{1, 10, 11}, {4}, {7}, {5}, 512, 1'000};
const BlockNames names(form, {"model 1", "layout 1"});

TEST_CASE("block names: names of users are salted by tenant, names of items are not") {
  const Tokens tokens{4, 20, 21};
  CHECK(names.user("a", tokens) != names.user("b", tokens));
  CHECK(names.user("", tokens) != names.item(tokens));
  CHECK(owner_of_user("a", "b:c") != owner_of_user("a:b", "c"));
  CHECK(owner_of_user("1", "2") != owner_of_user("", "12"));
}

TEST_CASE("block names: a name changes with the system prompt that the block sees and with the model") {
  PromptForm other = form;
  other.system = {1, 10, 99};
  const Tokens tokens{100, 101};
  CHECK(names.item(tokens) != BlockNames(other, {"model 1", "layout 1"}).item(tokens));
  CHECK(names.item(tokens) != BlockNames(form, {"model 2", "layout 1"}).item(tokens));
  CHECK(names.item_alone(tokens) == BlockNames(other, {"model 1", "layout 1"}).item_alone(tokens));
  CHECK(names.item_alone(tokens) != names.item(tokens));
}

TEST_CASE("block names: without a system prompt there is no system name, and blocks see nothing") {
  PromptForm bare = form;
  bare.system = {};
  const BlockNames none(bare, {"model 1", "layout 1"});
  CHECK_FALSE(none.system().has_value());
  CHECK(none.item(Tokens{100}) == none.item_alone(Tokens{100}));
}

}  // namespace
}  // namespace troupe::router
