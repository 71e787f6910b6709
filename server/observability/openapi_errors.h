#pragma once
// The error statuses of the HTTP API with their codes, for the OpenAPI document. docs/reference/errors.md
// explains the codes; tests/client/client_test.py compares both, and every refusal that it gets.
#include <span>
#include <string_view>

namespace troupe::server {

struct ApiError {
  unsigned status;
  std::string_view description;
  std::string_view codes;    // separated by blanks
  std::string_view example;  // members code, message, where, expected, type and param of an error
};

std::span<const ApiError> api_errors();

}  // namespace troupe::server
