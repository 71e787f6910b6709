// Serves profiles and the catalog from a Redis that several routers share. It refuses, or answers
// from what was read last, while that Redis is unreachable, and reports writes whose outcome is
// unknown.
#include "runtime/redis/redis_features.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "runtime/features/append_events.h"
#include "runtime/features/feature_rules.h"

namespace troupe {
namespace {

using What = WriteOutcome::What;

constexpr int tries_max = 32;  // bound on retries; reached only under a storm of concurrent writes

std::string random_text() {
  std::random_device device;
  std::string text;
  for (int i = 0; i < 4; ++i) text += std::to_string(device()) + "-";
  return text;
}

RedisConnectionPoolOptions connection_options(const RedisFeatureOptions& options,
                                              std::function<void(const RedisStanding&)> on_standing) {
  return {options.address, options.connections, options.time_limit, options.reconnect_pause,
          std::move(on_standing)};
}

RedisCatalog::Options catalog_options(const RedisFeatureOptions& options) {
  return {std::clamp<std::uint32_t>(options.page_items, 1, 4096), options.catalog_history_max,
          options.time_limit};
}

Instant present() {
  return {std::chrono::duration_cast<std::chrono::microseconds>(
              std::chrono::steady_clock::now().time_since_epoch())
              .count()};
}

std::unique_ptr<RedisItems> items_of(const RedisFeatureOptions& options, const FeatureLimits& limits,
                                     const NameItem& name_item) {
  return options.cached_items
             ? std::make_unique<RedisItems>(limits, name_item, *options.cached_items, options.on_item_sources)
             : nullptr;
}

// Returns the items that an answer needs: those asked for, and those of the request's own history.
std::vector<std::string> items_needed(const FindFeatures& wanted) {
  std::vector<std::string> items = wanted.items;
  if (wanted.history)
    items.insert(items.end(), wanted.history->history.begin(), wanted.history->history.end());
  return items;
}

Refusal needs_catalog() {
  return {RefusalKind::unprocessable, "no_catalog", "this router reads items one by one", "catalog",
          "a router that holds the whole catalog (features.items: whole)"};
}

Refusal unavailable(const std::string& why) {
  return {RefusalKind::unavailable, "features_unavailable", "the shared feature store is away: " + why,
          "feature store", "a Redis that answers in time"};
}

Refusal outcome_unknown(const std::string& why) {
  return {RefusalKind::unavailable, "outcome_unknown", "whether the write was stored is not known: " + why,
          "feature store", "a Redis that answers in time; ask again for what is stored"};
}

// True for errors with which Redis refuses a script before its first write.
bool wrote_nothing(const std::string& code) {
  for (const char* known :
       {"BUSY", "LOADING", "MASTERDOWN", "MISCONF", "NOAUTH", "NOREPLICAS", "NOSCRIPT", "OOM", "READONLY"})
    if (code == known) return true;
  return false;
}

// Refuses a write whose condition failed in the script. If the condition holds for the version
// returned, a race happened: the client may retry.
Refusal unmet(const Condition& condition, const WriteOutcome& outcome) {
  return reject_if_unmet(condition, outcome.version)
      .value_or(unavailable("it refuses a condition that is met"));
}

std::variant<WriteOutcome, Refusal> outcome_of(const RedisReply& reply) {
  if (reply.is(RedisReply::Kind::error)) {
    const std::string code = error_code(reply), why = "it answers with " + code;
    return wrote_nothing(code) ? unavailable(why) : outcome_unknown(why);
  }
  if (const auto outcome = read_outcome(reply)) return *outcome;
  return outcome_unknown("it answers in another form");
}

}  // namespace

RedisFeaturePort::RedisFeaturePort(RedisFeatureOptions options, const FeatureLimits& limits,
                                   NameItem name_item, std::string model_version)
    : options_(std::move(options)),
      limits_(limits),
      name_item_(std::move(name_item)),
      model_version_(std::move(model_version)),
      nonce_(random_text()),
      keys_(options_.prefix),
      connections_(connection_options(options_, [this](const RedisStanding& now) { note_standing(now); }),
                   redis_scripts()),
      catalog_(limits_, name_item_, catalog_options(options_)),
      items_(items_of(options_, limits_, name_item_)),
      profiles_(options_.last_known_bytes_max) {
  read_point(0, "", {}, Freshness::exact);
}

void RedisFeaturePort::note_standing(const RedisStanding& now) {
  const RedisEvictions::Notes notes = evictions_.note(now);
  if (!notes.risk.empty() && options_.on_risk) options_.on_risk(notes.risk);
  if (!notes.loss.empty() && options_.on_loss) options_.on_loss(notes.loss);
}

JobResult RedisFeaturePort::run(const Job& job, std::uint32_t connection) {
  try {
    if (const auto* wanted = std::get_if<FindFeatures>(&job)) return find(*wanted, connection);
    if (const auto* wanted = std::get_if<ListItems>(&job)) return list(*wanted, connection);
    if (const auto* wanted = std::get_if<Write>(&job))
      return std::visit([&](const auto& what) { return write(what, connection); }, wanted->what);
    if (const auto* wanted = std::get_if<Read>(&job))
      return std::visit([&](const auto& what) { return read(what, connection); }, wanted->what);
    return wrong_feature_job();
  } catch (const std::exception& error) {  // out of memory
    return Refusal{RefusalKind::internal, "port_failed", error.what(), "feature port", "to finish the job"};
  }
}

std::string RedisFeaturePort::catalog_version() const { return catalog_version_text(position().version); }

// Another router's plan may name a version that this process has not read yet. Or it names a past
// version: others have read later ones since, or Redis is unreachable and the router continues from
// older data.
CatalogPointer RedisFeaturePort::catalog_at(const std::string& version) {
  if (items_) return nullptr;
  if (CatalogPointer held = catalogs_in_use_.find(version)) return held;
  if (CatalogPointer known = catalog_.mirror().named(version)) return known;
  ask(0, "");
  return catalog_.mirror().named(version);
}

// ---- reads ----

OrRedisFailure<StorePoint> RedisFeaturePort::ask(std::uint32_t connection, const std::string& user) {
  auto taken = connections_.take(connection);
  if (auto* failure = std::get_if<RedisFailure>(&taken)) return std::move(*failure);
  return ask(std::get<RedisConnectionPool::Session>(taken), user);
}

OrRedisFailure<StorePoint> RedisFeaturePort::ask(RedisConnectionPool::Session& session,
                                                 const std::string& user, RedisPipeline* behind) {
  auto asked = catalog_.ask(session, keys_, user, behind);
  const auto* point = std::get_if<StorePoint>(&asked);
  if (!point) return asked;
  if (auto unfit = reject_if_unfit(*point)) return *std::move(unfit);
  return asked;
}

// Rejects rows that belong to another model. Reports a loss.
std::optional<RedisFailure> RedisFeaturePort::reject_if_unfit(const StorePoint& point) {
  const std::string lost = memory_.note(point);
  if (!lost.empty() && options_.on_loss) options_.on_loss(lost);
  if (!options_.refuses || point.made_for.empty()) return std::nullopt;
  if (std::string why = options_.refuses(point.made_for); !why.empty()) return RedisFailure{std::move(why)};
  return std::nullopt;
}

OrRedisFailure<ItemPoint> RedisFeaturePort::read_point(RedisConnectionPool::Session& session,
                                                       const std::string& user,
                                                       std::span<const std::string> items,
                                                       Freshness freshness, RedisPipeline* behind) {
  if (items_) {
    auto read = items_->read(session, keys_, user, items, freshness, present(), behind);
    if (const auto* known = std::get_if<ItemPoint>(&read))
      if (auto unfit = reject_if_unfit(known->point)) return *std::move(unfit);
    return read;
  }
  auto asked = ask(session, user, behind);
  if (auto* away = std::get_if<RedisFailure>(&asked)) return std::move(*away);
  ItemPoint read{std::get<StorePoint>(std::move(asked)), nullptr};
  read.catalog = catalog_.at(read.point);
  return read;
}

OrRedisFailure<ItemPoint> RedisFeaturePort::read_point(std::uint32_t connection, const std::string& user,
                                                       std::span<const std::string> items,
                                                       Freshness freshness) {
  auto taken = connections_.take(connection);
  if (auto* failure = std::get_if<RedisFailure>(&taken)) return std::move(*failure);
  return read_point(std::get<RedisConnectionPool::Session>(taken), user, items, freshness);
}

// Called after a write of this process: what was read of the item before is out of date.
void RedisFeaturePort::note_item(const std::string& item, std::uint32_t connection) {
  if (items_)
    items_->written(item, present());
  else
    ask(connection, "");  // so that the last known catalog contains it
}

JobResult RedisFeaturePort::find(const FindFeatures& wanted, std::uint32_t connection) {
  if (auto refusal = reject_if_wrong_model(wanted, model_version_)) return *refusal;
  if (items_ && wanted.paths) return needs_catalog();
  const std::string key = wanted.user.empty() ? "" : user_key(wanted.tenant, wanted.user);
  const Freshness freshness =
      wanted.freshness == Freshness::configured ? options_.items_usual : wanted.freshness;
  const std::vector<std::string> items = items_needed(wanted);
  for (int tries = 0; tries < tries_max; ++tries) {
    auto read = read_point(connection, key, items, freshness);
    if (const auto* away = std::get_if<RedisFailure>(&read)) return find_last_known(wanted, key, *away);
    if (auto result = answer(wanted, key, std::get<ItemPoint>(read))) return std::move(*result);
  }
  return unavailable("its catalog changes faster than it can be read");
}

// Sends the profile reads together with the catalog's page, so that all take one round trip.
std::vector<UserReading> RedisFeaturePort::find_users(std::span<const std::string> keys,
                                                      std::uint32_t connection) {
  std::vector<UserReading> users(keys.size());
  auto taken = connections_.take(connection);
  if (std::holds_alternative<RedisFailure>(taken)) return users;
  RedisPipeline rows;
  for (const std::string& key : keys) rows.commands.push_back({"GET", keys_.user(key)});
  const std::vector<std::string> stale = items_ ? items_->take_stale() : std::vector<std::string>();
  const auto asked =
      read_point(std::get<RedisConnectionPool::Session>(taken), "", stale, Freshness::exact, &rows);
  if (std::holds_alternative<RedisFailure>(asked) || rows.replies.size() != keys.size()) return users;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    RedisReply& reply = rows.replies[i];
    users[i].read = reply.is(RedisReply::Kind::nil) || reply.is(RedisReply::Kind::text);
    if (reply.is(RedisReply::Kind::text)) users[i].user = profile_of(std::move(reply.text), keys[i]);
  }
  return users;
}

CatalogPointer RedisFeaturePort::catalog_with(std::span<const std::string> items, bool behind) {
  if (!items_) return present_catalog();
  return items_->find(items, behind ? Freshness::behind : Freshness::wait, present());
}

CatalogPointer RedisFeaturePort::present_catalog() const {
  if (items_ || catalog_.mirror().position().run.empty()) return nullptr;
  StoredCatalogPointer present = catalog_.mirror().present();
  return present;
}

ProfilePointer RedisFeaturePort::profile_of(const std::optional<std::string>& user_row,
                                            const std::string& key) {
  if (!user_row) return nullptr;
  const auto row = split_user_row(*user_row);
  auto profile = row ? decode_profile(key, row->second, limits_) : std::nullopt;
  if (!profile) {
    catalog_.count_bad_record();
    return nullptr;
  }
  profile->version = row->first;
  return std::make_shared<const Profile>(std::move(*profile));
}

// Returns nullopt if the point is no longer known.
std::optional<JobResult> RedisFeaturePort::answer(const FindFeatures& wanted, const std::string& key,
                                                  const ItemPoint& read) {
  if (!read.catalog) return {};
  if (!items_) catalogs_in_use_.note(read.catalog);
  ProfilePointer user = key.empty() ? nullptr : profile_of(read.point.user, key);
  if (options_.when_away == WhenAway::last_known && !key.empty()) {
    if (user)
      profiles_.put(key, {user, read.point.at});
    else
      profiles_.erase(key);
  }
  return find_items(wanted, std::move(user), read.catalog, limits_);
}

JobResult RedisFeaturePort::find_last_known(const FindFeatures& wanted, const std::string& key,
                                            const RedisFailure& away) {
  if (options_.when_away == WhenAway::refuse || items_) return unavailable(away.why);
  ProfilePointer user;
  CatalogPosition at = catalog_.mirror().position();
  if (!key.empty()) {
    auto known = profiles_.find(key);
    if (!known) return unavailable(away.why + ", and the profile is not known here");
    user = std::move(known->profile);
    at = std::move(known->at);
  }
  StoredCatalogPointer catalog = catalog_.mirror().at(at);
  if (at.run.empty() || !catalog) return unavailable(away.why + ", and its catalog is not known here");
  catalogs_in_use_.note(catalog);
  JobResult result = find_items(wanted, std::move(user), std::move(catalog), limits_);
  if (auto* features = std::get_if<Features>(&result); features && !key.empty())
    features->of = Features::Source::stale;
  return result;
}

std::optional<StoredProfile> RedisFeaturePort::stored_of(const StorePoint& point, const std::string& key) {
  if (!point.user) return std::nullopt;
  const auto row = split_user_row(*point.user);
  auto stored = row ? decode_stored_profile(key, row->second, limits_) : std::nullopt;
  if (stored) stored->profile.version = row->first;
  if (!stored) catalog_.count_bad_record();
  return stored;
}

// Reads from Redis only, never from the last known data.
JobResult RedisFeaturePort::read(const GetUser& wanted, std::uint32_t connection) {
  const std::string key = user_key(wanted.tenant, wanted.user);
  const auto asked = read_point(connection, key, {}, Freshness::exact);
  if (const auto* away = std::get_if<RedisFailure>(&asked)) return unavailable(away->why);
  auto stored = stored_of(std::get<ItemPoint>(asked).point, key);
  return stored ? JobResult(reply_of(wanted.user, *std::move(stored)))
                : JobResult(unknown_user(wanted.tenant));
}

JobResult RedisFeaturePort::read(const GetItem& wanted, std::uint32_t connection) {
  for (int tries = 0; tries < tries_max; ++tries) {
    const auto asked = read_point(connection, "", {&wanted.item, 1}, Freshness::exact);
    if (const auto* away = std::get_if<RedisFailure>(&asked)) return unavailable(away->why);
    const StoredCatalogPointer catalog = std::get<ItemPoint>(asked).catalog;
    if (!catalog) continue;
    const ItemNumber number = catalog->find(wanted.item);
    return number == no_item ? JobResult(unknown_item(wanted.item))
                             : JobResult(reply_of(catalog->item(number), catalog->written(number)));
  }
  return unavailable("its catalog changes faster than it can be read");
}

JobResult RedisFeaturePort::list(const ListItems& wanted, std::uint32_t connection) {
  if (items_) return ItemList{.catalog = std::make_shared<const StoredCatalog>(), .items = {}, .last = true};
  const auto asked = ask(connection, "");
  if (const auto* away = std::get_if<RedisFailure>(&asked)) {
    if (options_.when_away == WhenAway::refuse) return unavailable(away->why);
    if (catalog_.mirror().position().run.empty())
      return unavailable(away->why + ", and its catalog is not known here");
    ItemList known = list_items(wanted, catalog_.mirror().present());
    known.stale = unavailable(away->why).what;
    return known;
  }
  return list_items(wanted, catalog_.mirror().present());
}

// ---- writes ----

// Waits for half the time limit, so that the reply arrives in time.
void RedisFeaturePort::add_wait(std::vector<RedisCommand>& commands) const {
  if (options_.wait_replicas == 0) return;
  const auto wait_limit = std::chrono::floor<std::chrono::milliseconds>(options_.time_limit / 2).count();
  commands.push_back(
      {"WAIT", std::to_string(options_.wait_replicas), std::to_string(std::max<long>(1, wait_limit))});
}

bool RedisFeaturePort::is_confirmed(const RedisReply& last) const {
  return options_.wait_replicas == 0 ||
         (last.is(RedisReply::Kind::integer) && last.integer >= options_.wait_replicas);
}

std::variant<WriteOutcome, Refusal> RedisFeaturePort::send(RedisCommand command, std::uint32_t connection) {
  auto taken = connections_.take(connection);
  if (const auto* away = std::get_if<RedisFailure>(&taken)) return unavailable(away->why);
  return send(std::move(command), std::get<RedisConnectionPool::Session>(taken));
}

std::variant<WriteOutcome, Refusal> RedisFeaturePort::send(RedisCommand command,
                                                           RedisConnectionPool::Session& session) {
  std::vector<RedisCommand> commands = {std::move(command)};
  add_wait(commands);
  auto answer = session.run(commands);
  if (const auto* failure = std::get_if<RedisFailure>(&answer))
    return failure->may_have_run ? outcome_unknown(failure->why) : unavailable(failure->why);
  const auto& replies = std::get<std::vector<RedisReply>>(answer);
  auto outcome = outcome_of(replies.front());
  // A server demoted to replica stays one, so reconnect.
  if (std::holds_alternative<Refusal>(outcome)) session.drop();
  const auto* done = std::get_if<WriteOutcome>(&outcome);
  if (done && done->what == What::written && !is_confirmed(replies.back()))
    return outcome_unknown("too few replicas have it in time");
  return outcome;
}

std::optional<Refusal> RedisFeaturePort::draft(const PutUser& put, const StoredCatalog& catalog,
                                               UserDraft& made) const {
  StoredProfile stored;
  if (auto refusal = resolve(put, limits_, catalog, stored)) return refusal;
  for (const std::string& id : put.history) made.seen.push_back({id, catalog.written(catalog.find(id))});
  made.record = encode_profile(stored.profile, user_key(put.tenant, put.user), stored.names);
  made.condition = put.condition;
  return {};
}

RedisCommand RedisFeaturePort::command_of(const std::string& user, const UserDraft& made) const {
  return ask_put_user(keys_, nonce_, user, made, memory_.profiles());
}

RedisCommand RedisFeaturePort::command_of(const PutItem& put) const {
  const Item item{put.item, put.title, put.tokens, put.identifier, {}};
  return ask_put_item(keys_, nonce_, put.item, encode_item(item, 0, put.item), limits_.items_max,
                      memory_.catalog(), put.condition);
}

// Resolves the history from memory; the script checks that those items are unchanged. Otherwise, or
// if an item is unknown here, resolves it again from the store.
JobResult RedisFeaturePort::write(const PutUser& put, std::uint32_t connection) {
  if (auto fault = validate_row(put, limits_)) return *fault;
  auto taken = connections_.take(connection);
  if (const auto* away = std::get_if<RedisFailure>(&taken)) return unavailable(away->why);
  auto& session = std::get<RedisConnectionPool::Session>(taken);
  CatalogPosition at = position();
  StoredCatalogPointer catalog = items_ ? nullptr : catalog_.mirror().at(at);
  for (int tries = 0; tries < tries_max; ++tries) {
    UserDraft made{.origin = at.origin, .catalog = at.version};
    const auto refusal = catalog ? draft(put, *catalog, made) : std::nullopt;
    if (refusal && tries > 0) return *refusal;
    if (catalog && !refusal && (made.seen.empty() || at.run == session.run_id())) {
      const std::string key = user_key(put.tenant, put.user);
      const auto outcome = send(command_of(key, made), session);
      note_written(key, outcome);
      if (const auto* refused = std::get_if<Refusal>(&outcome)) return *refused;
      const auto& done = std::get<WriteOutcome>(outcome);
      if (done.what == What::written) return WriteResult{done.version};
      if (done.what == What::unmet) return unmet(put.condition, done);
    }
    const auto asked = read_point(session, "", put.history, Freshness::exact);
    if (const auto* away = std::get_if<RedisFailure>(&asked)) return unavailable(away->why);
    at = std::get<ItemPoint>(asked).point.at;
    catalog = std::get<ItemPoint>(asked).catalog;
  }
  return unavailable("the items of the history change faster than they can be read");
}

// Writes the row only over the one it was computed from, so that appends of several routers are
// serialised.
JobResult RedisFeaturePort::write(const AppendEvents& events, std::uint32_t connection) {
  if (auto fault = validate_row(events, limits_)) return *fault;
  auto taken = connections_.take(connection);
  if (const auto* away = std::get_if<RedisFailure>(&taken)) return unavailable(away->why);
  auto& session = std::get<RedisConnectionPool::Session>(taken);
  const std::string key = user_key(events.tenant, events.user);
  for (int tries = 0; tries < tries_max; ++tries) {
    const auto asked = read_point(session, key, events.history, Freshness::exact);
    if (const auto* away = std::get_if<RedisFailure>(&asked)) return unavailable(away->why);
    if (auto result = try_append(events, key, std::get<ItemPoint>(asked), session)) return std::move(*result);
  }
  return unavailable("the user, or the items of the history, change faster than they can be read");
}

std::optional<JobResult> RedisFeaturePort::try_append(const AppendEvents& events, const std::string& key,
                                                      const ItemPoint& read,
                                                      RedisConnectionPool::Session& session) {
  const StorePoint& point = read.point;
  const StoredCatalogPointer& catalog = read.catalog;
  if (!catalog) return std::nullopt;
  const auto before = stored_of(point, key);
  // A malformed row is overwritten, as by a PutUser.
  const auto row = point.user ? split_user_row(*point.user) : std::nullopt;
  const std::uint64_t there = row ? row->first : 0, version = before ? there : 0;
  auto grown = append(before ? &*before : nullptr, events, limits_, *catalog);
  if (auto* refusal = std::get_if<Refusal>(&grown)) return std::move(*refusal);
  auto& [stored, counts] = std::get<AppendedProfile>(grown);
  if (before && counts.appended == 0) return WriteResult{version, 0, counts.repeated, 0, counts.events};
  if (auto refusal = reject_if_unmet(events.condition, version)) return *refusal;
  stored.profile.version = 0;
  UserDraft made{.record = encode_profile(stored.profile, key, stored.names),
                 .origin = point.at.origin,
                 .catalog = point.at.version,
                 .condition = {.absent = there == 0, .version = there}};
  for (const std::string& id : events.history)
    if (const ItemNumber number = catalog->find(id); number != no_item)
      made.seen.push_back({id, catalog->written(number)});
  const auto outcome = send(command_of(key, made), session);
  note_written(key, outcome);
  if (const auto* refused = std::get_if<Refusal>(&outcome)) return *refused;
  const auto& done = std::get<WriteOutcome>(outcome);
  if (done.what != What::written) return std::nullopt;
  counts.version = done.version;
  return counts;
}

JobResult RedisFeaturePort::write(const DeleteUser& gone, std::uint32_t connection) {
  const std::string key = user_key(gone.tenant, gone.user);
  const auto outcome = send(ask_delete_user(keys_, key, memory_.profiles(), gone.condition), connection);
  note_written(key, outcome);
  if (const auto* refused = std::get_if<Refusal>(&outcome)) return *refused;
  const auto& done = std::get<WriteOutcome>(outcome);
  if (done.what == What::unmet) return unmet(gone.condition, done);
  return done.what == What::written ? JobResult(WriteResult{done.version})
                                    : JobResult(unknown_user(gone.tenant));
}

// Invalidates what this router read before its own write.
void RedisFeaturePort::note_written(const std::string& user,
                                    const std::variant<WriteOutcome, Refusal>& outcome) {
  const auto* done = std::get_if<WriteOutcome>(&outcome);
  if (done && done->what == What::written) {
    profiles_.forget(user, done->version);
    memory_.note_profile(done->version);
  } else if (std::holds_alternative<Refusal>(outcome)) {
    profiles_.erase(user);
  }
}

JobResult RedisFeaturePort::write(const PutItem& put, std::uint32_t connection) {
  if (auto refusal = validate_row(put, limits_)) return *refusal;
  const auto outcome = send(command_of(put), connection);
  if (const auto* refused = std::get_if<Refusal>(&outcome)) return *refused;
  const auto& done = std::get<WriteOutcome>(outcome);
  if (done.what == What::unmet) return unmet(put.condition, done);
  if (done.what != What::written) return catalog_full(limits_);
  note_item(put.item, connection);
  return WriteResult{done.version};
}

JobResult RedisFeaturePort::write(const DeleteItem& gone, std::uint32_t connection) {
  const auto outcome =
      send(ask_delete_item(keys_, gone.item, options_.deletions_max, memory_.catalog(), gone.condition),
           connection);
  if (const auto* refused = std::get_if<Refusal>(&outcome)) return *refused;
  const auto& done = std::get<WriteOutcome>(outcome);
  if (done.what == What::unmet) return unmet(gone.condition, done);
  if (done.what != What::written) return unknown_item(gone.item);
  note_item(gone.item, connection);
  return WriteResult{done.version};
}

}  // namespace troupe
