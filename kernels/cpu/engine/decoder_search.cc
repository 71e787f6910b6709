// Beam searches on the CPU (xGR §5, §6). The prompts of a batch are computed in one pass; then all
// its searches advance level by level, one pass for each. The rows of such a pass are the newest
// tokens of all paths. A prompt's keys and values are read where they are, once for all paths that
// see them; a path's own few are in its search's tails. A pass computes states; kernels/search
// decides which paths go on, from the logits of the tokens that may follow.
//
// Operations of a level: those of its rows in the layers, and of the output projection if
// probabilities are normalised over the vocabulary: 2 × hidden × vocabulary × paths, which is most
// of the work of a small model.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cpu/engine/decoder.h"
#include "kernels/executor/passes.h"

namespace troupe::kernels {
namespace {

constexpr std::size_t vocabulary_rows_at_once = 256, states_at_once = 96;
// From this many states on, a product with the packed projection is faster than dot products with
// its rows.
constexpr std::size_t states_worth_packing = 12;
// A row of the projection that several states need is read once for all of them. So a logit that
// nothing needs costs less than one that is computed alone: by this factor.
constexpr std::size_t alone_costs = 4;

// Memory that one request takes of searches that are computed together.
struct SearchMemory {
  std::size_t tokens = 0, bytes = 0;
};

}  // namespace

ReadJob& SearchReadout::add_job(std::size_t begin, std::size_t end, bool normalised) {
  if (jobs_used == jobs.size()) jobs.emplace_back();
  ReadJob& job = jobs[jobs_used++];
  job.begin = begin, job.end = end, job.normalised = normalised;
  job.rows = {};
  job.some.clear();
  return job;
}

// Runs as many requests at a time as fit: their computed tokens, one row for each of their paths,
// and what they keep between passes.
void CpuDecoder::run_with_searches(std::span<const Request> requests, std::span<Reply> replies) {
  SearchMemory used;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SearchMemory more{computed_tokens(requests[i]) + requests[i].plan->search.width, 0};
    if (requests[i].plan->search.width > 0) more.bytes = search_bytes(c_, options_, requests[i]);
    const bool fits = used.tokens + more.tokens <= memory_.tokens_kept &&
                      used.bytes + more.bytes <= memory_.search_bytes_max;
    if (i > begin && !fits) {
      run_searches(requests.subspan(begin, i - begin), replies.subspan(begin, i - begin));
      begin = i;
      used = {};
    }
    used = {used.tokens + more.tokens, used.bytes + more.bytes};
  }
  run_searches(requests.subspan(begin), replies.subspan(begin));
}

void CpuDecoder::run_searches(std::span<const Request> requests, std::span<Reply> replies) {
  wait_for(requests, c_.layers - 1);  // a prompt that is all cached has no pass that would wait
  begun_.assign(requests.begin(), requests.end());
  std::size_t used = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].plan->search.width == 0) continue;
    const std::size_t bytes = search_bytes(c_, options_, requests[i]);
    if (bytes > memory_.search_bytes_max) return too_large(requests, replies, bytes);
    if (used == searches_.size()) searches_.push_back(std::make_unique<CpuSearchProgress>());
    prepare(i, requests[i], begun_[i], *searches_[used++]);
  }
  run_in_passes(begun_, replies, [this](auto some, auto answers) { return run_pass(some, answers); });
  active_searches_.clear();
  for (std::size_t s = 0; s < used; ++s) {
    Reply& reply = replies[searches_[s]->request];
    if (!reply.too_large.empty()) {
      reply.beams.clear();
      continue;
    }
    searches_[s]->take_state(reply);
    active_searches_.push_back(searches_[s].get());
  }
  team_.bind_caller();
  search(active_searches_);
  for (const CpuSearchProgress* searching : active_searches_)
    searching->finish(replies[searching->request].beams);
}

// Refuses a search that exceeds the memory even alone.
void CpuDecoder::too_large(std::span<const Request> requests, std::span<Reply> replies, std::size_t bytes) {
  TROUPE_CHECK(requests.size() == 1, "decoder search: a search beyond the memory of passes must run alone");
  replies[0].beams.clear();
  replies[0].too_large = "a search of " + std::to_string(requests[0].plan->search.width) +
                         " paths that takes " + std::to_string(bytes) + " bytes; expected at most " +
                         std::to_string(memory_.search_bytes_max);
}

void CpuDecoder::prepare(std::size_t number, const Request& request, Request& begun,
                         CpuSearchProgress& searching) {
  searching.pages.reserve(missing_pages(request, pages_) * layout_.page_bytes() / sizeof(float));
  searching.begin(number, request, limits(), pages_,
                  {reinterpret_cast<std::byte*>(searching.pages.data()), layout_.page_bytes()},
                  options_.sort_all ? select_by_full_sort : select_best, begun);
  searching.tails.begin(layout_, request.plan->search.width, searching.search.steps(), options_.beams);
}

void CpuDecoder::search(std::span<CpuSearchProgress* const> searches) {
  std::vector<CpuSearchProgress*>& live = live_;
  live.assign(searches.begin(), searches.end());
  run_last_tokens(live);
  for (std::uint32_t level = 0; !live.empty(); ++level) {
    Team::Pass pass(team_);
    if (level == 0)
      gather_states(live);
    else
      run_level(pass, live);
    read_level(pass, live);
    std::erase_if(live, [](const CpuSearchProgress* s) { return s->failed || s->search.done(); });
    if (level > 0)
      for (CpuSearchProgress* s : live) s->tails.follow(s->search.parents());
  }
  if (times_ != nullptr) collect_times(std::span(workspaces_), *times_);
}

// For prompts that are all cached: recomputes the last token for its state.
void CpuDecoder::run_last_tokens(std::span<CpuSearchProgress* const> searches) {
  levels_.clear();
  for (const CpuSearchProgress* s : searches) {
    if (s->state.empty()) levels_.push_back(s->last_token());
  }
  if (levels_.empty()) return;
  Team::Pass pass(team_);
  start(planner_.plan_beams(levels_), pass.workers());
  run_layers(pass, {});
  const float* state = state_.data();
  for (CpuSearchProgress* s : searches) {
    if (!s->state.empty()) continue;
    s->state.assign(state, state + c_.hidden);
    state += c_.hidden;
  }
}

void CpuDecoder::gather_states(std::span<CpuSearchProgress* const> searches) {
  state_.reserve(searches.size() * c_.hidden);
  float* state = state_.data();
  for (const CpuSearchProgress* s : searches) state = std::ranges::copy(s->state, state).out;
}

void CpuDecoder::run_level(Team::Pass& pass, std::span<CpuSearchProgress* const> searches) {
  levels_.clear();
  tails_.clear();
  std::uint32_t row = 0;
  for (CpuSearchProgress* s : searches) {
    const std::uint32_t path = s->tails.path(), rows = s->search.rows();
    const std::uint32_t together = options_.beams == BeamPaths::copied ? 1 : rows;
    const std::uint32_t tree = options_.beams == BeamPaths::tree ? s->tails.grow(rows) : 0;
    for (std::uint32_t r = 0; r < rows; r += together) {
      levels_.push_back(s->level_rows(path, r, together));
      levels_.back().tree = tree;
      tails_.push_back({&s->tails, row, rows});
    }
    row += rows;
  }
  start(planner_.plan_beams(levels_), pass.workers());
  run_layers(pass, {});
  tails_.clear();
}

// Computes the logits that the searches need from the states of their rows, then advances the
// searches.
void CpuDecoder::read_level(Team::Pass& pass, std::span<CpuSearchProgress* const> searches) {
  plan_readout(searches);
  SearchReadout& r = search_readout_;
  for (const ReadJob& job : std::span(r.jobs).first(r.jobs_used)) run_job(pass, job);
  std::size_t row = 0;
  for (CpuSearchProgress* s : searches) {
    PartTimer timer(timed(workspaces_[0], &PassTimes::search));
    const std::size_t rows = s->search.rows();
    s->failed =
        !s->search.advance(std::span(r.log_totals).subspan(row, rows), std::span(r.at).subspan(row, rows));
    row += rows;
  }
}

void CpuDecoder::plan_readout(std::span<CpuSearchProgress* const> searches) {
  PartTimer timer(timed(workspaces_[0], &PassTimes::planning));
  SearchReadout& r = search_readout_;
  if (r.vocabulary.empty()) {
    r.vocabulary.resize(c_.vocabulary);
    std::iota(r.vocabulary.begin(), r.vocabulary.end(), 0);
  }
  r.states.clear(), r.wanted.clear(), r.first.clear();
  r.jobs_used = 0;
  std::size_t logits = 0;
  for (const CpuSearchProgress* s : searches) {
    const std::size_t begin = r.states.size();
    for (std::uint32_t row = 0; row < s->search.rows(); ++row) {
      const std::span<const Token> wanted = s->search.wanted(row);
      r.wanted.push_back(wanted.empty() ? std::span<const Token>(r.vocabulary) : wanted);
      r.first.push_back(logits);
      logits += r.wanted.back().size();
      r.states.push_back(state_.data() + r.states.size() * c_.hidden);
    }
    add_job(begin, s->prompt.plan->search.normalised == Search::Normalisation::vocabulary);
  }
  r.logits.resize(logits);
  r.at.resize(r.states.size());
  r.log_totals.resize(r.states.size());
  for (std::size_t row = 0; row < r.at.size(); ++row) r.at[row] = r.logits.data() + r.first[row];
}

// Adds a job for the rows from `begin` on.
void CpuDecoder::add_job(std::size_t begin, bool over_vocabulary) {
  SearchReadout& r = search_readout_;
  const std::size_t end = r.states.size();
  if (over_vocabulary) {
    if (r.jobs_used > 0 && r.jobs[r.jobs_used - 1].normalised)
      r.jobs[r.jobs_used - 1].end = end;
    else
      r.add_job(begin, end, true).rows = r.vocabulary;
    return;
  }
  ReadJob& job = r.add_job(begin, end, false);
  std::size_t wanted = 0;
  for (std::size_t row = begin; row < end; ++row) {
    job.some.insert(job.some.end(), r.wanted[row].begin(), r.wanted[row].end());
    wanted += r.wanted[row].size();
  }
  std::ranges::sort(job.some);
  job.some.erase(std::ranges::unique(job.some).begin(), job.some.end());
  const bool together = job.some.size() * (end - begin) <= alone_costs * wanted;
  if (together) job.rows = job.some;
}

void CpuDecoder::run_job(Team::Pass& pass, const ReadJob& job) {
  SearchReadout& r = search_readout_;
  const std::size_t rows = job.end - job.begin;
  if (job.rows.empty()) {
    pass.run(
        rows, 2.0 * c_.hidden * static_cast<double>(job.some.size() * rows),
        [&](std::size_t part, std::uint32_t worker) { read_wanted(job.begin + part, workspaces_[worker]); });
  } else {
    const std::size_t parts = (job.rows.size() + vocabulary_rows_at_once - 1) / vocabulary_rows_at_once;
    if (job.normalised) r.sums.resize(parts * rows);
    pass.run(parts, 2.0 * c_.hidden * static_cast<double>(job.rows.size() * rows),
             [&](std::size_t part, std::uint32_t worker) { read_part(job, part, workspaces_[worker]); });
    if (job.normalised) {
      for (std::size_t row = 0; row < rows; ++row) {
        ExponentialSum sum;
        for (std::size_t part = 0; part < parts; ++part) sum.add(r.sums[part * rows + row]);
        r.log_totals[job.begin + row] = sum.log();
      }
      return;
    }
  }
  for (std::size_t row = job.begin; row < job.end; ++row)
    r.log_totals[row] = vector_kernels_.sum_exponentials(r.at[row], r.wanted[row].size()).log();
}

// Computes one row's own logits.
void CpuDecoder::read_wanted(std::size_t row, Workspace& w) {
  PartTimer timer(timed(w, &PassTimes::readout));
  SearchReadout& r = search_readout_;
  float* const out = r.logits.data() + r.first[row];
  vector_kernels_.readout({&r.states[row], 1}, weights_->output_rows(), r.wanted[row], {&out, 1});
}

// Multiplies one part of the job's rows of the projection with all its states. While the logits are
// in cache, their exponentials are summed and the wanted ones are kept.
void CpuDecoder::read_part(const ReadJob& job, std::size_t part, Workspace& w) {
  PartTimer timer(timed(w, &PassTimes::readout));
  SearchReadout& r = search_readout_;
  const std::size_t first = part * vocabulary_rows_at_once;
  const std::span<const Token> tokens =
      job.rows.subspan(first, std::min(vocabulary_rows_at_once, job.rows.size() - first));
  w.dots.reserve(states_at_once * vocabulary_rows_at_once);
  for (std::size_t begin = job.begin; begin < job.end; begin += states_at_once) {
    const std::size_t count = std::min(states_at_once, job.end - begin);
    w.logits.clear();
    for (std::size_t i = 0; i < count; ++i) w.logits.push_back(w.dots.data() + i * vocabulary_rows_at_once);
    if (job.normalised && job.end - job.begin >= states_worth_packing)
      multiply_output(r.states[begin], count, first, w);
    else
      vector_kernels_.readout(std::span(r.states).subspan(begin, count), weights_->output_rows(), tokens,
                              w.logits);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t row = begin + i;
      if (job.normalised)
        r.sums[part * (job.end - job.begin) + row - job.begin] =
            vector_kernels_.sum_exponentials(w.logits[i], tokens.size());
      keep_wanted(row, tokens, w.logits[i]);
    }
  }
}

// Multiplies `rows` states with a part of the vocabulary's rows, from `first` on.
void CpuDecoder::multiply_output(const float* states, std::size_t rows, std::size_t first, Workspace& w) {
  const ProductVersion& version = *vector_kernels_.product;
  const PackedMatrix& output =
      weights_->packed_output->get(weights_->output_rows(), version.panel_width, options_.weights);
  const std::size_t end = std::min<std::size_t>(first + vocabulary_rows_at_once, c_.vocabulary);
  ProductTask task;
  task.in = states;
  task.in_stride = c_.hidden;
  task.out = w.dots.data() - first;  // the product writes to its panels' columns
  task.out_stride = vocabulary_rows_at_once;
  task.rows = rows;
  task.panel_begin = first / version.panel_width;
  task.panel_end = (end + version.panel_width - 1) / version.panel_width;
  version.run(output, task);
}

// Copies from the logits of `tokens` those that the row wants; both ascend.
void CpuDecoder::keep_wanted(std::size_t row, std::span<const Token> tokens, const float* logits) {
  SearchReadout& r = search_readout_;
  const std::span<const Token> wanted = r.wanted[row];
  auto at = std::ranges::lower_bound(wanted, tokens.front());
  float* out = r.logits.data() + r.first[row] + (at - wanted.begin());
  const bool consecutive = static_cast<std::size_t>(tokens.back() - tokens.front()) + 1 == tokens.size();
  for (std::size_t i = 0; at != wanted.end() && *at <= tokens.back(); ++at) {
    if (consecutive)
      i = static_cast<std::size_t>(*at - tokens.front());
    else
      while (tokens[i] != *at) ++i;
    *out++ = logits[i];
  }
}

}  // namespace troupe::kernels
