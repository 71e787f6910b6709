#include "deploy/bench/beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "kernels/base/check.h"

namespace troupe::deploy {

using kernels::Token;

SemanticIdTrie::SemanticIdTrie(std::span<const Path> ids) {
  TROUPE_CHECK(!ids.empty() && !ids[0].empty(), "a trie of no IDs");
  levels_ = ids[0].size();
  for (const Path& id : ids) {
    TROUPE_CHECK(id.size() == levels_, "IDs of several lengths");
    for (std::size_t level = 0; level < levels_; ++level)
      next_[Path(id.begin(), id.begin() + static_cast<std::ptrdiff_t>(level))].push_back(id[level]);
  }
  for (auto& [path, tokens] : next_) {
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  }
}

std::span<const Token> SemanticIdTrie::next(const Path& path) const {
  const auto found = next_.find(path);
  return found == next_.end() ? std::span<const Token>() : std::span<const Token>(found->second);
}

std::vector<double> log_softmax(std::span<const float> logits) {
  double sum = 0;
  const float most = *std::max_element(logits.begin(), logits.end());
  for (const float logit : logits) {
    if (!std::isfinite(logit))
      throw std::runtime_error(
          "a logit is not finite; expected a model whose keys and values fit their format");
    sum += std::exp(static_cast<double>(logit) - most);
  }
  const double normaliser = most + std::log(sum);
  std::vector<double> logs;
  for (const float logit : logits) logs.push_back(logit - normaliser);
  return logs;
}

std::vector<Beam> extend_beams(std::span<const Beam> beams,
                               std::span<const std::vector<double>> log_probabilities,
                               const SemanticIdTrie& trie, std::size_t width) {
  TROUPE_CHECK(beams.size() == log_probabilities.size(), "beams without log-probabilities");
  std::vector<Beam> longer;
  for (std::size_t b = 0; b < beams.size(); ++b)
    for (const Token token : trie.next(beams[b].path)) {
      Beam& beam = longer.emplace_back(beams[b]);
      beam.path.push_back(token);
      beam.log_probability += log_probabilities[b].at(static_cast<std::size_t>(token));
    }
  const std::size_t kept = std::min(width, longer.size());
  std::partial_sort(longer.begin(), longer.begin() + static_cast<std::ptrdiff_t>(kept), longer.end(),
                    [](const Beam& a, const Beam& b) {
                      if (a.log_probability != b.log_probability)
                        return a.log_probability > b.log_probability;
                      return a.path < b.path;
                    });
  longer.resize(kept);
  return longer;
}

namespace {

std::vector<Token> all_rows(std::uint32_t vocabulary) {
  std::vector<Token> rows(vocabulary);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace

Generator::Generator(std::unique_ptr<kernels::Executor> decoder)
    : decoder_(std::move(decoder)),
      all_rows_(all_rows(static_cast<std::uint32_t>(decoder_->limits().vocabulary))),
      arena_(decoder_->layout().page_bytes(),
             decoder_->layout().pages_for(static_cast<std::size_t>(decoder_->limits().positions_max))) {}

void Generator::set_prompt(const Path& prompt) {
  TROUPE_CHECK(!prompt.empty() && prompt.size() <= static_cast<std::size_t>(decoder_->limits().positions_max),
               "a prompt's length");
  prompt_ = {kernels::SegmentKind::user, prompt, 0, {}};
  prompt_kv_ = {kernels::Source::compute, {}};
  for (std::uint32_t page = 0; page < decoder_->layout().pages_for(prompt.size()); ++page)
    prompt_kv_.pages.push_back(arena_.page(page));
  const kernels::Plan plan{{prompt_}, {{0, static_cast<std::uint32_t>(prompt.size() - 1), all_rows_}}};
  const kernels::Request request{&plan, {prompt_kv_}};
  first_ = log_softmax(decoder_->run({&request, 1}).at(0).readouts.at(0));
  prompt_kv_.source = kernels::Source::cached;
}

std::vector<std::vector<double>> Generator::read(std::span<const Path> paths, ReadAt where) {
  kernels::Plan plan{{prompt_}, {}};
  kernels::Request request{&plan, {prompt_kv_}};
  const auto start = static_cast<std::int32_t>(prompt_.tokens.size());
  for (const Path& path : paths) {
    const auto segment = static_cast<std::uint32_t>(plan.segments.size());
    const auto tokens = static_cast<std::uint32_t>(path.size());
    plan.segments.push_back({kernels::SegmentKind::beam, path, start, {0}});
    request.kv.emplace_back();
    for (std::uint32_t t = where == ReadAt::each_token ? 0 : tokens - 1; t < tokens; ++t)
      plan.readouts.push_back({segment, t, all_rows_});
  }
  const std::vector<kernels::Reply> answers = decoder_->run({&request, 1});
  std::vector<std::vector<double>> read;
  for (const std::vector<float>& logits : answers.at(0).readouts) read.push_back(log_softmax(logits));
  return read;
}

std::vector<Beam> Generator::search(const SemanticIdTrie& trie, std::size_t width) {
  std::vector<Beam> beams = extend_beams(std::vector<Beam>(1), {&first_, 1}, trie, width);
  for (std::size_t level = 1; level < trie.levels(); ++level) {
    std::vector<Path> paths;
    for (const Beam& beam : beams) paths.push_back(beam.path);
    beams = extend_beams(beams, read(paths, ReadAt::last_token), trie, width);
  }
  return beams;
}

std::vector<double> Generator::log_probabilities_of(const Path& continuation) {
  std::vector<double> logs{first_.at(static_cast<std::size_t>(continuation.at(0)))};
  if (continuation.size() == 1) return logs;
  const Path seen(continuation.begin(), continuation.end() - 1);  // the last token is only asked for
  const auto after = read({&seen, 1}, ReadAt::each_token);
  for (std::size_t t = 0; t < after.size(); ++t)
    logs.push_back(after[t].at(static_cast<std::size_t>(continuation[t + 1])));
  return logs;
}

}  // namespace troupe::deploy
