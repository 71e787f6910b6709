#pragma once
// The live page, `GET /`: one HTML file that is compiled into the program and asks this door for all that it
// shows. Its content security policy lets run what stands in the file, by its sums, and nothing else; it may
// ask this door alone.
#include <string>
#include <string_view>

namespace troupe::server {

std::string_view page_text();                    // the file, as it stands in the tree
const std::string& page_security();              // its Content-Security-Policy
std::string security_of(std::string_view html);  // of such a file: one <style> and one <script>

}  // namespace troupe::server
