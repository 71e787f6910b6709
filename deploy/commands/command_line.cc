// Declares commands and options with CLI11, checks their values, and prints help and errors. The
// only file that includes CLI11, because its headers cost each file seconds of compile time.
#include "deploy/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <utility>

#include "runtime/config/units.h"

namespace troupe::deploy {

namespace {

// Edit distance: letters to change, insert or remove.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t k = 0; k <= to.size(); ++k) row[k] = k;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t k = 1; k <= to.size(); ++k) {
      const std::size_t kept = diagonal + (from[i - 1] != to[k - 1]);
      diagonal = std::exchange(row[k], std::min({kept, row[k] + 1, row[k - 1] + 1}));
    }
  }
  return row[to.size()];
}

// Returns the place of a command that another program has; "" if it has none of that name.
std::string command_elsewhere(const std::string& name, const std::string& command,
                              const CommandsElsewhere& elsewhere) {
  if (std::ranges::find(elsewhere.commands, command) == elsewhere.commands.end()) return "";
  return name + ": `" + name + " " + command + "` is " + (elsewhere.moved ? "now " : "") + "`" +
         elsewhere.program + " " + command + "`";
}

// Returns an error text for an unknown command; "" if the error is another one.
std::string unknown_command(const CLI::App& app, const CommandsElsewhere& elsewhere) {
  const CLI::App* at = &app;
  std::string above;  // the words before the unknown one
  // A word after the unknown one may be a command, too.
  for (; at->remaining().empty() && !at->get_subcommands().empty(); above += at->get_name() + " ")
    at = at->get_subcommands().front();
  const std::vector<std::string> left = at->remaining();
  const std::vector<const CLI::App*> commands = at->get_subcommands(nullptr);
  if (commands.empty() || left.empty() || left.front().starts_with('-')) return "";
  const std::string& word = left.front();
  if (std::string there = command_elsewhere(app.get_name(), above + word, elsewhere); !there.empty())
    return there;
  std::string known, nearest;
  for (const CLI::App* command : commands) {
    const std::string& name = command->get_name();
    known += (known.empty() ? "" : ", ") + name;
    const bool is_near = distance(word, name) <= 2;
    if (is_near && (nearest.empty() || distance(word, name) < distance(word, nearest))) nearest = name;
  }
  return app.get_name() + ": there is no command \"" + word + "\"; expected one of " + known +
         (nearest.empty() ? "" : ". Did you mean " + nearest + "?");
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
  option_->type_name("SIZE");
  option_->transform([](const std::string& text) {
    const std::optional<double> bytes = parse_size(text);
    if (!bytes || *bytes != std::floor(*bytes) || *bytes >= 0x1p53)
      throw CLI::ValidationError(
          "", "the value is \"" + text + "\"; expected a size, " + std::string(size_forms));
    return std::to_string(static_cast<std::uint64_t>(*bytes));
  });
  return *this;
}
Option Option::needs(Option other) { return option_->needs(other.option_), *this; }
Option Option::needs(const std::string& other) { return option_->needs(other), *this; }
Option Option::excludes(Option other) { return option_->excludes(other.option_), *this; }
Option Option::excludes(const std::string& other) { return option_->excludes(other), *this; }

Command Command::add_command(const std::string& name, const std::string& help) {
  return {app_->add_subcommand(name, help), chosen_};
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
  app_->callback([chosen = chosen_, action = std::move(action)] { *chosen = action; });
}

CommandLine::CommandLine(const std::string& name, const std::string& version, const std::string& help,
                         CommandsElsewhere elsewhere)
    : app_(std::make_unique<CLI::App>(help, name)), elsewhere_(std::move(elsewhere)) {
  app_->set_version_flag("--version", version);
  app_->require_subcommand(1);
}
CommandLine::~CommandLine() = default;

CommandHelp CommandLine::describe() const { return help_of(*app_); }

Command CommandLine::program() { return {app_.get(), &chosen_}; }

std::optional<int> CommandLine::parse(int argc, char** argv, Action& chosen) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (const std::string word = unknown_command(*app_, elsewhere_);
        error.get_exit_code() != 0 && !word.empty()) {
      std::cerr << word << "\n";
      return 2;
    }
    return app_->exit(error) == 0 ? 0 : 2;
  }
  chosen = chosen_;
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
TROUPE_VALUE(std::vector<double>)
#undef TROUPE_VALUE

}  // namespace troupe::deploy
