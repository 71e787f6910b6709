#include "runtime/actor/block_name.h"

#include <doctest/doctest.h>

#include <future>
#include <set>

using namespace troupe;

namespace {

struct Parts {
  NameContext context{"model-1", "layout-1"};
  std::string salt = "tenant";
  std::vector<Token> tokens{1, 2, 3};
  std::int32_t start = 4;
  std::vector<BlockName> sees;

  BlockName name() const { return block_name(context, salt, tokens, start, sees); }
};

BlockName numbered(std::uint8_t n) {
  BlockName name;
  name.bytes[31] = n;
  return name;
}

}  // namespace

TEST_CASE("block name: a change of any one part changes the name") {
  std::vector<Parts> all(10);
  all[1].context.model_version = "model-2";
  all[2].context.layout_version = "layout-2";
  all[3].salt = "tenant2";
  all[4].salt = "";
  all[5].tokens = {1, 2, 4};
  all[6].tokens = {1, 2, 3, 0};
  all[7].start = 5;
  all[8].sees = {numbered(1)};
  all[9].sees = {numbered(1), numbered(2)};
  std::set<BlockName> names;
  for (const Parts& parts : all) names.insert(parts.name());
  CHECK(names.size() == all.size());
  CHECK(Parts{}.name() == Parts{}.name());
}

TEST_CASE("block name: moving bytes from one part to the next changes the name") {
  Parts one, two;
  one.context = {"ab", "c"};
  two.context = {"a", "bc"};
  CHECK(one.name() != two.name());
  one = two = Parts{};
  one.context.layout_version = "xtenant", one.salt = "";
  two.context.layout_version = "x", two.salt = "tenant";
  CHECK(one.name() != two.name());
}

TEST_CASE("block name: order and repetition of the seen blocks do not matter") {
  Parts parts, turned, doubled;
  parts.sees = {numbered(1), numbered(2), numbered(3)};
  turned.sees = {numbered(3), numbered(1), numbered(2)};
  doubled.sees = {numbered(2), numbered(3), numbered(1), numbered(2)};
  CHECK(parts.name() == turned.name());
  CHECK(parts.name() == doubled.name());
}

// Stored blocks and other hosts use these names. If this test fails, the format has changed and
// `format` in block_name.cc must change with it. The values were computed by another implementation
// (Python's hashlib).
TEST_CASE("block name: two known names pin the format") {
  Parts parts;
  parts.sees = {numbered(2), numbered(1)};
  CHECK(to_hex(parts.name()) == "96a8c8713af551cd3b89a5b2a865688e9d538b248b9df274995c9812e31dd40b");
  const BlockName empty = block_name({}, "", {}, 0, {});
  CHECK(to_hex(empty) == "9439315353c5e7ab6c9e8a02ced795d1fe80e28948cbe8bc86c4f37146009086");
}

TEST_CASE("block name: two threads can compute names at the same time") {
  const BlockName expected = Parts{}.name();
  const auto name_many = [&] {
    int right = 0;
    for (int i = 0; i < 1000; ++i) right += Parts{}.name() == expected;
    return right;
  };
  auto other = std::async(std::launch::async, name_many);
  CHECK(name_many() == 1000);
  CHECK(other.get() == 1000);
}

TEST_CASE("block name: to_hex writes 64 lower-case digits") {
  BlockName name;
  name.bytes[0] = 0xAB;
  name.bytes[31] = 0x0F;
  CHECK(to_hex(name) == "ab" + std::string(60, '0') + "0f");
}
