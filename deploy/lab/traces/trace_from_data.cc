// DataTrace: makes traces from the histories of a data set.
#include <algorithm>
#include <cmath>

#include "deploy/data/dataset.h"
#include "deploy/lab/traces/trace_makers.h"
#include "kernels/base/check.h"
#include "sim/base/random.h"

namespace troupe::deploy {

namespace {

constexpr double view_window_s = 60;  // with own times: views are at most this long before the event
constexpr std::uint64_t timestamp_max = std::uint64_t{1} << 40;

enum StreamPurpose : std::uint64_t { of_views = 1, of_times };

template <class T>
void shuffle(std::vector<T>& values, RandomStream& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

}  // namespace

DataTrace::DataTrace(const DataTraceOptions& options)
    : maker_options_(options.common),
      start_(options.start),
      own_times_(options.common.arrivals == "own"),
      random_(options.common.seed, 0xda7a),
      returns_(options.common.returns, options.common.seed) {
  own_times_ ? read_ratings(options) : read_histories(options);
  count_items();
  choose_users(options.users);
  for (User& user : users_) user.next = start_;
  if (options.history_median > 0) lengthen_histories(options);
  make_slots();
  if (slots_.empty())
    throw ImportError(options.data.string() + ": no user has more than " + std::to_string(start_) +
                      " events; expected longer histories, or a smaller --start");
  if (!own_times_) arrivals_.emplace(maker_options_.arrivals, maker_options_.per_second, maker_options_.seed);
}

// ---- data ----

void DataTrace::read_histories(const DataTraceOptions& options) {
  for (const PutUser& put : read_users(options.data, HistoryPart::all)) {
    User& user = users_.emplace_back();
    user.id = put.user;
    for (const std::string& item : put.history) user.history.push_back({items_.number_of(item)});
  }
}

void DataTrace::read_ratings(const DataTraceOptions& options) {
  std::filesystem::path path = options.data / "ratings.tsv";
  if (!std::filesystem::exists(path)) path += ".gz";
  if (!std::filesystem::exists(path))
    throw ImportError(options.data.string() +
                      ": no timestamps; expected ratings.tsv, plain or .gz, or other --arrivals");
  TsvFile tsv(path);
  const std::size_t user = tsv.column("user_id"), item = tsv.column("item_id"),
                    time = tsv.column("timestamp");
  NumberedNames names;
  std::vector<std::string_view> fields;
  while (tsv.next(fields)) {
    const std::uint32_t number = names.number_of(fields[user]);
    if (number == users_.size()) users_.emplace_back().id = fields[user];
    const std::uint64_t at = parse_number(tsv.file(), fields[time], "timestamp", timestamp_max);
    users_[number].history.push_back({items_.number_of(fields[item]), static_cast<double>(at)});
  }
  for (User& each : users_) std::ranges::stable_sort(each.history, {}, &Event::at_s);
}

// Counts items over all users, so that popularity does not depend on which users are chosen.
void DataTrace::count_items() {
  std::vector<double> counts(items_.size());
  for (const User& user : users_)
    for (const Event& event : user.history) ++counts[event.item];
  if (!counts.empty()) popularity_.emplace(counts);
  candidates_.emplace(items_.size());
}

void DataTrace::choose_users(std::uint32_t count) {
  if (count == 0 || count >= users_.size()) return;
  shuffle(users_, random_);
  users_.resize(count);
}

void DataTrace::lengthen_histories(const DataTraceOptions& options) {
  for (User& user : users_) {
    if (user.done()) continue;
    const double drawn =
        std::min(draw_log_normal(random_, options.history_median, options.history_sigma), history_events_max);
    if (drawn <= start_) continue;
    std::vector<Event> older(static_cast<std::size_t>(drawn) - start_);
    for (Event& event : older) event.item = popularity_->draw(random_);
    user.history.insert(user.history.begin(), older.begin(), older.end());
    user.next += static_cast<std::uint32_t>(older.size());
  }
}

// ---- order of visits ----

// Draws the number of views from the seed each time, so that it need not be stored.
std::uint32_t DataTrace::views_of(std::uint32_t user, std::uint32_t event) const {
  RandomStream random(maker_options_.seed, sim::mix(of_views, user, event));
  return draw_geometric(random, maker_options_.views);
}

// Makes a slot for each view of each event. Without timestamps the slots are shuffled uniformly.
void DataTrace::make_slots() {
  for (std::uint32_t u = 0; u < users_.size(); ++u) {
    const std::uint32_t first = users_[u].next;
    if (!users_[u].done()) users_[u].views = views_of(u, first);
    for (std::uint32_t e = first; e < users_[u].history.size(); ++e) {
      if (own_times_) {
        add_slots_by_time(u, e, slots_);
      } else {
        slots_.insert(slots_.end(), views_of(u, e), Slot{0, u});
      }
    }
  }
  if (!own_times_) return shuffle(slots_, random_);
  std::ranges::stable_sort(slots_, {}, &Slot::at_s);
  if (slots_.empty()) return;
  const double first = slots_.front().at_s, lasts_s = std::max(1.0, slots_.back().at_s - first);
  for (Slot& slot : slots_) slot.at_s -= first;
  us_per_own_s_ = 1e6 * static_cast<double>(slots_.size()) / maker_options_.per_second / lasts_s;
}

// Puts the last view at the event's own time, and the others into the minute before it, after the previous
// event.
void DataTrace::add_slots_by_time(std::uint32_t user, std::uint32_t event, std::vector<Slot>& slots) {
  const std::vector<Event>& history = users_[user].history;
  const double end = history[event].at_s;
  double begin = end - view_window_s;
  if (event > 0) begin = std::max(begin, history[event - 1].at_s);
  RandomStream random(maker_options_.seed, sim::mix(of_times, user, event));
  std::vector<double> times{end};
  for (std::uint32_t view = views_of(user, event); view > 1; --view)
    times.push_back(begin + sim::unit(random) * (end - begin));
  std::ranges::sort(times);
  for (const double time : times) slots.push_back({time, user});
}

std::optional<std::uint32_t> DataTrace::next_user(Instant at) {
  while (const auto back = returns_.due(at))
    if (!users_[*back].done()) return back;
  while (slot_ < slots_.size()) {
    const std::uint32_t user = slots_[slot_++].user;
    if (!users_[user].done()) return user;
  }
  return std::nullopt;
}

bool DataTrace::next(TracedRequest& request) {
  if (own_times_) {
    if (slot_ == slots_.size()) return false;
    const Slot& slot = slots_[slot_++];
    request.at = {static_cast<std::int64_t>(slot.at_s * us_per_own_s_)};
    fill(users_[slot.user], request);
    return true;
  }
  // A slot is skipped only if its user's views were served by returns, so no user gets more requests than
  // slots.
  const Instant at = arrivals_->next();
  const auto user = next_user(at);
  if (!user) return false;
  request.at = at;
  fill(users_[*user], request);
  if (!users_[*user].done()) returns_.leave(*user, at);
  return true;
}

const std::vector<std::uint32_t>& DataTrace::draw_candidates(const User& user, bool takes) {
  candidates_->begin();
  for (std::uint32_t e = 0; e < user.next; ++e) candidates_->exclude(user.history[e].item);
  const auto draw = [&](std::optional<std::uint32_t> truth) -> const auto& {
    return candidates_->draw(random_, maker_options_.candidates, truth,
                             [this] { return popularity_->draw(random_); });
  };
  const std::uint32_t item = user.history[user.next].item;
  const auto& chosen = draw(takes ? std::optional(item) : std::nullopt);
  // The user has all items already: the candidate is the item that they take again later.
  return chosen.empty() ? draw(item) : chosen;
}

void DataTrace::fill(User& user, TracedRequest& request) {
  const auto number = static_cast<std::uint32_t>(&user - users_.data());
  request.tenant = maker_options_.tenant;
  request.user = user.id;
  request.profile = user.next;
  request.events.clear();
  for (; user.reported < user.next; ++user.reported)
    request.events.push_back(items_.name(user.history[user.reported].item));
  const bool takes = user.views == 1;
  const std::uint32_t item = user.history[user.next].item;
  request.candidates.clear();
  for (const std::uint32_t one : draw_candidates(user, takes)) request.candidates.push_back(items_.name(one));
  request.truth = takes ? items_.name(item) : "";
  apply_request_kind(maker_options_, request);
  if (--user.views > 0) return;
  ++user.next;
  if (!user.done()) user.views = views_of(number, user.next);
}

}  // namespace troupe::deploy
