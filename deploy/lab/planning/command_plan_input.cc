// Turns the options of `troupe-lab plan` into a workload on a cluster.
#include <charconv>
#include <numeric>
#include <stdexcept>

#include "deploy/data/device_option.h"
#include "deploy/data/text_file.h"
#include "deploy/lab/planning/command_plan.h"
#include "deploy/lab/planning/plan_input.h"
#include "deploy/lab/planning/plan_model.h"
#include "deploy/reports/table.h"
#include "placement/assignment/shards.h"
#include "placement/cost/device_profiles.h"

namespace troupe::deploy {

namespace {

using placement::AccessDistribution;
using placement::NodeNumber;

constexpr std::size_t drawn_accesses = 1'000'000;  // size of each sample without histories
constexpr double user_tokens_default = 1'500;      // BAT Table 1: Industry
constexpr std::uint32_t item_tokens_default = 10;
constexpr std::uint32_t candidates_default = 100;

// Parses "4" (nodes 1 to 4) or a list such as "1,2,5".
std::vector<NodeNumber> parse_nodes(const std::string& text) {
  const auto fail = [&] {
    throw std::invalid_argument("--nodes is \"" + text.substr(0, 60) + "\"; expected 1.." +
                                std::to_string(placement::nodes_max) +
                                ", or node numbers separated by commas");
  };
  std::vector<NodeNumber> nodes;
  for (const std::string_view part : split(text, ',')) {
    NodeNumber number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size() || number == 0) fail();
    nodes.push_back(number);
  }
  if (nodes.size() == 1) {
    if (nodes.front() > placement::nodes_max) fail();
    nodes.resize(nodes.front());
    std::iota(nodes.begin(), nodes.end(), 1);
  }
  return placement::validated_nodes(std::move(nodes));
}

// `bytes_of` returns the size of a block of so many tokens.
template <class BytesOf>
placement::Items make_items(const PlanOptions& options, const PlanCatalog& catalog, const BytesOf& bytes_of) {
  std::vector<std::uint32_t> bytes;
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < catalog.ids.size(); ++i) {
    const double size = bytes_of(options.item_tokens.value_or(catalog.tokens[i]));
    if (size > 4e9)
      throw std::invalid_argument("item " + catalog.ids[i].substr(0, 60) +
                                  " takes over 4 GB; expected at most 4 GB");
    bytes.push_back(static_cast<std::uint32_t>(size));
    keys.push_back(placement::item_key(catalog.ids[i]));
  }
  return {std::move(bytes), std::move(keys)};
}

struct AccessSource {
  AccessDistribution accesses;
  std::string text;
};

AccessSource find_accesses(const PlanOptions& options, const PlanCatalog& catalog,
                           const SplitRequests& parts) {
  const std::size_t items = catalog.ids.size();
  if (options.zipf)
    return {AccessDistribution::zipf(items, *options.zipf),
            "Zipf " + fixed(*options.zipf, 2) + ", hottest first"};
  if (!options.popularity.empty())
    return {AccessDistribution::from_counts(read_popularity(options.popularity, catalog)),
            options.popularity};
  if (parts.plan.size() == 0)
    throw std::invalid_argument(
        (options.data.empty() ? std::string("node.data_dir") : options.data) +
        ": there are no histories to count; expected --trace, --popularity or --zipf");
  return {AccessDistribution::from_counts(count_uses(parts.plan, items)),
          std::to_string(parts.plan.size()) +
              (options.trace.empty() ? " runs of histories (" : " requests of " + options.trace + " (") +
              std::to_string(parts.predict.size() + parts.simulate.size()) + " more are held out)"};
}

Planning plan_dataset(const PlanOptions& options, PlanSetup setup) {
  std::optional<PlanModel> model;
  if (options.served) model = read_plan_model(*options.served, options.data);
  if (model) setup.shape = model->shape;
  PlanCatalog catalog = model ? std::move(model->catalog) : read_plan_catalog(options.data);
  PlanHistories histories;
  if (!options.data.empty()) histories = read_plan_histories(options.data, catalog, setup.candidates);
  if (!options.trace.empty()) {
    histories.requests = read_plan_trace(options.trace, catalog);
    const std::size_t requests = histories.requests.size();
    if (!options.candidates)
      setup.candidates =
          static_cast<std::uint32_t>((histories.requests.items.size() + requests / 2) / requests);
  }
  SplitRequests parts = split_requests(histories.requests, options.held_out);
  AccessSource source = find_accesses(options, catalog, parts);
  setup.item_tokens = options.item_tokens ? *options.item_tokens : catalog.mean_tokens();
  const bool measured_users = histories.mean_events > 0 && !options.user_tokens;
  const double framed = model ? double(model->event_tokens) - model->mark_tokens : 0;
  if (measured_users) setup.user_tokens = histories.mean_events * (setup.item_tokens + framed);
  PlanWorkload workload{make_items(options, catalog,
                                   [&](std::uint32_t tokens) {
                                     return model ? static_cast<double>(model->block_bytes(tokens))
                                                  : tokens * setup.shape.kv_token_bytes();
                                   }),
                        std::move(source.accesses)};
  if (!options.zipf) {  // with --zipf, the histories do not match the popularity
    if (options.popularity.empty() && parts.predict.size() > 0)
      workload.held_out = AccessDistribution::from_counts(count_uses(parts.predict, catalog.ids.size()));
    workload.histories = std::move(parts.plan);
    workload.predict = std::move(parts.predict);
    workload.simulate = std::move(parts.simulate);
  }
  Planning plan{.setup = std::move(setup),
                .workload = std::move(workload),
                .ids = std::move(catalog.ids),
                .source = std::move(source.text)};
  if (!options.candidates && !options.trace.empty()) plan.candidates_source = "mean of the trace";
  if (measured_users) plan.user_tokens_source = "mean of the histories";
  if (model) {
    plan.model = model->directory;
    plan.policy = model->policy;
    plan.repaired = model->movable;
    plan.pool = PlanPool{model->page_bytes, model->pool_pages, model->item_pages};
  }
  return plan;
}

Planning plan_generated(const PlanOptions& options, PlanSetup setup) {
  if (options.items == 0 || !options.zipf)
    throw std::invalid_argument("plan has no catalog; expected --data FOLDER, or --items N with --zipf S");
  setup.item_tokens = options.item_tokens.value_or(item_tokens_default);
  const double bytes = setup.item_tokens * setup.shape.kv_token_bytes();
  if (bytes > 4e9)
    throw std::invalid_argument("--item-tokens: an item takes over 4 GB; expected at most 4 GB");
  return {std::move(setup),
          {placement::Items(options.items, static_cast<std::uint64_t>(bytes)),
           AccessDistribution::zipf(options.items, *options.zipf)},
          {},
          "Zipf " + fixed(*options.zipf, 2)};
}

}  // namespace

Planning make_planning(const PlanOptions& options) {
  PlanSetup setup{.device = device_of(options.device),
                  .shape = placement::find_shape(options.shape),
                  .link = placement::find_link(options.link),
                  .nodes = parse_nodes(options.nodes),
                  .memory_bytes = options.memory_bytes,
                  .candidates = options.candidates.value_or(candidates_default),
                  .user_tokens = options.user_tokens.value_or(user_tokens_default),
                  .alpha = options.alpha};
  if (!options.trace.empty() && options.data.empty() && !options.served)
    throw std::invalid_argument("--trace needs a catalog; expected --data or --model as well");
  Planning plan = options.data.empty() && !options.served ? plan_generated(options, std::move(setup))
                                                          : plan_dataset(options, std::move(setup));
  if (options.candidates) plan.candidates_source = "--candidates";
  if (options.user_tokens) plan.user_tokens_source = "--user-tokens";
  PlanWorkload& workload = plan.workload;
  const std::uint32_t candidates = plan.setup.candidates;
  const std::size_t drawn = drawn_accesses / candidates + 1;
  if (workload.predict.size() == 0) workload.predict = draw_requests(workload.accesses, drawn, candidates, 1);
  if (workload.simulate.size() == 0)
    workload.simulate = draw_requests(workload.accesses, drawn, candidates, 2);
  return plan;
}

}  // namespace troupe::deploy
