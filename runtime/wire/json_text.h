#pragma once
// Text from outside, fit to be shown. As a JSON string: the one place that escapes. Log lines, HTTP answers
// and the example configuration use it.
#include <string>
#include <string_view>

namespace troupe {

// Appends `text` in quotes. Control characters are escaped; each byte that is not part of valid UTF-8 becomes
// U+FFFD, so that the result is valid JSON whatever `text` holds.
void append_json_string(std::string& out, std::string_view text);

// For an error of one line: what a terminal or a reader of lines would take for a command becomes '?'.
std::string printable(std::string text);

bool is_utf8(std::string_view text);  // RFC 3629: no overlong forms, no surrogates

}  // namespace troupe
