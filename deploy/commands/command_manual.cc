// `manual` and `completion` of both programs: files that packages install with them.
#include <filesystem>
#include <iostream>

#include "deploy/commands/commands.h"
#include "deploy/commands/manual.h"
#include "deploy/data/text_file.h"
#include "deploy/data/version.h"

namespace troupe::deploy {

namespace {

int write_manual(const std::filesystem::path& folder, const CommandHelp& program) {
  const std::string release = program.name + " " + std::string(version());
  std::vector<ManualPage> pages = manual_pages(program, release);
  if (program.name == "troupe") pages.push_back(configuration_page(release));
  for (const auto& [name, text] : pages) {
    const std::filesystem::path section = folder / ("man" + name.substr(name.rfind('.') + 1));
    std::filesystem::create_directories(section);
    write_output((section / name).string(), text);
  }
  return 0;
}

}  // namespace

void add_manual(Command app, const std::string& program, std::function<CommandHelp()> describe) {
  auto folder = std::make_shared<std::filesystem::path>();
  Command manual = app.add_command(
      "manual", program == "troupe" ? "Write manual pages of all commands and of the configuration"
                                    : "Write manual pages of all commands");
  manual
      .add_option("folder", *folder,
                  "Folder for the pages; each goes into the folder of its section, such as man1")
      .required();
  manual.runs([folder, describe] { return write_manual(*folder, describe()); });
  Command completion = app.add_command(
      "completion", "Print shell completion for bash: eval \"$(" + program + " completion)\"");
  completion.runs([describe] {
    std::cout << bash_completion(describe());
    return 0;
  });
}

}  // namespace troupe::deploy
