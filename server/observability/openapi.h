#pragma once
// The door's interface as OpenAPI 3.1 has it, at `GET /openapi.json`: bodies come from the schemas by which
// they are read and written, so only paths and what has a form of others are said by hand.
#include <span>
#include <string>
#include <string_view>

namespace troupe::server {

struct ApiPath {
  std::string_view method, path;  // "/v1/users/{id}"
  std::string_view summary;
  std::string_view body, answer;               // names of schemas; "" none, or that of `type`
  std::string_view type = "application/json";  // of the answer
};
std::span<const ApiPath> api_paths();

const std::string& openapi();

}  // namespace troupe::server
