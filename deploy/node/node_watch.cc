// Watches the space of disks and the validity of certificates.
#include "deploy/node/node_watch.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>

namespace troupe::deploy {
namespace {

constexpr double disk_share_min = 0.1;                             // as in deploy/monitoring/alerts.yaml
constexpr std::uint64_t disk_bytes_min = std::uint64_t{50} << 30;  // as there
constexpr std::int64_t certificate_s_min = 14 * 86'400, day_s = 86'400;  // as there
constexpr std::int64_t certificate_life_share = 5;                       // as there: a fifth of its life
constexpr std::chrono::seconds look_every{10};

std::string gib_text(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

std::string date_text(std::int64_t seconds) {
  const std::time_t time = seconds;
  tm parts{};
  char text[32] = "";
  if (gmtime_r(&time, &parts)) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

std::int64_t wall_clock_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::optional<DiskSpace> disk_space(const std::string& folder) {
  struct statvfs found {};
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &found) != 0 || found.f_blocks == 0)
    return std::nullopt;
  return DiskSpace{std::uint64_t{found.f_blocks} * found.f_frsize,
                   std::uint64_t{found.f_bavail} * found.f_frsize};
}

std::string describe_fill(const std::string& folder, const DiskSpace& space) {
  const auto least = static_cast<std::uint64_t>(disk_share_min * static_cast<double>(space.bytes));
  if (space.free_bytes >= std::min(least, disk_bytes_min)) return "";
  return "the disk of " + folder + " fills: " + gib_text(space.free_bytes) + " of " + gib_text(space.bytes) +
         " are free";
}

std::string describe_expiry(const std::string& of, const CertificateValidity& valid, std::int64_t now_s) {
  const std::int64_t left_s = valid.until_s - now_s;
  const std::int64_t least =
      std::min(certificate_s_min, (valid.until_s - valid.from_s) / certificate_life_share);
  if (left_s >= least) return "";
  const std::string which = "the certificate of " + of;
  if (left_s <= 0) return which + " expired at " + date_text(valid.until_s);
  return which + " expires at " + date_text(valid.until_s) + ", in " +
         (left_s >= day_s ? std::to_string(left_s / day_s) + " days"
                          : std::to_string(left_s / 3'600) + " hours");
}

NodeWatch::NodeWatch(std::vector<WatchedFolder> folders, MetricRegistry& metrics, LogSink log)
    : folders_(std::move(folders)), metrics_(metrics), log_(std::move(log)) {}

void NodeWatch::set(const std::string& of, const CertificateValidity& valid) {
  const std::lock_guard held(mutex_);
  certificates_[of] = valid;
}

std::vector<std::string> NodeWatch::degraded() const {
  const std::lock_guard held(mutex_);
  return degraded_;
}

std::vector<NodeWatch::Finding> NodeWatch::look_at_folders() {
  std::vector<Finding> findings;
  for (const WatchedFolder& folder : folders_) {
    const auto space = disk_space(folder.path);
    if (!space) continue;
    metrics_.record(Metric::disk_bytes, static_cast<double>(space->bytes), folder.name);
    metrics_.record(Metric::disk_free_bytes, static_cast<double>(space->free_bytes), folder.name);
    findings.push_back({"disk_filling", "disk_has_space", folder.path, describe_fill(folder.path, *space),
                        "a tenth of it free, or 50 GiB: a larger disk, or a smaller pool.store_bytes_max, "
                        "replay.bytes_max or node.log_file_max"});
  }
  return findings;
}

std::vector<NodeWatch::Finding> NodeWatch::look_at_certificates(std::int64_t now_s) {
  std::map<std::string, CertificateValidity> certificates;
  {
    const std::lock_guard held(mutex_);
    certificates = certificates_;
  }
  std::vector<Finding> findings;
  for (const auto& [of, valid] : certificates) {
    metrics_.record(Metric::certificate_expires, static_cast<double>(valid.until_s - now_s), of);
    metrics_.record(Metric::certificate_lifetime, static_cast<double>(valid.until_s - valid.from_s), of);
    findings.push_back({"certificate_expires", "certificate_renewed", of, describe_expiry(of, valid, now_s),
                        "a new certificate in its place, and SIGHUP"});
  }
  return findings;
}

void NodeWatch::look(std::int64_t now_s) {
  std::vector<Finding> findings = look_at_folders();
  for (Finding& finding : look_at_certificates(now_s)) findings.push_back(std::move(finding));
  const std::lock_guard held(mutex_);
  degraded_.clear();
  for (const Finding& finding : findings) {
    if (!finding.why.empty()) degraded_.push_back(finding.why);
    report(finding, now_s);
  }
}

// Warns at the begin, then once a day, and says when it is over. Something around its limit begins again at
// most every `pace_s`.
void NodeWatch::report(const Finding& finding, std::int64_t now_s) {
  Reported& reported = reported_[finding.event + " " + finding.subject];
  if (finding.why.empty()) {
    if (std::exchange(reported.on, false) && log_)
      log_(LogLevel::info, "main", finding.ended_event, std::vector<LogField>{{"of", finding.subject}});
    return;
  }
  if (reported.at_s && now_s < *reported.at_s + (reported.on ? repeat_s : pace_s)) return;
  reported = {.on = true, .at_s = now_s};
  if (log_)
    log_(LogLevel::warning, "main", finding.event,
         std::vector<LogField>{{"why", finding.why}, {"expected", finding.expected}});
}

void NodeWatch::start() {
  look(wall_clock_s());
  thread_ = std::thread([this] { run(); });
}

void NodeWatch::stop() {
  {
    const std::lock_guard held(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void NodeWatch::run() {
  for (;;) {
    {
      std::unique_lock held(mutex_);
      if (changed_.wait_for(held, look_every, [this] { return stopping_; })) return;
    }
    look(wall_clock_s());
  }
}

}  // namespace troupe::deploy
