#pragma once
// Live page at `GET /`: one HTML file that is compiled into the program and asks this server for
// everything it shows. Its content security policy allows only the file's own style and script, by
// their hashes, and requests only to this server.
#include <string>
#include <string_view>

namespace troupe::server {

std::string_view page_text();                    // the file as in the source tree
const std::string& page_security();              // its Content-Security-Policy
std::string security_of(std::string_view html);  // policy for such a file: one <style> and one <script>

}  // namespace troupe::server
