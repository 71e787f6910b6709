#include "deploy/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <utility>

namespace troupe::deploy {

Option Option::required() { return option_->required(), *this; }
Option Option::default_shown() { return option_->capture_default_str(), *this; }
Option Option::comma_separated() { return option_->delimiter(','), *this; }
Option Option::one_of(std::vector<std::string> words) {
  return option_->check(CLI::IsMember(std::move(words))), *this;
}
Option Option::between(double least, double most) { return option_->check(CLI::Range(least, most)), *this; }
Option Option::between_integers(std::int64_t least, std::int64_t most) {
  return option_->check(CLI::Range(least, most)), *this;
}
Option Option::in_bytes() { return option_->transform(CLI::AsSizeValue(true)), *this; }
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

CommandLine::CommandLine(const std::string& name, const std::string& version, const std::string& help)
    : app_(std::make_unique<CLI::App>(help, name)) {
  app_->set_version_flag("--version", version);
  app_->require_subcommand(1);
}
CommandLine::~CommandLine() = default;

Command CommandLine::program() { return {app_.get(), &chosen_}; }

std::optional<int> CommandLine::parse(int argc, char** argv, Action& chosen) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
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
