// Declares commands and options with CLI11, checks their values, and prints help and errors. The
// only file that includes CLI11, because its headers cost each file seconds of compile time.
#include "deploy/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <utility>

#include "runtime/config/nearest_name.h"
#include "runtime/config/units.h"

namespace troupe::deploy {

namespace {

constexpr std::string_view example_head = "Example:\n  ";
constexpr const char* ungrouped = "Subcommands";  // CLI11's title of commands without a group
constexpr std::size_t typing_errors_max = 2;      // letters between an unknown word and a suggested one

// Returns the place of a command that another program has; "" if it has none of that name.
std::string command_elsewhere(const std::string& name, const std::string& command,
                              const CommandsElsewhere& elsewhere) {
  if (std::ranges::find(elsewhere.commands, command) == elsewhere.commands.end()) return "";
  return name + ": `" + name + " " + command + "` is " + (elsewhere.moved ? "now " : "") + "`" +
         elsewhere.program + " " + command + "`";
}

// Returns the command that the words named, and its path: "troupe keys add".
std::pair<const CLI::App*, std::string> named_command(const CLI::App& app) {
  const CLI::App* at = &app;
  std::string path = app.get_name();
  // A word after an unknown one may be a command, too.
  for (; at->remaining().empty() && !at->get_subcommands().empty(); path += " " + at->get_name())
    at = at->get_subcommands().front();
  return {at, path};
}

std::string commands_of(const CLI::App& app) {
  std::string known;
  for (const CLI::App* command : app.get_subcommands(nullptr))
    known += (known.empty() ? "" : ", ") + command->get_name();
  return known;
}

// Returns an error text for an unknown command; "" if the error is another one.
std::string unknown_command(const CLI::App& app, const CommandsElsewhere& elsewhere) {
  const auto [at, path] = named_command(app);
  const std::vector<std::string> left = at->remaining();
  const std::vector<const CLI::App*> commands = at->get_subcommands(nullptr);
  if (commands.empty() || left.empty() || left.front().starts_with('-')) return "";
  const std::string& word = left.front();
  const std::string above = path == app.get_name() ? "" : path.substr(app.get_name().size() + 1) + " ";
  if (std::string there = command_elsewhere(app.get_name(), above + word, elsewhere); !there.empty())
    return there;
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  const std::string nearest = nearest_name(names, word, typing_errors_max);
  return app.get_name() + ": there is no command \"" + word + "\"; expected one of " + commands_of(*at) +
         (nearest.empty() ? "" : ". Did you mean " + nearest + "?");
}

// Returns what is wrong with the first word that the command does not take; "" if it takes all.
std::string unknown_word(const CLI::App& command) {
  const std::vector<std::string> left = command.remaining();
  if (left.empty()) return "";
  const std::string word = left.front().substr(0, left.front().find('='));
  if (!word.starts_with('-') || word.size() < 2) return "\"" + left.front() + "\" was not expected";
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::string nearest = nearest_name(names, word, typing_errors_max);
  return "there is no option " + word + (nearest.empty() ? "" : "; did you mean " + nearest + "?");
}

// Returns an error of the command line: which command, what is wrong, and where its options are.
std::string usage_error(const CLI::App& app, const std::string& what) {
  const auto [at, path] = named_command(app);
  std::string text = unknown_word(*at);
  if (text.empty() && !at->get_subcommands(nullptr).empty() && at->get_subcommands().empty())
    text = "no command is named; expected one of " + commands_of(*at);
  if (text.empty()) text = what;
  return path + ": " + text + "\nRun `" + path + " --help` for its " +
         (at->get_subcommands(nullptr).empty() ? "options" : "commands") + ".";
}

// Parses CLI11's type text "TEXT:{a,b}" into kind of value and permitted words.
OptionHelp help_of(const CLI::Option& option) {
  OptionHelp help;
  for (const std::string& name : option.get_snames()) help.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) help.names.push_back("--" + name);
  if (help.names.empty()) help.names.push_back(option.get_name());
  help.flag = option.get_expected_max() == 0;
  const std::string type = help.flag ? "" : option.get_type_name();
  const std::size_t open = type.find(":{"), close = type.find('}');
  help.value = type.substr(0, type.find(':'));
  if (open != type.npos && close != type.npos)
    for (std::string words = type.substr(open + 2, close - open - 2) + ","; !words.empty();) {
      const std::size_t comma = words.find(',');
      help.words.push_back(words.substr(0, comma));
      words.erase(0, comma + 1);
    }
  help.help = option.get_description();
  help.initial = option.get_default_str();
  help.required = option.get_required();
  return help;
}

CommandHelp help_of(const CLI::App& app) {
  CommandHelp help{app.get_name(), app.get_description(), {}, {}};
  if (const std::string footer = app.get_footer(); footer.starts_with(example_head))
    help.example = footer.substr(example_head.size());
  for (const CLI::Option* option : app.get_options()) help.options.push_back(help_of(*option));
  for (const CLI::App* command : app.get_subcommands(nullptr)) help.commands.push_back(help_of(*command));
  return help;
}

}  // namespace

Option Option::required() { return option_->required(), *this; }
Option Option::optional_value(const std::string& initial) {
  return option_->default_str(initial)->expected(0, 1), *this;
}
Option Option::default_shown() { return option_->capture_default_str(), *this; }
Option Option::comma_separated() {
  option_->delimiter(',');
  option_->transform([](std::string text) {  // trims each element, so that "a, b" equals "a,b"
    const std::size_t first = text.find_first_not_of(' ');
    return first == text.npos ? std::string() : text.substr(first, text.find_last_not_of(' ') + 1 - first);
  });
  return *this;
}
Option Option::one_of(std::vector<std::string> words) {
  return option_->check(CLI::IsMember(std::move(words))), *this;
}
Option Option::between(double least, double most) { return option_->check(CLI::Range(least, most)), *this; }
Option Option::between_integers(std::int64_t least, std::int64_t most) {
  option_->check([least, most](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (whole && least <= value && value <= most) return "";
    return "the value is \"" + text + "\"; expected a whole number from " + std::to_string(least) + " to " +
           std::to_string(most);
  });
  return *this;
}
Option Option::in_bytes() {
  const auto to_bytes = [](std::string& text) -> std::string {
    const std::optional<double> bytes = parse_size(text);
    if (!bytes || *bytes != std::floor(*bytes) || *bytes >= 0x1p53)
      return "the value is \"" + text + "\"; expected a size, " + std::string(size_forms);
    text = std::to_string(static_cast<std::uint64_t>(*bytes));
    return "";
  };
  option_->type_name("SIZE");
  return option_->transform(CLI::Validator(to_bytes, "")), *this;
}
Option Option::needs(Option other) { return option_->needs(other.option_), *this; }
Option Option::needs(const std::string& other) { return option_->needs(other), *this; }
Option Option::excludes(Option other) { return option_->excludes(other.option_), *this; }
Option Option::excludes(const std::string& other) { return option_->excludes(other), *this; }

Command Command::add_command(const std::string& name, const std::string& help) {
  return {app_->add_subcommand(name, help), shared_};
}
Command Command::needs_command() { return app_->require_subcommand(1), *this; }
template <class Value>
Option Command::add_option(const std::string& name, Value& value, const std::string& help) {
  return Option(app_->add_option(name, value, help));
}
Option Command::add_flag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help));
}
Option Command::option(const std::string& name) { return Option(app_->get_option(name)); }
void Command::runs(Action action) {
  app_->callback([shared = shared_, action = std::move(action)] { shared->chosen = action; });
}

CommandLine::CommandLine(const std::string& name, const std::string& version, const std::string& help,
                         CommandsElsewhere elsewhere, std::vector<std::string> environment)
    : app_(std::make_unique<CLI::App>(help, name)),
      elsewhere_(std::move(elsewhere)),
      shared_{{}, std::move(environment)} {
  app_->set_version_flag("--version", version);
  app_->require_subcommand(1);
}
CommandLine::~CommandLine() = default;

CommandHelp CommandLine::describe() const { return help_of(*app_); }

Command CommandLine::program() { return {app_.get(), &shared_}; }

void CommandLine::end_group(const std::string& title) {
  for (CLI::App* command : app_->get_subcommands(nullptr))
    if (command->get_group() == ungrouped) command->group(title);
}

void CommandLine::add_example(const std::string& line) {
  CLI::App* at = app_.get();
  std::istringstream words(line);
  std::string word;
  for (words >> word; words >> word;) {
    const auto below =
        at->get_subcommands([&](const CLI::App* command) { return command->check_name(word); });
    if (below.empty()) break;
    at = below.front();
  }
  at->footer(std::string(example_head) + line);
}

std::optional<int> CommandLine::parse(int argc, char** argv, Action& chosen) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (const std::string word = unknown_command(*app_, elsewhere_); !word.empty()) {
      std::cerr << word << "\n";
      return 2;
    }
    if (error.get_exit_code() == 0) return app_->exit(error);
    std::cerr << usage_error(*app_, error.what()) << "\n";
    return 2;
  }
  chosen = shared_.chosen;
  return std::nullopt;
}

#define TROUPE_VALUE(...) \
  template Option Command::add_option<__VA_ARGS__>(const std::string&, __VA_ARGS__&, const std::string&);
TROUPE_VALUE(std::string)
TROUPE_VALUE(std::filesystem::path)
TROUPE_VALUE(int)
TROUPE_VALUE(std::int64_t)
TROUPE_VALUE(std::uint32_t)
TROUPE_VALUE(std::uint64_t)
TROUPE_VALUE(double)
TROUPE_VALUE(std::optional<std::uint32_t>)
TROUPE_VALUE(std::optional<std::uint64_t>)
TROUPE_VALUE(std::optional<double>)
TROUPE_VALUE(std::vector<std::string>)
TROUPE_VALUE(std::vector<std::uint32_t>)
TROUPE_VALUE(std::vector<std::int64_t>)
TROUPE_VALUE(std::vector<double>)
#undef TROUPE_VALUE

}  // namespace troupe::deploy
