#include "deploy/node/control_socket.h"

#include <doctest/doctest.h>

#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

TEST_CASE("control socket: a command gets a copy of the store, which is removed when it hangs up") {
  TestFolder folder;
  Store store(folder.path());
  const Change change{Column::users, "k", "v"};
  REQUIRE_FALSE(store.write({&change, 1}, Durability::synced));
  ControlSocket socket(folder.path(), store);
  CHECK((std::filesystem::status(folder.path() / "control").permissions() &
         std::filesystem::perms::others_all) == std::filesystem::perms::none);
  for (int i = 0; i < 2; ++i) {
    const StoreCopy copy(folder.path());
    REQUIRE(copy.is_there());
    CHECK(std::filesystem::exists(copy.folder() / "CURRENT"));
  }
}

TEST_CASE("control socket: without a serving process there is no copy, even with a stale socket") {
  TestFolder folder;
  CHECK_FALSE(StoreCopy(folder.path()).is_there());
  {
    Store store(folder.path());
    ControlSocket socket(folder.path(), store);
  }
  CHECK_FALSE(StoreCopy(folder.path()).is_there());
  CHECK_FALSE(std::filesystem::exists(folder.path() / "control"));
}
