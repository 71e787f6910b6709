#include "deploy/tracing/trace_capture.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "deploy/tracing/capture_socket.h"
#include "runtime/testing/catalog_test.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

CatalogPointer catalog() {
  return std::make_shared<const ListedCatalog>(
      std::vector<Item>{{"a", "", {1, 2}, 1, {}}, {"b", "", {3}, 2, {}}, {"c", "", {4, 5, 6}, 3, {}}});
}

Profile profile_of(std::initializer_list<Tokens> events) {
  Profile profile;
  for (const Tokens& event : events) {
    profile.tokens.insert(profile.tokens.end(), event.begin(), event.end());
    profile.events.push_back(static_cast<std::uint32_t>(event.size()));
  }
  return profile;
}

// Returns the time stamp of a request that arrives now.
std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

TEST_CASE("trace capture: a user's first request has the whole profile, later ones the new events") {
  const CatalogPointer items = catalog();
  NewEventFinder watch(*items);
  const auto fill = [&](const Profile* profile) {
    TracedRequest request{.user = "ana"};
    watch.fill(profile, request);
    return std::pair(request.profile, request.events);
  };
  using Events = std::vector<std::string>;
  const Profile two = profile_of({{1, 2}, {3}}), three = profile_of({{1, 2}, {3}, {4, 5, 6}}),
                slid = profile_of({{3}, {4, 5, 6}, {1, 2}}), strange = profile_of({{1, 2}, {9, 9}});
  CHECK(fill(&two) == std::pair(std::uint64_t{2}, Events{"a", "b"}));
  CHECK(fill(&two) == std::pair(std::uint64_t{2}, Events{}));
  CHECK(fill(&three) == std::pair(std::uint64_t{3}, Events{"c"}));
  CHECK(fill(&slid) == std::pair(std::uint64_t{6}, Events{"b", "c", "a"}));  // appears rewritten
  CHECK(fill(&strange) == std::pair(std::uint64_t{7}, Events{"a"}));
  CHECK(fill(nullptr).second == Events{});
}

TEST_CASE("trace capture: a request's own history is a visitor's, with the new events while it grows") {
  const CatalogPointer items = catalog();
  NewEventFinder watch(*items);
  const auto fill = [&](const std::vector<std::string>& history) {
    TracedRequest request{.user = "visitor 1"};
    watch.fill(history, request);
    return request.events;
  };
  using Events = std::vector<std::string>;
  CHECK(fill({"a", "none", "b"}) == Events{"a", "b"});
  CHECK(fill({"a", "b", "c"}) == Events{"c"});

  TraceCapture capture;
  std::vector<TracedRequest> traced;
  std::atomic<bool> done = false;
  std::thread recording([&] {
    capture.record(
        {3, 60'000'000}, *items, [&](auto&, auto&) { return nullptr; },
        [&](const TracedRequest& request) { return traced.push_back(request), true; }, [] { return false; });
    done = true;
  });
  for (RequestId id = 1; !done; ++id) {
    capture.on_request(RankRequest{.id = id, .candidates = {"a"}, .history = {"b"}, .own_history = true},
                       now());
    capture.on_reply(RankReply{.id = id});
    std::this_thread::yield();
  }
  recording.join();
  REQUIRE(traced.size() == 3);
  CHECK(traced[0].user.starts_with("visitor-"));
  CHECK(traced[0].user.find('\0') == std::string::npos);
  CHECK(traced[0].events == Events{"b"});
  CHECK(traced[1].user == traced[0].user);
  CHECK(traced[1].events == Events{});
}

TEST_CASE("trace capture: requests are in order of arrival, without client errors, and bounded") {
  const CatalogPointer items = catalog();
  TraceCapture capture;
  capture.on_request(RankRequest{.id = 1, .user = "early", .candidates = {"a"}}, 0);  // no capture runs yet
  std::vector<TracedRequest> traced;
  std::atomic<bool> done = false;
  const Profile profile = profile_of({{3}});
  std::thread recording([&] {
    capture.record(
        {4, 60'000'000}, *items,
        [&](auto&, auto& user) { return user == "ana" ? std::make_shared<Profile>(profile) : nullptr; },
        [&](const TracedRequest& request) { return traced.push_back(request), true; }, [] { return false; });
    done = true;
  });
  for (RequestId id = 2; !done; id += 4) {
    capture.on_request(RankRequest{.id = id, .tenant = "t", .user = "ana", .candidates = {"a", "b"}}, now());
    capture.on_request(RankRequest{.id = id + 1, .user = "nobody", .candidates = {"a"}}, now());
    capture.on_request(GenerateRequest{.id = id + 2, .user = "bo", .top_k = 5}, now());
    capture.on_reply(RankReply{.id = id + 2});
    capture.on_reply(Refused{id + 1, {RefusalKind::not_found, "unknown_user", "", "", ""}});
    capture.on_reply(Refused{id, {RefusalKind::unavailable, "overloaded", "", "", ""}});
    std::this_thread::yield();
  }
  recording.join();
  REQUIRE(traced.size() == 4);
  if (traced[0].generates) traced.erase(traced.begin());  // its request began between two captures
  CHECK(traced[0].user == "ana");
  CHECK(traced[0].tenant == "t");
  CHECK(traced[0].events == std::vector<std::string>{"b"});
  CHECK(traced[1].generates);
  CHECK(traced[1].top_k == 5);
  CHECK(traced[1].at >= traced[0].at);
  CHECK(traced[2].events.empty());
}

TEST_CASE("trace capture: a command gets the requests of the serving process, or the reason why not") {
  const TestFolder folder;
  const auto ask = [&](const std::string& model, std::uint64_t requests) {
    std::vector<TracedRequest> traced;
    capture_trace(folder.path(), model, {requests, 60'000'000},
                  [&](const TracedRequest& request) { traced.push_back(request); });
    return traced;
  };
  CHECK_THROWS_WITH(ask("", 1), doctest::Contains("no process serves it"));
  TraceCapture capture;
  const CaptureSocket socket(
      folder.path(), {{"games", &capture, [] { return catalog(); }, [](auto&, auto&) { return nullptr; }}});
  CHECK_THROWS_WITH(ask("news", 1), doctest::Contains("there is no model \"news\"; expected games"));
  CHECK_THROWS_WITH(ask("games", 0), doctest::Contains("expected capture MODEL REQUESTS SECONDS"));
  std::atomic<bool> done = false;
  std::thread serving([&] {
    for (RequestId id = 1; !done; ++id) {
      capture.on_request(RankRequest{.id = id, .user = "a\"b", .candidates = {"a"}}, now());
      capture.on_reply(RankReply{.id = id});
      std::this_thread::yield();
    }
  });
  const auto traced = ask("games", 20);
  done = true;
  serving.join();
  CHECK(traced.size() == 20);
  CHECK(traced[0].user == "a\"b");
}
