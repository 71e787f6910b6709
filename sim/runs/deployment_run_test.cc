#include "sim/runs/deployment_run.h"

#include <doctest/doctest.h>

#include "placement/cost/device_profiles.h"
#include "runtime/testing/shared_ranker.h"
#include "sim/scenario/deployment_config.h"

using namespace troupe;
using namespace troupe::sim;

namespace served_run_test {

constexpr std::uint32_t pages = 400, page_tokens = 4, catalog_items = 60;

std::shared_ptr<DeploymentConfig> small_box(const char* policy) {
  const auto served = std::make_shared<DeploymentConfig>();
  for (std::uint32_t i = 0; i < catalog_items; ++i) {
    Item item{"item " + std::to_string(i), "title", {}, static_cast<Token>(i), {}};
    for (std::uint32_t t = 0; t < 3 + i % 4; ++t) item.tokens.push_back(static_cast<Token>(100 + i * 7 + t));
    served->items.push_back(std::move(item));
  }
  router::RouterConfig& r = served->router;
  r.form.system = {1, 2}, r.form.user = {3}, r.form.instruction = {4}, r.form.discriminant = {5};
  r.form.positions_max = 1'000, r.form.vocabulary = 1'000;
  r.form = shared_ranker(r.form);
  r.names = {"a model", "a layout"};
  r.model_version = "a model";
  r.policy = router::policy(policy);
  const placement::ModelShape& shape = placement::find_shape("qwen3-0.6b");
  r.costs = served->inference.costs = placement::unit_costs(shape);
  served->inference.nominal_pace = placement::pace_of(placement::find_device("cpu"), shape);
  served->inference.model_version = "a model";
  r.pace = {.us_per_operation = 20 / r.costs.token_operations};
  r.budget = r.budget_max = {60'000'000};
  const std::vector<double> shares{0.6, remaining_pages};
  served->kv_worker.pool = pool_sizes(pages, page_tokens, split_pages(pages, shares));
  served->kv_worker.token_bytes = shape.kv_token_bytes();
  served->allocator.pages = pages;
  served->allocator.shares = shares;
  return served;
}

DeploymentOptions small_run(std::shared_ptr<const DeploymentConfig> served, std::uint64_t total) {
  DeploymentOptions options;
  Scenario& s = options.scenario;
  s.served = std::move(served);
  s.together = true;
  s.workers = s.routers = s.cache_metas = 1;
  s.items = catalog_items;
  s.pages = pages;
  s.page_tokens = page_tokens;
  s.deadline = s.served->router.budget;
  s.hardware = {placement::find_device("cpu"), placement::find_shape("qwen3-0.6b")};
  options.total = total;
  options.requests = [n = 0U, total](TracedRequest& request) mutable {
    if (n == total) return false;
    request = {};
    request.at = {n * 500'000};
    request.user = "user " + std::to_string(n % 7);
    if (n < 7) request.events = {"item " + std::to_string(n), "item 9"};
    for (std::uint32_t c = 0; c < 5; ++c)
      request.candidates.push_back("item " + std::to_string((n * 11 + c * 5) % catalog_items));
    ++n;
    return true;
  };
  return options;
}

TEST_SUITE("served run") {
  TEST_CASE("served run: requests with the data's user and item ids are answered correctly") {
    for (const char* policy : {"recompute", "user", "item", "bat", "planner"}) {
      CAPTURE(policy);
      const DeploymentResult result = run_deployment(small_run(small_box(policy), 40));
      CHECK(result.violations.empty());
      CHECK(result.requests == 40);
      CHECK(result.answered == 40);
      CHECK(result.tokens_computed + result.tokens_reused == result.tokens_total);
      CHECK((result.tokens_reused > 0) == (std::string(policy) != "recompute"));
    }
  }

  TEST_CASE("served run: profiles come from the trace: a user with more events has a longer prompt") {
    DeploymentOptions options = small_run(small_box("recompute"), 7);
    const std::uint64_t before = run_deployment(options).tokens_total;
    const TracedRequests requests = small_run(small_box("recompute"), 7).requests;
    options.requests = [requests](TracedRequest& request) {
      if (!requests(request)) return false;
      request.events.push_back("item 1");  // an item of four tokens
      return true;
    };
    CHECK(run_deployment(options).tokens_total == before + 7 * 4);
  }

  TEST_CASE("served run: host work takes time, is counted by component, and is free without a profile") {
    DeploymentOptions options = small_run(small_box("item"), 20);
    const DeploymentResult free = run_deployment(options);
    for (const double us : free.host_us) CHECK(us == 0);
    placement::HostWork& host = options.scenario.hardware->device.host;
    host[placement::HostComponent::router] = {1'000, 0, 0, 0};
    host[placement::HostComponent::cache_meta] = {0, 0, 100, 0};
    host[placement::HostComponent::executor_port] = {0, 10, 0, 0};
    host.wait_us = 300;
    options.scenario.processors = 1;
    const DeploymentResult charged = run_deployment(options);
    CHECK(charged.violations.empty());
    CHECK(charged.tokens_computed == free.tokens_computed);
    CHECK(charged.units.requests == 20);
    CHECK(charged.units.parts == 100);
    CHECK(charged.units.blocks == 20 * 6);  // the items and the system segment
    CHECK(charged.host_us[static_cast<std::size_t>(placement::HostComponent::router)] ==
          doctest::Approx(20'000));
    CHECK(charged.host_us[static_cast<std::size_t>(placement::HostComponent::executor_port)] ==
          doctest::Approx(1'000));
    CHECK(charged.host_us[static_cast<std::size_t>(placement::HostComponent::cache_meta)] ==
          doctest::Approx(100 * 20 * 5));
    CHECK(1e3 * (charged.seconds - free.seconds) / 20 == doctest::Approx(1 + 0.5 + 0.05 + 0.3).epsilon(0.01));
  }

  TEST_CASE("served run: in an open loop latencies grow with the rate, and every request is answered") {
    DeploymentOptions options = small_run(small_box("recompute"), 30);
    options.in_flight = 0;
    const DeploymentResult calm = run_deployment(options);
    const TracedRequests requests = small_run(small_box("recompute"), 30).requests;
    options.requests = [requests](TracedRequest& request) {
      if (!requests(request)) return false;
      request.at.us /= 500;
      return true;
    };
    const DeploymentResult busy = run_deployment(options);
    CHECK(calm.answered == 30);
    CHECK(busy.answered == 30);
    CHECK(busy.p99_ms > 2 * calm.p99_ms);
    CHECK(calm.seconds > 14);
  }
}

}  // namespace served_run_test
