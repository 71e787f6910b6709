#include "deploy/commands/manual.h"

#include <doctest/doctest.h>

#include "runtime/config/settings.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {

CommandHelp small_program() {
  CommandHelp trace{"trace",
                    "Make, capture and measure request traces",
                    {},
                    {{"convert",
                      "Of a data set",
                      {{{"--kind"}, "WORD", ".dotted - help\\", "a", true, false, {"a", "b"}}},
                      {},
                      "troupe trace convert --kind a"}}};
  return {"troupe", "A program", {{{"-h", "--help"}, "", "Says this", "", false, true, {}}}, {trace}};
}

std::string page(const std::vector<ManualPage>& pages, const std::string& name) {
  for (const auto& [file, text] : pages)
    if (file == name) return text;
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("manual: each command has a page with its options, and no text becomes a roff request") {
  const auto pages = manual_pages(small_program(), "troupe 1");
  CHECK(pages.size() == 3);
  CHECK(has(page(pages, "troupe.1"), "\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nSays this"));
  CHECK(has(page(pages, "troupe.1"), "\\fBtrace\\fR\nMake, capture and measure request traces"));
  CHECK(has(page(pages, "troupe-trace-convert.1"),
            "\\fB\\-\\-kind\\fR \\fIWORD\\fR\n\\&.dotted \\- help\\e [a] Must be given."));
  CHECK(has(page(pages, "troupe-trace-convert.1"), ".SH EXAMPLES\ntroupe trace convert \\-\\-kind a\n"));
  CHECK(has(page(pages, "troupe-trace-convert.1"), ".SH NAME\ntroupe\\-trace\\-convert \\- Of a data set"));
}

TEST_CASE("manual: the page of the configuration has every setting with its values") {
  const std::string text = page({configuration_page("troupe 1")}, "troupe.yaml.5");
  for (const Setting& setting : setting_table())
    CHECK_MESSAGE(has(text, "\\fB" + std::string(setting.name) + "\\fR\n"), setting.name);
  CHECK(has(text, " Variable: TROUPE_HTTP_PORT."));
}

TEST_CASE("completion: has commands, options and the words of options") {
  const std::string text = bash_completion(small_program());
  CHECK(has(text, "_troupe_commands['troupe']='trace'\n"));
  CHECK(has(text, "_troupe_commands['troupe trace']='convert'\n"));
  CHECK(has(text, "_troupe_options['troupe trace convert']='--kind'\n"));
  CHECK(has(text, "_troupe_values['troupe trace convert --kind']='a b'\n"));
  CHECK_FALSE(has(text, "_troupe_values['troupe --help']"));
  CHECK(has(text, "\ncomplete -F _troupe troupe\n"));
}

TEST_CASE("completion: a program's names in the shell are its own") {
  CommandHelp lab = small_program();
  lab.name = "troupe-lab";
  const std::string text = bash_completion(lab);
  CHECK(has(text, "_troupe_lab_commands['troupe-lab trace']='convert'\n"));
  CHECK(has(text, "\ncomplete -F _troupe_lab troupe-lab\n"));
  CHECK_FALSE(has(text, "_troupe_commands"));
}
