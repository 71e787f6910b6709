// Simulates the shards of embedding tables (runs of rows kept as blocks) that a batch reads. It
// detects wrong shards and pages written while they are held.
#include "sim/ports/sim_shards.h"

#include <algorithm>

#include "runtime/actor/block_name.h"
#include "runtime/actor/table_shard.h"
#include "sim/base/random.h"

namespace troupe::sim {

SimShards::SimShards(Pages& pages, std::uint32_t page_rows, std::uint32_t rows, Report report)
    : pages_(pages), page_rows_(page_rows), rows_(rows), report_(std::move(report)) {}

SimShards::HeldShards SimShards::granted(const RunBatch& batch) {
  HeldShards granted;
  for (const GrantedShard& shard : batch.shards) granted[shard.shard].grant = shard.grant;
  return granted;
}

// A table with another number of rows or rows per shard has another name.
const BlockName& SimShards::table_of(const std::string& model_version) const {
  const auto known = names_.find(model_version);
  if (known != names_.end()) return known->second;
  const std::string what =
      "table of " + std::to_string(rows_) + " rows, " + std::to_string(page_rows_) + " a shard";
  return names_.emplace(model_version, block_name({model_version, what}, "", {}, 0, {})).first->second;
}

TableShard SimShards::shard_of(const std::string& model_version, std::uint32_t row) const {
  return {table_of(model_version), row / page_rows_};
}

Page SimShards::page_of(const std::string& model_version, const TableShard& shard) const {
  const std::uint64_t content = mix(model_mark(model_version), shard.shard, 0x5a4d);
  return {{{content, content}}, {block_mark(block_of(shard)), 0, model_mark(model_version)}};
}

// ---- shards of a batch ----

RowSource SimShards::read(const std::string& model_version, std::uint32_t row, HeldShards& granted) {
  const TableShard shard = shard_of(model_version, row);
  const auto at = granted.find(shard);
  if (at == granted.end() || !make_ready(model_version, shard, at->second)) {
    ++from_table_;
    return {};
  }
  const HeldShard& one = at->second;
  ++(one.grant.grant == Grant::write ? from_table_ : one.grant.pulled ? from_nodes_ : from_here_);
  return {one.wrong == 0 ? 0 : mix(one.wrong, row) | 1, one.found.struck != 0};
}

// Fills or checks the shard at its first use. Returns false if it cannot be used.
bool SimShards::make_ready(const std::string& model_version, const TableShard& shard, HeldShard& one) {
  if (one.ready || one.bad) return one.ready;
  const BlockGrant& grant = one.grant;
  one.bad = grant.grant == Grant::none || !pages_.hold(grant.pages, pages_.page_tokens());
  if (one.bad) return false;
  const BlockName block = block_of(shard);
  if (grant.grant == Grant::write) {
    const Page page = page_of(model_version, shard);
    pages_.write(grant.pages.front(), page.print, page.from);
    one.outcome = {block, grant.generation, Outcome::written, pages_.checksum(grant.pages)};
  } else if (grant.check) {
    one.bad = pages_.checksum(grant.pages) != grant.checksum;
    one.outcome = {block, grant.generation, one.bad ? Outcome::corrupt : Outcome::done};
    if (one.bad) return false;
    pages_.set_checked(grant.pages);
  }
  one.ready = true;
  look(model_version, shard, one);
  return true;
}

void SimShards::look(const std::string& model_version, const TableShard& shard, HeldShard& one) {
  one.found = pages_.at(one.grant.pages.front());
  const Page right = page_of(model_version, shard);
  if (one.found.print != right.print)
    one.wrong = mix(one.found.print.of_layer[0], one.found.print.of_layer[1]) | 1;
  if (one.found.late)
    report_(3, shard, "was pulled after the lease had ended");
  else if (one.found.from.model != right.from.model)
    report_(4, shard, "is of another model's table");
  else if (one.found.from != right.from)
    report_(2, shard, "is another block");
}

std::vector<BlockOutcome> SimShards::end(HeldShards& granted) {
  std::vector<BlockOutcome> outcomes;
  for (auto& [shard, one] : granted) {
    if (one.outcome) outcomes.push_back(*one.outcome);
    if (one.ready && pages_.rewritten(one.grant.pages, std::span(&one.found, 1)))
      report_(3, shard,
              one.grant.grant == Grant::write ? "changed under its writer" : "changed under its reader");
  }
  return outcomes;
}

void SimShards::add_to(RowTotals& totals) const {
  totals.from_here = from_here_;
  totals.from_nodes = from_nodes_;
  totals.from_table = from_table_;
}

// ---- shards that belong to the node ----

ShardsFilled SimShards::fill(const FillShards& fill, std::span<const std::string> models) {
  ShardsFilled filled;
  for (const std::string& model : models)
    filled.tables.push_back({table_of(model), (rows_ + page_rows_ - 1) / page_rows_});
  std::ranges::sort(filled.tables, {}, &ShardsFilled::Table::name);
  for (const GrantedShard& wanted : fill.shards) {
    const auto model =
        std::ranges::find_if(models, [&](const std::string& m) { return table_of(m) == wanted.shard.table; });
    if (model == models.end() || wanted.grant.grant != Grant::write) continue;
    HeldShard one{wanted.grant};
    if (make_ready(*model, wanted.shard, one)) filled.outcomes.push_back(*one.outcome);
  }
  return filled;
}

}  // namespace troupe::sim
