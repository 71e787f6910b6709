#pragma once
// Lets commands on this machine ask the process that serves a data folder (folder_socket.h). The
// question "copy" is answered by "ok FOLDER", a consistent copy of the store, or by "error WHY".
// The copy is removed when the asker hangs up.
#include <filesystem>
#include <memory>
#include <string>

#include "deploy/tracing/folder_socket.h"
#include "runtime/store/store.h"

namespace troupe::deploy {

class ControlSocket {
 public:
  // `store` must outlive this object. Throws std::runtime_error.
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

// Copy of a data folder's store, made by the process that serves it. The destructor removes it.
class StoreCopy {
 public:
  // `is_there` is false if no process listens. Throws std::runtime_error if the process could not
  // make a copy.
  explicit StoreCopy(const std::filesystem::path& data_dir);
  StoreCopy(const StoreCopy&) = delete;
  StoreCopy& operator=(const StoreCopy&) = delete;
  bool is_there() const { return !folder_.empty(); }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  FolderRequest request_;
  std::filesystem::path folder_;
};

}  // namespace troupe::deploy
