#include "deploy/bench/bench_plans.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "deploy/box/prompt_file.h"
#include "kernels/base/check.h"

namespace troupe::deploy {

namespace {

constexpr std::array<const char*, 4> kind_names{"user", "item", "causal", "blocks"};

using kernels::Plan;
using kernels::SegmentKind;

std::int32_t length(const std::vector<Token>& tokens) { return static_cast<std::int32_t>(tokens.size()); }

std::vector<std::uint32_t> all_of(const Plan& plan) {
  std::vector<std::uint32_t> all(plan.segments.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Empty segments are left out: nothing can see them. Returns the segment's index.
std::uint32_t add(Plan& plan, SegmentKind kind, std::vector<Token> tokens, std::int32_t start,
                  std::vector<std::uint32_t> sees) {
  if (!tokens.empty()) plan.segments.push_back({kind, std::move(tokens), start, std::move(sees)});
  return static_cast<std::uint32_t>(plan.segments.size() - 1);
}

// One item, of which the first `repaired` tokens see all before them and the others are taken from a block
// that was computed alone, where it saw `context`.
void add_repaired(VariantPlan& to, const std::vector<Token>& item, std::int32_t start, std::size_t repaired,
                  const std::vector<std::uint32_t>& context) {
  const auto cut = item.begin() + static_cast<std::ptrdiff_t>(repaired);
  const auto rest_start = start + static_cast<std::int32_t>(repaired);
  const std::vector<Token> head(item.begin(), cut), rest(cut, item.end());
  std::vector<std::uint32_t> ahead_sees = context;
  ahead_sees.push_back(add(to.ahead, SegmentKind::item, head, start, context));
  const std::uint32_t ahead = add(to.ahead, SegmentKind::item, rest, rest_start, std::move(ahead_sees));
  add(to.plan, SegmentKind::item, head, start, all_of(to.plan));
  if (rest.empty()) return;
  to.reused.emplace_back(ahead, add(to.plan, SegmentKind::item, rest, rest_start, {}));
}

void add_items(VariantPlan& to, const RankPrompt& prompt, const PlanVariant& variant, std::int32_t start) {
  const bool running = variant.kind == PlanKind::causal || variant.kind == PlanKind::blocks;
  const std::vector<std::uint32_t> before = all_of(to.plan);
  const std::vector<std::uint32_t> context =
      variant.kind == PlanKind::blocks ? std::vector<std::uint32_t>{} : before;
  for (const std::vector<Token>& item : prompt.items) {
    const auto repaired =
        static_cast<std::size_t>(std::llround(variant.repair * static_cast<double>(item.size())));
    if (repaired > 0)
      add_repaired(to, item, start, repaired, context);
    else
      add(to.plan, SegmentKind::item, item, start,
          variant.kind == PlanKind::causal ? all_of(to.plan) : context);
    if (running) start += length(item);
  }
}

class Pages {
 public:
  Pages(const kernels::PageLayout& layout, std::size_t tokens) {
    const std::size_t count = layout.pages_for(tokens);
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(64, count * layout.page_bytes())));
    TROUPE_CHECK(bytes_, "out of memory");
    for (std::size_t i = 0; i < count; ++i) addresses.push_back(bytes_.get() + i * layout.page_bytes());
  }
  std::vector<std::byte*> addresses;

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

RankPrompt make_prompt(const router::PromptForm& form, const std::map<std::string, PutItem>& catalog,
                       const EvaluationRow& row) {
  const auto find = [&](const std::string& item) -> const PutItem& {
    const auto at = catalog.find(item);
    if (at == catalog.end())
      throw ImportError("user " + row.user + " has item " + item + "; expected an item of the catalog");
    return at->second;
  };
  RankPrompt prompt{form.system, form.user, form.instruction, form.discriminant, {}, {}};
  for (const std::string& item : row.history)
    prompt.user.insert(prompt.user.end(), find(item).tokens.begin(), find(item).tokens.end());
  for (const std::string& item : row.candidates) {
    prompt.items.push_back(find(item).tokens);
    prompt.rows.push_back(find(item).identifier);
  }
  return prompt;
}

}  // namespace

std::string PlanVariant::name() const {
  const std::string kind_name = kind_names[static_cast<std::size_t>(kind)];
  if (repair <= 0) return kind_name;
  return kind_name + " +" + std::to_string(std::lround(100 * repair)) + " %";
}

PlanKind parse_plan_kind(const std::string& name) {
  const auto found = std::ranges::find(kind_names, name);
  if (found == kind_names.end())
    throw std::invalid_argument("--plans has \"" + name.substr(0, 40) +
                                "\"; expected user, item, causal or blocks");
  return static_cast<PlanKind>(found - kind_names.begin());
}

VariantPlan variant_plan(const RankPrompt& prompt, const PlanVariant& variant) {
  const bool items_first = variant.kind == PlanKind::item;
  TROUPE_CHECK(variant.repair <= 0 || items_first || variant.kind == PlanKind::blocks,
               "only blocks that are computed alone are repaired");
  const std::int32_t system = length(prompt.system), user = length(prompt.user);
  std::int32_t longest = 0, sum = 0;
  for (const std::vector<Token>& item : prompt.items) {
    longest = std::max(longest, length(item));
    sum += length(item);
  }
  const bool apart = items_first || variant.kind == PlanKind::user;
  const std::int32_t end = system + user + (apart ? longest : sum);

  VariantPlan made;
  add(made.plan, SegmentKind::system, prompt.system, 0, {});
  made.ahead = made.plan;
  if (!items_first) add(made.plan, SegmentKind::user, prompt.user, system, all_of(made.plan));
  add_items(made, prompt, variant, items_first ? system : system + user);
  if (items_first) add(made.plan, SegmentKind::user, prompt.user, end - user, all_of(made.plan));
  add(made.plan, SegmentKind::instruction, prompt.instruction, end, all_of(made.plan));
  const std::uint32_t last = add(made.plan, SegmentKind::discriminant, prompt.discriminant,
                                 end + length(prompt.instruction), all_of(made.plan));
  made.plan.readouts.push_back(
      {last, static_cast<std::uint32_t>(prompt.discriminant.size() - 1), prompt.rows});
  if (made.reused.empty()) made.ahead = {};
  return made;
}

std::vector<float> run_variant(kernels::Executor& decoder, const VariantPlan& variant) {
  std::vector<kernels::SegmentKv> ahead(variant.ahead.segments.size()), now(variant.plan.segments.size());
  std::vector<Pages> pages;
  for (const auto& [from, to] : variant.reused) {
    pages.emplace_back(decoder.layout(), variant.ahead.segments[from].tokens.size());
    ahead[from].pages = now[to].pages = pages.back().addresses;
    now[to].source = kernels::Source::cached;
  }
  const auto run = [&](const Plan& plan, std::vector<kernels::SegmentKv> kv) {
    const kernels::Request request{&plan, std::move(kv)};
    return decoder.run({&request, 1}).at(0);
  };
  if (!variant.reused.empty()) run(variant.ahead, std::move(ahead));
  return run(variant.plan, std::move(now)).readouts.at(0);
}

EventScore judge_ranking(const std::vector<float>& logits, std::size_t truth) {
  TROUPE_CHECK(truth < logits.size(), "the true item is one of the candidates");
  const float own = logits[truth];
  double sum = 0;
  std::size_t place = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - own);
    place += !(logit < own);
  }
  return {std::log(sum), place};
}

std::vector<RankEvent> read_rank_events(const std::filesystem::path& model, const std::filesystem::path& data,
                                        const std::filesystem::path& evaluation) {
  const kernels::PlanLimits limits = plan_limits(kernels::read_decoder_config(model));
  const kernels::Vocabulary vocabulary = read_vocabulary_if_any(model, limits);
  const router::PromptForm form = read_prompt_form(model, std::nullopt, limits, vocabulary);
  std::map<std::string, PutItem> catalog;
  for (PutItem& item : read_items(data, vocabulary)) catalog[item.item] = std::move(item);
  std::vector<RankEvent> events;
  for (const EvaluationRow& row : read_evaluation(evaluation.empty() ? model / "eval.tsv.gz" : evaluation)) {
    events.push_back({make_prompt(form, catalog, row), row.true_index});
    // The plan with the most positions.
    const std::string fault = find_fault(variant_plan(events.back().prompt, {PlanKind::causal}).plan, limits);
    if (!fault.empty()) throw ImportError("user " + row.user + ": " + fault);
  }
  return events;
}

}  // namespace troupe::deploy
