// Implements generation: items of the whole catalog, found by a beam search over their identifiers
// after a user's history, or, for models of next items, by a scan of the item table.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/path_index.h"
#include "router/fleet/fingerprint.h"
#include "router/request/own_history.h"
#include "router/request/plans.h"
#include "router/request/request.h"
#include "router/request/request_check.h"
#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace {

using kernels::PathIndex;
using Path = std::vector<Token>;
using Items = std::vector<ItemNumber>;

constexpr std::uint32_t usual_results = 10, usual_width = 128;

Path path_of(const ItemView& item) { return {item.tokens.begin(), item.tokens.end()}; }

// Returns the identifiers in a history. An event that was put as an item has that item's tokens. An
// event that was put as a token may begin an identifier, which continues in the events after it.
std::set<Path> paths_in(const Profile& profile, const PathIndex& paths) {
  std::set<Path> found;
  std::size_t at = 0, end = 0;  // end of the event, and of the last identifier
  for (const std::uint32_t tokens : profile.events) {
    const std::size_t begin = std::exchange(at, at + tokens);
    if (begin < end) continue;
    PathIndex::Node node = PathIndex::root;
    for (std::size_t i = begin; i < profile.tokens.size(); ++i) {
      node = paths.child(node, profile.tokens[i]);
      if (node == PathIndex::none) break;
      if (!paths.is_leaf(node)) continue;
      end = i + 1;
      found.emplace(profile.tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                    profile.tokens.begin() + static_cast<std::ptrdiff_t>(end));
      break;
    }
  }
  return found;
}

class Generation final : public RequestOf<GenerateRequest> {
 public:
  Generation(GenerateRequest&& request, const Policy& usual)
      : RequestOf(std::move(request)), user_(history_user(request_)), policy_(usual) {}

  std::string_view kind() const override { return "generate"; }
  std::string_view named_user() const override { return request_.user; }
  std::uint64_t profile_version() const override { return profile_version_; }
  std::uint64_t home() const override { return user_hash(request_.tenant, user_); }
  std::uint64_t fingerprint() const override { return router::fingerprint(request_, profile_version_); }

  std::string catalog_version() const override { return catalog_->version(); }
  std::optional<FindFeatures> features() const override;
  std::optional<Refusal> take(const PromptForm& form, const RequestLimits& limits,
                              const Features& features) override;

  const Policy* policy() const override { return &policy_; }
  std::string user() const override { return owner_of_user(request_.tenant, user_); }
  Situation situation() const override { return {.user_tokens = history_.tokens.size()}; }
  std::vector<Candidate> candidates(const PromptForm& form, const BlockNames& names) override;

  std::string validate_beams(std::span<const Beam> beams) const override;
  Message reply(RunResult&& result) override;

 private:
  std::optional<Refusal> take_lists(const Features& features);
  std::optional<Refusal> take_history(const PromptForm& form, const RequestLimits& limits,
                                      const Profile& user);
  Search::Normalisation normalisation(const PromptForm& form) const;
  void make_search(const PromptForm& form, const RequestLimits& limits, const Profile& user);
  bool is_denied(ItemNumber item) const { return denied_.contains(item); }
  Items items_of(const Path& path) const;
  std::vector<GeneratedItem> items_of(std::vector<Beam> beams) const;

  std::string user_;  // owner of the history's blocks
  Policy policy_;
  CatalogPointer catalog_;
  std::shared_ptr<const PathIndex> paths_;
  // items by identifier: those of the request's allow list that are not denied
  std::map<Path, Items> allowed_;
  std::set<ItemNumber> denied_;
  std::set<Path> denied_paths_;  // paths whose items are all denied or seen
  FittedHistory history_;
  Search search_;
  double temperature_ = 0;  // of a model of next items; 0: a generator
  std::uint64_t profile_version_ = 0;
  bool is_cold_ = false;  // the user is not stored
  Features::Source of_ = Features::Source::store;
};

std::optional<FindFeatures> Generation::features() const {
  FindFeatures wanted{.tenant = request_.tenant,
                      .user = request_.user,
                      .items = request_.allow,
                      .paths = true,
                      .freshness = request_.features,
                      .history = own_history(request_)};
  wanted.items.insert(wanted.items.end(), request_.deny.begin(), request_.deny.end());
  return wanted;
}

std::optional<Refusal> Generation::take(const PromptForm& form, const RequestLimits& limits,
                                        const Features& features) {
  TROUPE_CHECK(features.items.size() == request_.allow.size() + request_.deny.size(),
               "the feature port answers for each item");
  is_cold_ = !features.user;
  if (is_cold_ && !is_cold_allowed(request_.unknown_user, limits))
    return user_without_profile(request_.user, request_.tenant);
  const Profile no_events;
  const Profile& user = is_cold_ ? no_events : *features.user;
  catalog_ = features.catalog;
  paths_ = catalog_->paths();
  profile_version_ = user.version;
  of_ = features.of;
  if (paths_->empty())
    return Refusal{RefusalKind::unprocessable, "empty_catalog", "the catalog has no items", "catalog",
                   "items that were put or imported"};
  if (form.next_items && user.events.empty()) return empty_history(request_);
  if (auto refusal = take_lists(features)) return refusal;
  if (auto refusal = take_history(form, limits, user)) return refusal;
  make_search(form, limits, user);
  if (!request_.allow.empty() && search_.allowed.empty())
    return Refusal{RefusalKind::unprocessable, "nothing_allowed", "no item of the allow list is left",
                   "allow", "an item that is not denied, and not seen where seen items are excluded"};
  return std::nullopt;
}

// A denied item that is unknown is not in the catalog, so it needs no entry.
std::optional<Refusal> Generation::take_lists(const Features& features) {
  const std::size_t allowed = request_.allow.size();
  for (std::size_t i = allowed; i < features.items.size(); ++i)
    if (features.items[i] != no_item) denied_.insert(features.items[i]);
  for (std::size_t i = 0; i < allowed; ++i) {
    const ItemNumber item = features.items[i];
    if (item == no_item)
      return Refusal{RefusalKind::not_found, "unknown_item",
                     "item \"" + request_.allow[i] + "\" is not in the catalog",
                     "allow[" + std::to_string(i) + "]", "items that were put or imported"};
    if (is_denied(item)) continue;
    Items& sharing = allowed_[path_of(catalog_->item(item))];
    if (std::ranges::find(sharing, item) == sharing.end()) sharing.push_back(item);
  }
  return std::nullopt;
}

std::optional<Refusal> Generation::take_history(const PromptForm& form, const RequestLimits& limits,
                                                const Profile& user) {
  std::size_t steps = paths_->depth();
  for (const auto& [path, items] : allowed_) steps = std::max(steps, path.size());
  const std::size_t frame = positions_without_history(form, steps);
  if (frame > form.positions_max)
    return Refusal{RefusalKind::unprocessable, "too_long",
                   "identifiers of " + std::to_string(steps) + " tokens make a prompt of " +
                       std::to_string(frame) + " positions",
                   "catalog", "at most " + std::to_string(form.positions_max)};
  history_ = fit_history(form, user, steps);
  if (history_.tokens.size() > limits.request_tokens_max)
    return Refusal{RefusalKind::too_large, "too_many_tokens",
                   "the user has " + std::to_string(history_.tokens.size()) + " tokens", "user",
                   "at most " + std::to_string(limits.request_tokens_max) + " (router.request_tokens_max)"};
  return std::nullopt;
}

Search::Normalisation Generation::normalisation(const PromptForm& form) const {
  Normalised normalised = request_.normalised;
  if (request_.among_allowed) normalised = Normalised::allowed;
  if (normalised == Normalised::by_model) normalised = form.normalised;
  return normalised == Normalised::allowed ? Search::Normalisation::allowed
                                           : Search::Normalisation::vocabulary;
}

// A path is denied if none of its items may be returned. Each path that is found therefore gives an
// item.
void Generation::make_search(const PromptForm& form, const RequestLimits& limits, const Profile& user) {
  search_.of_items = form.next_items;
  if (form.next_items) temperature_ = form.temperature;
  search_.results = std::min(request_.top_k > 0 ? request_.top_k : usual_results, limits.width_max);
  if (request_.width > 0) search_.results = std::min(search_.results, request_.width);
  search_.width = request_.width > 0 ? request_.width
                  : form.next_items  ? search_.results  // as many are kept as are returned
                                     : std::min(std::max(search_.results, usual_width), limits.width_max);
  search_.normalised = normalisation(form);
  search_.by_token = request_.logprobs;
  std::set<Path> denied;
  if (request_.exclude_seen) denied = paths_in(user, *paths_);
  if (!request_.allow.empty()) {
    std::erase_if(allowed_, [&](const auto& allowed) { return denied.contains(allowed.first); });
    for (const auto& [path, items] : allowed_) search_.allowed.emplace_back(path);
    return;
  }
  for (const ItemNumber item : denied_)
    if (Path path = path_of(catalog_->item(item));
        paths_->find(path) != PathIndex::none && items_of(path).empty())
      denied.insert(std::move(path));
  for (const Path& path : denied) search_.denied.emplace_back(path);
  denied_paths_ = std::move(denied);
}

std::vector<Candidate> Generation::candidates(const PromptForm& form, const BlockNames& names) {
  const RankPrompt prompt{.form = form,
                          .names = policy_->reuses ? &names : nullptr,
                          .tenant = request_.tenant,
                          .user = user_,
                          .history = history_.tokens,
                          .catalog = catalog_,
                          .features = history_.features,
                          .now = request_.request_timestamp};
  std::vector<Candidate> made;
  made.push_back(form.next_items ? history_search_plan(prompt, search_) : search_plan(prompt, search_));
  return made;
}

// Returns the items of this identifier that may be returned.
Items Generation::items_of(const Path& path) const {
  if (!request_.allow.empty()) {
    const auto at = allowed_.find(path);
    return at == allowed_.end() ? Items() : at->second;
  }
  const PathIndex::Node leaf = paths_->find(path);
  if (leaf == PathIndex::none) return {};
  Items items;
  std::ranges::copy_if(paths_->items(leaf), std::back_inserter(items),
                       [&](ItemNumber item) { return !is_denied(item); });
  return items;
}

std::string Generation::validate_beams(std::span<const Beam> beams) const {
  std::set<Path> before;
  for (std::size_t i = 0; i < beams.size(); ++i) {
    const Path& path = beams[i].path;
    if (denied_paths_.contains(path) || items_of(path).empty())
      return "path " + std::to_string(i) + " is not an identifier of an item that may be returned";
    if (!before.insert(path).second) return "path " + std::to_string(i) + " was found twice";
  }
  return "";
}

// Returns items best first; items that share an identifier are ordered by id.
std::vector<GeneratedItem> Generation::items_of(std::vector<Beam> beams) const {
  std::vector<GeneratedItem> items;
  items.reserve(beams.size());
  for (Beam& beam : beams) {
    const auto first = static_cast<std::ptrdiff_t>(items.size());
    const Items sharing = items_of(beam.path);
    for (const ItemNumber number : sharing) {
      const ItemView item = catalog_->item(number);
      items.push_back({std::string(item.id), std::string(item.title), {}, beam.log_probability, {}});
      items.back().score = temperature_ > 0 ? beam.score * temperature_ : beam.log_probability;
      if (number != sharing.back()) items.back().tokens = beam.path, items.back().by_token = beam.by_token;
    }
    if (!sharing.empty()) {
      items.back().tokens = std::move(beam.path);
      items.back().by_token = std::move(beam.by_token);
    }
    std::ranges::sort(items.begin() + first, items.end(), {}, &GeneratedItem::id);
  }
  return items;
}

Message Generation::reply(RunResult&& result) {
  GenerateReply reply{.id = request_.id, .user = std::move(request_.user)};
  reply.items = items_of(std::move(result.beams));
  if (reply.items.size() < search_.results)
    reply.reason = "only " + std::to_string(reply.items.size()) +
                   " items of the catalog may be returned; asked for " + std::to_string(search_.results);
  if (reply.items.size() > search_.results) reply.items.resize(search_.results);
  reply.width = search_.width;
  fill_run(result, reply);
  reply.blocks_reused = result.blocks_reused;
  reply.blocks_written = result.blocks_written;
  reply.history_cut = history_.cut;
  reply.catalog_version = catalog_->version();
  reply.profile_version = profile_version_;
  reply.features_stale = of_ == Features::Source::stale;
  reply.features_missing = of_ == Features::Source::missing;
  if (is_cold_) reply.unknown_user = word_of(UnknownUser::cold);
  return reply;
}

}  // namespace

std::unique_ptr<Request> take_generate(Message&& message, const Policy& usual) {
  return std::make_unique<Generation>(std::get<GenerateRequest>(std::move(message)), usual);
}

}  // namespace troupe::router
