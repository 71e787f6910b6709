#pragma once
// Declares commands, options and their permitted values. CLI11 parses them; only command_line.cc
// includes CLI11, because its headers cost each file seconds of compile time.
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe::deploy {

// Declared option. Each call returns the option again.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option required();
  Option optional_value(const std::string& initial);  // which the option has if it is given without one
  Option default_shown();    // shows the current value of the variable it fills as default
  Option comma_separated();  // for a list
  Option one_of(std::vector<std::string> words);
  Option between(double least, double most);  // inclusive
  Option between(std::integral auto least, std::integral auto most) {
    return between_integers(static_cast<std::int64_t>(least), static_cast<std::int64_t>(most));
  }
  Option in_bytes();  // a size with a unit (runtime/config/units.h), such as 150GB or 64Gi
  Option needs(Option other);
  Option needs(const std::string& other);
  Option excludes(Option other);
  Option excludes(const std::string& other);

 private:
  Option between_integers(std::int64_t least, std::int64_t most);

  CLI::Option* option_;
};

// Declarations in a form for manual pages and completion.
struct OptionHelp {
  std::vector<std::string> names;  // with dashes; an argument has none
  // `value`: kind of value, such as TEXT; `initial`: the default, if it is shown
  std::string value, help, initial;
  bool required = false, flag = false;
  std::vector<std::string> words;  // permitted words; empty = any value
};
struct CommandHelp {
  std::string name, help;
  std::vector<OptionHelp> options;
  std::vector<CommandHelp> commands;
  std::string example = {};  // a command line that works as it stands, up to names; "" = none
};

using Action = std::function<int()>;  // returns the exit status

// State that all commands of a command line share.
struct CommandLineState {
  Action chosen;                         // of the command that the command line names
  std::vector<std::string> environment;  // "NAME=VALUE"
};

// Declared command, or the program itself. It is a view of its CommandLine, which must outlive it.
class Command {
 public:
  Command(CLI::App* app, CommandLineState* shared) : app_(app), shared_(shared) {}
  Command add_command(const std::string& name, const std::string& help);
  Command needs_command();  // requires one of its subcommands
  // Adds an option that fills `value`, which must outlive the parsing. The types of values are
  // listed at the end of command_line.cc.
  template <class Value>
  Option add_option(const std::string& name, Value& value, const std::string& help);
  Option add_flag(const std::string& name, bool& value, const std::string& help);
  Option option(const std::string& name);  // returns an option added before
  void runs(Action action);                // runs if the command line names this command
  // Entries "NAME=VALUE" of the environment that settings may come from (runtime/config/environment.h).
  const std::vector<std::string>& environment() const { return shared_->environment; }

 private:
  CLI::App* app_;
  CommandLineState* shared_;
};

// Commands that another program has and this one lacks, by their words: "sim", "trace stats".
// Asked for here, their error says where they are.
struct CommandsElsewhere {
  std::string program;
  std::vector<std::string> commands;
  bool moved = false;  // they were commands of this program in earlier versions
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& version, const std::string& help,
              CommandsElsewhere elsewhere = {}, std::vector<std::string> environment = {});
  ~CommandLine();
  Command program();
  // Lists the commands that were added since the last call under this title in the program's help.
  void end_group(const std::string& title);
  // Shows a command line in the help of its command, the one that its words name.
  void add_example(const std::string& line);
  // Parses the command line. Returns the exit status if nothing is to run: an error was printed, or
  // help was requested. Otherwise sets `chosen`.
  std::optional<int> parse(int argc, char** argv, Action& chosen);
  CommandHelp describe() const;

 private:
  std::unique_ptr<CLI::App> app_;
  CommandsElsewhere elsewhere_;
  CommandLineState shared_;
};

}  // namespace troupe::deploy
