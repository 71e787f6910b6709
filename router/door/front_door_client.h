#pragma once
// A small blocking HTTP client for the command line and the tests: one request, one response.
#include <cstdint>
#include <stdexcept>
#include <string>

namespace troupe::router {

struct HttpReply {
  unsigned status = 0;
  std::string body;
  std::string etag = {};
};

// The server cannot be reached or does not speak HTTP: "http://127.0.0.1:8080: connection refused; expected
// …".
struct ClientError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct HttpCall {
  std::string server = "127.0.0.1:8080";  // host:port, or http:// or https:// before it
  std::string method = "GET", target = "/", body, tenant;
  std::string key = {};        // an API key
  std::string authority = {};  // over TLS: PEM of who signs the server's certificate; "": those that the system trusts
  std::string headers = {};    // more: "if-match: \"7\"\r\n"
  std::int64_t timeout_us = 30'000'000;
};
HttpReply http_call(const HttpCall& call);  // throws ClientError

}  // namespace troupe::router
