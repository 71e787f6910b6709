// Bulk imports into Redis: checked as a whole, then written in pipelines.
#include <algorithm>
#include <set>
#include <string>

#include "runtime/features/feature_rules.h"
#include "runtime/redis/redis_features.h"

namespace troupe {
namespace {

constexpr std::size_t batch_rows = 256;
constexpr std::chrono::seconds batch_limit{10};  // nobody waits for an import as for a request

[[noreturn]] void stop(const char* kind, std::size_t done, const std::string& why) {
  stop_import(kind, done, {StoreFault::failed, why});
}

}  // namespace

void RedisFeaturePort::require_catalog(const char* kind) {
  const auto asked = ask(0, "");
  if (const auto* away = std::get_if<RedisFailure>(&asked))
    stop(kind, 0, describe(options_.address) + ": " + away->why);
}

// Throws with `done`, the rows before this batch, if not all commands were answered as they should be.
RedisFeaturePort::Outcomes RedisFeaturePort::import_batch(const char* kind,
                                                          std::vector<RedisCommand> commands,
                                                          std::size_t done, const std::string& run) {
  const std::size_t rows = commands.size();
  const std::string more = "; up to " + std::to_string(rows) + " more may be";
  add_wait(commands);
  auto taken = lanes_.take(0);
  if (const auto* away = std::get_if<RedisFailure>(&taken)) stop(kind, done, away->why);
  auto& session = std::get<RedisLanes::Session>(taken);
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

// An item of its history was written meanwhile: resolve it again.
void RedisFeaturePort::import_changed(const PutUser& row, std::size_t done) {
  const JobResult result = write(row, 0);
  if (const auto* refusal = std::get_if<Refusal>(&result))
    stop("user", done, row.user + ": " + refusal->where + ": " + refusal->what);
}

void RedisFeaturePort::import_items(std::span<const PutItem> rows) {
  require_catalog("item");
  const CatalogPosition at = catalog_.mirror().position();
  const StoredCatalogPointer catalog = catalog_.mirror().at(at);
  std::uint64_t items = catalog_.mirror().items();
  std::set<std::string> added;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (const auto fault = find_fault(rows[i], limits_)) refuse_row("item", i + 1, *fault);
    const bool is_there = catalog && catalog->find(rows[i].item) != no_item;
    const bool is_new = !is_there && added.insert(rows[i].item).second;
    if (is_new && ++items > limits_.items_max) refuse_row("item", i + 1, catalog_full(limits_));
  }
  for (std::size_t done = 0; done < rows.size(); done += batch_rows) {
    std::vector<RedisCommand> commands;
    for (const PutItem& row : rows.subspan(done, std::min(batch_rows, rows.size() - done)))
      commands.push_back(command_of(row));
    import_batch("item", std::move(commands), done, at.run);
  }
  require_catalog("item");  // items() and catalog_version() tell what is there now
}

void RedisFeaturePort::import_users(std::span<const PutUser> rows) {
  require_catalog("user");
  const CatalogPosition at = catalog_.mirror().position();
  const StoredCatalogPointer catalog = catalog_.mirror().at(at);
  if (!catalog) stop("user", 0, "the catalog was changed too often meanwhile");
  const auto draft_of = [&](const PutUser& row, UserDraft& made) {
    made.origin = at.origin, made.catalog = at.version;
    return draft(row, *catalog, made);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    UserDraft made;
    if (const auto refusal = draft_of(rows[i], made)) refuse_row("user", i + 1, *refusal);
  }
  for (std::size_t done = 0; done < rows.size(); done += batch_rows) {
    const auto batch = rows.subspan(done, std::min(batch_rows, rows.size() - done));
    std::vector<RedisCommand> commands;
    for (const PutUser& row : batch) {
      UserDraft made;
      draft_of(row, made);  // checked before the first batch
      commands.push_back(command_of(row, made));
    }
    const Outcomes outcomes = import_batch("user", std::move(commands), done, at.run);
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (outcomes[i].what != WriteOutcome::What::written) import_changed(batch[i], done + i);
  }
}

}  // namespace troupe
