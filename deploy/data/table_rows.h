#pragma once
// Reads catalogs, events and histories from tables of other programs (RowTable), as the messages that store
// them. Cells become rows of JSON, which are read as those of the HTTP server are, or values that are checked
// by the same rules (runtime/actor/row_rules.h). All readers throw ImportError with file, line and column.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "deploy/data/dataset.h"
#include "deploy/data/row_table.h"
#include "deploy/data/table_columns.h"
#include "runtime/store/store_rows.h"

namespace troupe::deploy {

// Items that a model has tokens for, by their id in the shop: items.jsonl of a model directory, which `troupe
// convert --items` writes.
class ModelItems {
 public:
  explicit ModelItems(DataRows<PutItem> items);
  ModelItems(ModelItems&&) = default;
  ModelItems& operator=(ModelItems&&) = default;  // a copy's index would name rows of the original
  // Returns nothing if the directory has no such file.
  static std::optional<ModelItems> of_model(const std::filesystem::path& directory,
                                            const RowReading& reading);

  const PutItem* find(const std::string& item) const;  // null: not there
  std::string file() const { return rows_.file.string(); }

 private:
  DataRows<PutItem> rows_;
  std::unordered_map<std::string_view, const PutItem*> by_id_;  // of rows_
};

struct TableReading {
  RowReading rows;
  std::vector<EventFeature> event_features;  // that the model reads
  const ModelItems* items = nullptr;         // null: the model has no list
  bool skip_unknown = false;                 // leave out items that the model has no tokens for
};

struct TableItems {
  DataRows<PutItem> items;
  std::string tokens_from;  // where the items' tokens came from, for a report
  std::uint64_t left_out = 0;
  std::vector<std::string> left_out_first;  // some of their ids
};
// Without a column of tokens, an item's tokens are those of the model's list; without a list, the token
// <item_ID>; and where the model reads texts, the title.
TableItems read_item_table(RowTable& table, const TableColumns& columns, const TableReading& reading);

struct TableUsers {
  DataRows<PutUser> users;  // in the order of their first events
  std::uint64_t events = 0;
  std::uint64_t repeated = 0;               // events whose id the user had already; left out
  std::uint64_t cut = 0, cut_users = 0;     // oldest events over router.history_events_max; left out
  std::optional<std::int64_t> first, last;  // times of events, if the table has them
  std::vector<std::string> unread;          // columns that the model does not read
};
// Collects the events of each user, by their times if there are times, and otherwise in the table's order.
TableUsers read_event_table(RowTable& table, const TableColumns& columns, const TableReading& reading);
// A row has a user's history: a list of JSON, or ids with blanks between them.
TableUsers read_profile_table(RowTable& table, const TableColumns& columns, const TableReading& reading);

}  // namespace troupe::deploy
