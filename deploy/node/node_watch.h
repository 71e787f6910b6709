#pragma once
// Watches what runs out without any fault: the space of the disks that this process writes to, and the
// validity of the certificates that it presents. Each is a metric, a warning in the log, and a reason
// for which the node is degraded, before it is an outage.
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/host/host.h"
#include "runtime/network/certificates.h"

namespace troupe::deploy {

struct WatchedFolder {
  std::string name;  // "data" or "log"
  std::string path;
};
struct DiskSpace {
  std::uint64_t bytes = 0, free_bytes = 0;
};
// Returns the space of a folder's file system that this process may use; nullopt if it cannot be told.
std::optional<DiskSpace> disk_space(const std::string& folder);

// Returns why the space is too little, or "": less than a tenth and less than 50 GiB are free.
std::string describe_fill(const std::string& folder, const DiskSpace& space);
// Returns why a certificate has to be renewed, or "": it is valid for less than 14 days and less than
// a fifth of its life.
std::string describe_expiry(const std::string& of, const CertificateValidity& valid, std::int64_t now_s);

// Thread-safe.
class NodeWatch {
 public:
  // Least time between two log lines about one thing: while it lasts, and when it begins again.
  static constexpr std::int64_t repeat_s = 86'400, pace_s = 600;

  NodeWatch(std::vector<WatchedFolder> folders, MetricRegistry& metrics, LogSink log);
  ~NodeWatch() { stop(); }
  NodeWatch(const NodeWatch&) = delete;

  // Sets a certificate in use: "http", "node" or "authority".
  void set(const std::string& of, const CertificateValidity& valid);
  void start();  // looks at once, and every ten seconds on a thread of its own
  void stop();
  void look(std::int64_t now_s);              // once, at this time since 1970
  std::vector<std::string> degraded() const;  // as of the last look

 private:
  struct Finding {
    std::string event, ended_event, subject, why, expected;  // why: "" = nothing is wrong
  };
  std::vector<Finding> look_at_folders();
  std::vector<Finding> look_at_certificates(std::int64_t now_s);
  void report(const Finding& finding, std::int64_t now_s);
  void run();

  const std::vector<WatchedFolder> folders_;
  MetricRegistry& metrics_;
  const LogSink log_;
  mutable std::mutex mutex_;  // guards the members up to `stopping_`
  std::map<std::string, CertificateValidity> certificates_;
  struct Reported {
    bool on = false;
    std::optional<std::int64_t> at_s;  // of the last warning
  };
  std::map<std::string, Reported> reported_;  // by event and subject
  std::vector<std::string> degraded_;
  bool stopping_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace troupe::deploy
