#pragma once
// The command line as the commands see it: commands, the options that fill their values, and what values may
// be. CLI11 does the work, and only command_line.cc sees it: its headers cost each file that includes them
// seconds.
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

// An option that was declared. All calls return it again.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option required();
  Option default_shown();    // the value that it fills, as it is now
  Option comma_separated();  // of a list
  Option one_of(std::vector<std::string> words);
  Option between(double least, double most);  // both allowed
  Option between(std::integral auto least, std::integral auto most) {
    return between_integers(static_cast<std::int64_t>(least), static_cast<std::int64_t>(most));
  }
  Option in_bytes();  // 150GB, 64GiB
  Option needs(Option other);
  Option needs(const std::string& other);
  Option excludes(Option other);
  Option excludes(const std::string& other);

 private:
  Option between_integers(std::int64_t least, std::int64_t most);

  CLI::Option* option_;
};

// What was declared, for manual pages and completion.
struct OptionHelp {
  std::vector<std::string> names;  // with their dashes; without: an argument
  std::string value, help,
      initial;  // what kind of value it takes; as it is without the option, where that is shown
  bool required = false, flag = false;
  std::vector<std::string> words;  // that it takes, if there are few
};
struct CommandHelp {
  std::string name, help;
  std::vector<OptionHelp> options;
  std::vector<CommandHelp> commands;
};

using Action = std::function<int()>;  // returns the exit status

// A command that was declared, or the program itself. It is a view of the CommandLine, which outlives it.
class Command {
 public:
  Command(CLI::App* app, Action* chosen) : app_(app), chosen_(chosen) {}
  Command add_command(const std::string& name, const std::string& help);
  Command needs_command();  // one of its own must be named
  // Fills `value`, which outlives the parsing. The kinds of values are listed at the end of command_line.cc.
  template <class Value>
  Option add_option(const std::string& name, Value& value, const std::string& help);
  Option add_flag(const std::string& name, bool& value, const std::string& help);
  Option option(const std::string& name);  // that was added
  void runs(Action action);                // when the command line names it

 private:
  CLI::App* app_;
  Action* chosen_;
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& version, const std::string& help);
  ~CommandLine();
  Command program();
  // The exit status, if there is nothing to run: a fault that was told, or help that was asked for. Else
  // `chosen` is what to run.
  std::optional<int> parse(int argc, char** argv, Action& chosen);
  CommandHelp describe() const;

 private:
  std::unique_ptr<CLI::App> app_;
  Action chosen_;
};

}  // namespace troupe::deploy
