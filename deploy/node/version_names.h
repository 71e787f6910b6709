#pragma once
// Lets operators and clients call a model's version by a name (version_folder.h). In requests on their way to
// a router, the version takes the place of its name; the status of a router gets the names of its versions.
// Actors know versions only.
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "deploy/node/version_folder.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/model_actor_ids.h"

namespace troupe::deploy {

class VersionNames {
 public:
  using Forward = std::function<void(Address to, Message message)>;
  using Answer = std::function<void(Message answer)>;
  using Folders = std::vector<std::shared_ptr<VersionFolder>>;

  // `folders`: of each model, in the order of their list; null = the model has no folder. `forward` and
  // `answer` are called by the thread of the caller of `forward`, or by this object's own.
  VersionNames(Folders folders, ModelActorIds actor_ids, Forward forward, Answer answer);
  ~VersionNames();

  // Forwards a message. A reload that names its model waits until the name's directory has been opened; a
  // name without a directory is forwarded as it is, because workers may have one. An ambiguous name is
  // refused.
  void forward(Address to, Message message);

  // Adds model_version_name and next_model_name to the status of a router, where they are known. Begins to
  // look for a version whose name is not; if too much waits, the next status tries again.
  void add_names(StatusReply& router);

  void stop();  // ends the thread after what it is doing, and drops what waits

 private:
  std::shared_ptr<VersionFolder> folder_of(NodeId router) const;
  void forward_reload(const std::shared_ptr<VersionFolder>& folder, Address to, Reload reload);
  void look_for(std::size_t model, const std::string& version);  // once, by the thread
  bool run_later(std::function<void()> work);                    // false: too much waits already
  void run();

  const Folders folders_;
  const ModelActorIds actor_ids_;
  const Forward forward_;
  const Answer answer_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  std::set<std::pair<std::size_t, std::string>> looked_for_;  // index of the folder, version
  bool ended_ = false;
  std::thread thread_;  // begins with the first work
};

}  // namespace troupe::deploy
