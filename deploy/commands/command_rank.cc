// `troupe rank`: asks a running server to rank, and prints its replies for people.
#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/commands/asker_options.h"
#include "deploy/commands/commands.h"
#include "deploy/commands/server_call.h"
#include "deploy/data/dataset.h"
#include "deploy/data/text_file.h"
#include "deploy/reports/table.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

struct RankOptions {
  ServerOptions server;
  AskerOptions asker;
  std::string policy, arrangement, task, json_file, requests, data;
  std::vector<std::string> candidates;
  std::uint32_t top = 5, users = 3, rounds = 2, scenario = 0;
  bool costs_only = false, own_histories = false;
};

// `asker`: the user, or the members of a history in place of one.
json rank(const RankOptions& options, const json& asker, const std::vector<std::string>& candidates) {
  json body{{"candidates", candidates}, {"top_k", options.top}};
  body.update(asker);
  if (!options.policy.empty()) body["policy"] = options.policy;
  if (!options.arrangement.empty()) body["arrangement"] = options.arrangement;
  if (options.scenario > 0) body["scenario"] = options.scenario;
  if (!options.task.empty()) body["task"] = options.task;
  return call(options.server, "POST", "/v1/rank", body);
}

std::string milliseconds(const json& reply) {
  return fixed(reply.at("timings").at("total").get<double>() / 1000, 2);
}

void print_items(const json& reply) {
  std::vector<Table::Column> columns{{"#", Table::Align::right},
                                     {"item"},
                                     {"title"},
                                     {"score", Table::Align::right},
                                     {"probability", Table::Align::right}};
  for (const json& task : reply.value("tasks", json::array()))
    columns.push_back({task.get<std::string>(), Table::Align::right});
  Table table(std::move(columns));
  std::size_t place = 0;
  for (const json& item : reply.at("items")) {
    std::vector<std::string> row{std::to_string(++place), item.at("id").get<std::string>(),
                                 shortened(item.at("title").get<std::string>(), 60),
                                 fixed(item.at("score").get<double>(), 3),
                                 fixed(item.at("probability").get<double>(), 4)};
    for (const json& score : item.value("task_scores", json::array()))
      row.push_back(fixed(score.get<double>(), 3));
    table.row(std::move(row));
  }
  table.print(std::cout);
}

void print_summary(const json& reply) {
  std::cout << "plan " << terminal_text(reply.at("plan").get<std::string>()) << " (policy "
            << terminal_text(reply.at("policy").get<std::string>()) << "), tokens "
            << reply.at("tokens_total") << ": computed " << reply.at("tokens_computed") << ", reused "
            << reply.at("tokens_reused") << "; " << milliseconds(reply) << " ms\n";
  if (reply.contains("unknown_user")) std::cout << "the user is not stored: ranked as one without events\n";
  if (reply.at("history_cut").get<std::uint64_t>() > 0)
    std::cout << "the oldest " << reply.at("history_cut")
              << " events of the history did not fit and were left out\n";
}

// Prints a user's latest events by title, if the catalog's folder is given.
class HistoryPrinter {
 public:
  explicit HistoryPrinter(const std::string& folder) {
    if (folder.empty()) return;
    titles_ = read_titles(folder);
    for (PutUser& user : read_users(folder, HistoryPart::all)) events_[user.user] = std::move(user.history);
  }
  void print(const std::string& user) const {
    const auto found = events_.find(user);
    if (found == events_.end()) return;
    const std::vector<std::string>& events = found->second;
    std::cout << events.size() << " events, the latest (oldest first):\n";
    for (std::size_t i = events.size() - std::min(events.size(), shown); i < events.size(); ++i) {
      const auto title = titles_.find(events[i]);
      std::cout << "    " << terminal_text(title == titles_.end() ? events[i] : title->second) << "\n";
    }
  }

 private:
  static constexpr std::size_t shown = 5;
  std::map<std::string, std::string> titles_;
  std::map<std::string, std::vector<std::string>> events_;
};

// Returns what a line of the file says of its user: the id, or the history where the line has no user or
// histories are sent.
json asker_of(const RankOptions& options, const EvaluationRow& row) {
  if (!row.user.empty() && !options.own_histories) return {{"user", row.user}};
  json asker{{"history", row.history}};
  for (const Feature& feature : row.features) asker[feature.name] = feature.values;
  if (row.request_timestamp > 0) asker["request_timestamp"] = row.request_timestamp;
  return asker;
}

// Sends a file's requests of several users, each more than once, to show how much the second one
// reuses.
int rank_file(const RankOptions& options) {
  const std::vector<EvaluationRow> rows = read_evaluation(options.requests);
  const HistoryPrinter histories(options.data);
  const std::string visitor = "a visitor";
  Table costs({{"user"},
               {"request", Table::Align::right},
               {"plan"},
               {"tokens", Table::Align::right},
               {"computed", Table::Align::right},
               {"reused", Table::Align::right},
               {"ms", Table::Align::right}});
  for (std::size_t u = 0; u < std::min<std::size_t>(options.users, rows.size()); ++u) {
    for (std::uint32_t round = 1; round <= options.rounds; ++round) {
      const json reply = rank(options, asker_of(options, rows[u]), rows[u].candidates);
      const std::string& user = rows[u].user.empty() ? visitor : rows[u].user;
      if (round == 1 && !options.costs_only) {
        std::cout << "\n" << terminal_text(user) << ": ";
        histories.print(rows[u].user);
        std::cout << "recommended:\n";
        print_items(reply);
      }
      costs.row({user, std::to_string(round), reply.at("plan").get<std::string>(),
                 std::to_string(reply.at("tokens_total").get<std::uint64_t>()),
                 std::to_string(reply.at("tokens_computed").get<std::uint64_t>()),
                 std::to_string(reply.at("tokens_reused").get<std::uint64_t>()), milliseconds(reply)});
    }
  }
  std::cout << "\n";
  costs.print(std::cout);
  return 0;
}

int run_rank(const RankOptions& options) {
  if (!options.requests.empty()) return rank_file(options);
  if (!options.asker.is_given() || options.candidates.empty())
    throw std::invalid_argument(
        "rank has neither --user with --candidates nor --requests; expected one of them");
  const json reply = rank(options, options.asker.members(), options.candidates);
  if (!options.json_file.empty()) {
    write_output(options.json_file, reply.dump() + "\n");
    return 0;
  }
  print_items(reply);
  print_summary(reply);
  return 0;
}

}  // namespace

void add_rank(Command app) {
  auto options = std::make_shared<RankOptions>();
  Command command = app.add_command("rank", "Ask a running server to rank items for a user");
  options->server.add_to(command);
  options->asker.add_to(command);
  command.add_option("--candidates", options->candidates, "Item ids, separated by commas").comma_separated();
  Option requests = command.add_option("--requests", options->requests,
                                       "File of requests (requests.jsonl, eval.tsv.gz) to send instead");
  command.add_option("--data", options->data, "Catalog folder whose titles show the histories");
  command.add_option("--users", options->users, "With --requests: number of requests of the file to send")
      .default_shown();
  command.add_option("--rounds", options->rounds, "With --requests: times that each request is sent")
      .default_shown();
  command.add_flag("--costs-only", options->costs_only, "With --requests: do not show the ranked items");
  command.add_flag("--own-histories", options->own_histories,
                   "With --requests: send the histories of the file in place of the users' ids");
  command.add_option("--top", options->top, "Number of items to show").default_shown();
  command.add_option("--scenario", options->scenario, "Scenario of the request, for models with scenarios")
      .default_shown();
  command.add_option("--task", options->task,
                     "Task that orders the items, for models with several; default: the first");
  command.add_option("--policy", options->policy,
                     "Policy instead of the configured one: recompute, user, item, larger, bat, planner, "
                     "causal, blocks or all_blocks");
  command.add_option("--arrangement", options->arrangement,
                     "Declared arrangement to be served: causal, user_first, item_first or candidates_apart; "
                     "default: as the model's prompt form says");
  command
      .add_option("--json", options->json_file,
                  "Write the reply as JSON to this file, or - for standard output")
      .excludes(requests);
  command.runs([options] { return run_rank(*options); });
}

}  // namespace troupe::deploy
