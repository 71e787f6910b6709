// `troupe explain`: asks a running server to rank items for a user, and shows the prompt as the model
// saw it, which blocks were reused, and where the scores were read.
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/commands/asker_options.h"
#include "deploy/commands/commands.h"
#include "deploy/commands/server_call.h"
#include "deploy/data/text_file.h"
#include "deploy/reports/explanation_report.h"

namespace troupe::deploy {
namespace {

using nlohmann::json;

struct ExplainOptions {
  ServerOptions server;
  AskerOptions asker;
  std::string arrangement, policy, json_file;
  std::vector<std::string> candidates;
  std::uint32_t scenario = 0;
  bool tokens = false;
};

json body_of(const ExplainOptions& options) {
  json body = options.asker.members();
  body["candidates"] = options.candidates;
  body["explain"] = true;
  if (!options.arrangement.empty()) body["arrangement"] = options.arrangement;
  if (!options.policy.empty()) body["policy"] = options.policy;
  if (options.scenario > 0) body["scenario"] = options.scenario;
  return body;
}

// Returns the columns of the terminal; those of the default layout if the output goes elsewhere.
std::size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : ExplanationLayout{}.columns;
}

int run_explain(const ExplainOptions& options) {
  if (!options.asker.is_given() || options.candidates.empty())
    throw std::invalid_argument("explain needs --user and --candidates");
  const json reply = call(options.server, "POST", "/v1/rank", body_of(options));
  if (!reply.contains("explanation"))
    throw std::runtime_error("the reply has no explanation; expected a router of this version or later");
  if (options.json_file.empty())
    print_explanation(reply, {.columns = terminal_columns(), .every_token = options.tokens}, std::cout);
  else
    write_output(options.json_file, reply.dump() + "\n");
  return 0;
}

}  // namespace

void add_explain(Command app) {
  auto options = std::make_shared<ExplainOptions>();
  Command command = app.add_command(
      "explain",
      "Rank items on a running server and show the prompt, what was reused and where scores are read");
  options->server.add_to(command);
  options->asker.add_to(command);
  command.add_option("--candidates", options->candidates, "Item ids, separated by commas").comma_separated();
  command.add_option("--arrangement", options->arrangement,
                     "Declared arrangement to be served: causal, user_first, item_first or "
                     "candidates_apart; default: as the model's prompt form says");
  command.add_option("--policy", options->policy, "Policy instead of the configured one");
  command.add_option("--scenario", options->scenario, "Scenario of the request, for models with scenarios")
      .default_shown();
  Option tokens =
      command.add_flag("--tokens", options->tokens, "Show every token with its id, position and text");
  command
      .add_option("--json", options->json_file,
                  "Write the reply as JSON to this file, or - for standard output")
      .excludes(tokens);
  command.runs([options] { return run_explain(*options); });
}

}  // namespace troupe::deploy
