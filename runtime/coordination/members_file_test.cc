#include "runtime/coordination/members_file.h"

#include <doctest/doctest.h>
#include <xxhash.h>

#include <fstream>

#include "runtime/testing/store_test_folder.h"

namespace troupe {
namespace {

TEST_CASE("kept members: a node's view persists, and is ignored in another cluster") {
  const TestFolder folder;
  const ClusterMembers members{.last = 7, .joined = {{7, "w7", "10.0.0.7", 7000}}, .left = {2}};
  const MembersFile kept(folder.path(), "blue", 1ull << 60);
  CHECK(kept.read().members == ClusterMembers{});
  CHECK(kept.read().incarnation == 0);
  CHECK(kept.write(members) == "");
  CHECK(MembersFile(folder.path(), "blue").read().members == members);
  CHECK(MembersFile(folder.path(), "blue").read().incarnation == 1ull << 60);
  CHECK(MembersFile(folder.path(), "green").read().members == ClusterMembers{});
  CHECK(MembersFile({}, "blue").write(members) == "");
  CHECK(MembersFile({}, "blue").read().members == ClusterMembers{});
}

TEST_CASE("kept members: a damaged file gives only its fault; a missing folder is reported") {
  const TestFolder folder;
  const MembersFile kept(folder.path(), "blue");
  const auto fault = [&](std::string text) {
    text += "sum " + std::to_string(XXH3_64bits(text.data(), text.size())) + "\n";
    std::ofstream(folder.path() / "members") << text;
    CHECK(kept.read().members == ClusterMembers{});
    return kept.read().fault;
  };
  CHECK(fault("last 7\n").find("does not begin with the cluster's name") != std::string::npos);
  for (const char* second :
       {"", "last 7\n", "incarnation\n", "incarnation 0\n", "incarnation 5 \n", "incarnation -5\n",
        "incarnation 99999999999999999999\n", "incarnation 9999999999999999999\n"})
    CHECK(fault("cluster blue\n" + std::string(second)).find("its second line is not an incarnation") !=
          std::string::npos);
  CHECK(fault("cluster blue\nincarnation 5\n") == "");
  CHECK(fault("cluster blue\nincarnation 5\nlast x\n").find("after the second line, line 1 ") !=
        std::string::npos);
  CHECK(fault("cluster blue\n" + std::string(3 << 20, 'x')) != "");
  CHECK(fault("cluster green\nlast 7\n") == "");
  CHECK(MembersFile(folder.path() / "none", "blue").write({}).find("open: ") != std::string::npos);
}

TEST_CASE("kept members: any changed or lost byte is detected") {
  const TestFolder folder;
  const MembersFile kept(folder.path(), "blue", 5);
  kept.write({.last = 7, .joined = {{7, "w7", "10.0.0.7", 7000}}, .left = {2}});
  std::ifstream file(folder.path() / "members");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (std::size_t i = std::string("cluster blue\n").size(); i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    for (const std::string& damaged : {changed, text.substr(0, i)}) {
      std::ofstream(folder.path() / "members") << damaged;
      CHECK(kept.read().members == ClusterMembers{});
      CHECK(kept.read().fault.find("expected the file that this node wrote") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace troupe
