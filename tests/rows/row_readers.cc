// Reads drawn rows by each reader, with one set of limits.
#include "tests/rows/row_readers.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <type_traits>

#include "deploy/data/dataset.h"
#include "deploy/data/table_rows.h"
#include "router/request/own_history.h"
#include "router/request/request_check.h"
#include "runtime/store/store_rows.h"
#include "runtime/testing/shared_ranker.h"
#include "runtime/wire/json_text.h"
#include "server/grpc/grpc_messages.h"
#include "server/http/http_routes.h"
#include "server/testing/grpc_bytes.h"

namespace troupe::rows {
namespace {

constexpr std::uint32_t history_max = 5, tokens_max = 4, vocabulary = 1'000;
const std::vector<std::string> features{"timestamps", "actions"};

PromptForm prompt_form() {
  PromptForm form = shared_ranker({{1}, {2}, {3}, {4}, 100, vocabulary});
  form.scenarios = 2;
  return form;
}

server::ServerLimits server_limits() {
  server::ServerLimits limits;
  limits.history_events_max = history_max;
  limits.prompt_tokens_max = tokens_max;
  limits.event_features = features;
  return limits;
}

FeatureLimits store_limits() {
  FeatureLimits limits{
      .vocabulary = vocabulary, .item_tokens_max = tokens_max, .history_events_max = history_max};
  limits.event_features = {{.name = "timestamps", .ascending = true}, {.name = "actions"}};
  return limits;
}

deploy::RowReading row_reading() {
  deploy::RowReading reading;
  reading.limits = {history_max, tokens_max, features};
  return reading;
}

PromptForm generator_form() {
  PromptForm made = prompt_form();
  made.discriminant = {};
  return made;
}

const PromptForm form = prompt_form(), generator = generator_form();
const router::RequestLimits router_limits{.history_max = history_max};
const FeatureLimits stored = store_limits();

// ---- refusals in one form ----

std::string canonical_field(std::string where, const DrawnRow& row) {
  const std::string at = "[" + std::to_string(row.at) + "]";
  if (where.starts_with("byte ")) return "byte";
  if (where == "id") return row.kind == Kind::item ? "item" : "user";
  if (where == "timestamp" || where == "events[0].timestamp") return "timestamps" + at;
  if (where == "rating" || where == "events[0].action") return "actions" + at;
  return where;
}

Outcome refused(const char* reader, const Refusal& refusal, const DrawnRow& row) {
  std::string found = refusal.what;
  if (found.starts_with(refusal.where)) found.erase(0, refusal.where.size());
  return {reader, std::nullopt,
          Reason{refusal.code, canonical_field(refusal.where, row), std::move(found), refusal.expected}};
}

// ---- values in one form ----

std::vector<Feature> by_name(std::vector<Feature> list) {
  std::ranges::sort(list, {}, &Feature::name);
  return list;
}
Value value_of(const PutUser& put) {
  return {.id = put.user, .list = put.history, .features = by_name(put.features)};
}
Value value_of(const AppendEvents& put) {
  return {.id = put.user, .list = put.history, .features = by_name(put.features)};
}
Value value_of(const PutItem& put) {
  return {.id = put.item, .title = put.title, .tokens = put.tokens, .identifier = put.identifier};
}
// `id`: of the row whose history a request has.
template <class RequestMessage>
Value value_of_history(const RequestMessage& asked, const std::string& id) {
  return {.id = id, .list = asked.history, .features = by_name(asked.event_features)};
}
Value value_of(const RankRequest& asked) {
  return {.id = asked.user,
          .list = asked.candidates,
          .time = asked.request_timestamp,
          .scenario = static_cast<std::int64_t>(asked.scenario)};
}

// The router checks what comes over the network; the store checks every row.
template <class Row>
Outcome checked(const char* reader, const Row& read, const DrawnRow& row, bool by_router) {
  if (by_router)
    if (const auto fault = router::validate(read, form, router_limits)) return refused(reader, *fault, row);
  if constexpr (requires { validate_row(read, stored); })
    if (const auto fault = validate_row(read, stored)) return refused(reader, *fault, row);
  return {reader, value_of(read), std::nullopt};
}

Outcome checked_message(const char* reader, const Message& message, const DrawnRow& row) {
  if (const auto* user = std::get_if<PutUser>(&message)) return checked(reader, *user, row, true);
  if (const auto* item = std::get_if<PutItem>(&message)) return checked(reader, *item, row, true);
  if (const auto* events = std::get_if<AppendEvents>(&message)) return checked(reader, *events, row, true);
  return checked(reader, std::get<RankRequest>(message), row, true);
}

// ---- HTTP ----

std::string percent_encoded(const std::string& id) {
  std::string out;
  for (const char c : id) {
    char code[8];
    std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    out += code;
  }
  return out;
}

Outcome routed(const char* reader, const server::HttpRoute& route, const DrawnRow& row) {
  if (const auto* refusal = std::get_if<Refusal>(&route)) return refused(reader, *refusal, row);
  return checked_message(reader, std::get<Message>(route), row);
}

Outcome read_body(const DrawnRow& row, const std::string& body) {
  const std::string id = percent_encoded(row.id);
  const std::string target = row.kind == Kind::user    ? "/v1/users/" + id
                             : row.kind == Kind::item  ? "/v1/items/" + id
                             : row.kind == Kind::event ? "/v1/users/" + id + "/events"
                                                       : "/v1/rank";
  const bool puts = row.kind == Kind::user || row.kind == Kind::item;
  return routed("HTTP", server::route({puts ? "PUT" : "POST", target, body, ""}, server_limits()), row);
}

Outcome read_line(const char* reader, const DrawnRow& row, const std::string& line) {
  const server::BulkKind kind = row.kind == Kind::user    ? server::BulkKind::users
                                : row.kind == Kind::item  ? server::BulkKind::items
                                : row.kind == Kind::event ? server::BulkKind::events
                                                          : server::BulkKind::rankings;
  return routed(reader, server::route_line(kind, {"POST", "/v1", line, ""}, server_limits(), {}), row);
}

// The same row with its features in the list `features`.
DrawnRow with_list(DrawnRow row) {
  std::string list;
  std::erase_if(row.members, [&](const auto& member) {
    if (std::ranges::find(features, member.first) == features.end()) return false;
    list +=
        (list.empty() ? "" : ",") + ("{\"name\":\"" + member.first + "\",\"values\":") + member.second + "}";
    return true;
  });
  row.members.emplace_back("features", "[" + list + "]");
  return row;
}

// ---- requests with the history of a user's row ----

// True if a request with this row's events has the same fault: it is one of events, and the member names
// that a request may have are not part of the refusal.
bool is_of_events(const DrawnRow& row) {
  static const std::set<std::string> faults{"",
                                            "fraction as a time",
                                            "no time",
                                            "no action",
                                            "long history",
                                            "time of another type",
                                            "time that is not JSON",
                                            "no actions",
                                            "more times than events",
                                            "times that decrease",
                                            "member twice",
                                            "list of another type"};
  return row.kind == Kind::user && faults.contains(row.fault);
}

template <class RequestMessage>
Outcome checked_history(const char* reader, const RequestMessage& asked, const DrawnRow& row) {
  const auto own = router::own_history(asked);
  if (!own) return {reader, std::nullopt, std::nullopt};
  const PromptForm& read_by = std::is_same_v<RequestMessage, RankRequest> ? form : generator;
  if (const auto fault = router::validate(asked, read_by, router_limits)) return refused(reader, *fault, row);
  if (const auto fault = validate_history(*own, stored)) return refused(reader, *fault, row);
  return {reader, value_of_history(asked, row.id), std::nullopt};
}

Outcome read_request(const char* reader, const std::string& target, DrawnRow row) {
  const DrawnRow of = row;
  if (target == "/v1/rank") row.members.emplace_back("candidates", R"(["c0"])");
  const std::string body = json_of(row, "");
  const server::HttpRoute route = server::route({"POST", target, body, ""}, server_limits());
  if (const auto* refusal = std::get_if<Refusal>(&route)) return refused(reader, *refusal, of);
  const Message& message = std::get<Message>(route);
  if (const auto* ranking = std::get_if<RankRequest>(&message)) return checked_history(reader, *ranking, of);
  return checked_history(reader, std::get<GenerateRequest>(message), of);
}

void read_requests(const DrawnRow& row, std::vector<Outcome>& out) {
  if (!is_of_events(row)) return;
  out.push_back(read_request("ranking", "/v1/rank", row));
  out.push_back(read_request("generation", "/v1/generate", row));
  if (row.as_list) out.push_back(read_request("ranking with features", "/v1/rank", with_list(row)));
}

// ---- files ----

RankRequest request_of(const deploy::EvaluationRow& read) {
  RankRequest request{.user = read.user, .candidates = read.candidates};
  request.request_timestamp = read.request_timestamp;
  request.scenario = static_cast<std::uint32_t>(read.scenario);
  return request;
}

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  Outcome read(const char* reader, const std::string& name, const std::string& bytes,
               const DrawnRow& row) const {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    try {
      if (row.kind == Kind::item)
        return checked(reader, deploy::read_item_rows(path_, row_reading()).rows.at(0), row, false);
      if (row.kind == Kind::ranking)
        return checked(reader, request_of(deploy::read_evaluation(path_ / name).at(0)), row, true);
      return checked(reader,
                     deploy::read_user_rows(path_, deploy::HistoryPart::all, row_reading()).rows.at(0), row,
                     false);
    } catch (const deploy::ImportError& error) {
      if (error.refusal) return refused(reader, *error.refusal, row);
      return {reader, std::nullopt, std::nullopt};
    }
  }
  // A table of events with other names of columns.
  Outcome read_events(const char* reader, deploy::TableKind kind, const std::string& bytes,
                      const DrawnRow& row) const {
    std::filesystem::create_directories(path_);
    std::ofstream(path_ / "events", std::ios::binary) << bytes;
    deploy::TableReading reading{.rows = row_reading(), .event_features = stored.event_features};
    const auto table = deploy::RowTable::open(kind, path_ / "events");
    const auto columns = deploy::parse_columns("user=who,item=what,timestamp=when,action=stars");
    return checked(reader, deploy::read_event_table(*table, columns, reading).users.rows.at(0), row, false);
  }

 private:
  std::filesystem::path path_;
};

void read_lines_of_file(const DrawnRow& row, const Folder& folder, std::vector<Outcome>& out) {
  if (row.kind == Kind::event) return;  // no file has such lines
  DrawnRow own = row;
  if (row.kind == Kind::ranking) own.members.emplace_back("true_item", "\"c0\"");
  const char* const name = row.kind == Kind::user   ? "users.jsonl"
                           : row.kind == Kind::item ? "items.jsonl"
                                                    : "requests.jsonl";
  const std::string line = json_of(own, row.kind == Kind::ranking ? "user" : "id");
  out.push_back(folder.read("JSONL", name, line, row));
  out.push_back(folder.read("JSONL, CR LF", name, line + "\r\n\r\n", row));
}

void read_table(const DrawnRow& row, const Folder& folder, std::vector<Outcome>& out) {
  if (row.lines.empty()) return;
  if (row.kind == Kind::item)
    return out.push_back(folder.read("TSV", "items.tsv", table_of(row, {"item_id", "title", "tokens"}), row));
  if (row.kind == Kind::ranking)
    return out.push_back(folder.read(
        "TSV", "eval.tsv",
        table_of(row, {"user_id", "history", "candidates", "true_index", "request_timestamp", "scenario"}),
        row));
  out.push_back(
      folder.read("TSV", "ratings.tsv", table_of(row, {"user_id", "item_id", "rating", "timestamp"}), row));
}

std::string in_quotes(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// Tables of other programs take some rows that the others refuse, such as actions with fractions of zeros:
// valid rows have the same value.
void read_tables_of_others(const DrawnRow& row, const Folder& folder, std::vector<Outcome>& out) {
  if (row.lines.empty() || !row.fault.empty() || row.kind == Kind::item || row.kind == Kind::ranking) return;
  std::string csv = "who,what,when,stars\r\n", lines;
  for (const auto& line : row.lines) {
    csv += in_quotes(line.at("user_id")) + "," + in_quotes(line.at("item_id")) + "," + line.at("timestamp") +
           "," + line.at("rating") + "\r\n";
    append_json_string(lines += "{\"who\":", line.at("user_id"));
    append_json_string(lines += ",\"what\":", line.at("item_id"));
    lines += ",\"when\":" + line.at("timestamp") + ",\"stars\":" + line.at("rating") + "}\n";
  }
  out.push_back(folder.read_events("CSV of others", deploy::TableKind::csv, csv, row));
  out.push_back(folder.read_events("JSONL of others", deploy::TableKind::jsonl, lines, row));
}

// ---- gRPC ----

Outcome read_grpc(const DrawnRow& row) {
  const auto read = server::read_grpc_call(server::GrpcMethod::rank,
                                           row.wire + server::grpc_test::text_field(1, row.id), {}, 0);
  if (const auto* refusal = std::get_if<Refusal>(&read)) return refused("gRPC", *refusal, row);
  const auto& call = std::get<server::ServerCall>(read);
  if (call.fault) return refused("gRPC", *call.fault, row);
  return checked_message("gRPC", call.asked.message, row);
}

}  // namespace

std::string Outcome::text() const {
  if (value) return reader + ": a value of id " + value->id.substr(0, 40);
  if (!reason) return reader + ": the file is refused";
  return reader + ": " + reason->code + " | " + reason->field + " |" + reason->found + " | " +
         reason->expected;
}

std::vector<Outcome> read_everywhere(const DrawnRow& row, const std::string& folder) {
  const bool has_other_name = row.kind == Kind::user || row.kind == Kind::item;
  const std::string name = row.kind == Kind::item ? "item" : "user", json = json_of(row, name);
  std::vector<Outcome> out;
  if (row.in_path) out.push_back(read_body(row, json));
  out.push_back(read_line("line", row, json));
  if (has_other_name) out.push_back(read_line("line with id", row, json_of(row, "id") + "\r"));
  if (row.kind == Kind::user && row.as_list)
    out.push_back(read_line("line with features", row, json_of(with_list(row), "user")));
  const Folder files(folder);
  read_lines_of_file(row, files, out);
  read_table(row, files, out);
  read_requests(row, out);
  read_tables_of_others(row, files, out);
  if (!row.wire.empty()) out.push_back(read_grpc(row));
  return out;
}

std::vector<Outcome> read_text(const std::string& json, const std::string& folder) {
  const DrawnRow user{.kind = Kind::user};
  return {read_line("line", user, json), Folder(folder).read("JSONL", "users.jsonl", json, user)};
}

}  // namespace troupe::rows
