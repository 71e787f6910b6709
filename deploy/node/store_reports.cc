// Reports damaged files of a store in the log, in metrics and in the status, both those found at
// the start and later ones.
#include "deploy/node/store_reports.h"

#include <ranges>
#include <string>
#include <string_view>

namespace troupe::deploy {
namespace {

using Fields = std::vector<LogField>;

constexpr std::size_t losses_in_status = 10;

Fields fields_of(const StoreDamage& damage) {
  Fields fields{{"file", damage.file}, {"why", damage.what}};
  if (damage.offset) fields.push_back({"offset", *damage.offset});
  if (damage.column) fields.push_back({"of", std::string(name_of(*damage.column))});
  return fields;
}

Fields fields_of(const StoreLoss& loss) {
  Fields fields{{"of", std::string(name_of(loss.column))}, {"file", loss.file}, {"what", describe(loss)}};
  if (loss.is_versions()) {
    fields.push_back({"first_version", loss.first_version});
    fields.push_back({"last_version", loss.last_version});
  } else {
    fields.push_back({"from", bytes_shown(loss.from)});
    fields.push_back({"to", bytes_shown(loss.to)});
    fields.push_back({"rows_max", loss.rows_max});
  }
  return fields;
}

}  // namespace

void report_store_health(const LogSink& log, MetricRegistry* metrics, Store& store) {
  const auto say = [log](std::string_view event, const Fields& fields) {
    if (log) log(LogLevel::error, "main", event, fields);
  };
  const auto tell = [say, metrics](const StoreDamage& damage) {
    if (metrics) metrics->record(Metric::store_damages, 1);
    say("store_damaged", fields_of(damage));
  };
  store.on_damage(tell);
  const StoreHealth health = store.health();
  for (const StoreDamage& damage : health.found) tell(damage);
  for (const StoreLoss& loss : health.lost) say("store_lost", fields_of(loss));
  if (health.losses > health.lost.size())
    say("store_lost_more",
        {{"losses", health.losses}, {"listed", health.lost.size()}, {"all", health.aside + "/lost.txt"}});
  if (metrics) metrics->record(Metric::store_losses, static_cast<double>(health.losses));
  if (!health.aside.empty()) say("store_set_aside", {{"to", health.aside}});
}

void add_health(const StoreHealth& health, std::vector<StatusField>& fields) {
  if (health.damages == 0) return;
  fields.push_back({"store_damages", std::to_string(health.damages)});
  fields.push_back({"store_damaged_reads", std::to_string(health.damaged_reads)});
  if (!health.found.empty()) fields.push_back({"store_damaged", describe(health.found.front())});
  if (health.losses > 0) fields.push_back({"store_losses", std::to_string(health.losses)});
  for (const StoreLoss& loss : health.lost | std::views::take(losses_in_status))
    fields.push_back({"store_lost", describe(loss)});
  if (!health.aside.empty()) fields.push_back({"store_set_aside", health.aside});
}

}  // namespace troupe::deploy
