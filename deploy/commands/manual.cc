// Writes the manual pages, the page of settings and the shell completion from the declared commands
// and the table of settings.
#include "deploy/commands/manual.h"

#include <algorithm>

#include "runtime/config/environment.h"
#include "runtime/config/settings.h"

namespace troupe::deploy {
namespace {

// Escapes text for roff, where a line that starts with a dot or an apostrophe is a request.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.empty() && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) out.append(out.empty() ? "" : between).append(word);
  return out;
}

std::string begin_page(const std::string& name, int section, const std::string& what,
                       const std::string& version) {
  std::string title = name;
  std::ranges::transform(title, title.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return ".TH " + roff(title) + " " + std::to_string(section) + " \"\" \"" + roff(version) +
         "\" \"Troupe\"\n.SH NAME\n" + roff(name) + " \\- " + roff(what) + "\n";
}

void append_option(std::string& out, const OptionHelp& option) {
  out += ".TP\n";
  for (std::size_t i = 0; i < option.names.size(); ++i)
    out.append(i ? ", " : "").append("\\fB" + roff(option.names[i]) + "\\fR");
  if (!option.value.empty()) out += " \\fI" + roff(option.value) + "\\fR";
  out += "\n" + roff(option.help);
  if (!option.initial.empty()) out += roff(" [" + option.initial + "]");
  out += option.required ? " Must be given.\n" : "\n";
}

void append_page(std::vector<ManualPage>& pages, const CommandHelp& command, const std::string& path,
                 const std::string& version) {
  std::string dashed = path;
  std::ranges::replace(dashed, ' ', '-');
  std::string out = begin_page(dashed, 1, command.help, version) + ".SH SYNOPSIS\n.B " + roff(path) + "\n" +
                    (command.commands.empty() ? "" : "\\fICOMMAND\\fR ") + "[\\fIOPTIONS\\fR]\n";
  if (!command.commands.empty()) out += ".SH COMMANDS\n";
  for (const CommandHelp& below : command.commands)
    out += ".TP\n\\fB" + roff(below.name) + "\\fR\n" + roff(below.help) + "\n";
  if (!command.options.empty()) out += ".SH OPTIONS\n";
  for (const OptionHelp& option : command.options) append_option(out, option);
  if (!command.example.empty()) out += ".SH EXAMPLES\n" + roff(command.example) + "\n";
  out += ".SH SEE ALSO\n";
  if (const std::size_t space = path.find(' '); space != path.npos)
    out += ".BR " + roff(path.substr(0, space)) + " (1),\n";
  out += ".BR troupe.yaml (5)\n";
  pages.emplace_back(dashed + ".1", out);
  for (const CommandHelp& below : command.commands)
    append_page(pages, below, path + " " + below.name, version);
}

// ---- shell completion ----

// Writes the completion of one program. All its names in the shell begin with `prefix`.
class Completion {
 public:
  explicit Completion(const std::string& program) : program_(program), prefix_("_" + program) {
    std::ranges::replace(prefix_, '-', '_');
  }

  std::string text(const CommandHelp& program) {
    out_ = "# Completion of the program " + program_ + " in bash; `" + program_ +
           " completion` wrote it.\ndeclare -gA " + prefix_ + "_commands " + prefix_ + "_options " + prefix_ +
           "_values\n";
    append_tables(program, program.name);
    out_ += prefix_ + "_settings='";
    for (const Setting& setting : setting_table()) out_.append(setting.name).append(" ");
    out_.back() = '\'';
    for (const char c : complete_words) {
      if (c == '@')
        out_ += prefix_;
      else if (c == '%')
        out_ += program_;
      else
        out_ += c;
    }
    return out_;
  }

 private:
  void append_words(const char* table, const std::string& key, const std::string& words) {
    if (!words.empty()) out_ += prefix_ + table + "['" + key + "']='" + words + "'\n";
  }
  void append_tables(const CommandHelp& command, const std::string& path) {
    std::vector<std::string> commands, options;
    for (const CommandHelp& below : command.commands) commands.push_back(below.name);
    for (const OptionHelp& option : command.options)
      for (const std::string& name : option.names) {
        options.push_back(name);
        append_words("_values", path + " " + name,
                     option.words.empty() && !option.flag ? "FILE" : joined(option.words, " "));
      }
    append_words("_commands", path, joined(commands, " "));
    append_words("_options", path, joined(options, " "));
    for (const CommandHelp& below : command.commands) append_tables(below, path + " " + below.name);
  }

  // @ stands for the prefix, % for the program.
  static constexpr std::string_view complete_words = R"(
@() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} path=% word
  local -i i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    [[ " ${@_commands[$path]} " == *" $word "* ]] && path="$path $word"
  done
  local values=${@_values["$path $previous"]}
  COMPREPLY=()
  if [[ $previous == --set ]]; then
    compopt -o nospace
    COMPREPLY=($(compgen -S = -W "$@_settings" -- "$current"))
  elif [[ $values == FILE ]]; then
    compopt -o default
  elif [[ -n $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$current"))
  elif [[ $current == -* || -z ${@_commands[$path]} ]]; then
    COMPREPLY=($(compgen -W "${@_options[$path]}" -- "$current"))
    [[ ${#COMPREPLY[*]} -eq 0 ]] && compopt -o default
  else
    COMPREPLY=($(compgen -W "${@_commands[$path]}" -- "$current"))
  fi
}
complete -F @ %
)";

  const std::string program_;
  std::string prefix_, out_;
};

}  // namespace

std::vector<ManualPage> manual_pages(const CommandHelp& program, const std::string& version) {
  std::vector<ManualPage> pages;
  append_page(pages, program, program.name, version);
  return pages;
}

ManualPage configuration_page(const std::string& version) {
  std::string out = begin_page("troupe.yaml", 5, "configuration of a node", version), section;
  out +=
      ".SH DESCRIPTION\nA YAML file with sections of settings, for \\fBtroupe serve \\-\\-config\\fR; "
      "\\fBtroupe config\\fR prints one with all defaults. An environment variable overrides the file, such "
      "as \\fBTROUPE_HTTP_PORT\\fR for \\fBhttp.port\\fR. On the command line, \\fB\\-\\-set\\fR "
      "\\fIsection.name=value\\fR overrides both.\n";
  for (const Setting& setting : setting_table()) {
    const std::string_view name = setting.name;
    const std::string_view of = name.substr(0, name.find('.'));
    if (section != of) out += ".SH " + roff(section = of) + "\n";
    out += ".TP\n\\fB" + roff(name) + "\\fR\n" + roff(setting.help) +
           roff(" Takes " + expected_of(setting) + ". Variable: " + variable_of(name) + ".");
    out += setting.initial.empty() ? "\n" : roff(" [" + std::string(setting.initial) + "]") + "\n";
  }
  return {"troupe.yaml.5", out};
}

std::string bash_completion(const CommandHelp& program) { return Completion(program.name).text(program); }

}  // namespace troupe::deploy
