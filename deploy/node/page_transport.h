#pragma once
// Decides how this node's pages travel to other nodes (transfer.transport), and opens that transport.
#include <memory>
#include <string>
#include <vector>

#include "deploy/node/node_roles.h"
#include "runtime/config/config.h"
#include "runtime/host/host.h"
#include "runtime/transfer/link_transport.h"
#include "runtime/transfer/transport.h"

namespace troupe::deploy {

// Returns transfer.transport, and for `auto` what it stands for: never UCX where nodes have
// certificates, or where a router's process would end with it.
TransferSettings::PageTransport page_transport_of(const Config& config, const NodeRoles& roles);

// Returns transfer.devices as UCX expects it; "" = all. The default is the network device that has this
// node's address in the cluster. Throws ConfigError if there is none, or not only TCP is configured.
std::string ucx_devices_of(const Config& config, const NodeRoles& roles);

// Returns the name of the network device of this machine with that address, or with one to which that
// name resolves; "" = none.
std::string network_device_of(const std::string& host);

struct OpenedTransport {
  std::unique_ptr<Transport> transport;
  LinkTransport* over_links = nullptr;  // the same, if pages travel over links
};
// Logs what was opened. Throws ConfigError or std::runtime_error.
OpenedTransport open_page_transport(const Config& config, const NodeRoles& roles, Incarnation incarnation,
                                    PageArena& arena, MetricRegistry& metrics, const LogSink& log);

}  // namespace troupe::deploy
