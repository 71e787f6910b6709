// `troupe certs`: the project's own certificate authority. The first call makes the authority; each
// call makes certificates for the named nodes that have none.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <stdexcept>

#include "deploy/commands/commands.h"
#include "deploy/node/cluster_file.h"
#include "runtime/network/certificates.h"

namespace troupe::deploy {

namespace {

namespace fs = std::filesystem;

struct CertsOptions {
  std::string folder, config_file, cluster = "troupe";
  std::vector<std::string> names;
  int days = 825, authority_days = 3'650;
};

// Writes a new file; refuses to overwrite one. Keys are readable by their owner only.
void write_new(const fs::path& path, const std::string& text, mode_t mode) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  const bool written = file >= 0 &&
                       ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(file) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (!written)
    throw std::runtime_error(path.string() + ": " + std::strerror(error) +
                             "; expected a new file in a writable folder");
}

Certificate authority_in(const fs::path& folder, const CertsOptions& options) {
  const fs::path certificate = folder / "ca.pem", key = folder / "ca.key";
  if (fs::exists(certificate)) return {read_pem(certificate), read_pem(key)};
  const Certificate made = make_authority(options.cluster, options.authority_days);
  write_new(key, made.key, 0600);
  write_new(certificate, made.certificate, 0644);
  std::cout << certificate.string() << ": a new authority; keep " << key.string() << " away from the nodes\n";
  return made;
}

int run_certs(CertsOptions options) {
  const fs::path folder = options.folder;
  if (!options.config_file.empty())
    for (const ClusterNode& node : load_cluster(options.config_file)) {
      options.names.push_back(node.name);
      options.cluster = node.config.cluster.name;
    }
  fs::create_directories(folder);
  const Certificate authority = authority_in(folder, options);
  for (const std::string& name : options.names) {
    const fs::path certificate = folder / (name + ".pem");
    if (fs::exists(certificate)) {
      std::cout << certificate.string() << ": is there already\n";
      continue;
    }
    const Certificate made = make_certificate(authority, name, options.days);
    write_new(folder / (name + ".key"), made.key, 0600);
    write_new(certificate, made.certificate, 0644);
    std::cout << certificate.string() << ": for " << options.days << " days\n";
  }
  return 0;
}

}  // namespace

void add_certs(Command app) {
  auto options = std::make_shared<CertsOptions>();
  Command command =
      app.add_command("certs", "Make the cluster's certificate authority and the nodes' certificates");
  command.add_option("folder", options->folder, "Folder for the certificates (cluster.certificates)")
      .required();
  command.add_option("--config", options->config_file,
                     "Make certificates for all nodes of this cluster's file");
  command.add_option("--node", options->names, "Make a certificate for a node of this name; may be repeated");
  command.add_option("--days", options->days, "Days that new certificates are valid").between(1, 36'500);
  command.runs([options] { return run_certs(*options); });
}

}  // namespace troupe::deploy
