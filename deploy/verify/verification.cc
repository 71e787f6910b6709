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
#include "deploy/verify/verify_requests.h"
#include "kernels/base/number_formats.h"

namespace troupe::deploy {
namespace {

constexpr std::size_t reuse_requests_max = 100;
constexpr std::size_t golden_faults_max = 5;

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

double difference_of(const std::vector<float>& one, const std::vector<float>& other) {
  if (one.size() != other.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double own = std::abs(static_cast<double>(one[i]) - other[i]);
    largest = std::isfinite(own) ? std::max(largest, own) : std::numeric_limits<double>::infinity();
    if (std::isinf(largest)) break;
  }
  return largest;
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
  std::vector<ReuseCheck> reuse;
  std::vector<double> overlap, correlation, ndcg;
  double largest_difference = 0;
};

class Verification {
 public:
  explicit Verification(const VerifyOptions& options) : options_(options) {}

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
  std::vector<float> golden_scores(const GoldenLine& line, const VerifiedRequest& request,
                                   Arrangement arrangement);
  VerifiedRequest golden_request(const GoldenLine& line);
  void compare_named(const GoldenLine& line, const VerifiedRequest& request);
  void add_golden_faults(const std::vector<std::vector<std::string>>& faults);
  void choose_declared();
  void check_requests();
  bool add_request(const VerifiedRequest& request);
  void add_reuse(const VerifiedRequest& request, const std::vector<float>& plain,
                 ArrangementSamples& samples);
  void judge_arrangements();
  void find_faults();
  void find_quality_faults();
  void write();

  VerifyOptions options_;
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
  scores_ = std::make_unique<ArrangementScores>(*executor_, model_.prompt, model_.names);
  report_.model = directory;
  report_.version = model_.opened.version;
  report_.weights = word_of(model_.config.model.weights);
  report_.pages = word_of(model_.config.pool.kv_format);
  report_.relative = rounding_bounds(model_.config).reuse;
  report_.tolerance = options_.tolerance;
  report_.listed = model_.prompt.interchangeable;
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

// Returns as many scores as the line has; NaN if the request does not fit under the arrangement.
std::vector<float> Verification::golden_scores(const GoldenLine& line, const VerifiedRequest& request,
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
  return scores_->plain(request, arrangement)
      .value_or(std::vector<float>(line.scores.size(), std::numeric_limits<float>::quiet_NaN()));
}

std::string golden_fault(const GoldenLine& line, const std::vector<float>& scores,
                         const GoldenDifference& difference, Arrangement arrangement) {
  const std::size_t at = *difference.beyond;
  if (std::isnan(scores[at])) return line.where + ": the prompt does not fit into the model";
  return line.where + ": " + line.name_of(at) + ": " + std::string(word_of(arrangement)) + " gives " +
         fixed(scores[at], 6) + "; expected " + fixed(line.scores[at], 6) + " (up to " +
         scientific(difference.bound) + " is rounding)";
}

void Verification::compare_named(const GoldenLine& line, const VerifiedRequest& request) {
  ++report_.golden.named;
  const Arrangement named = line.is_tokens() ? Arrangement::causal : line.arrangement;
  if (!line.is_tokens() && !model_.prompt.can_have(named))
    throw ImportError(line.where + ": arrangement is " + std::string(word_of(named)) + "; expected one of " +
                      words_of(possible(model_.prompt)));
  const std::vector<float> scores = golden_scores(line, request, named);
  const GoldenDifference difference = compare(line.scores, scores, report_.golden.relative);
  report_.golden.named_equal += !difference.beyond;
  if (!model_.prompt.declares(named) && !std::exchange(notes_undeclared_, true))
    report_.notes.push_back(line.where + " names " + std::string(word_of(named)) +
                            ", which the form does not declare: no request is served it.");
  if (difference.beyond) report_.golden.faults.push_back(golden_fault(line, scores, difference, named));
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
    for (std::size_t i = 0; i < faults.size(); ++i) {
      GoldenArrangement& to = golden.arrangements[i];
      const std::vector<float> scores = golden_scores(line, request, to.arrangement);
      const GoldenDifference difference = compare(line.scores, scores, golden.relative);
      to.largest = std::max(to.largest, difference.largest);
      to.equal += !difference.beyond;
      if (difference.beyond) faults[i].push_back(golden_fault(line, scores, difference, to.arrangement));
    }
  }
  add_golden_faults(faults);
}

// Decides which arrangement the lines without a name equal. If none, reports the lines that differ from the
// closest one.
void Verification::add_golden_faults(const std::vector<std::vector<std::string>>& faults) {
  GoldenCheck& golden = report_.golden;
  const std::size_t unnamed = golden.lines - golden.named;
  if (unnamed == 0) return;
  const auto is_further = [](const GoldenArrangement& one, const GoldenArrangement& other) {
    return one.equal != other.equal ? one.equal < other.equal : one.largest > other.largest;
  };
  const auto closest = std::ranges::max_element(golden.arrangements, is_further);
  if (closest->equal == unnamed) {
    golden.equals = closest->arrangement;
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
  report_.declared = form.arrangements;
  for (const Arrangement arrangement : possible(form)) samples_.push_back({arrangement});
}

void Verification::add_reuse(const VerifiedRequest& request, const std::vector<float>& plain,
                             ArrangementSamples& samples) {
  const double bound = report_.relative * largest_of(plain);
  for (const ReusedScores& reused : scores_->reused(request, samples.arrangement)) {
    auto at = std::ranges::find(samples.reuse, reused.reused, &ReuseCheck::reused);
    if (at == samples.reuse.end()) at = samples.reuse.insert(at, {reused.reused, 0, 0, bound});
    const double difference = difference_of(reused.scores, plain);
    ++at->requests;
    if (difference / bound > at->largest / at->bound) at->largest = difference, at->bound = bound;
  }
}

// Returns false if the request does not fit under some arrangement.
bool Verification::add_request(const VerifiedRequest& request) {
  std::vector<std::vector<float>> plain;
  for (const ArrangementSamples& samples : samples_) {
    std::optional<std::vector<float>> scores = scores_->plain(request, samples.arrangement);
    if (!scores) return false;
    plain.push_back(std::move(*scores));
  }
  const bool with_reuse = report_.reuse_requests < reuse_requests_max;
  report_.reuse_requests += with_reuse;
  const bool ranks = !model_.prompt.generates();
  const bool is_event = ranks && request.truth;
  report_.events += is_event;
  const std::size_t tasks = model_.prompt.tasks_read();
  const std::vector<float> first = ordering_scores(plain.front(), ranks ? tasks : 1);
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    ArrangementSamples& samples = samples_[i];
    if (with_reuse) add_reuse(request, plain[i], samples);
    if (!ranks) continue;
    const std::vector<float> own = ordering_scores(plain[i], tasks);
    samples.overlap.push_back(overlap_at_10(own, first));
    samples.correlation.push_back(rank_correlation(own, first));
    samples.largest_difference = std::max(samples.largest_difference, difference_of(plain[i], plain.front()));
    if (is_event) samples.ndcg.push_back(ndcg(judge_ranking(own, *request.truth), 10));
  }
  return true;
}

void Verification::check_requests() {
  const VerifiedRequests requests =
      read_verified_requests(*data_, options_.config.model.directory, options_.evaluation, options_.requests);
  report_.requests_file = requests.file.string();
  Progress progress("requests", requests.list.size());
  for (const VerifiedRequest& request : requests.list) {
    if (add_request(request))
      ++report_.requests;
    else
      ++report_.skipped;
    progress.at(report_.requests + report_.skipped);
  }
  if (report_.requests == 0)
    throw ImportError("no request fits under all of " + words_of(possible(model_.prompt)) +
                      "; expected requests with fewer candidates");
}

void Verification::judge_arrangements() {
  const ArrangementSamples& first = samples_.front();
  report_.shown = report_.events >= events_needed;
  for (const ArrangementSamples& samples : samples_) {
    ArrangementCheck check{.arrangement = samples.arrangement,
                           .declared = model_.prompt.declares(samples.arrangement),
                           .reuse = samples.reuse,
                           .overlap_at_10 = mean_of(samples.overlap),
                           .rank_correlation = mean_of(samples.correlation),
                           .largest_difference = samples.largest_difference};
    check.quality =
        &samples == &first ? judge_first(first.ndcg) : judge(first.ndcg, samples.ndcg, options_.tolerance);
    const Verdict verdict = check.quality.verdict;
    if (check.declared && (verdict == Verdict::first || verdict == Verdict::as_good))
      report_.interchangeable.push_back(samples.arrangement);
    report_.arrangements.push_back(std::move(check));
  }
}

void Verification::find_faults() {
  for (const ArrangementCheck& check : report_.arrangements)
    for (const ReuseCheck& reuse : check.reuse)
      if (!reuse.is_rounding())
        report_.faults.push_back(std::string(word_of(check.arrangement)) + ": with " + reuse.reused +
                                 " from earlier computations a score differs by " +
                                 scientific(reuse.largest) +
                                 " from the plain computation; expected at most " + scientific(reuse.bound));
  const GoldenCheck& golden = report_.golden;
  for (std::size_t i = 0; i < std::min(golden_faults_max, golden.faults.size()); ++i)
    report_.faults.push_back(golden.faults[i]);
  if (golden.faults.size() > golden_faults_max)
    report_.faults.push_back(std::to_string(golden.faults.size() - golden_faults_max) +
                             " more lines of the golden file differ");
  const Arrangement first = model_.prompt.arrangements.front();
  if (golden.equals != Arrangement::unnamed && golden.equals != first) {
    const std::string word(word_of(golden.equals)), file = target_.string();
    report_.faults.push_back("the golden scores equal " + word + ", and requests are served " +
                             std::string(word_of(first)) +
                             (form_file_.declares ? "; declare " + word + " first in \"arrangements\" of " +
                                                        file + ", or name it in the lines of the golden file"
                                                  : "; declare it: \"arrangements\": [\"" + word + "\"] in " +
                                                        file + ", or run verify again with --write"));
  }
  find_quality_faults();
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
    if (!check.declared && verdict == Verdict::as_good) more.push_back(check.arrangement);
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
  const std::vector<Arrangement>& interchangeable =
      report_.shown ? report_.interchangeable : form.interchangeable;
  const bool same_place = form_file_.exists && form_file_.file == target_;
  const std::string text =
      form_text(form_file_.text, form, model_.vocabulary, form.arrangements, interchangeable);
  if (same_place && same_members(text, form_file_.text)) {
    report_.notes.push_back(target_.string() + " declares this already.");
    return;
  }
  replace_file(target_, text);
  report_.written = target_.string();
}

}  // namespace

RoundingBounds rounding_bounds(const Config& config) {
  if (word_of(config.model.weights) == format_name(kernels::WeightFormat::int8)) return {5e-2, 2e-1};
  if (word_of(config.pool.kv_format) == format_name(kernels::KvFormat::bf16)) return {1e-2, 6e-2};
  if (word_of(config.pool.kv_format) == format_name(kernels::KvFormat::f16)) return {1e-3, 1e-2};
  return {1e-4, 1e-4};
}

VerifyReport verify(const VerifyOptions& options) { return Verification(options).run(); }

}  // namespace troupe::deploy
