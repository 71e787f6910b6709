#pragma once
// Makes text from outside safe to display. Log lines, HTTP answers and the example configuration
// escape JSON strings only here.
#include <string>
#include <string_view>

namespace troupe {

// Appends `text` in quotes. Control characters are escaped; each byte that is not part of valid
// UTF-8 becomes U+FFFD. The result is valid JSON whatever `text` holds.
void append_json_string(std::string& out, std::string_view text);

// Returns text for a single-line error: control characters, which a terminal would interpret,
// become '?'.
std::string printable(std::string text);

// Returns text for a terminal: control characters, characters that reorder text, and bytes that are not
// UTF-8 are written as \u001b or \xff. Ids and titles are other people's texts. `keeps_lines`: line feeds
// stay.
std::string terminal_text(std::string_view text, bool keeps_lines = false);

bool is_utf8(std::string_view text);  // RFC 3629: no overlong forms, no surrogates

}  // namespace troupe
