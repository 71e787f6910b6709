// Computes the statistics of a request trace in one pass: arrivals, returns of users, and how
// unevenly users and items are requested.
#include "deploy/lab/traces/trace_stats.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <utility>

#include "deploy/lab/traces/trace_users.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

constexpr std::int64_t five_minutes_us = 300'000'000;
constexpr double buckets_per_decade = 50;
constexpr double line_steps = 50;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

double share_of_most_used(const std::vector<std::uint64_t>& falling, double share, double uses) {
  const auto keys = static_cast<std::size_t>(std::ceil(share * static_cast<double>(falling.size())));
  double sum = 0;
  for (std::size_t i = 0; i < keys; ++i) sum += static_cast<double>(falling[i]);
  return ratio(sum, uses);
}

// Fits a line over ranks at equal steps of their logarithm, so that each decade has the same weight.
double fit_line(const std::vector<std::uint64_t>& falling) {
  const double half = static_cast<double>(falling.size() / 2);
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (double step = 0, last = 0; half >= 2 && step < line_steps; ++step) {
    const double rank = std::round(std::pow(half, step / (line_steps - 1)));
    if (rank == std::exchange(last, rank)) continue;
    const double log_rank = std::log(rank);
    const double log_count = std::log(static_cast<double>(falling[static_cast<std::size_t>(rank) - 1]));
    n += 1, x += log_rank, y += log_count, xx += log_rank * log_rank, xy += log_rank * log_count;
  }
  const double spread = n * xx - x * x;
  return spread > 0 ? -(n * xy - x * y) / spread : 0;
}

// Finds the exponent for which Zipf's law gives the observed mean of log rank. That mean falls as the
// exponent rises, so bisection finds it.
double fit_likelihood(const std::vector<std::uint64_t>& falling) {
  double seen = 0, uses = 0;
  std::vector<double> logs;
  for (std::size_t i = 0; i < falling.size(); ++i) {
    logs.push_back(std::log(static_cast<double>(i + 1)));
    seen += static_cast<double>(falling[i]) * logs.back();
    uses += static_cast<double>(falling[i]);
  }
  double low = 0, high = 5;
  for (int round = 0; round < 40 && falling.size() > 1; ++round) {
    const double middle = (low + high) / 2;
    double sum = 0, weighted = 0;
    for (const double log_rank : logs) {
      const double weight = std::exp(-middle * log_rank);
      sum += weight, weighted += weight * log_rank;
    }
    (weighted / sum > seen / uses ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Counts gaps by their logarithm, so that millions of them take little memory.
class GapCounts {
 public:
  void add(Duration gap) {
    const double us = static_cast<double>(std::max<std::int64_t>(gap.us, 1));
    ++counts_[static_cast<int>(std::floor(std::log10(us) * buckets_per_decade))];
    ++all_;
  }
  double quantile_s(double share) const {
    double below = 0;
    for (const auto& [bucket, count] : counts_)
      if ((below += static_cast<double>(count)) >= share * static_cast<double>(all_))
        return std::pow(10, (bucket + 0.5) / buckets_per_decade) * 1e-6;
    return 0;
  }

 private:
  std::map<int, std::uint64_t> counts_;
  std::uint64_t all_ = 0;
};

class TraceMeasurement {
 public:
  explicit TraceMeasurement(TraceReader& reader) : reader_(reader) { stats_.source = reader.source(); }

  TraceStats run() {
    for (TracedRequest request; reader_.next(request);) add(request);
    return finish();
  }

 private:
  struct User {
    std::uint64_t requests = 0, events = 0;
    Instant last;
  };

  void add(const TracedRequest& request) {
    const TraceUsers::Visit visit = trace_users_.visit(reader_, request);
    if (visit.user == users_.size()) users_.emplace_back();
    User& user = users_[visit.user];
    add_arrival(request.at);
    if (visit.first) {
      events_first_ += static_cast<double>(request.events.size());
    } else {
      ++again_;
      same_profile_ += !visit.changed;
      within_5min_ += (request.at - user.last).us <= five_minutes_us;
      user_gaps_.add(request.at - user.last);
    }
    ++user.requests;
    user.last = request.at;
    events_ += static_cast<double>(user.events += request.events.size());
    tenants_.insert(request.tenant);
    for (const std::string& item : request.candidates) count(item, candidates_);
    candidates_all_ += static_cast<double>(request.candidates.size());
    if (request.truth.empty()) return;
    ++with_truth_;
    count(request.truth, truths_);
  }

  void add_arrival(Instant at) {
    if (stats_.requests++ == 0) {
      first_ = at;
    } else {
      const double gap = static_cast<double>((at - last_).us);
      gaps_ += gap, gap_squares_ += gap * gap;
    }
    last_ = at;
    const std::int64_t second = (at - first_).us / 1'000'000;
    if (second != second_) close_second();
    second_ = second;
    ++in_second_;
  }

  // Adds the count of a finished second. Seconds without requests add nothing here; finish() knows their
  // number from the last request.
  void close_second() {
    const double count = static_cast<double>(in_second_);
    second_squares_ += count * count;
    stats_.most_in_1s = std::max(stats_.most_in_1s, in_second_);
    in_second_ = 0;
  }

  void count(const std::string& item, std::vector<std::uint64_t>& counts) {
    const std::uint32_t number = names_.number_of(item);
    if (counts.size() <= number) counts.resize(number + 1);
    ++counts[number];
  }

  TraceStats finish() {
    if (stats_.requests == 0) return stats_;
    stats_.most_in_1s = std::max(stats_.most_in_1s, in_second_);
    const double n = static_cast<double>(stats_.requests), gaps = n - 1;
    stats_.seconds = static_cast<double>((last_ - first_).us) * 1e-6;
    stats_.per_second = ratio(gaps, stats_.seconds);
    const double gap = ratio(gaps_, gaps);
    stats_.gap_cv = ratio(std::sqrt(std::max(0.0, ratio(gap_squares_, gaps) - gap * gap)), gap);
    // Only whole seconds count; the last one is incomplete.
    const double seconds = static_cast<double>(second_),
                 mean = ratio(n - static_cast<double>(in_second_), seconds);
    stats_.dispersion_1s = ratio(ratio(second_squares_, seconds) - mean * mean, mean);
    stats_.tenants = tenants_.size();
    stats_.users = users_.size();
    stats_.candidates_mean = candidates_all_ / n;
    stats_.events_first_mean = events_first_ / static_cast<double>(users_.size());
    stats_.profile_events_mean = events_ / n;
    stats_.with_truth = with_truth_ / n;
    stats_.again = again_ / n;
    stats_.again_5min = within_5min_ / n;
    stats_.again_same_profile = ratio(same_profile_, again_);
    stats_.gap_p10_s = user_gaps_.quantile_s(0.1);
    stats_.gap_median_s = user_gaps_.quantile_s(0.5);
    stats_.gap_p90_s = user_gaps_.quantile_s(0.9);
    std::vector<std::uint64_t> requests;
    for (const User& user : users_) requests.push_back(user.requests);
    stats_.user_skew = skew_of(std::move(requests));
    stats_.candidate_skew = skew_of(std::move(candidates_));
    stats_.truth_skew = skew_of(std::move(truths_));
    stats_.items = stats_.candidate_skew.keys;
    return stats_;
  }

  TraceReader& reader_;
  TraceStats stats_;
  TraceUsers trace_users_;
  NumberedNames names_;
  std::vector<User> users_;
  std::vector<std::uint64_t> candidates_, truths_;
  std::set<std::string> tenants_;
  GapCounts user_gaps_;
  Instant first_, last_;
  std::int64_t second_ = 0;
  std::uint64_t in_second_ = 0;
  double gaps_ = 0, gap_squares_ = 0, second_squares_ = 0;
  double candidates_all_ = 0, events_first_ = 0, events_ = 0;
  double with_truth_ = 0, again_ = 0, within_5min_ = 0, same_profile_ = 0;
};

nlohmann::json skew_json(const Skew& skew) {
  return {{"keys", skew.keys},
          {"uses", skew.uses},
          {"share_of_10_percent", skew.share_of_10},
          {"share_of_1_percent", skew.share_of_1},
          {"share_of_0.1_percent", skew.share_of_01},
          {"zipf_line", skew.zipf_line},
          {"zipf_likelihood", skew.zipf_likelihood}};
}

}  // namespace

Skew skew_of(std::vector<std::uint64_t> counts) {
  std::erase(counts, 0U);
  std::ranges::sort(counts, std::greater());
  Skew skew{.keys = counts.size()};
  if (counts.empty()) return skew;
  for (const std::uint64_t count : counts) skew.uses += count;
  const double uses = static_cast<double>(skew.uses);
  skew.share_of_10 = share_of_most_used(counts, 0.1, uses);
  skew.share_of_1 = share_of_most_used(counts, 0.01, uses);
  skew.share_of_01 = share_of_most_used(counts, 0.001, uses);
  skew.zipf_line = fit_line(counts);
  skew.zipf_likelihood = fit_likelihood(counts);
  return skew;
}

TraceStats measure_trace(TraceReader& reader) { return TraceMeasurement(reader).run(); }

void print(std::ostream& out, const TraceStats& s) {
  out << "from: " << s.source << '\n'
      << s.requests << " requests in " << fixed(s.seconds, 1) << " s, " << fixed(s.per_second, 2)
      << " per second; times between them: coefficient of variation " << fixed(s.gap_cv, 2)
      << "; in 1 s: at most " << s.most_in_1s << ", index of dispersion " << fixed(s.dispersion_1s, 2) << '\n'
      << s.tenants << " tenants, " << s.users << " users, " << s.items << " items; "
      << fixed(s.candidates_mean, 1) << " candidates per request; " << percent(s.with_truth)
      << " with a truth\n"
      << "profiles: " << fixed(s.events_first_mean, 1) << " events at a user's first request, "
      << fixed(s.profile_events_mean, 1) << " in the mean of all requests\n"
      << "returning users: " << percent(s.again) << " of the requests, " << percent(s.again_5min)
      << " within 5 min; " << percent(s.again_same_profile)
      << " of them with the same profile; after (p10, median, p90) " << fixed(s.gap_p10_s, 1) << ", "
      << fixed(s.gap_median_s, 1) << ", " << fixed(s.gap_p90_s, 1) << " s\n";
  constexpr auto right = Table::Align::right;
  Table table({{"skew of"},
               {"number", right},
               {"uses", right},
               {"top 10 %", right},
               {"1 %", right},
               {"0.1 %", right},
               {"Zipf, line", right},
               {"Zipf, likelihood", right}});
  const auto row = [&](const char* name, const Skew& k) {
    table.row({name, std::to_string(k.keys), std::to_string(k.uses), percent(k.share_of_10),
               percent(k.share_of_1), percent(k.share_of_01), fixed(k.zipf_line, 3),
               fixed(k.zipf_likelihood, 3)});
  };
  row("users by requests", s.user_skew);
  row("items as candidates", s.candidate_skew);
  row("items as truth", s.truth_skew);
  table.print(out);
}

nlohmann::json to_json(const TraceStats& s) {
  return {{"source", s.source},
          {"requests", s.requests},
          {"seconds", s.seconds},
          {"per_second", s.per_second},
          {"gap_cv", s.gap_cv},
          {"dispersion_1s", s.dispersion_1s},
          {"most_in_1s", s.most_in_1s},
          {"tenants", s.tenants},
          {"users", s.users},
          {"items", s.items},
          {"candidates_mean", s.candidates_mean},
          {"events_first_mean", s.events_first_mean},
          {"profile_events_mean", s.profile_events_mean},
          {"with_truth", s.with_truth},
          {"again", s.again},
          {"again_5min", s.again_5min},
          {"again_same_profile", s.again_same_profile},
          {"gap_p10_s", s.gap_p10_s},
          {"gap_median_s", s.gap_median_s},
          {"gap_p90_s", s.gap_p90_s},
          {"user_skew", skew_json(s.user_skew)},
          {"candidate_skew", skew_json(s.candidate_skew)},
          {"truth_skew", skew_json(s.truth_skew)}};
}

}  // namespace troupe::deploy
