// Measures how much smaller number formats of weights and keys and values cost a generator of
// semantic ids in quality. Scores the same test events in each format and compares them event by
// event.
#include "deploy/lab/bench/bench_accuracy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "deploy/data/dataset.h"
#include "deploy/node/prompt_file.h"
#include "deploy/reports/table.h"
#include "kernels/base/check.h"
#include "kernels/decoder/decoder.h"
#include "kernels/search/beam_search.h"

namespace troupe::deploy {

namespace {

using Catalog = std::map<std::string, Path>;

Catalog read_catalog(const std::filesystem::path& data, const kernels::Vocabulary& vocabulary,
                     const kernels::PlanLimits& limits) {
  Catalog catalog;
  std::size_t levels = 0;
  for (PutItem& item : read_items(data, vocabulary)) {
    if (levels == 0) levels = item.tokens.size();
    if (item.tokens.empty() || item.tokens.size() != levels)
      throw ImportError("item " + item.item + " has " + std::to_string(item.tokens.size()) +
                        " tokens; expected as many as every other item, at least 1");
    for (const kernels::Token token : item.tokens)
      if (token < 0 || token >= limits.vocabulary)
        throw ImportError("item " + item.item + " has token " + std::to_string(token) +
                          "; expected 0 to below " + std::to_string(limits.vocabulary) +
                          ", the model's vocabulary");
    catalog[item.item] = std::move(item.tokens);
  }
  if (catalog.empty()) throw ImportError(data.string() + ": no items; expected at least one");
  return catalog;
}

std::shared_ptr<const kernels::PathIndex> make_index(const Catalog& catalog) {
  std::vector<std::span<const kernels::Token>> paths;
  for (const auto& [item, tokens] : catalog) paths.emplace_back(tokens);
  return std::make_shared<const kernels::PathIndex>(paths);
}

const Path& tokens_of(const Catalog& catalog, const PutUser& user, const std::string& item) {
  const auto found = catalog.find(item);
  if (found == catalog.end())
    throw ImportError("user " + user.user + " has item " + item + "; expected an item of the catalog");
  return found->second;
}

Path make_prompt(const Catalog& catalog, const PutUser& user, std::size_t before, std::size_t history_items,
                 kernels::Token first) {
  Path prompt{first};
  for (std::size_t i = before - std::min(before, history_items); i < before; ++i) {
    const Path& tokens = tokens_of(catalog, user, user.history[i]);
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
  }
  return prompt;
}

void check_fits(const AccuracyEvent& event, const PutUser& user, const kernels::PlanLimits& limits) {
  std::vector<Token> tokens = event.prompt;
  tokens.insert(tokens.end(), event.truth.begin(), event.truth.end());
  const kernels::Plan plan{{{kernels::SegmentKind::user, std::move(tokens), 0, {}}}, {}};
  const std::string fault = validate(plan, limits);
  if (!fault.empty()) throw ImportError("user " + user.user + ": " + fault);
}

}  // namespace

AccuracyData read_accuracy_data(const std::filesystem::path& model, const std::filesystem::path& data,
                                std::size_t history_items) {
  const kernels::PlanLimits limits = plan_limits(kernels::read_decoder_config(model));
  const kernels::Vocabulary vocabulary = read_vocabulary_if_any(model, limits);
  const auto first = vocabulary.find("<bos>");
  if (!first) throw ImportError(model.string() + ": no token <bos>; expected a vocab.json that names it");
  const Catalog catalog = read_catalog(data, vocabulary, limits);
  AccuracyData read{make_index(catalog), {}};
  const std::vector<PutUser> users = read_users(data, HistoryPart::all);
  const std::vector<PutUser> before_test = read_users(data, HistoryPart::before_test);
  for (std::size_t u = 0; u < users.size(); ++u)
    for (std::size_t i = before_test[u].history.size(); i < users[u].history.size(); ++i) {
      read.events.push_back({make_prompt(catalog, users[u], i, history_items, *first),
                             tokens_of(catalog, users[u], users[u].history[i])});
      check_fits(read.events.back(), users[u], limits);
    }
  if (read.events.empty())
    throw ImportError(data.string() + ": no test events; expected sequences.tsv with n_test above 0");
  return read;
}

std::string NumberFormats::name() const {
  return std::string(format_name(weights)) + "/" + std::string(format_name(kv));
}

NumberFormats parse_formats(const std::string& name) {
  const std::size_t slash = std::min(name.find('/'), name.size());
  const auto weights = kernels::find_weight_format(std::string_view(name).substr(0, slash));
  const auto kv = kernels::find_kv_format(std::string_view(name).substr(std::min(slash + 1, name.size())));
  if (!weights || !kv)
    throw std::invalid_argument("--formats has \"" + name.substr(0, 40) +
                                "\"; expected weights/keys and values: f32, int8 or bf16 / f32, f16 or bf16");
  return {*weights, *kv};
}

namespace {

// Builds the plan of one event: the prompt with a beam search, and a second segment with the true item's
// tokens except the last. Logits are read at the prompt's end and at each of those tokens, so that every
// token of the true item gets a probability.
kernels::Plan event_plan(const AccuracyEvent& event, std::size_t width) {
  using What = kernels::Readout::What;
  kernels::Plan plan;
  const auto end = static_cast<std::uint32_t>(event.prompt.size());
  plan.segments.push_back({kernels::SegmentKind::user, event.prompt, 0, {}});
  plan.readouts.push_back({0, end - 1, {}, What::all_rows});
  if (event.truth.size() > 1) {
    plan.segments.push_back({kernels::SegmentKind::beam,
                             Path(event.truth.begin(), event.truth.end() - 1),
                             static_cast<std::int32_t>(end),
                             {0}});
    for (std::uint32_t t = 0; t + 1 < event.truth.size(); ++t)
      plan.readouts.push_back({1, t, {}, What::all_rows});
  }
  plan.search.width = plan.search.results = static_cast<std::uint32_t>(width);
  return plan;
}

double log_probability(std::span<const float> logits, kernels::Token token) {
  const double log = logits[static_cast<std::size_t>(token)] - kernels::log_sum_exp(logits);
  if (!std::isfinite(log))
    throw std::runtime_error(
        "a logit is not finite; expected a model whose keys and values fit their format");
  return log;
}

}  // namespace

std::vector<EventScore> score_events(const kernels::DecoderModel& model, const NumberFormats& formats,
                                     const AccuracyData& data, std::size_t width) {
  kernels::DecoderOptions options;
  options.kv = formats.kv;
  options.weights = formats.weights;
  const std::unique_ptr<kernels::Executor> decoder = kernels::make_cpu_decoder(model, options);
  Progress progress(formats.name(), data.events.size());
  std::vector<EventScore> scores;
  std::vector<kernels::Reply> replies;
  const auto assets = std::make_shared<kernels::PathAssets>(data.index);
  for (const AccuracyEvent& event : data.events) {
    EventScore& score = scores.emplace_back();
    const kernels::Plan plan = event_plan(event, width);
    const kernels::Request request{
        .plan = &plan, .kv = std::vector<kernels::SegmentKv>(plan.segments.size()), .assets = assets};
    decoder->run({&request, 1}, replies);
    for (std::size_t t = 0; t < event.truth.size(); ++t)
      score.surprise -=
          log_probability(replies[0].readouts[t], event.truth[t]) / static_cast<double>(event.truth.size());
    const auto found = std::ranges::find(replies[0].beams, event.truth, &kernels::Beam::path);
    if (found != replies[0].beams.end())
      score.rank = static_cast<std::size_t>(found - replies[0].beams.begin()) + 1;
    progress.at(scores.size());
  }
  return scores;
}

namespace {

template <class Value>
Mean mean_over(const std::vector<EventScore>& scores, Value value) {
  std::vector<double> samples;
  for (const EventScore& score : scores) samples.push_back(value(score));
  return mean_of(samples);
}

double surprise(const EventScore& score) { return score.surprise; }
double recall_at_5(const EventScore& score) { return recall(score, 5); }
double recall_at_10(const EventScore& score) { return recall(score, 10); }
double ndcg_at_10(const EventScore& score) { return ndcg(score, 10); }

}  // namespace

Accuracy summarize(const std::vector<EventScore>& scores) {
  return {mean_over(scores, surprise), mean_over(scores, recall_at_5), mean_over(scores, recall_at_10),
          mean_over(scores, ndcg_at_10)};
}

AccuracyChange compare(const std::vector<EventScore>& base, const std::vector<EventScore>& other) {
  TROUPE_CHECK(base.size() == other.size(), "scores of different events");
  const auto paired = [&](double (*value)(const EventScore&), bool absolute = false) {
    std::vector<double> samples;
    for (std::size_t i = 0; i < base.size(); ++i) {
      const double change = value(other[i]) - value(base[i]);
      samples.push_back(absolute ? std::abs(change) : change);
    }
    return mean_of(samples);
  };
  AccuracyChange change{paired(surprise), paired(recall_at_5), paired(recall_at_10), paired(ndcg_at_10),
                        paired(surprise, true)};
  for (std::size_t i = 0; i < base.size(); ++i) {
    change.gained += recall(other[i], 10) > recall(base[i], 10);
    change.lost += recall(other[i], 10) < recall(base[i], 10);
  }
  return change;
}

}  // namespace troupe::deploy
