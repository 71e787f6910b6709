// `troupe logits`: last-position logits of a plain causal prompt, so that anyone can check a checkpoint
// against another engine.
#include <algorithm>
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "deploy/commands/commands.h"
#include "deploy/data/text_file.h"
#include "deploy/reports/table.h"
#include "kernels/decoder/decoder.h"

namespace troupe::deploy {

namespace {

struct LogitsOptions {
  std::string model, tokens, json;
  std::size_t top = 10;
};

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

int run_logits(const LogitsOptions& options) {
  kernels::DecoderModel model = kernels::read_decoder(options.model);
  const std::string version = model.version;
  const std::unique_ptr<kernels::Executor> decoder =
      kernels::make_cpu_decoder(std::move(model), {.page_tokens = 16});
  const kernels::PlanLimits limits = decoder->limits();
  kernels::Plan plan;
  plan.segments.push_back({kernels::SegmentKind::user, parse_tokens(options.tokens), 0, {}});
  std::vector<kernels::Token> rows(static_cast<std::size_t>(limits.vocabulary));
  std::iota(rows.begin(), rows.end(), 0);
  const auto last = static_cast<std::uint32_t>(plan.segments[0].tokens.size() - 1);
  plan.readouts.push_back({0, last, std::move(rows)});
  const std::string fault = find_fault(plan, limits);
  if (!fault.empty()) throw std::invalid_argument("--tokens: " + fault);
  const kernels::Request request{&plan, {{}}};
  const std::vector<float> logits = decoder->run({&request, 1}).at(0).readouts.at(0);
  if (options.json.empty()) {
    print_table(logits, options.top);
    return 0;
  }
  const nlohmann::json out{
      {"model_version", version}, {"tokens", plan.segments[0].tokens}, {"logits", logits}};
  write_output(options.json, out.dump() + "\n");
  return 0;
}

}  // namespace

void add_logits(Command app) {
  auto options = std::make_shared<LogitsOptions>();
  Command command = app.add_command("logits", "Last-position logits of a plain causal prompt");
  command.add_option("--model", options->model, "Model directory").required();
  command.add_option("--tokens", options->tokens, "Token ids, separated by commas").required();
  command.add_option("--json", options->json,
                     "Write all logits as JSON to this file, or - for standard output");
  command.add_option("--top", options->top, "How many logits the table shows").default_shown();
  command.runs([options] { return run_logits(*options); });
}

}  // namespace troupe::deploy
