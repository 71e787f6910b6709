// Decides which requests of browsers are served: by the site that the page is of, by the Host name
// that the browser looked up, and by the type of the body.
#include "server/auth/cross_origin.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace troupe::server {
namespace {

constexpr std::size_t name_bytes_max = 255, port_digits_max = 5;
constexpr std::string_view tls_scheme = "https://", plain_scheme = "http://";

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

struct Authority {
  std::string name, port;  // in lower case; without the dot at the end; port "" = the default
};

// Splits "name:port" or "[::1]:port".
Authority authority_of(std::string_view text) {
  const std::size_t end = text.starts_with('[') ? text.find(']') : 0;
  const std::size_t colon = end == text.npos ? text.npos : text.find(':', end);
  Authority made{lower_case(text.substr(0, colon)),
                 colon == text.npos ? "" : std::string(text.substr(colon + 1))};
  if (made.name.ends_with('.')) made.name.pop_back();
  return made;
}

bool is_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  if (name.starts_with('[') && name.ends_with(']'))
    return inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), bytes.data()) == 1;
  return inet_pton(AF_INET, name.c_str(), bytes.data()) == 1;
}

bool is_localhost(std::string_view name) { return name == "localhost" || name.ends_with(".localhost"); }

// A name without a port is served on all ports.
bool serves(const ServedHosts& served, const Authority& host) {
  return std::ranges::any_of(served.names, [&](const std::string& listed) {
    const Authority one = authority_of(listed);
    return one.name == host.name && (one.port.empty() || one.port == host.port);
  });
}

// An origin is a site of its own on each port, so the port must be the listed one.
bool is_listed_origin(const ServedHosts& served, const Authority& origin) {
  return std::ranges::any_of(served.names, [&](const std::string& listed) {
    const Authority one = authority_of(listed);
    return one.name == origin.name && one.port == origin.port;
  });
}

// The scheme is not compared: a proxy may end TLS.
bool is_own_origin(const BrowserHeaders& headers, std::string_view site, const ServedHosts& served) {
  const std::string origin = lower_case(headers.origin);
  const std::string_view begin = origin.starts_with(tls_scheme) ? tls_scheme : plain_scheme;
  if (!origin.starts_with(begin)) return false;  // such as "null" or an extension's
  const Authority from = authority_of(std::string_view(origin).substr(begin.size()));
  const Authority host = authority_of(headers.host);
  const bool same = !host.name.empty() && from.name == host.name && from.port == host.port;
  return (same && site != "cross-site" && site != "same-site") || is_listed_origin(served, from);
}

bool only_reads(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

[[noreturn]] void bad_name(std::string_view name) {
  throw HostsError("http.hosts has \"" + std::string(name.substr(0, 100)) +
                   "\"; expected names separated by commas, such as shop.example,shop.internal:8080");
}

void require_name(std::string_view text) {
  const Authority name = authority_of(text);
  const auto is_name_char = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  };
  const bool digits = std::ranges::all_of(name.port, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!is_address(name.name) && (name.name.empty() || name.name.size() > name_bytes_max ||
                                 !std::ranges::all_of(name.name, is_name_char)))
    bad_name(text);
  if (!digits || name.port.size() > port_digits_max || text.ends_with(':')) bad_name(text);
}

}  // namespace

ServedHosts ServedHosts::parse(std::string_view list, bool loopback) {
  ServedHosts served{.names = {}, .loopback = loopback};
  while (!trimmed(list).empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string name = lower_case(trimmed(list.substr(0, end)));
    require_name(name);
    served.names.push_back(name);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return served;
}

std::optional<Refusal> reject_if_unknown_host(std::string_view host, const ServedHosts& served) {
  const Authority asked = authority_of(trimmed(host));
  if (asked.name.empty() || is_address(asked.name) || is_localhost(asked.name)) return std::nullopt;
  if (served.names.empty() ? !served.loopback : serves(served, asked)) return std::nullopt;
  const char* const what = served.names.empty()
                               ? "the server listens on this machine only, and was asked for by another name"
                               : "the request names a host that is not served here";
  return Refusal{RefusalKind::malformed, "unknown_host", what, "host",
                 "localhost, an IP address, or a name of http.hosts (behind a proxy: the name that it passes "
                 "on)"};
}

std::optional<Refusal> reject_if_foreign_origin(std::string_view method, const BrowserHeaders& headers,
                                                const ServedHosts& served) {
  const std::string site = lower_case(headers.fetch_site);
  if (only_reads(method) || site == "same-origin") return std::nullopt;
  if (headers.origin.empty() ? site.empty() || site == "none" : is_own_origin(headers, site, served))
    return std::nullopt;
  return Refusal{RefusalKind::forbidden, "foreign_origin", "a browser sends this request for another site",
                 "origin", "a page of this server, a site of http.hosts, or a client that is no browser"};
}

std::optional<Refusal> reject_if_form_body(std::string_view method, std::string_view content_type,
                                           const BrowserHeaders& headers) {
  if (only_reads(method) || (headers.origin.empty() && headers.fetch_site.empty())) return std::nullopt;
  const std::string type = lower_case(trimmed(content_type.substr(0, content_type.find(';'))));
  for (const char* form : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"})
    if (type == form)
      return Refusal{RefusalKind::unsupported_media, "form_body", "a browser sends a form or a text",
                     "content-type", "application/json, or application/x-ndjson"};
  return std::nullopt;
}

}  // namespace troupe::server
