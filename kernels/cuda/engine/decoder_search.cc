// Runs beam searches on a device (xGR §5, §6), like the CPU's decoder
// (kernels/cpu/engine/decoder_search.cc): the prompts of a batch in one pass, then all its searches
// level by level, one pass per level. A level is rows of one group. The prompt is the context that
// all rows see, and each row's interval of the tail is its path. Keys are addresses, so a path's
// tokens stay where their levels wrote them; only a list changes with the parents. The host decides
// which paths continue (kernels/search), and gets only the data that this decision needs
// (level_readout.h).
//
// A level that exceeds the bounds of a pass takes several passes, each with fewer searches or with
// fewer rows of one.
#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/thread_clock.h"
#include "kernels/cuda/engine/cuda_decoder.h"
#include "kernels/executor/passes.h"

namespace troupe::kernels::cuda {

void CudaSearching::begin_level() {
  log_totals.clear(), logits.clear(), likely.clear();
  first.assign(1, 0);
}

void CudaSearching::add_row(double log_total, std::span<const SelectedLogit> taken) {
  log_totals.push_back(log_total);
  for (const SelectedLogit& one : taken) {
    logits.push_back(one.logit);
    likely.push_back(one.child);
  }
  first.push_back(logits.size());
}

void CudaSearching::advance() {
  rows.clear(), likely_of.clear();
  for (std::size_t r = 0; r < log_totals.size(); ++r) {
    const std::size_t count = first[r + 1] - first[r];
    rows.push_back(count > 0 ? logits.data() + first[r] : nullptr);
    likely_of.push_back(std::span(likely).subspan(first[r], count));
  }
  failed = !search.advance(log_totals, rows, likely_of);
}

// Returns the number of pages that the request's search takes while it runs.
std::size_t CudaDecoder::search_pages(const Request& request) const {
  const std::uint32_t width = request.plan->search.width;
  if (width == 0) return 0;
  return missing_pages(request, pages_) +
         layout_.pages_for(std::size_t{width} * PathRows::levels(steps_of(request)));
}

// Runs as many requests at a time as there are pages for their searches.
void CudaDecoder::run_with_searches(std::span<const Request> requests, std::span<Reply> replies) {
  std::size_t begin = 0, pages = 0;
  const auto run_until = [&](std::size_t end) {
    if (begin < end) run_searches(requests.subspan(begin, end - begin), replies.subspan(begin, end - begin));
    begin = end;
    pages = 0;
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::size_t more = search_pages(requests[i]);
    if (pages + more > search_scratch_.count) run_until(i);
    pages += more;
    if (more <= search_scratch_.count) continue;
    replies[i].too_large = "a search that keeps " + std::to_string(more) + " pages; expected at most " +
                           std::to_string(search_scratch_.count);
    begin = i + 1;
    pages = 0;
  }
  run_until(requests.size());
}

void CudaDecoder::run_searches(std::span<const Request> requests, std::span<Reply> replies) {
  begun_.assign(requests.begin(), requests.end());
  std::vector<CudaSearching*> searches;
  PageRun free = search_scratch_.pages;
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (requests[i].plan->search.width > 0) {
      if (searches.size() == searches_.size()) searches_.push_back(std::make_unique<CudaSearching>());
      searches.push_back(searches_[searches.size()].get());
      prepare(*searches.back(), i, requests[i], free);
    }
  run_in_passes(begun_, replies, [this](auto some, auto answers) { return run_pass(some, answers); });
  std::erase_if(searches, [&](const CudaSearching* s) { return !replies[s->request].too_large.empty(); });
  for (CudaSearching* s : searches) s->take_state(replies[s->request]);
  search(searches);
  for (const CudaSearching* s : searches)
    if (s->too_large.empty())
      s->finish(replies[s->request].beams);
    else
      replies[s->request].too_large = s->too_large;
}

void CudaDecoder::prepare(CudaSearching& searching, std::size_t number, const Request& request,
                          PageRun& free) {
  searching.begin(number, request, limits(), pages_, free, select_best, begun_[number]);
  free.first += missing_pages(request, pages_) * free.stride;
  const std::uint32_t width = request.plan->search.width, steps = searching.search.steps();
  searching.tokens = free;
  free.first += layout_.pages_for(std::size_t{width} * PathRows::levels(steps)) * free.stride;
  searching.paths.begin(width, steps);
  searching.too_large.clear();
}

void CudaDecoder::search(std::span<CudaSearching* const> searches) {
  std::vector<CudaSearching*> live(searches.begin(), searches.end());
  const auto drop_ended = [&] {
    std::erase_if(
        live, [](const CudaSearching* s) { return !s->too_large.empty() || s->failed || s->search.done(); });
  };
  run_last_tokens(live);
  drop_ended();
  for (std::uint32_t level = 0; !live.empty(); ++level) {
    std::vector<Part> parts;
    for (CudaSearching* s : live) {
      s->begin_level();
      parts.push_back({s, 0, s->search.rows()});
    }
    run_parts(parts, level == 0 ? &CudaDecoder::first_level_pass : &CudaDecoder::level_pass);
    const double begin = thread_cpu_seconds();
    for (CudaSearching* s : live)
      if (s->too_large.empty()) s->advance();
    drop_ended();
    for (CudaSearching* s : live)
      if (level > 0) s->paths.follow(s->search.parents());
    if (times_ != nullptr) times_->search += thread_cpu_seconds() - begin;
  }
}

// Runs the parts in as many passes as the bounds require.
void CudaDecoder::run_parts(std::span<const Part> parts, PartsPass pass) {
  if (parts.empty()) return;
  std::string beyond = (this->*pass)(parts);
  if (beyond.empty()) return;
  if (parts.size() > 1) {
    run_parts(parts.first(parts.size() / 2), pass);
    run_parts(parts.subspan(parts.size() / 2), pass);
  } else if (const Part part = parts[0]; part.rows > 1) {
    const std::uint32_t half = part.rows / 2;
    const Part first{part.search, part.first, half}, rest{part.search, part.first + half, part.rows - half};
    run_parts({&first, 1}, pass);
    run_parts({&rest, 1}, pass);
  } else {
    part.search->too_large = std::move(beyond);
  }
}

// Computes the last token again for prompts that are fully cached, to get its state.
void CudaDecoder::run_last_tokens(std::span<CudaSearching* const> searches) {
  std::vector<Part> parts;
  for (CudaSearching* s : searches)
    if (s->state.empty()) parts.push_back({s, 0, 1});
  run_parts(parts, &CudaDecoder::last_tokens_pass);
}

std::string CudaDecoder::last_tokens_pass(std::span<const Part> parts) {
  beams_.clear(), tails_.clear();
  for (const Part& part : parts) {
    beams_.push_back(part.search->last_token());
    tails_.push_back({{nullptr}, {}});
  }
  const DecoderBatch& batch = batches_.plan_beams(beams_);
  if (std::string fault = plans_.plan(batch, tails_); !fault.empty()) return fault;
  const PassShape shape = shape_of(batch, plans_.result());
  pack(batch, plans_.result(), shape, staging_.data());
  const std::size_t hidden = weights_->config.hidden;
  launch([&] {
    enqueue_pass(batch, shape);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].search->state.resize(hidden);
      stream_.download(parts[i].search->state.data(), pass_.states() + i * hidden, hidden * sizeof(float));
    }
  });
  return "";
}

// Runs the first level from the states at the prompts' ends.
std::string CudaDecoder::first_level_pass(std::span<const Part> parts) {
  if (std::string fault = plan_level(parts); !fault.empty()) return fault;
  const std::size_t hidden = weights_->config.hidden;
  launch([&] {
    for (std::size_t i = 0; i < parts.size(); ++i)
      stream_.upload(pass_.states() + i * hidden, parts[i].search->state.data(), hidden * sizeof(float));
    levels_.enqueue(pass_, stream_, times_ == nullptr ? nullptr : &marks_);
  });
  take_level(parts);
  return "";
}

std::string CudaDecoder::level_pass(std::span<const Part> parts) {
  const double begin = thread_cpu_seconds();
  beams_.clear(), tails_.clear();
  for (const Part& part : parts) {
    beams_.push_back(part.search->level_rows(part.search->paths.path(), part.first, part.rows));
    tails_.push_back(tail_of(part));
  }
  const DecoderBatch& batch = batches_.plan_beams(beams_);
  if (std::string fault = plans_.plan(batch, tails_); !fault.empty()) return fault;
  if (std::string fault = plan_level(parts); !fault.empty()) return fault;
  const PassShape shape = shape_of(batch, plans_.result());
  pack(batch, plans_.result(), shape, staging_.data());
  if (times_ != nullptr) times_->planning += thread_cpu_seconds() - begin;
  launch([&] {
    enqueue_pass(batch, shape);
    levels_.enqueue(pass_, stream_, times_ == nullptr ? nullptr : &marks_);
  });
  take_level(parts);
  return "";
}

// Returns the slots of the part's rows and the addresses of their paths' tokens.
GroupTail CudaDecoder::tail_of(const Part& part) const {
  const PathRows& paths = part.search->paths;
  GroupTail tail;
  for (std::uint32_t r = part.first; r < part.first + part.rows; ++r) {
    tail.slots.push_back(paths.keeps() ? path_token(*part.search, paths.level(), r) : nullptr);
    for (std::uint32_t level = 0; level < paths.level(); ++level)
      tail.earlier.push_back(path_token(*part.search, level, paths.row(level, r)));
  }
  return tail;
}

std::byte* CudaDecoder::path_token(const CudaSearching& search, std::uint32_t level,
                                   std::uint32_t row) const {
  const std::size_t token = std::size_t{level} * search.prompt.plan->search.width + row;
  return search.tokens.first + token / layout_.page_tokens * search.tokens.stride +
         token % layout_.page_tokens * layout_.vector_bytes();
}

std::string CudaDecoder::plan_level(std::span<const Part> parts) {
  row_queries_.clear(), level_searches_.clear();
  for (const Part& part : parts) {
    const Search& search = part.search->prompt.plan->search;
    for (std::uint32_t r = part.first; r < part.first + part.rows; ++r)
      row_queries_.push_back({part.search->search.wanted(r), part.search->search.enough(r),
                              search.normalised == Search::Normalisation::vocabulary,
                              part.search->search.value(r)});
    level_searches_.push_back({part.rows, part.search->search.enough(part.first, part.rows)});
  }
  return levels_.plan(row_queries_, level_searches_);
}

void CudaDecoder::take_level(std::span<const Part> parts) {
  std::uint32_t row = 0;
  for (std::uint32_t p = 0; p < parts.size(); ++p) {
    const std::span<const SelectedLogit> best = levels_.best(p);
    auto at = best.begin();
    for (const std::uint32_t end = row + parts[p].rows; row < end; ++row) {
      const auto of_row = at;
      while (at != best.end() && at->row == row) ++at;
      parts[p].search->add_row(levels_.log_total(row), {of_row, at});
    }
  }
}

}  // namespace troupe::kernels::cuda
