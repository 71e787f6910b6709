// Records the requests of a running service as a trace that can be replayed, with the events that
// each user's profile gained between requests.
#include "deploy/tracing/trace_capture.h"

#include <algorithm>
#include <chrono>

#include "router/request/own_history.h"
#include "runtime/actor/message_id.h"

namespace troupe::deploy {
namespace {

std::string key_of(std::span<const Token> tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
}

// Returns the name by which a trace knows who has this history, the same as long as it grows.
std::string visitor_of(const GivenHistory& given) {
  const std::string owner = router::own_history_user(given);
  return "visitor-" + owner.substr(owner.find(' ') + 1);
}

}  // namespace

// ---- profiles ----

NewEventFinder::NewEventFinder(const Catalog& catalog) : catalog_(catalog) {
  for (ItemNumber n = catalog.next(0); n != no_item; n = catalog.next(n + 1))
    by_tokens_.emplace(key_of(catalog.item(n).tokens), n);
}

std::vector<ItemNumber> NewEventFinder::items_of(const Profile& profile) const {
  std::vector<ItemNumber> items;
  std::span<const Token> left = profile.tokens;
  for (const std::uint32_t tokens : profile.events) {
    const auto at = by_tokens_.find(key_of(left.first(tokens)));
    if (at != by_tokens_.end()) items.push_back(at->second);
    left = left.subspan(tokens);
  }
  return items;
}

void NewEventFinder::fill(const Profile* profile, TracedRequest& request) {
  fill_events(profile ? items_of(*profile) : std::vector<ItemNumber>(), request);
}

void NewEventFinder::fill(const std::vector<std::string>& history, TracedRequest& request) {
  std::vector<ItemNumber> items = catalog_.find_all(history);
  std::erase(items, no_item);
  fill_events(items, request);
}

void NewEventFinder::fill_events(const std::vector<ItemNumber>& items, TracedRequest& request) {
  LastProfile& seen = users_[request.tenant + '\n' + request.user];
  auto begin = items.begin();
  if (!seen.tail.empty()) {
    const auto at = std::find_end(items.begin(), items.end(), seen.tail.begin(), seen.tail.end());
    if (at != items.end())
      begin = at + static_cast<std::ptrdiff_t>(seen.tail.size());  // else the profile was rewritten
  }
  for (auto at = begin; at != items.end(); ++at) request.events.emplace_back(catalog_.item(*at).id);
  seen.profile += request.events.size();
  request.profile = seen.profile;
  const auto tail = std::min<std::ptrdiff_t>(items.end() - items.begin(), tail_max);
  seen.tail.assign(items.end() - tail, items.end());
}

// ---- requests ----

// Fills `pending`; false: traces do not contain such messages.
bool TraceCapture::take(const Message& message, PendingRequest& pending) {
  TracedRequest& request = pending.request;
  const auto take_asker = [&](const auto& asked) {
    request.tenant = asked.tenant, request.user = asked.user;
    const std::optional<GivenHistory> own = router::own_history(asked);
    if (own) request.user = visitor_of(*own), pending.history = own->history;
  };
  if (const auto* rank = std::get_if<RankRequest>(&message)) {
    take_asker(*rank);
    request.candidates = rank->candidates;
    return true;
  }
  const auto* generate = std::get_if<GenerateRequest>(&message);
  if (!generate) return false;
  take_asker(*generate);
  request.generates = true;
  request.top_k = generate->top_k, request.width = generate->width;
  return true;
}

void TraceCapture::on_request(const Message& message, std::int64_t now_us) {
  if (!on_.load(std::memory_order_relaxed)) return;
  PendingRequest waiting{id_of(message), State::open, {}};
  if (!take(message, waiting)) return;
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= waiting_max) return void(++left_out_);
  waiting.request.at = {std::max<std::int64_t>(0, now_us - start_us_)};
  waiting_.push_back(std::move(waiting));
}

void TraceCapture::on_reply(const Message& message) {
  if (!on_.load(std::memory_order_relaxed)) return;
  const auto* refused = std::get_if<Refused>(&message);
  const bool mistaken = refused && is_fault_of_request(refused->refusal.kind);
  const RequestId id = id_of(message);
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(waiting_, id, &PendingRequest::id);
  if (at != waiting_.end() && at->state == State::open) at->state = mistaken ? State::left_out : State::kept;
  if (at == waiting_.begin()) more_.notify_one();
}

// Takes the oldest request once its outcome is known. Returns false after 100 ms without one.
bool TraceCapture::next(PendingRequest& request, std::int64_t now_us) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] {
    while (!waiting_.empty() && (waiting_.front().state == State::left_out ||
                                 (waiting_.front().state == State::open &&
                                  now_us - start_us_ - waiting_.front().request.at.us > reply_timeout_us)))
      waiting_.pop_front();
    return !waiting_.empty() && waiting_.front().state == State::kept;
  };
  if (!more_.wait_for(lock, std::chrono::milliseconds(100), ready)) return false;
  request = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

std::uint64_t TraceCapture::record(const CaptureLimits& limits, const Catalog& catalog,
                                   const FindProfile& find,
                                   const std::function<bool(const TracedRequest&)>& write,
                                   const std::function<bool()>& over) {
  const auto now_us = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  NewEventFinder profiles(catalog);
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    left_out_ = 0;
    start_us_ = now_us();
  }
  on_ = true;
  PendingRequest kept;
  TracedRequest& request = kept.request;
  for (std::uint64_t written = 0; written < limits.requests && now_us() - start_us_ < limits.us && !over();) {
    if (!next(kept, now_us())) continue;
    if (kept.history)
      profiles.fill(*kept.history, request);
    else
      profiles.fill(find(request.tenant, request.user).get(), request);
    ++written;
    if (!write(request)) break;
  }
  on_ = false;
  const std::lock_guard lock(mutex_);
  waiting_.clear();
  return left_out_;
}

}  // namespace troupe::deploy
