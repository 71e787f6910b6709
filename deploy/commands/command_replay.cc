// `troupe replay`: has a running server answer a recorded request again, and compares the answers.
#include <iostream>
#include <nlohmann/json.hpp>

#include "deploy/commands/commands.h"
#include "deploy/commands/server_call.h"
#include "deploy/data/text_file.h"
#include "deploy/reports/table.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {
namespace {

using nlohmann::json;

struct ReplayOptions {
  ServerOptions server;
  std::string request_id, model, json_file;
};

// Names of models need no escaping: they have letters, digits, '.', '_' and '-'.
std::string target_of(const ReplayOptions& options) {
  return options.model.empty() ? "/v1/replay" : "/v1/replay?model=" + options.model;
}

void print(const json& reply) {
  Table table({{"value of"},
               {"recorded", Table::Align::right},
               {"replayed", Table::Align::right},
               {"difference", Table::Align::right}});
  for (const json& value : reply.at("values")) {
    const double recorded = value.at("recorded").get<double>(), replayed = value.at("replayed").get<double>();
    table.row({shortened(value.at("name").get<std::string>(), 60), fixed(recorded, 6), fixed(replayed, 6),
               scientific(replayed - recorded)});
  }
  table.print(std::cout);
  const auto word = [&](const char* name) { return terminal_text(reply.at(name).get<std::string>()); };
  std::cout << word("kind") << (word("user").empty() ? "" : " for user " + word("user")) << ", plan "
            << word("plan") << ", model " << word("model_version")
            << (word("catalog_version").empty() ? "" : ", catalog " + word("catalog_version")) << "\n"
            << (reply.at("equal").get<bool>() ? "equal" : "different")
            << ": the largest difference of a logit is "
            << scientific(reply.at("largest_difference").get<double>()) << ", and up to "
            << scientific(reply.at("bound").get<double>()) << " is rounding\n";
}

int run_replay(const ReplayOptions& options) {
  const json reply =
      call(options.server, "POST", target_of(options), json{{"request_id", options.request_id}});
  if (options.json_file.empty())
    print(reply);
  else
    write_output(options.json_file, reply.dump() + "\n");
  return reply.at("equal").get<bool>() ? 0 : 1;
}

}  // namespace

void add_replay(Command app) {
  auto options = std::make_shared<ReplayOptions>();
  Command command = app.add_command(
      "replay",
      "Have a running server answer a recorded request again (replay.keep), and compare the answers");
  command.add_option("request-id", options->request_id, "The x-request-id of its answer").required();
  options->server.add_to(command);
  command.add_option("--model", options->model, "Model that answered, if the server has several");
  command.add_option("--json", options->json_file,
                     "Write the reply as JSON to this file, or - for standard output");
  command.runs([options] { return run_replay(*options); });
}

}  // namespace troupe::deploy
