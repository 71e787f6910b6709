// Loads the network library UCX when it is first needed, and first disables its signal handlers,
// memory hooks and log output.
#include "runtime/transfer/ucx_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

namespace troupe {
namespace {

void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (!found)
    throw std::runtime_error(std::string("libucp.so.0 has no ") + name + "; expected UCX 1.13 or later");
  return found;
}

UcxLibrary load() {
  setenv("UCX_HANDLE_ERRORS", "none", 1);   // the program handles signals itself
  setenv("UCX_MEM_EVENTS", "n", 1);         // and does not want mmap hooks
  setenv("UCX_LOG_LEVEL", "fatal", 1);      // failures are refusals, not lines on our output
  setenv("UCX_TCP_CONN_NB", "y", 1);        // an unresponsive host must not block the worker's thread
  setenv("UCX_TCP_TX_SEG_SIZE", "64K", 1);  // one segment for a piece and its header
  setenv("UCX_TCP_RX_SEG_SIZE", "64K", 1);
  // Larger buffers fall out of the caches; long round trips may need more.
  setenv("UCX_TCP_SNDBUF", "256K", 0);
  void* library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw std::runtime_error(std::string("UCX cannot be loaded: ") + dlerror() +
                             "; expected the package libucx0");
  UcxLibrary loaded;
#define TROUPE_UCX_LOAD(name) loaded.name = reinterpret_cast<decltype(loaded.name)>(symbol(library, #name));
  TROUPE_UCX_FUNCTIONS(TROUPE_UCX_LOAD)
#undef TROUPE_UCX_LOAD
  return loaded;
}

}  // namespace

const UcxLibrary& ucx() {
  static const UcxLibrary library = load();
  return library;
}

std::string ucx_error(ucs_status_t status) { return ucx().ucs_status_string(status); }

}  // namespace troupe
