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

bool is_utf8(std::string_view text);  // RFC 3629: no overlong forms, no surrogates

}  // namespace troupe
