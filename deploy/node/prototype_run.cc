// Makes prototypes (cached keys and values that stand in for a history's tokens) from a data
// folder.
#include "deploy/node/prototype_run.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>

#include "deploy/data/dataset.h"
#include "deploy/node/prompt_file.h"
#include "deploy/reports/table.h"
#include "kernels/decoder/decoder.h"
#include "router/request/prompt.h"

namespace troupe::deploy {
namespace {

using kernels::SegmentKv;
using kernels::Source;

Token token_named(const std::string& name, const kernels::Vocabulary& vocabulary, std::size_t tokens) {
  if (const auto token = vocabulary.find(name)) return *token;
  Token number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number < 0 ||
      static_cast<std::size_t>(number) >= tokens)
    throw std::invalid_argument("--never has \"" + name.substr(0, 40) +
                                "\"; expected words of the vocabulary, or tokens below " +
                                std::to_string(tokens));
  return number;
}

// Returns one flag per token of the vocabulary: 1 = always computed.
std::vector<std::uint8_t> never_reused(const PromptForm& form, const std::vector<PutItem>& items,
                                       const std::vector<std::string>& never,
                                       const kernels::Vocabulary& vocabulary) {
  std::vector<std::uint8_t> found(form.vocabulary);
  const auto mark = [&](const auto& tokens) {
    for (const Token token : tokens)
      if (token >= 0 && static_cast<std::size_t>(token) < found.size())
        found[static_cast<std::size_t>(token)] = 1;
  };
  for (const Tokens* tokens : {&form.system, &form.user, &form.instruction, &form.discriminant, &form.event,
                               &form.item, &form.score})
    mark(*tokens);
  if (!form.scores_each())  // with scores_each, items have no token of their own
    for (const PutItem& item : items) mark(std::vector<Token>{item.identifier});
  for (const std::string& name : never) mark(std::vector<Token>{token_named(name, vocabulary, found.size())});
  return found;
}

// Reads the training histories as prompts contain them, behind the form's tokens.
std::vector<Tokens> read_histories(const std::filesystem::path& data, const PromptForm& form,
                                   const std::vector<PutItem>& items) {
  std::map<std::string_view, const PutItem*> catalog;
  for (const PutItem& item : items) catalog[item.item] = &item;
  std::vector<Tokens> histories;
  for (const PutUser& user : read_users(data, HistoryPart::train)) {
    Profile profile{1, {}, {}};
    for (const Token token : user.tokens) profile.tokens.push_back(token), profile.events.push_back(1);
    for (const std::string& id : user.history) {
      const auto at = catalog.find(id);
      if (at == catalog.end())
        throw ImportError("user " + user.user + " has item " + id + "; expected an item of the catalog");
      profile.tokens.insert(profile.tokens.end(), at->second->tokens.begin(), at->second->tokens.end());
      profile.events.push_back(static_cast<std::uint32_t>(at->second->tokens.size()));
    }
    histories.push_back(router::fit_history(form, profile, 0).tokens);
  }
  if (histories.empty()) throw ImportError(data.string() + " has no users; expected histories");
  return histories;
}

// Computes histories one after the other, each behind the system prompt, and passes the keys and
// values of each token to `take`.
class HistoryRunner {
 public:
  HistoryRunner(kernels::DecoderModel model, const PromptForm& form)
      : form_(form),
        layout_(kernels::kv_layout(model.config, page_tokens, kernels::KvFormat::f32)),
        decoder_(kernels::make_cpu_decoder(std::move(model), {.page_tokens = page_tokens})) {}

  template <class Take>
  void run(const Tokens& history, const Take& take) {
    Plan plan;
    if (!form_.system.empty())
      plan.segments.push_back({.kind = SegmentKind::system, .tokens = form_.system, .sees = {}});
    const auto segment = static_cast<std::uint32_t>(plan.segments.size());
    const auto start = static_cast<std::int32_t>(form_.system.size());
    plan.segments.push_back(
        {SegmentKind::user, history, start, kernels::VisibleSegments::all_before(segment)});
    allocate_pages(layout_.pages_for(history.size()));
    std::vector<SegmentKv> kv(segment + 1);
    for (std::size_t i = 0; i < layout_.pages_for(history.size()); ++i)
      kv[segment].pages.push_back(pages_[i].get());
    const std::vector<std::byte*> addresses = kv[segment].pages;
    const kernels::Request request{&plan, std::move(kv)};
    decoder_->run({&request, 1});
    for (std::size_t t = 0; t < history.size(); ++t) take(t, layout_, addresses);
  }

 private:
  static constexpr std::uint32_t page_tokens = 16;
  void allocate_pages(std::size_t pages) {
    while (pages_.size() < pages) {
      auto* const bytes =
          static_cast<std::byte*>(std::aligned_alloc(64, (layout_.page_bytes() + 63) / 64 * 64));
      if (bytes == nullptr) throw std::bad_alloc();
      pages_.emplace_back(bytes, &std::free);
    }
  }

  const PromptForm& form_;
  const kernels::KvLayout layout_;
  std::unique_ptr<kernels::Executor> decoder_;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> pages_;
};

}  // namespace

PrototypeReport make_prototypes(const PrototypeRun& run) {
  kernels::DecoderModel model = kernels::read_decoder(run.model);
  const kernels::PlanLimits limits = plan_limits(model.config);
  const kernels::Vocabulary vocabulary = read_vocabulary_if_any(run.model, limits);
  const std::unique_ptr<const Tokenizer> tokenizer = read_tokenizer_if_any(run.model, limits);
  const PromptForm form = read_prompt_form(
      run.model, run.prompt.empty() ? std::nullopt : std::optional<std::filesystem::path>(run.prompt), limits,
      vocabulary, tokenizer.get());
  const std::vector<PutItem> items = read_items(run.data, vocabulary);
  const std::vector<Tokens> histories = read_histories(run.data, form, items);
  const auto start = static_cast<std::uint32_t>(form.system.size());

  PrototypeReport report{.histories = histories.size()};
  kernels::PrototypeMaker maker(model, run.options, never_reused(form, items, run.never, vocabulary));
  for (const Tokens& history : histories)
    for (std::uint32_t t = 0; t < history.size(); ++t) maker.see(history[t], start + t);
  maker.settle();
  report.computed = run.histories_max > 0 ? std::min(run.histories_max, histories.size()) : histories.size();
  HistoryRunner computed(model, form);
  Progress progress("histories", report.computed);
  for (std::size_t i = 0; i < report.computed; ++i) {
    // The computed histories are spread evenly over all of them.
    const Tokens& history = histories[i * histories.size() / report.computed];
    if (!history.empty())
      computed.run(history,
                   [&](std::size_t t, const kernels::KvLayout& layout, const std::vector<std::byte*>& pages) {
                     maker.take(history[t], start + static_cast<std::uint32_t>(t), layout, pages, t);
                   });
    progress.at(i + 1);
  }
  report.runs = maker.write(run.out);
  report.made = maker.report();
  return report;
}

}  // namespace troupe::deploy
