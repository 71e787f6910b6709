// Turns settings into the configuration of a node's server of HTTP and gRPC, and reads the files of
// certificates and API keys that they name.
#include "deploy/node/server_configs.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <tuple>
#include <utility>

#include "deploy/data/version.h"
#include "deploy/node/shared_keys.h"
#include "runtime/config/whole_file.h"
#include "runtime/network/certificates.h"
#include "server/grpc/grpc_service.h"

namespace troupe::deploy {
namespace {

// Returns this node's router, or else the first one; RequestForwarder then chooses a connected one.
NodeId router_of(const NodeRoles& roles) { return roles.router ? roles.node : roles.routers.front(); }

server::ServerLimits http_limits(const Config& config, const ModelFacts& model) {
  server::ServerLimits limits;
  limits.candidates_max = config.router.candidates_max;
  limits.score_items_max = config.router.score_items_max;
  limits.score_labels_max = config.router.score_labels_max;
  limits.request_tokens_max = config.router.request_tokens_max;
  limits.history_events_max = config.router.history_events_max;
  limits.prompt_tokens_max = static_cast<std::uint32_t>(model.limits.positions_max);
  for (const EventFeature& feature : model.event_features) limits.event_features.push_back(feature.name);
  if (model.pass_tokens_max > 0)
    limits.pass_tokens_max =
        static_cast<std::uint32_t>(std::min<std::size_t>(model.pass_tokens_max, UINT32_MAX));
  limits.admin_routes = config.http.admin_routes;
  limits.catalog_tenant = config.http.catalog_tenant;
  return limits;
}

// True of "127.0.0.1:8080" and "[::1]:8080".
bool has_port(const std::string& given) {
  const std::size_t colon = given.rfind(':');
  return colon != given.npos && colon + 1 < given.size() &&
         given.find_first_not_of("0123456789", colon + 1) == given.npos &&
         (given.find(':') == colon || given[colon - 1] == ']');
}

// Resolves an IP address, which may stand in brackets as in a URL, or a host name of this machine, such as
// localhost. `setting` begins errors.
std::string address_of(const std::string& setting, const std::string& given) {
  const bool in_brackets = given.starts_with('[') && given.ends_with(']');
  const std::string name = in_brackets ? given.substr(1, given.size() - 2) : given;
  const addrinfo hints{.ai_flags = AI_PASSIVE, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0 || !found)
    throw ConfigError(setting + " is \"" + given +
                      "\", which is neither an IP address nor a name that this machine can look up; expected "
                      "an address of this machine, such as 127.0.0.1, or 0.0.0.0 (IPv4) or :: (IPv4 and "
                      "IPv6) for all of them" +
                      (has_port(given) ? "; the port is a setting of its own" : ""));
  char text[NI_MAXHOST] = {};
  getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  freeaddrinfo(found);
  return text;
}

bool is_loopback(const std::string& address) {
  in_addr of4{};
  in6_addr of6{};
  if (inet_pton(AF_INET, address.c_str(), &of4) == 1) return ntohl(of4.s_addr) >> 24 == 127;
  return inet_pton(AF_INET6, address.c_str(), &of6) == 1 && IN6_IS_ADDR_LOOPBACK(&of6);
}

// `address` is where the server listens.
server::ServedHosts served_hosts(const HttpSettings& settings, const std::string& address) {
  try {
    return server::ServedHosts::parse(settings.hosts, is_loopback(address));
  } catch (const server::HostsError& error) {
    throw ConfigError(error.what());
  }
}

// Splits "HOST:PORT"; an IPv6 address stands in brackets.
std::pair<std::string, std::uint16_t> listening_address(const std::string& setting, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  unsigned port = 0;
  const char* const end = text.data() + text.size();
  const auto read =
      colon == text.npos ? std::from_chars_result{} : std::from_chars(text.data() + colon + 1, end, port);
  const bool is_port = colon != text.npos && read.ec == std::errc() && read.ptr == end && port <= 0xffff;
  std::string host = text.substr(0, is_port ? colon : 0);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty())
    throw ConfigError(setting + " is \"" + text + "\"; expected HOST:PORT, such as 127.0.0.1:8081");
  return {address_of(setting, host), static_cast<std::uint16_t>(port)};
}

// `router` is the node whose routers are asked.
std::vector<server::ServerModel> http_models(const LocalNode& box, NodeId router) {
  std::vector<server::ServerModel> models;
  for (const auto& model : box.models())
    if (box.has_names())
      models.push_back({model->name,
                        std::string(model->serves()),
                        http_limits(model->config, model->facts),
                        model->text(),
                        {box.actor_ids().number(router, model->place), Role::router}});
  return models;
}

// Promise 1: one outcome by the deadline and two heartbeats.
std::int64_t answer_us_max(const Config& config) {
  return config.router.deadline_max.us + 2 * config.cluster.heartbeat.us;
}

}  // namespace

server::ServerCertificate http_certificate(const HttpSettings& settings) {
  const std::string &chain = settings.tls_certificate, &key = settings.tls_key;
  if (chain.empty() != key.empty())
    throw ConfigError(
        "only one of http.tls_certificate and http.tls_key is set; expected both, or neither for plain HTTP");
  if (chain.empty()) return {};
  return {read_pem(chain), read_pem(key)};
}

std::shared_ptr<const server::ApiKeys> http_keys(const HttpSettings& settings) {
  const std::string& file = settings.api_keys;
  if (file.empty() || keys_in_redis(file)) return nullptr;
  try {
    return std::make_shared<const server::ApiKeys>(server::ApiKeys::parse(
        read_whole_file(file, server::ApiKeys::file_bytes_max, "a file of troupe keys")));
  } catch (const server::KeysError& error) {
    throw ConfigError(file + ":" + error.what());
  }
}

std::vector<std::string> model_names(std::string_view list) {
  constexpr std::size_t bytes_max = 256;
  std::vector<std::string> names;
  for (std::size_t at = 0; !list.empty() && at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    std::string_view name = list.substr(at, end - at);
    name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
    name = name.substr(0, name.find_last_not_of(' ') + 1);
    const bool is_plain =
        std::ranges::all_of(name, [](unsigned char c) { return c > ' ' && c != '"' && c < 0x7f; });
    if (name.empty() || name.size() > bytes_max || !is_plain || std::ranges::count(names, name) > 0)
      throw ConfigError("model.name has \"" + std::string(name.substr(0, 100)) +
                        "\"; expected different names of at most 256 characters without blanks, separated by "
                        "commas, such as Qwen/Qwen3-Reranker-0.6B");
    names.emplace_back(name);
    at = end + 1;
  }
  return names;
}

server::HttpServerConfig http_config(const Config& config, const NodeRoles& place, const LocalNode& box,
                                     std::function<std::string()> obstacle) {
  server::HttpServerConfig http_server;
  http_server.address = address_of("http.address", config.http.address);
  http_server.hosts = served_hosts(config.http, http_server.address);
  http_server.obstacle = std::move(obstacle);
  http_server.port = static_cast<std::uint16_t>(config.http.port);
  http_server.connections_max = config.http.connections_max;
  http_server.connections_per_address_max = config.http.connections_per_address_max;
  http_server.memory_bytes_max = config.http.memory_max;
  http_server.header_bytes_max = static_cast<std::uint32_t>(config.http.header_bytes_max);
  http_server.body_bytes_max = static_cast<std::uint32_t>(config.http.body_bytes_max);
  http_server.timeout_us = config.http.timeout.us;
  http_server.answer_us_max = answer_us_max(config);
  http_server.certificate = http_certificate(config.http);
  http_server.keys = http_keys(config.http);
  http_server.tenant_limit = {config.http.tenant_rate, config.http.tenant_requests_max};
  http_server.limits = http_limits(config, box.model());
  http_server.text = box.text();
  http_server.actors = box.actors();
  std::ranges::copy_if(http_server.actors, std::back_inserter(http_server.must_be_ready),
                       [&](Address actor) { return box.actor_ids().node_of(actor.node) == place.node; });
  http_server.models = http_models(box, router_of(place));
  http_server.actor_ids = box.actor_ids();
  http_server.router = {router_of(place), Role::router};
  http_server.streams_max = config.http.streams_max;
  http_server.rpc = std::make_shared<server::GrpcService>(
      server::GrpcConfig{.message_bytes_max = http_server.body_bytes_max,
                         .limits = http_server.limits,
                         .models = http_server.models});
  if (!config.grpc.listen.empty())
    std::tie(http_server.rpc_address, http_server.rpc_port) =
        listening_address("grpc.listen", config.grpc.listen);
  http_server.rpc_hosts = served_hosts(config.http, http_server.rpc_address);
  http_server.model_names = model_names(config.model.name);
  http_server.version = version();
  http_server.last_id = box.incarnation();
  http_server.access_log = server::access_log(word_of(config.http.access_log));
  http_server.sampled_share = config.telemetry.sampled;
  return http_server;
}

}  // namespace troupe::deploy
