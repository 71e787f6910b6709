#include "router/fleet/store_episode.h"

#include <doctest/doctest.h>

#include <vector>

namespace troupe::router {
namespace store_episode_test {

Refusal away(const std::string& why, const char* code = "features_unavailable") {
  return {RefusalKind::unavailable, code, "the shared feature store is away: " + why};
}

TEST_CASE("store episode: the reason is the store's own word") {
  for (const char* code : {"READONLY", "NOAUTH", "OOM", "WRONGPASS", "LOADING", "MISCONF", "NOREPLICAS"}) {
    CHECK(store_reason(away(std::string("it answers with ") + code)) == code);
    CHECK(store_reason(away(std::string("it answers AUTH with ") + code)) == code);
  }
  CHECK(store_reason(away("it is a replica")) == "replica");
  CHECK(store_reason(away("Connection refused")) == "away");
  CHECK(store_reason(away("it answers with an error")) == "away");
  const char* etcd = "coordination_unavailable";
  CHECK(store_reason(away("HTTP status 503: etcdserver: mvcc: database space exceeded", etcd)) == "no_space");
  CHECK(store_reason(away("HTTP status 503: etcdserver: no leader", etcd)) == "no_leader");
  CHECK(store_reason(away("HTTP status 401: etcdserver: invalid auth token", etcd)) == "login");
  CHECK(store_reason(away("no answer in time", etcd)) == "away");
  CHECK(store_reason({RefusalKind::unavailable, "storage_failed", "disk full"}) == "storage_failed");
}

TEST_CASE("store episode: each episode is logged once, and its metric is 1 while it lasts") {
  StoreEpisode episode("writes", true);
  std::uint64_t next_id = 1;
  Effects effects;
  const Step step{{0}, next_id, effects};
  const Refusal oom = away("it answers with OOM"), gone = away("gone"),
                conflict{RefusalKind::conflict, "precondition_failed", "another version"};
  for (int i = 0; i < 3; ++i) episode.note(step, &oom);
  const Step later{{11'000'000}, next_id, effects};
  for (int i = 0; i < 3; ++i) episode.note(later, &gone);
  episode.note(step, &conflict);  // the store has answered
  episode.note(step, nullptr);
  std::vector<std::string> logs, counts;
  for (const auto& effect : effects.list) {
    if (const auto* log = std::get_if<Effects::Log>(&effect)) logs.push_back(log->event);
    if (const auto* count = std::get_if<Effects::Count>(&effect))
      counts.push_back(count->label_value + (count->amount > 0 ? " 1" : " 0"));
  }
  CHECK(logs == std::vector<std::string>{"writes_fail", "writes_fail", "writes_succeed"});
  CHECK(counts ==
        std::vector<std::string>{"writes\tOOM 1", "writes\tOOM 0", "writes\taway 1", "writes\taway 0"});
}

}  // namespace store_episode_test
}  // namespace troupe::router
