// `troupe logits`: prints a model's outputs for one request, so that a checkpoint can be compared
// with another engine. It prints the last position's logits of a plain causal prompt, or a family's
// outputs for a request in its own format.
#include <algorithm>
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "deploy/commands/commands.h"
#include "deploy/data/text_file.h"
#include "deploy/models/model_families.h"
#include "deploy/reports/table.h"
#include "kernels/checkpoint/json_file.h"

namespace troupe::deploy {

namespace {

struct LogitsOptions {
  std::string model, tokens, request, json;
  std::size_t top = 10;
};

constexpr std::uint64_t request_bytes_max = std::uint64_t{16} << 20;

std::vector<kernels::Token> parse_tokens(const std::string& text) {
  std::vector<kernels::Token> tokens;
  for (std::string_view field : split(text, ',')) {
    kernels::Token token = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), token);
    if (error != std::errc() || end != field.data() + field.size())
      throw std::invalid_argument("--tokens has \"" + std::string(field.substr(0, 40)) +
                                  "\"; expected token ids separated by commas, such as 1,2,3");
    tokens.push_back(token);
  }
  return tokens;
}

void print_table(const std::vector<float>& logits, std::size_t top) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  top = std::min(top, order.size());
  std::partial_sort(order.begin(), order.begin() + top, order.end(), [&](std::size_t a, std::size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  Table table({{"token", Table::Align::right}, {"logit", Table::Align::right}});
  for (std::size_t i = 0; i < top; ++i) table.row({std::to_string(order[i]), fixed(logits[order[i]], 6)});
  table.print(std::cout);
}

// Returns the request and its name in error texts.
std::pair<nlohmann::json, std::string> request_of(const LogitsOptions& options) {
  if (options.tokens.empty() == options.request.empty())
    throw std::invalid_argument("expected one of --tokens and --request");
  if (!options.tokens.empty()) return {{{"tokens", parse_tokens(options.tokens)}}, "--tokens"};
  return {kernels::read_json_file(options.request, request_bytes_max, request_bytes_max), options.request};
}

int run_logits(const LogitsOptions& options) {
  const ModelFamily& family = family_of(all_families(), options.model);
  if (!family.logits)
    throw std::invalid_argument(options.model + " is of the family \"" + family.name +
                                "\"; expected a family that supports troupe logits");
  const auto [request, name] = request_of(options);
  nlohmann::json answer;
  try {
    answer = family.logits(options.model, request);
  } catch (const std::invalid_argument& wrong) {
    throw std::invalid_argument(name + ": " + wrong.what());
  }
  if (options.json.empty() && answer.contains("logits") && answer["logits"].is_array()) {
    print_table(answer["logits"].get<std::vector<float>>(), options.top);
    return 0;
  }
  write_output(options.json.empty() ? "-" : options.json, answer.dump() + "\n");
  return 0;
}

}  // namespace

void add_logits(Command app) {
  auto options = std::make_shared<LogitsOptions>();
  Command command = app.add_command("logits", "Print a model's outputs for one request");
  command.add_option("--model", options->model, "Model directory").required();
  command.add_option("--tokens", options->tokens, "Token ids of a plain causal prompt, separated by commas");
  command.add_option(
      "--request", options->request,
      "JSON file with a request in the format of the model's family, such as {\"tokens\": [1, 2, 3]}");
  command.add_option("--json", options->json,
                     "Write all outputs as JSON to this file, or - for standard output");
  command.add_option("--top", options->top, "Number of logits in the table").default_shown();
  command.runs([options] { return run_logits(*options); });
}

}  // namespace troupe::deploy
