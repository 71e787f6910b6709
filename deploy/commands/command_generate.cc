// `troupe generate`: asks a running server with a generator for items of the whole catalog.
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/commands/asker_options.h"
#include "deploy/commands/commands.h"
#include "deploy/commands/server_call.h"
#include "deploy/data/text_file.h"
#include "deploy/reports/table.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {
namespace {

using nlohmann::json;

struct GenerateOptions {
  ServerOptions server;
  AskerOptions asker;
  std::string normalised, json_file;
  std::vector<std::string> allow, deny;
  std::uint32_t top = 10, width = 0;
  bool exclude_seen = false, among_allowed = false, logprobs = false;
};

json body_of(const GenerateOptions& options) {
  json body = options.asker.members();
  body["top_k"] = options.top;
  if (options.width > 0) body["width"] = options.width;
  if (options.exclude_seen) body["exclude_seen"] = true;
  if (options.among_allowed) body["normalised"] = "allowed";
  if (!options.normalised.empty()) body["normalised"] = options.normalised;
  if (options.logprobs) body["logprobs"] = true;
  if (!options.allow.empty()) body["allow"] = options.allow;
  if (!options.deny.empty()) body["deny"] = options.deny;
  return body;
}

void print(const json& reply) {
  Table table({{"#", Table::Align::right}, {"item"}, {"title"}, {"log-probability", Table::Align::right}});
  std::size_t place = 0;
  for (const json& item : reply.at("items"))
    table.row({std::to_string(++place), item.at("id").get<std::string>(),
               shortened(item.at("title").get<std::string>(), 60),
               fixed(item.at("log_probability").get<double>(), 4)});
  table.print(std::cout);
  if (const auto reason = reply.at("reason").get<std::string>(); !reason.empty())
    std::cout << terminal_text(reason) << "\n";
  std::cout << "width " << reply.at("width") << ", tokens " << reply.at("tokens_total") << ": computed "
            << reply.at("tokens_computed") << ", reused " << reply.at("tokens_reused") << "; "
            << fixed(reply.at("timings").at("total").get<double>() / 1000, 2) << " ms\n";
}

int run_generate(const GenerateOptions& options) {
  if (!options.asker.is_given()) throw std::invalid_argument("generate needs --user");
  const json reply = call(options.server, "POST", "/v1/generate", body_of(options));
  if (options.json_file.empty()) {
    print(reply);
  } else {
    write_output(options.json_file, reply.dump() + "\n");
  }
  return 0;
}

}  // namespace

void add_generate(Command app) {
  auto options = std::make_shared<GenerateOptions>();
  Command command = app.add_command("generate", "Ask a running server for items that a user may want next");
  options->server.add_to(command);
  options->asker.add_to(command);
  command.add_option("--top", options->top, "Number of items to return").default_shown();
  command
      .add_option("--width", options->width, "Beam width: paths kept at each step; 0: the server's default")
      .default_shown();
  command.add_flag("--exclude-seen", options->exclude_seen, "Exclude items of the user's history");
  command.add_option("--allow", options->allow, "Permit only these item ids, separated by commas")
      .comma_separated();
  command.add_option("--deny", options->deny, "Exclude these item ids, separated by commas")
      .comma_separated();
  command
      .add_option("--normalised", options->normalised,
                  "Tokens over which probabilities are normalized: vocabulary, or allowed (those that may "
                  "follow); default: as the model's form says")
      .one_of({"vocabulary", "allowed"});
  command.add_flag("--among-allowed", options->among_allowed, "Same as --normalised allowed");
  command.add_flag("--logprobs", options->logprobs, "With --json: include each token's log-probability");
  command.add_option("--json", options->json_file,
                     "Write the reply as JSON to this file, or - for standard output");
  command.runs([options] { return run_generate(*options); });
}

}  // namespace troupe::deploy
