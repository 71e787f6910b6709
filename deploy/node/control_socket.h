#pragma once
// What a command on this machine may ask the process that serves a data folder (folder_socket.h): "copy",
// answered by "ok FOLDER" with a consistent copy of the store in it, which is there until the asker hangs up,
// or by "error WHY".
#include <filesystem>
#include <memory>
#include <string>

#include "deploy/tracing/folder_socket.h"
#include "runtime/store/store.h"

namespace troupe::deploy {

class ControlSocket {
 public:
  // `store` outlives it. Throws std::runtime_error.
  ControlSocket(const std::filesystem::path& data_dir, Store& store);
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  void answer(int connection, const std::string& question) const;
  std::string make_copy() const;

  const std::filesystem::path copy_;
  Store& store_;
  FolderSocket socket_;
};

// A copy that a running process made; it is removed at the end.
class AskedCopy {
 public:
  // Nobody listens: `is_there` is false. Throws std::runtime_error if the process could not make one.
  explicit AskedCopy(const std::filesystem::path& data_dir);
  AskedCopy(const AskedCopy&) = delete;
  AskedCopy& operator=(const AskedCopy&) = delete;
  bool is_there() const { return !folder_.empty(); }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  FolderQuestion question_;
  std::filesystem::path folder_;
};

}  // namespace troupe::deploy
