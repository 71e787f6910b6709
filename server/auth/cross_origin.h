#pragma once
// Protects a server from web pages of other sites. A browser sends requests for any page to any
// address that it reaches, also to one that listens on loopback only. So requests that may change
// something are refused if a browser sends them for another site, and so are Host names that an
// attacker's DNS may point to this machine (DNS rebinding). Clients other than browsers are not
// affected: they send neither Origin nor Sec-Fetch-Site. Pure.
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::server {

// Holds the error of http.hosts.
struct HostsError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Host names under which clients reach the server.
struct ServedHosts {
  std::vector<std::string> names;  // "shop.example" or "shop.example:8080", in lower case; empty = no list
  bool loopback = false;           // the server listens on loopback only

  static ServedHosts parse(std::string_view list, bool loopback);  // separated by commas; throws HostsError
};

// Headers in which a browser says where a request comes from.
struct BrowserHeaders {
  std::string host, origin, fetch_site;  // Host, Origin, Sec-Fetch-Site; "" = absent
};

// Refuses with 400 `unknown_host`. IP addresses, localhost and *.localhost are always served, because
// no DNS of an attacker answers for them; an absent or empty Host is not a browser's. Other names must
// be listed if there is a list, or if the server listens on loopback only.
std::optional<Refusal> reject_if_unknown_host(std::string_view host, const ServedHosts& served);

// Refuses a request that a browser sends for another site, with 403 `foreign_origin`. Methods that only
// read are not refused: the browser does not let the page see the answer. A listed name is no other
// site.
std::optional<Refusal> reject_if_foreign_origin(std::string_view method, const BrowserHeaders& headers,
                                                const ServedHosts& served);

// Refuses a body that a web page may send to any site without asking first, with 415 `form_body`, if a
// browser sends it. Other clients may: it is the default of curl.
std::optional<Refusal> reject_if_form_body(std::string_view method, std::string_view content_type,
                                           const BrowserHeaders& headers);

}  // namespace troupe::server
