// Imports profiles and items into Redis: checks everything in memory first, then writes in
// pipelines (commands sent together). A restart of Redis meanwhile stops the import, because rows
// may be lost.
#include <algorithm>
#include <set>
#include <string>

#include "runtime/features/feature_rules.h"
#include "runtime/redis/redis_features.h"

namespace troupe {
namespace {

constexpr std::size_t batch_rows = 256;
constexpr std::chrono::seconds batch_limit{10};  // an import may take longer than a request

[[noreturn]] void stop(const char* kind, std::size_t done, const std::string& why) {
  stop_import(kind, done, {StoreFault::failed, why});
}

}  // namespace

void RedisFeaturePort::require_catalog(const char* kind) {
  const auto asked = ask(0, "");
  if (const auto* away = std::get_if<RedisFailure>(&asked))
    stop(kind, 0, describe(options_.address) + ": " + away->why);
}

// Throws, naming the `done` rows before this batch, unless all commands are answered as expected.
RedisFeaturePort::Outcomes RedisFeaturePort::import_batch(const char* kind,
                                                          std::vector<RedisCommand> commands,
                                                          std::size_t done, const std::string& run) {
  const std::size_t rows = commands.size();
  const std::string more = "; up to " + std::to_string(rows) + " more may be";
  add_wait(commands);
  auto taken = connections_.take(0);
  if (const auto* away = std::get_if<RedisFailure>(&taken)) stop(kind, done, away->why);
  auto& session = std::get<RedisConnectionPool::Session>(taken);
  if (session.run_id() != run) stop(kind, done, "it was restarted meanwhile and may have lost rows");
  const auto answer = session.run(commands, batch_limit);
  if (const auto* failure = std::get_if<RedisFailure>(&answer)) stop(kind, done, failure->why + more);
  const auto& replies = std::get<std::vector<RedisReply>>(answer);
  Outcomes outcomes;
  for (std::size_t i = 0; i < rows; ++i) {
    const auto outcome = read_outcome(replies[i]);
    if (!outcome) stop(kind, done, "it answers with " + error_code(replies[i]) + more);
    if (outcome->what == WriteOutcome::What::full) stop(kind, done, "the catalog is full" + more);
    outcomes.push_back(*outcome);
  }
  if (!is_confirmed(replies.back())) stop(kind, done, "too few replicas have it in time" + more);
  return outcomes;
}

// Resolves and writes a row again whose history's items changed meanwhile.
void RedisFeaturePort::import_changed(const PutUser& row, std::size_t done) {
  const JobResult result = write(row, 0);
  if (const auto* refusal = std::get_if<Refusal>(&result))
    stop("user", done, row.user + ": " + refusal->where + ": " + refusal->what);
}

void RedisFeaturePort::import(const Import& rows) {
  require_catalog("item");
  if (rows.forget_users)
    stop("user", 0,
         "Redis cannot tell users of another model from those of other clusters, so none are erased");
  const StoredCatalogPointer before = catalog_.mirror().present();
  check_import(rows, *before);
  if (!rows.made_for.empty()) note_made_for(rows.made_for);
  if (!rows.items.empty()) send_items(rows.items);
  if (rows.replace) drop_items(rows.items, *before);
  if (!rows.users.empty()) send_users(rows.users);
}

// Applies the import in memory, so that nothing is sent if a row is bad.
void RedisFeaturePort::check_import(const Import& rows, const StoredCatalog& before) const {
  CatalogWriter after(rows.replace ? std::make_shared<const StoredCatalog>()
                                   : std::make_shared<const StoredCatalog>(before));
  for (std::size_t i = 0; i < rows.items.size(); ++i) {
    const PutItem& row = rows.items[i];
    if (const auto fault = validate_row(row, limits_)) refuse_row(rows, "item", i, *fault);
    if (after.size() >= limits_.items_max && !after.contains(row.item))
      refuse_row(rows, "item", i, catalog_full(limits_));
    after.put({row.item, "", row.tokens, row.identifier, {}}, 0);
  }
  const StoredCatalogPointer catalog = after.publish(0);
  for (std::size_t i = 0; i < rows.users.size(); ++i) {
    StoredProfile stored;
    if (const auto refusal = resolve(rows.users[i], limits_, *catalog, stored))
      refuse_row(rows, "user", i, *refusal);
  }
}

// Runs a command whatever model the rows are for: ask() would treat other models' rows as an
// unreachable Redis.
RedisReply RedisFeaturePort::run_on_meta(RedisCommand command) {
  auto taken = connections_.take(0);
  if (const auto* away = std::get_if<RedisFailure>(&taken)) stop("made for", 0, away->why);
  auto answer = std::get<RedisConnectionPool::Session>(taken).run({&command, 1});
  if (const auto* failure = std::get_if<RedisFailure>(&answer)) stop("made for", 0, failure->why);
  RedisReply& reply = std::get<std::vector<RedisReply>>(answer).front();
  if (reply.is(RedisReply::Kind::error)) stop("made for", 0, "it answers with " + error_code(reply));
  return std::move(reply);
}

std::optional<std::string> RedisFeaturePort::made_for() {
  RedisReply reply = run_on_meta({"HGET", keys_.meta(), "made_for"});
  return reply.is(RedisReply::Kind::text) ? std::optional(std::move(reply.text)) : std::nullopt;
}

void RedisFeaturePort::note_made_for(const std::string& made_for) {
  run_on_meta({"HSET", keys_.meta(), "made_for", made_for});
}

// Deletes the former items that the import does not contain.
void RedisFeaturePort::drop_items(std::span<const PutItem> kept, const StoredCatalog& before) {
  std::set<std::string_view> stay;
  for (const PutItem& row : kept) stay.insert(row.item);
  for (ItemNumber number = before.next(0); number != no_item; number = before.next(number + 1)) {
    const std::string id(before.item(number).id);
    if (stay.contains(id)) continue;
    const JobResult result = write(DeleteItem{0, id}, 0);
    const auto* refusal = std::get_if<Refusal>(&result);
    if (refusal && refusal->code != "unknown_item") stop("item", kept.size(), refusal->what);
  }
}

void RedisFeaturePort::send_items(std::span<const PutItem> rows) {
  const CatalogPosition at = catalog_.mirror().position();
  for (std::size_t done = 0; done < rows.size(); done += batch_rows) {
    std::vector<RedisCommand> commands;
    for (const PutItem& row : rows.subspan(done, std::min(batch_rows, rows.size() - done)))
      commands.push_back(command_of(row));
    import_batch("item", std::move(commands), done, at.run);
  }
  require_catalog("item");  // updates items() and catalog_version()
}

void RedisFeaturePort::send_users(std::span<const PutUser> rows) {
  require_catalog("user");
  const CatalogPosition at = catalog_.mirror().position();
  const StoredCatalogPointer catalog = catalog_.mirror().at(at);
  if (!catalog) stop("user", 0, "the catalog was changed too often meanwhile");
  const auto draft_of = [&](const PutUser& row, UserDraft& made) {
    made.origin = at.origin, made.catalog = at.version;
    return draft(row, *catalog, made);
  };
  for (std::size_t done = 0; done < rows.size(); done += batch_rows) {
    const auto batch = rows.subspan(done, std::min(batch_rows, rows.size() - done));
    std::vector<RedisCommand> commands;
    for (const PutUser& row : batch) {
      UserDraft made;
      if (const auto refusal = draft_of(row, made))  // an item was deleted after the check
        stop("user", done, row.user + ": " + refusal->where + ": " + refusal->what);
      commands.push_back(command_of(user_key(row.tenant, row.user), made));
    }
    const Outcomes outcomes = import_batch("user", std::move(commands), done, at.run);
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (outcomes[i].what != WriteOutcome::What::written) import_changed(batch[i], done + i);
  }
}

}  // namespace troupe
