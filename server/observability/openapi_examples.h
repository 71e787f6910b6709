#pragma once
// Examples of requests and answers in the OpenAPI document. They are of a node on the demo world, as
// tests/commands/golden/api.txt has them; tests/client/openapi_client.py sends them to one.
#include <span>
#include <string_view>

namespace troupe::server {

struct ApiExample {
  std::string_view method, path;
  std::string_view request, answer;  // JSON; "" = none
};

// Returns the example of a path; its texts are "" if there is none.
ApiExample api_example(std::string_view method, std::string_view path);

}  // namespace troupe::server
