// Chooses the transport of a node's pages: over the links between nodes, or UCX, which then gets the
// network device of the cluster alone.
#include "deploy/node/page_transport.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/transfer/ucx_transport.h"

namespace troupe::deploy {
namespace {

using PageTransport = TransferSettings::PageTransport;

// Encryption keys of pages travel over the links, so the links must be encrypted, too.
bool encrypts_pages(const Config& config) {
  using Encryption = TransferSettings::Encryption;
  const Encryption setting = config.transfer.encryption;
  const bool links_are = !config.cluster.certificates.empty();
  if (setting == Encryption::on && !links_are)
    throw ConfigError(
        "cluster.certificates is empty; expected a folder with certificates, because transfer.encryption: on "
        "sends its keys over these connections");
  return setting != Encryption::off && links_are;
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

bool is_same(const sockaddr* one, const sockaddr* other) {
  if (one->sa_family != other->sa_family) return false;
  if (one->sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in*>(one)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(other)->sin_addr.s_addr;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(one)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(other)->sin6_addr, sizeof(in6_addr)) == 0;
}

// The loopback device has addresses that it does not list.
std::string device_with(const ifaddrs* devices, const sockaddr* address) {
  for (const ifaddrs* device = devices; device; device = device->ifa_next) {
    if (!device->ifa_addr ||
        (device->ifa_addr->sa_family != AF_INET && device->ifa_addr->sa_family != AF_INET6))
      continue;
    if (is_same(device->ifa_addr, address) ||
        (is_loopback(address) && (device->ifa_flags & IFF_LOOPBACK) != 0))
      return device->ifa_name;
  }
  return "";
}

void log_transport(const Config& config, const NodeRoles& roles, PageTransport transport,
                   const std::string& devices, bool encrypted, const LogSink& log) {
  if (!log) return;
  std::vector<LogField> fields{{"transport", std::string(word_of(transport))},
                               {"encrypted", encrypted ? "yes" : "no"}};
  if (transport == PageTransport::ucx) fields.push_back({"devices", devices.empty() ? "all" : devices});
  log(LogLevel::info, "main", "page_transport", fields);
  if (transport != PageTransport::ucx) return;
  const bool certified = !config.cluster.certificates.empty();
  if (!certified && !roles.router) return;
  const std::vector<LogField> exposed{
      {"why", certified ? "anybody who reaches UCX's ports can end this process, although the cluster has "
                          "certificates"
                        : "UCX may end this process, which has a router"},
      {"expected", "transfer.transport: auto or links, or a network that only workers reach"}};
  log(LogLevel::warning, "main", "ucx_exposed", exposed);
}

}  // namespace

PageTransport page_transport_of(const Config& config, const NodeRoles& roles) {
  if (config.transfer.transport != PageTransport::auto_) return config.transfer.transport;
  const bool links = !config.cluster.certificates.empty() || roles.mixes_roles;
  return links ? PageTransport::links : PageTransport::ucx;
}

std::string network_device_of(const std::string& host) {
  addrinfo* found = nullptr;
  ifaddrs* devices = nullptr;
  std::string name;
  if (!host.empty() && getaddrinfo(host.c_str(), nullptr, nullptr, &found) == 0 && getifaddrs(&devices) == 0)
    for (const addrinfo* at = found; at && name.empty(); at = at->ai_next)
      if (at->ai_family == AF_INET || at->ai_family == AF_INET6) name = device_with(devices, at->ai_addr);
  if (devices) freeifaddrs(devices);
  if (found) freeaddrinfo(found);
  return name;
}

std::string ucx_devices_of(const Config& config, const NodeRoles& roles) {
  const std::string& devices = config.transfer.devices;
  if (!devices.empty()) return devices == "all" ? "" : devices;
  if (config.transfer.transports != "tcp")
    throw ConfigError(
        "transfer.devices is empty; expected the names of the devices, such as mlx5_0:1,eth1, "
        "because transfer.transports is " +
        config.transfer.transports);
  std::string device = network_device_of(roles.host);
  if (device.empty())
    throw ConfigError("transfer.devices is empty, and no network device of this machine has the address \"" +
                      roles.host +
                      "\" of this node; expected the device for pages between nodes, such as eth0, or all");
  return device;
}

OpenedTransport open_page_transport(const Config& config, const NodeRoles& roles, Incarnation incarnation,
                                    PageArena& arena, MetricRegistry& metrics, const LogSink& log) {
  const PageTransport transport = page_transport_of(config, roles);
  const bool encrypted = encrypts_pages(config);
  if (transport == PageTransport::links) {
    auto over_links = std::make_unique<LinkTransport>(LinkTransportOptions{}, incarnation, arena, metrics);
    log_transport(config, roles, transport, "", !config.cluster.certificates.empty(), log);
    LinkTransport* const same = over_links.get();
    return {std::move(over_links), same};
  }
  const std::string devices = ucx_devices_of(config, roles);
  auto ucx = std::make_unique<UcxTransport>(
      UcxOptions{.transports = config.transfer.transports, .devices = devices, .sealed = encrypted},
      incarnation, arena, metrics);
  log_transport(config, roles, transport, devices, encrypted, log);
  return {std::move(ucx), nullptr};
}

}  // namespace troupe::deploy
