// Simulates the embedding rows that a device keeps in its pages, with the production RowSlab
// deciding where rows lie. It detects rows of another model, wrong rows and overwritten pages.
#include "sim/ports/sim_rows.h"

#include <algorithm>

#include "sim/base/random.h"

namespace troupe::sim {

std::uint32_t SimRows::number_of(const std::string& model_version) {
  const auto [at, is_new] = numbers_.try_emplace(model_version, last_number_ + 1);
  if (is_new) models_[++last_number_] = model_mark(model_version);
  return at->second;
}

std::vector<std::uint32_t> SimRows::missed(const std::string& model_version, std::span<const Token> tokens) {
  const RowSlab::Batch batch =
      slab_.look_up(number_of(model_version), std::vector<std::uint32_t>(tokens.begin(), tokens.end()));
  std::vector<std::uint32_t> missed;
  for (const RowSlab::Row& row : batch.rows)
    if (row.state != RowState::ready) missed.push_back(row.row);
  slab_.release(batch, false);
  slab_.undo_counts(batch);
  return missed;
}

SimRows::Reading SimRows::begin(const std::string& model_version, std::span<const Token> tokens,
                                const FindRow& find) {
  const std::vector<std::uint32_t> rows(tokens.begin(), tokens.end());
  Reading reading{slab_.look_up(number_of(model_version), rows), model_mark(model_version)};
  savings_.use(reading.batch, row_us);
  for (const RowSlab::Row& row : reading.batch.rows) {
    if (row.state == RowState::ready) {
      look(row, reading);
      continue;
    }
    const RowSource source = find ? find(row.row) : RowSource{};
    reading.wrong ^= source.wrong;
    reading.struck = reading.struck || source.struck;
    if (row.state == RowState::fill) write(row, reading.model, source);
  }
  return reading;
}

// Rows of one page are written one by one; the page's content covers all of them.
void SimRows::write(const RowSlab::Row& row, std::uint32_t model, const RowSource& source) {
  const std::uint64_t content = mix(model, row.row);
  const std::uint32_t before = pages_.at(row.place.page).writing;
  pages_.copy(row.place.page, Page{{{content, content}}, {0, 0, model}});
  const std::uint32_t writing = pages_.at(row.place.page).writing;
  std::vector<Stored>& rows = rows_[row.place.page];
  rows.resize(slab_.page_rows());
  for (Stored& other : rows)
    if (other.writing != 0 && other.writing == before) other.writing = writing;
  rows[row.place.slot] = {model, row.row, writing, source};
}

void SimRows::look(const RowSlab::Row& row, Reading& reading) const {
  const std::vector<Stored>& rows = rows_[row.place.page];
  if (rows.empty() || rows[row.place.slot].writing == 0) {
    reading.wrong ^= mix(row.row, 1);
    return;
  }
  const Stored& stored = rows[row.place.slot];
  const bool other_model = stored.model != reading.model;
  const bool overwritten = stored.writing != pages_.at(row.place.page).writing;
  if (other_model || overwritten || stored.token != row.row)
    reading.wrong ^= mix(row.row, stored.model, stored.token) | 1;
  reading.wrong ^= stored.source.wrong;
  reading.struck = reading.struck || stored.source.struck;
  reading.other_model = reading.other_model || other_model;
  reading.overwritten = reading.overwritten || overwritten;
}

bool SimRows::end(const Reading& reading, bool good) {
  Reading again{{}, reading.model};
  for (const RowSlab::Row& row : reading.batch.rows)
    if (row.state != RowState::absent) look(row, again);
  slab_.release(reading.batch, good);
  return !again.overwritten || reading.overwritten;
}

void SimRows::drop(const std::string& model_version) {
  const auto at = numbers_.find(model_version);
  if (at == numbers_.end()) return;
  slab_.drop(at->second);
  models_.erase(at->second);
  numbers_.erase(at);
}

RowPages SimRows::change(const ChangeRowPages& change) {
  for (const std::uint32_t page : change.pages) slab_.grow(page);
  RowPages changed{slab_.shrink(change.give_back), totals()};
  savings_.add_to(changed);
  return changed;
}

RowsRefilled SimRows::refill(const RefillRows& refill) {
  const RowSlab::Batch batch = slab_.refill(refill.bytes / row_bytes);
  const auto model = models_.find(batch.table);
  for (const RowSlab::Row& row : batch.rows)
    if (model != models_.end()) write(row, model->second);
  slab_.release(batch, model != models_.end());
  refilled_ += batch.rows.size() * row_bytes;
  return {totals()};
}

RowTotals SimRows::totals() const {
  RowTotals totals = savings_.totals(slab_);
  totals.bytes_missed = totals.misses * row_bytes;
  totals.bytes_refilled = refilled_;
  return totals;
}

}  // namespace troupe::sim
