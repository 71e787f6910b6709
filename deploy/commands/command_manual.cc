// `troupe manual` and `troupe completion`: files that packages install with the program.
#include <filesystem>
#include <iostream>

#include "deploy/commands/commands.h"
#include "deploy/commands/manual.h"
#include "deploy/data/text_file.h"
#include "deploy/data/version.h"

namespace troupe::deploy {

void add_manual(Command app, std::function<CommandHelp()> describe) {
  auto folder = std::make_shared<std::filesystem::path>();
  Command manual = app.add_command("manual", "Write manual pages of all commands and of the configuration");
  manual.add_option("folder", *folder, "Folder for the pages; they go into man1 and man5 below it")
      .required();
  manual.runs([folder, describe] {
    for (const auto& [name, text] : manual_pages(describe(), "troupe " + std::string(version()))) {
      const std::filesystem::path section = *folder / ("man" + name.substr(name.rfind('.') + 1));
      std::filesystem::create_directories(section);
      write_output((section / name).string(), text);
    }
    return 0;
  });
  Command completion =
      app.add_command("completion", "Print shell completion for bash: eval \"$(troupe completion)\"");
  completion.runs([describe] {
    std::cout << bash_completion(describe());
    return 0;
  });
}

}  // namespace troupe::deploy
