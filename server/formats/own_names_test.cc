#include "server/formats/own_names.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::server;

TEST_SUITE("own names") {
  TEST_CASE("own names: a refusal names candidates and history as the request does") {
    const auto named = [](const OwnNames& names, const std::string& where, const std::string& what = "") {
      const Refusal refusal = with_own_names({RefusalKind::unprocessable, "code", what, where, ""}, names);
      return refusal.what.empty() ? refusal.where : refusal.where + ": " + refusal.what;
    };
    const OwnNames documents{.candidates = "documents"};
    CHECK(named(documents, "candidates[3]") == "documents[3]");
    CHECK(named(documents, "candidates") == "documents");
    CHECK(named(documents, "history[1]") == "history[1]");
    CHECK(named(documents, "candidates_max") == "candidates_max");
    const OwnNames object = names_of_history("input[0]", true);
    CHECK(named(object, "history[1]", "item \"x\" is not there") ==
          "input[0].history[1]: item \"x\" is not there");
    CHECK(named(object, "timestamps[1]", "timestamps[1] is 4") ==
          "input[0].timestamps[1]: input[0].timestamps[1] is 4");
    CHECK(named(object, "actions") == "input[0].actions");
    CHECK(named(object, "user") == "user");
    CHECK(named(names_of_history("query", false), "history[2]") == "query[2]");
    CHECK(named(names_of_history("query", false), "timestamps") == "timestamps");
    const OwnNames inputs{.lists = {{"history", "inputs[0].data"}, {"timestamps", "inputs[2].data"}}};
    CHECK(named(inputs, "history[1]") == "inputs[0].data[1]");
    CHECK(named(inputs, "timestamps[1]", "timestamps[1] is 4") ==
          "inputs[2].data[1]: inputs[2].data[1] is 4");
    CHECK(named(inputs, "actions") == "actions");
    CHECK(named({}, "candidates[3]", "candidates[3] is no id") == "candidates[3]: candidates[3] is no id");
  }
}
