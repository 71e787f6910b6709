// Replaces names of versions in requests, and names the versions of routers.
#include "deploy/node/version_names.h"

#include <algorithm>
#include <exception>

namespace troupe::deploy {
namespace {

constexpr std::size_t waiting_max = 16;      // reloads and searches, each as long as loading a model
constexpr std::size_t looked_for_max = 256;  // versions whose names were looked for

Refusal ambiguous(const std::string& word, const std::set<std::string>& versions) {
  std::string all;
  for (const std::string& version : versions) all += (all.empty() ? "" : ", ") + version;
  return {RefusalKind::unprocessable, "ambiguous_version",
          "\"" + word.substr(0, 64) + "\" means " + std::to_string(versions.size()) + " versions: " + all,
          "model", "the whole version, or the name of one directory in model.versions"};
}

std::string field_of(const StatusReply& status, std::string_view name) {
  const auto found = std::ranges::find(status.fields, name, &StatusField::name);
  return found == status.fields.end() ? "" : found->value;
}

}  // namespace

VersionNames::VersionNames(Folders folders, ModelActorIds actor_ids, Forward forward, Answer answer)
    : folders_(std::move(folders)),
      actor_ids_(actor_ids),
      forward_(std::move(forward)),
      answer_(std::move(answer)) {}

VersionNames::~VersionNames() { stop(); }

std::shared_ptr<VersionFolder> VersionNames::folder_of(NodeId router) const {
  const std::uint32_t model = actor_ids_.model_of(router);
  return model < folders_.size() ? folders_[model] : nullptr;
}

void VersionNames::forward(Address to, Message message) {
  const std::shared_ptr<VersionFolder> folder = folder_of(to.node);
  if (!folder || to.role != Role::router) return forward_(to, std::move(message));
  if (auto* reload = std::get_if<Reload>(&message);
      reload && !reload->model_version.empty() && !is_version(reload->model_version))
    return forward_reload(folder, to, std::move(*reload));
  if (auto* complete = std::get_if<CompleteRequest>(&message); complete && !complete->model.empty())
    if (std::string version = folder->known_version(complete->model); !version.empty())
      complete->model = std::move(version);
  forward_(to, std::move(message));
}

void VersionNames::forward_reload(const std::shared_ptr<VersionFolder>& folder, Address to, Reload reload) {
  const RequestId id = reload.id;
  const bool runs = run_later([this, folder, to, reload = std::move(reload)]() mutable {
    std::set<std::string> versions;
    try {
      versions = folder->versions_of(reload.model_version);
    } catch (const std::exception&) {  // the workers open it, too, and their refusal says why not
    }
    if (versions.size() > 1) return answer_(Refused{reload.id, ambiguous(reload.model_version, versions)});
    if (versions.size() == 1) reload.model_version = *versions.begin();
    forward_(to, std::move(reload));
  });
  if (!runs)
    answer_(Refused{id,
                    {RefusalKind::unavailable, "busy", "too many reloads wait", "router",
                     "a retry after they are done"}});
}

void VersionNames::add_names(StatusReply& router) {
  const std::shared_ptr<VersionFolder> folder = folder_of(router.node);
  if (!folder || router.role != Role::router) return;
  for (const auto& [version_field, name_field] :
       {std::pair{"model_version", "model_version_name"}, std::pair{"next_model", "next_model_name"}}) {
    const std::string version = field_of(router, version_field);
    if (version.empty()) continue;
    if (std::string names = folder->names_of(version); !names.empty()) {
      router.fields.push_back({name_field, std::move(names)});
      continue;
    }
    look_for(actor_ids_.model_of(router.node), version);
  }
}

void VersionNames::look_for(std::size_t model, const std::string& version) {
  {
    const std::lock_guard lock(mutex_);
    if (looked_for_.size() >= looked_for_max || !looked_for_.emplace(model, version).second) return;
  }
  if (run_later([folder = folders_[model], version] { folder->look_for(version); })) return;
  const std::lock_guard lock(mutex_);
  looked_for_.erase({model, version});  // the queue is full: the next status tries again
}

bool VersionNames::run_later(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (ended_ || waiting_.size() >= waiting_max) return false;
  waiting_.push_back(std::move(work));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  wake_.notify_one();
  return true;
}

void VersionNames::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
    if (ended_) return;
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

void VersionNames::stop() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    waiting_.clear();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace troupe::deploy
