#pragma once
// OpenAPI 3.1 document of the HTTP server, at `GET /openapi.json`. Bodies come from the schemas
// that read and write them. Only paths and foreign formats are described by hand.
#include <span>
#include <string>
#include <string_view>

namespace troupe::server {

struct ApiPath {
  std::string_view method, path;  // "/v1/users/{id}"
  std::string_view summary;
  std::string_view body, answer;               // names of schemas; "" = none, or text of `type`
  std::string_view type = "application/json";  // content type of the answer
};
std::span<const ApiPath> api_paths();

const std::string& openapi();

}  // namespace troupe::server
