#include "router/tenants/fair_queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <vector>

namespace troupe::router {
namespace {

constexpr double quantum = 100;

// Takes all requests; returns the tenant of each in order.
std::string order_of(FairQueue& queue) {
  std::string order;
  while (!queue.empty()) order += static_cast<char>('a' + queue.take().tenant);
  return order;
}

TEST_CASE("fair queue: one tenant's requests are taken in order") {
  FairQueue queue(quantum);
  for (FairQueue::Item item = 1; item <= 4; ++item) queue.push(0, 1, item, 70);
  for (FairQueue::Item item = 1; item <= 4; ++item) CHECK(queue.take().item == item);
  CHECK(queue.empty());
}

TEST_CASE("fair queue: two tenants share by work, not by the number of requests") {
  FairQueue queue(quantum);
  for (FairQueue::Item item = 0; item < 6; ++item) queue.push(0, 1, item, 100);
  for (FairQueue::Item item = 6; item < 18; ++item) queue.push(1, 1, item, 50);
  CHECK(order_of(queue) == "abbabbabbabbabbabb");
}

TEST_CASE("fair queue: a weight is a share") {
  FairQueue queue(quantum);
  for (FairQueue::Item item = 0; item < 12; ++item) queue.push(0, 3, item, 100), queue.push(1, 1, item, 100);
  CHECK(order_of(queue).substr(0, 16) == "aaabaaabaaabaaab");
}

TEST_CASE("fair queue: a tenant with an empty queue goes first, but only once a round") {
  FairQueue queue(quantum);
  for (FairQueue::Item item = 0; item < 10; ++item) queue.push(0, 1, item, 100);
  CHECK(queue.take().tenant == 0);
  queue.push(1, 1, 100, 60);
  CHECK(queue.take().tenant == 1);
  queue.push(1, 1, 101, 60);  // it has a credit of 40, and the other has 0
  CHECK(queue.take().tenant == 1);
  queue.push(1, 1, 102, 60);  // it owes 20, and does not go first again
  CHECK(queue.take().tenant == 0);
  CHECK(queue.take().tenant == 1);
}

TEST_CASE("fair queue: the debt of a large request is paid by waiting, whatever the quantum") {
  FairQueue queue(quantum);
  queue.push(0, 1, 1, 1'000'000);
  queue.push(0, 1, 2, 10);
  for (FairQueue::Item item = 10; item < 30; ++item) queue.push(1, 1, item, 100'000);
  CHECK(queue.take().tenant == 0);
  for (int i = 0; i < 10; ++i) CHECK(queue.take().tenant == 1);
  const std::string rest = order_of(queue);
  CHECK(rest.find('a') <= 1);
}

TEST_CASE("fair queue: a removed request is not taken, and its work no longer counts") {
  FairQueue queue(quantum);
  const auto first = queue.push(0, 1, 1, 30), second = queue.push(0, 1, 2, 40);
  queue.push(1, 1, 3, 5);
  queue.remove(second);
  CHECK(queue.work_us() == 35);
  CHECK(queue.work_us(0) == 30);
  CHECK(*queue.newest(0) == 1);
  queue.remove(first);
  CHECK_FALSE(queue.newest(0));
  CHECK(queue.take().item == 3);
  CHECK(queue.empty());
  queue.remove(queue.push(0, 1, 4, 1));
  CHECK(queue.empty());
  CHECK(queue.work_us() == 0);
}

TEST_CASE("fair queue: ahead of a tenant are its own requests and the others' share meanwhile") {
  FairQueue queue(quantum);
  CHECK(queue.ahead_us(0, 1) == 0);
  for (FairQueue::Item item = 0; item < 10; ++item) queue.push(0, 1, item, 100);
  CHECK(queue.ahead_us(0, 1) == 1'000);
  CHECK(queue.ahead_us(1, 1) == 0);
  queue.push(1, 1, 20, 200);
  CHECK(queue.ahead_us(1, 1) == 400);
  CHECK(queue.ahead_us(0, 1) == 1'200);  // the other has no more
  queue.push(1, 4, 21, 0);
  CHECK(queue.ahead_us(1, 4) == 250);
}

// Compares with a model that knows only each tenant's waiting requests and the work it was given.
TEST_CASE(
    "fair queue: at random, shares are fair within a quantum and the largest requests, without "
    "starvation") {
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto below = [&](unsigned most) { return static_cast<unsigned>(random() % most); };
  for (int round = 0; round < 60; ++round) {
    const unsigned tenants = 2 + below(6);
    const double largest = below(2) ? quantum : 20 * quantum;
    FairQueue queue(quantum);
    struct Model {
      double weight = 1, given = 0;
      std::deque<std::pair<FairQueue::Item, FairQueue::QueueEntry>> waiting;
    };
    std::vector<Model> model(tenants);
    for (Model& tenant : model) tenant.weight = (1 + below(8)) / 4.0;
    FairQueue::Item last = 0;
    const auto push = [&](unsigned t) {
      const double work = 1 + below(static_cast<unsigned>(largest));
      ++last;
      model[t].waiting.emplace_back(last, queue.push(t, model[t].weight, last, work));
    };
    // Work given to each of two tenants since both have had waiting requests.
    std::map<std::pair<unsigned, unsigned>, std::pair<double, double>> since;
    for (int step = 0; step < 3'000; ++step) {
      const unsigned t = below(tenants);
      const unsigned what = below(10);
      if (what < 4 || (t == 0 && what < 8)) {
        push(t);
      } else if (what == 9 && !model[t].waiting.empty()) {  // a request is given up
        const auto at = model[t].waiting.begin() + below(static_cast<unsigned>(model[t].waiting.size()));
        queue.remove(at->second);
        model[t].waiting.erase(at);
      } else if (!queue.empty()) {
        const FairQueue::TakenRequest taken = queue.take();
        REQUIRE(taken.item == model[taken.tenant].waiting.front().first);
        model[taken.tenant].waiting.pop_front();
        model[taken.tenant].given += taken.work_us;
      }
      std::size_t waiting = 0;
      for (const Model& tenant : model) waiting += tenant.waiting.size();
      REQUIRE(queue.size() == waiting);
      REQUIRE(queue.find_unfairness() == "");
      for (unsigned a = 0; a < tenants; ++a)
        for (unsigned b = a + 1; b < tenants; ++b) {
          const bool both = !model[a].waiting.empty() && !model[b].waiting.empty();
          const auto begun =
              both ? since.try_emplace({a, b}, model[a].given, model[b].given).first : since.end();
          if (!both) since.erase({a, b});
          if (!both) continue;
          const double of_a = (model[a].given - begun->second.first) / model[a].weight;
          const double of_b = (model[b].given - begun->second.second) / model[b].weight;
          // Bound: one quantum, another for going first, and the request that ended each turn, then and
          // now.
          const double bound = 2 * quantum + 2 * largest / std::min(model[a].weight, model[b].weight);
          REQUIRE(std::abs(of_a - of_b) <= bound);
        }
    }
  }
}

}  // namespace
}  // namespace troupe::router
