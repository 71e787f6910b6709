// `troupe convert`: turns a checkpoint of another program into a model directory, without running code
// from it, and compares the directory's outputs with that program's own.
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/commands/commands.h"
#include "deploy/convert/golden_check.h"
#include "deploy/convert/meta_research.h"
#include "deploy/convert/nvidia.h"
#include "deploy/data/text_file.h"
#include "deploy/models/model_families.h"
#include "deploy/reports/table.h"
#include "runtime/wire/json_text.h"

namespace troupe::deploy {

namespace {

struct ConvertOptions {
  std::string from, checkpoint, config, items, out, check;
};

constexpr std::size_t faults_shown_max = 10;

ConvertedModel converted(const ConvertOptions& options) {
  const GinFile bindings = read_gin_file(options.config);
  ConvertedModel model = options.from == "nvidia"
                             ? convert_nvidia(options.checkpoint, bindings)
                             : convert_meta_research(TorchFile(options.checkpoint), bindings);
  if (!options.items.empty()) {
    const std::size_t known = model.items.empty() ? model.num_items : model.items.size();
    model.items = read_item_list(options.items, model);
    model.report.read.push_back(options.items + ": " + std::to_string(model.items.size()) + " of " +
                                std::to_string(known) + " items");
  } else if (model.items.empty()) {
    model.report.assumed.push_back("an item's id is its row, 1 to " + std::to_string(model.num_items) +
                                   ": no checkpoint lists its items (--items)");
  }
  return model;
}

void print_lines(const std::string& title, const std::vector<std::string>& lines) {
  std::string_view shown = title;
  for (const std::string& line : lines) {
    std::cout << shown << std::string(12 - shown.size(), ' ') << terminal_text(line) << "\n";
    shown = "";
  }
}

void print_report(const ConversionReport& report) {
  print_lines("read", report.read);
  print_lines("took", report.taken);
  print_lines("reordered", report.transposed);
  print_lines("dropped", report.dropped);
  print_lines("assumed", report.assumed);
  print_lines("unknown", report.unknown);
  if (!report.unknown.empty())
    std::cout
        << "warning: the published code has none of the bindings called unknown; they changed nothing here\n";
}

int check(const ConvertOptions& options, const nlohmann::json& golden) {
  const ModelFamily& family = family_of(all_families(), options.out);
  const GoldenReport report = check_golden(family, options.out, options.check, golden);
  for (std::size_t i = 0; i < report.faults.size() && i < faults_shown_max; ++i)
    std::cout << terminal_text(report.faults[i]) << "\n";
  if (report.faults.size() > faults_shown_max)
    std::cout << report.faults.size() - faults_shown_max << " more cases differ\n";
  std::cout << report.agreeing << " of " << report.cases << " cases agree: " << report.numbers
            << " numbers, largest difference " << scientific(report.largest) << " of at most "
            << scientific(GoldenReport::bound) << "; " << report.lists << " lists of the best items, "
            << report.swapped << " of them with equal similarities in another order\n";
  return report.is_well() ? 0 : 1;
}

int run_convert(const ConvertOptions& options) {
  // Read first, so that no folder is written for a file that cannot be checked.
  const nlohmann::json golden = options.check.empty() ? nlohmann::json() : read_golden(options.check);
  const ConvertedModel model = converted(options);
  write_model(model, options.out);
  print_report(model.report);
  std::cout << "wrote " << terminal_text(options.out) << ": " << model.tensors.size() << " tensors, "
            << model.num_items << " items\n";
  return options.check.empty() ? 0 : check(options, golden);
}

}  // namespace

void add_convert(Command app) {
  auto options = std::make_shared<ConvertOptions>();
  Command command =
      app.add_command("convert", "Make a model directory from a checkpoint of Meta's or NVIDIA's code");
  command
      .add_option("--from", options->from,
                  "Code that wrote the checkpoint: generative-recommenders/research or recsys-examples/hstu")
      .required()
      .one_of({"meta-research", "nvidia"});
  command
      .add_option(
          "--checkpoint", options->checkpoint,
          "File of torch.save (meta-research), or folder with torch_module and dynamicemb_module (nvidia)")
      .required();
  command
      .add_option("--config", options->config,
                  "Gin file of the training run: the checkpoint lacks the model's shape and settings")
      .required();
  command.add_option("--items", options->items,
                     "Items of the checkpoint, one a line: id, or key, id and title with tabs between them");
  command.add_option("--out", options->out, "Model directory to write: a new or empty folder").required();
  command.add_option("--check", options->check,
                     "JSON file of outputs of the other program; exit with 0 only if all cases agree");
  command.runs([options] { return run_convert(*options); });
}

}  // namespace troupe::deploy
