// Runs `troupe verify`: golden scores first, because they say which arrangement is the first one, then the
// requests under each arrangement, with and without cached blocks.
#include "deploy/verify/verification.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "deploy/data/dataset.h"
#include "deploy/models/engine.h"
#include "deploy/node/prompt_file.h"
#include "deploy/reports/table.h"
#include "deploy/verify/arrangement_scores.h"
#include "deploy/verify/form_file.h"
#include "deploy/verify/golden_file.h"
#include "deploy/verify/replace_text_file.h"
#include "kernels/base/check.h"

namespace troupe::deploy {
namespace {

constexpr std::size_t reuse_requests_max = 100;
constexpr std::size_t shown_faults_max = 5;  // of one kind
// Arrangements whose differences from golden scores are apart by less than this share of the bound are not
// told apart: sums in another order differ by as much.
constexpr double distinguished = 0.25;

// Returns the arrangements that prompts of the form can have: the declared ones, then the others.
std::vector<Arrangement> possible(const PromptForm& form) {
  std::vector<Arrangement> all = form.arrangements;
  for (const Arrangement other :
       {Arrangement::causal, Arrangement::user_first, Arrangement::item_first, Arrangement::candidates_apart})
    if (form.can_have(other) && !form.declares(other)) all.push_back(other);
  return all;
}

double largest_of(std::span<const float> scores) {
  double largest = 1;
  for (const float score : scores) largest = std::max(largest, std::abs(static_cast<double>(score)));
  return largest;
}

struct Difference {
  double largest = 0;  // infinite if a score is not finite
  std::size_t at = 0;  // index of that score
};
Difference difference_of(const std::vector<float>& one, const std::vector<float>& other) {
  TROUPE_CHECK(one.size() == other.size(), "both score the same candidates");
  Difference difference;
  for (std::size_t i = 0; i < one.size(); ++i) {
    double own = std::abs(static_cast<double>(one[i]) - other[i]);
    if (!std::isfinite(own)) own = std::numeric_limits<double>::infinity();
    if (own > difference.largest) difference = {own, i};
  }
  return difference;
}

std::string score_text(double score) { return std::isnan(score) ? "NaN" : fixed(score, 6); }

// Returns the name of one of a request's scores: "requests.jsonl:3: user ann: candidate i4".
std::string score_name(const VerifiedRequest& request, std::size_t at, std::size_t scores) {
  if (request.items.empty()) return request.name + ": row " + std::to_string(at);
  const std::size_t tasks = scores / request.items.size();
  const std::string name = request.name + ": candidate " + request.items.at(at / tasks).id;
  return tasks == 1 ? name : name + ", task " + std::to_string(at % tasks);
}

// Returns the scores of the first of `tasks` tasks, by which candidates are ordered.
std::vector<float> ordering_scores(const std::vector<float>& scores, std::size_t tasks) {
  std::vector<float> first;
  for (std::size_t i = 0; i < scores.size(); i += tasks) first.push_back(scores[i]);
  return first;
}

// Numbers of each request under one arrangement.
struct ArrangementSamples {
  Arrangement arrangement = Arrangement::unnamed;
  bool declared = false;
  std::vector<ReuseCheck> reuse;
  std::size_t requests = 0;
  std::vector<double> overlap, correlation;
  std::vector<double> ndcg, first_ndcg;  // of the same events, under this and under the first arrangement
  double largest_difference = 0;
  std::vector<std::string> not_finite;  // the first such score of each request
};

class Verification {
 public:
  Verification(const VerifyOptions& options, const WrapExecutor& wrap) : options_(options), wrap_(wrap) {}

  VerifyReport run() && {
    open();
    if (!options_.golden.empty()) check_golden();
    choose_declared();
    check_requests();
    judge_arrangements();
    find_faults();
    if (options_.write) write();
    return std::move(report_);
  }

 private:
  void open();
  void read_form();
  void check_golden();
  // Returns no scores if the request does not fit under the arrangement. Only a declared arrangement's
  // faults are errors.
  std::optional<std::vector<float>> scores_of(const VerifiedRequest& request, Arrangement arrangement);
  std::optional<std::vector<float>> golden_scores(const GoldenLine& line, const VerifiedRequest& request,
                                                  Arrangement arrangement);
  VerifiedRequest golden_request(const GoldenLine& line);
  // Compares a line with an arrangement. Returns the fault, or "" if the scores are equal.
  std::string compare_golden(const GoldenLine& line, const VerifiedRequest& request, GoldenArrangement& to);
  void compare_named(const GoldenLine& line, const VerifiedRequest& request);
  void add_golden_faults(const std::vector<std::vector<std::string>>& faults);
  void choose_declared();
  void check_requests();
  bool add_request(const VerifiedRequest& request);
  bool is_finite(const VerifiedRequest& request, const std::vector<float>& scores,
                 ArrangementSamples& samples) const;
  void add_reuse(const VerifiedRequest& request, const std::vector<float>& plain,
                 ArrangementSamples& samples);
  void judge_arrangements();
  void find_faults();
  void find_score_faults();
  void find_golden_faults();
  void find_quality_faults();
  void add_faults(const std::vector<std::string>& faults, const std::string& more);
  void write();

  VerifyOptions options_;
  const WrapExecutor& wrap_;
  VerifyReport report_;
  ServedModel model_;
  FormFile form_file_;            // where the form is read; its text is empty if there is none
  std::filesystem::path target_;  // form file to write
  std::unique_ptr<kernels::Executor> executor_;
  std::unique_ptr<VerifiedData> data_;
  std::unique_ptr<ArrangementScores> scores_;
  std::map<std::string, PutUser> users_;  // of golden lines
  std::vector<ArrangementSamples> samples_;
  bool notes_undeclared_ = false;  // a note says that a golden line names an undeclared arrangement
};

void Verification::read_form() {
  const std::filesystem::path own = std::filesystem::path(options_.config.model.directory) / "prompt.json";
  if (options_.prompt.empty()) options_.prompt = options_.config.model.prompt;
  const bool is_new = options_.write && !options_.prompt.empty() && !std::filesystem::exists(options_.prompt);
  target_ = options_.prompt.empty() ? own : options_.prompt;
  model_.config.model.prompt = is_new ? "" : options_.prompt.string();
  form_file_ = read_form_file(is_new ? own : target_);
  report_.form_file = form_file_.exists ? form_file_.file.string() : "";
}

void Verification::open() {
  model_.config = options_.config;
  if (!device_choice(model_.config.model).on_cpu())
    throw ConfigError("model.device is " + model_.config.model.device +
                      "; expected cpu, on which verify computes");
  const std::string& directory = required_directory(model_.config.model);
  read_form();
  const ModelFamily& family = family_of(all_families(), directory);
  describe_model(model_, all_families());
  for (const Arrangement arrangement : options_.arrangements)
    if (!model_.prompt.can_have(arrangement))
      throw std::invalid_argument("--arrangements has " + std::string(word_of(arrangement)) +
                                  "; expected some of " + words_of(possible(model_.prompt)));
  data_ = std::make_unique<VerifiedData>(options_.data, model_);
  model_.opened = family.open(directory, model_.config);
  model_.names = {model_.opened.version, layout_version(model_.config)};
  executor_ = model_.opened.engine({}).executor;
  if (wrap_) executor_ = wrap_(std::move(executor_));
  scores_ = std::make_unique<ArrangementScores>(*executor_, model_.prompt, model_.names);
  report_.model = directory;
  report_.version = model_.opened.version;
  report_.weights = word_of(model_.config.model.weights);
  report_.pages = word_of(model_.config.pool.kv_format);
  report_.relative = rounding_bounds(model_.config).reuse;
  report_.tolerance = options_.tolerance;
  if (!options_.arrangements.empty()) model_.prompt.arrangements = options_.arrangements;
}

VerifiedRequest Verification::golden_request(const GoldenLine& line) {
  if (line.is_tokens()) return {line.where};
  if (line.user && users_.empty())
    for (PutUser& user : data_->users(HistoryPart::all)) {
      const std::string id = user.user;
      users_[id] = std::move(user);
    }
  const auto user = line.user ? users_.find(*line.user) : users_.end();
  if (line.user && user == users_.end())
    throw ImportError(line.where + ": user " + line.user->substr(0, 60) +
                      " is unknown; expected a user of the data folder, or \"history\"");
  return {line.where,
          line.user ? data_->profile(user->second) : data_->profile(line.history, line.features, line.where),
          data_->items(line.candidates, line.where), line.request_timestamp, line.scenario};
}

std::optional<std::vector<float>> Verification::scores_of(const VerifiedRequest& request,
                                                          Arrangement arrangement) {
  try {
    return scores_->plain(request, arrangement);
  } catch (const ImportError&) {
    if (model_.prompt.declares(arrangement)) throw;
    return std::nullopt;
  }
}

std::optional<std::vector<float>> Verification::golden_scores(const GoldenLine& line,
                                                              const VerifiedRequest& request,
                                                              Arrangement arrangement) {
  std::vector<float> scores;
  if (line.is_tokens()) {
    if (model_.prompt.items_are_tokens())
      throw ImportError(line.where +
                        ": tokens are a decoder's prompt; expected \"history\" and \"candidates\"");
    scores = scores_->plain_logits(line.tokens, line.read_at, line.rows, line.where);
    if (scores.size() != line.scores.size())
      throw ImportError(line.where + ": logits has " + std::to_string(line.scores.size()) +
                        " numbers; expected " + std::to_string(scores.size()) + ", or \"rows\"");
    return scores;
  }
  if (model_.prompt.generates())
    throw ImportError(line.where +
                      ": a generator scores no candidates; expected \"tokens\" and \"logits\" of a prompt");
  return scores_of(request, arrangement);
}

std::string Verification::compare_golden(const GoldenLine& line, const VerifiedRequest& request,
                                         GoldenArrangement& to) {
  const std::string word(word_of(to.arrangement));
  const std::optional<std::vector<float>> scores = golden_scores(line, request, to.arrangement);
  if (!scores) {
    to.largest = to.share = std::numeric_limits<double>::infinity();
    const std::size_t positions = scores_->positions(request, to.arrangement);
    if (positions <= model_.prompt.positions_max)
      return line.where + ": the model refuses the prompt of " + word;
    return line.where + ": the candidates need " + std::to_string(positions) + " positions under " + word +
           "; expected at most " + std::to_string(model_.prompt.positions_max);
  }
  const GoldenDifference difference = compare(line.scores, *scores, report_.golden.relative);
  to.largest = std::max(to.largest, difference.largest);
  to.share = std::max(to.share, difference.largest / difference.bound);
  if (!difference.beyond) {
    ++to.equal;
    return "";
  }
  const std::size_t at = *difference.beyond;
  return line.where + ": " + line.name_of(at) + ": " + word + " gives " + score_text((*scores)[at]) +
         "; expected " + score_text(line.scores[at]) + " (up to " + scientific(difference.bound) +
         " is rounding)";
}

void Verification::compare_named(const GoldenLine& line, const VerifiedRequest& request) {
  ++report_.golden.named;
  const Arrangement named = line.is_tokens() ? Arrangement::causal : line.arrangement;
  if (!line.is_tokens() && !model_.prompt.can_have(named))
    throw ImportError(line.where + ": arrangement is " + std::string(word_of(named)) + "; expected one of " +
                      words_of(possible(model_.prompt)));
  GoldenArrangement to{named};
  const std::string fault = compare_golden(line, request, to);
  report_.golden.named_equal += fault.empty();
  if (!model_.prompt.declares(named) && !std::exchange(notes_undeclared_, true))
    report_.notes.push_back(line.where + " names " + std::string(word_of(named)) +
                            ", which the form does not declare: no request is served it.");
  if (!fault.empty()) report_.golden.faults.push_back(fault);
}

void Verification::check_golden() {
  GoldenCheck& golden = report_.golden;
  golden.relative = rounding_bounds(model_.config).golden;
  for (const Arrangement arrangement : possible(model_.prompt)) golden.arrangements.push_back({arrangement});
  std::vector<std::vector<std::string>> faults(golden.arrangements.size());  // by arrangement
  for (const GoldenLine& line :
       read_golden(options_.golden, data_->event_features(), model_.prompt.tasks_read())) {
    ++golden.lines;
    const VerifiedRequest request = golden_request(line);
    if (line.is_tokens() || line.arrangement != Arrangement::unnamed) {
      compare_named(line, request);
      continue;
    }
    for (std::size_t i = 0; i < faults.size(); ++i)
      if (std::string fault = compare_golden(line, request, golden.arrangements[i]); !fault.empty())
        faults[i].push_back(std::move(fault));
  }
  add_golden_faults(faults);
}

// Decides which arrangement the lines without a name equal: the closest one, or the first of those that they
// do not tell apart from it, as all are the same for one candidate. If none, reports the lines that differ
// from the closest one.
void Verification::add_golden_faults(const std::vector<std::vector<std::string>>& faults) {
  GoldenCheck& golden = report_.golden;
  const std::size_t unnamed = golden.lines - golden.named;
  if (unnamed == 0) return;
  const auto is_further = [](const GoldenArrangement& one, const GoldenArrangement& other) {
    return one.equal != other.equal ? one.equal < other.equal : one.share > other.share;
  };
  const auto closest = std::ranges::max_element(golden.arrangements, is_further);
  if (closest->equal == unnamed) {
    std::vector<Arrangement> same;
    for (const GoldenArrangement& to : golden.arrangements)
      if (to.equal == unnamed && to.share <= closest->share + distinguished) same.push_back(to.arrangement);
    golden.equals = same.front();
    if (same.size() > 1)
      report_.notes.push_back("The golden scores do not tell " + words_of(same) +
                              " apart; lines with several candidates do.");
    return;
  }
  const std::vector<std::string>& own =
      faults[static_cast<std::size_t>(closest - golden.arrangements.begin())];
  golden.faults.insert(golden.faults.end(), own.begin(), own.end());
}

// Puts the arrangement that golden scores equal first, if it may be written and nothing else is declared.
void Verification::choose_declared() {
  PromptForm& form = model_.prompt;
  const Arrangement golden = report_.golden.equals;
  if (options_.write && !form_file_.declares && options_.arrangements.empty() &&
      golden != Arrangement::unnamed)
    form.arrangements = {golden};
  std::erase_if(form.interchangeable, [&](Arrangement listed) { return !form.declares(listed); });
  if (form.interchangeable.empty() || form.interchangeable.front() != form.arrangements.front())
    form.interchangeable.clear();
  report_.listed = form.interchangeable;
  report_.declared = form.arrangements;
  for (const Arrangement arrangement : possible(form))
    samples_.push_back({arrangement, form.declares(arrangement)});
}

void Verification::add_reuse(const VerifiedRequest& request, const std::vector<float>& plain,
                             ArrangementSamples& samples) {
  const double bound = report_.relative * largest_of(plain);
  for (const ReusedScores& reused : scores_->reused(request, samples.arrangement)) {
    auto at = std::ranges::find(samples.reuse, reused.reused, &ReuseCheck::reused);
    if (at == samples.reuse.end()) {
      at = samples.reuse.insert(at, ReuseCheck{});
      at->reused = reused.reused;
      at->bound = bound;
    }
    ++at->requests;
    const Difference difference = difference_of(reused.scores, plain);
    if (difference.largest / bound <= at->largest / at->bound) continue;
    at->largest = difference.largest;
    at->bound = bound;
    at->score = score_name(request, difference.at, plain.size());
    at->computed = reused.scores[difference.at];
    at->expected = plain[difference.at];
  }
}

// Returns true if all scores are finite numbers; else notes the first one that is not.
bool Verification::is_finite(const VerifiedRequest& request, const std::vector<float>& scores,
                             ArrangementSamples& samples) const {
  const auto wrong = std::ranges::find_if_not(scores, [](float score) { return std::isfinite(score); });
  if (wrong == scores.end()) return true;
  samples.not_finite.push_back(
      score_name(request, static_cast<std::size_t>(wrong - scores.begin()), scores.size()) + ": " +
      std::string(word_of(samples.arrangement)) + " gives " + score_text(*wrong) +
      "; expected a finite number");
  return false;
}

// Returns false if the request does not fit under a declared arrangement. An arrangement that is not
// declared, or whose scores are not finite, is not compared on the request.
bool Verification::add_request(const VerifiedRequest& request) {
  std::vector<std::optional<std::vector<float>>> plain;
  for (const ArrangementSamples& samples : samples_) {
    plain.push_back(scores_of(request, samples.arrangement));
    if (!plain.back() && samples.declared) return false;
  }
  for (std::size_t i = 0; i < samples_.size(); ++i)
    if (plain[i] && !is_finite(request, *plain[i], samples_[i])) plain[i].reset();
  if (!plain.front()) return true;
  const bool with_reuse = report_.reuse_requests < reuse_requests_max;
  report_.reuse_requests += with_reuse;
  const bool ranks = !model_.prompt.generates();
  const bool is_event = ranks && request.truth;
  report_.events += is_event;
  const std::size_t tasks = model_.prompt.tasks_read();
  const std::vector<float> first = ordering_scores(*plain.front(), ranks ? tasks : 1);
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (!plain[i]) continue;
    ArrangementSamples& samples = samples_[i];
    ++samples.requests;
    if (with_reuse) add_reuse(request, *plain[i], samples);
    if (!ranks) continue;
    const std::vector<float> own = ordering_scores(*plain[i], tasks);
    samples.overlap.push_back(overlap_at_10(own, first));
    samples.correlation.push_back(rank_correlation(own, first));
    samples.largest_difference =
        std::max(samples.largest_difference, difference_of(*plain[i], *plain.front()).largest);
    if (!is_event) continue;
    samples.ndcg.push_back(ndcg(judge_ranking(own, *request.truth), 10));
    samples.first_ndcg.push_back(ndcg(judge_ranking(first, *request.truth), 10));
  }
  return true;
}

void Verification::check_requests() {
  const VerifiedRequests requests = read_verified_requests(
      *data_,
      {options_.config.model.directory, options_.evaluation, options_.requests, options_.skip_unknown});
  report_.requests_file = requests.file.string();
  report_.left_out = requests.left_out;
  Progress progress("requests", requests.list.size());
  for (const VerifiedRequest& request : requests.list) {
    if (add_request(request))
      ++report_.requests;
    else
      ++report_.skipped;
    progress.at(report_.requests + report_.skipped);
  }
  if (report_.requests == 0)
    throw ImportError("no request fits under all of " + words_of(report_.declared) +
                      ", which are declared; expected requests with fewer candidates");
}

void Verification::judge_arrangements() {
  const ArrangementSamples& first = samples_.front();
  report_.shown = report_.events >= events_needed;
  for (const ArrangementSamples& samples : samples_) {
    ArrangementCheck check{.arrangement = samples.arrangement,
                           .declared = samples.declared,
                           .reuse = samples.reuse,
                           .requests = samples.requests,
                           .events = samples.ndcg.size(),
                           .overlap_at_10 = mean_of(samples.overlap),
                           .rank_correlation = mean_of(samples.correlation),
                           .largest_difference = samples.largest_difference};
    check.quality = &samples == &first ? judge_first(first.ndcg)
                                       : judge(samples.first_ndcg, samples.ndcg, options_.tolerance);
    const Verdict verdict = check.quality.verdict;
    if (check.declared && (verdict == Verdict::first || verdict == Verdict::as_good))
      report_.interchangeable.push_back(samples.arrangement);
    report_.arrangements.push_back(std::move(check));
  }
}

void Verification::add_faults(const std::vector<std::string>& faults, const std::string& more) {
  const std::size_t shown = std::min(shown_faults_max, faults.size());
  report_.faults.insert(report_.faults.end(), faults.begin(),
                        faults.begin() + static_cast<std::ptrdiff_t>(shown));
  if (faults.size() > shown)
    report_.faults.push_back(std::to_string(faults.size() - shown) + " more " + more);
}

void Verification::find_faults() {
  find_score_faults();
  find_golden_faults();
  find_quality_faults();
}

void Verification::find_score_faults() {
  for (const ArrangementSamples& samples : samples_) {
    const std::string word(word_of(samples.arrangement));
    if (samples.declared)
      add_faults(samples.not_finite, "requests have a score under " + word + " that is not finite");
    else if (!samples.not_finite.empty())
      report_.notes.push_back(samples.not_finite.front() + " (" + std::to_string(samples.not_finite.size()) +
                              " requests; no request is served " + word + ").");
  }
  for (const ArrangementCheck& check : report_.arrangements)
    for (const ReuseCheck& reuse : check.reuse)
      if (!reuse.is_rounding())
        report_.faults.push_back(reuse.score + ": " + std::string(word_of(check.arrangement)) + " with " +
                                 reuse.reused + " from earlier computations gives " +
                                 score_text(reuse.computed) + "; expected " + score_text(reuse.expected) +
                                 " as by the plain computation (up to " + scientific(reuse.bound) +
                                 " is rounding)");
}

void Verification::find_golden_faults() {
  const GoldenCheck& golden = report_.golden;
  add_faults(golden.faults, "lines of the golden file differ");
  const Arrangement first = report_.declared.front();
  if (golden.equals == Arrangement::unnamed || golden.equals == first) return;
  const std::string word(word_of(golden.equals)), served(word_of(first)), file = target_.string();
  const auto own = std::ranges::find(golden.arrangements, first, &GoldenArrangement::arrangement);
  if (own->equal == golden.lines - golden.named) {
    report_.notes.push_back("The golden scores equal " + served + ", and are closer to " + word + ".");
    return;
  }
  const std::string advice =
      !options_.arrangements.empty() ? "; put " + word +
                                           " first in --arrangements, or name it in the lines of "
                                           "the golden file"
      : form_file_.declares ? "; declare " + word + " first in \"arrangements\" of " + file +
                                  ", or name it in the lines of the golden file"
                            : "; declare it: \"arrangements\": [\"" + word + "\"] in " + file +
                                  ", or run verify again with --write";
  report_.faults.push_back("the golden scores equal " + word + ", and requests are served " + served +
                           advice);
}

void Verification::find_quality_faults() {
  std::vector<Arrangement> more;
  for (const ArrangementCheck& check : report_.arrangements) {
    const Verdict verdict = check.quality.verdict;
    const bool listed = std::ranges::find(report_.listed, check.arrangement) != report_.listed.end();
    if (listed && verdict == Verdict::worse && !options_.write)
      report_.faults.push_back(
          "the form lists " + std::string(word_of(check.arrangement)) +
          " as interchangeable, and its NDCG@10 is worse; take it out of the list, or run "
          "verify again with --write");
    const bool fits = check.requests == report_.arrangements.front().requests;
    if (!check.declared && verdict == Verdict::as_good && fits) more.push_back(check.arrangement);
  }
  if (!more.empty()) {
    std::vector<Arrangement> all = report_.declared;
    all.insert(all.end(), more.begin(), more.end());
    std::string words = words_of(all);
    std::erase(words, ' ');
    report_.notes.push_back("As good as " + std::string(word_of(report_.declared.front())) +
                            " and not declared: " + words_of(more) + ".");
    report_.notes.push_back("  If the model was trained for it: --arrangements " + words);
  }
}

void Verification::write() {
  const PromptForm& form = model_.prompt;
  if (form.generates() || form.items_are_tokens()) {
    report_.notes.push_back("Nothing was written: " + describe_arrangements(form) + ".");
    return;
  }
  if (!report_.faults.empty()) {
    report_.notes.push_back("Nothing was written, because scores differ.");
    return;
  }
  if (options_.golden.empty())
    report_.notes.push_back("Nothing shows that the model was trained for " +
                            std::string(word_of(form.arrangements.front())) +
                            ": no golden scores were compared (--golden).");
  const std::vector<Arrangement>& interchangeable =
      report_.shown ? report_.interchangeable : form.interchangeable;
  const bool same_place = form_file_.exists && form_file_.file == target_;
  const std::string text =
      form_text(form_file_.text, form, model_.vocabulary, form.arrangements, interchangeable);
  if (same_place && same_members(text, form_file_.text)) {
    report_.notes.push_back(target_.string() + " declares this already.");
    return;
  }
  try {
    report_.write_fault = replace_text_file(target_, text);
    report_.written = target_.string();
  } catch (const std::runtime_error& error) {
    report_.write_fault = error.what();
  }
}

}  // namespace

VerifyReport verify(const VerifyOptions& options, const WrapExecutor& wrap) {
  return Verification(options, wrap).run();
}

}  // namespace troupe::deploy
