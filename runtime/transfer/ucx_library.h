#pragma once
// Loads UCX with the first transport instead of at program start. Once loaded, UCX would catch
// crash signals, patch the process's memory calls and print its own lines. Environment variables
// disable this and must be set before the load.
#include <ucp/api/ucp.h>

#include <string>

namespace troupe {

#define TROUPE_UCX_FUNCTIONS(entry)                                                                  \
  entry(ucp_get_version) entry(ucp_config_read) entry(ucp_config_modify) entry(ucp_config_release)   \
      entry(ucp_init_version) entry(ucp_cleanup) entry(ucp_worker_create) entry(ucp_worker_destroy)  \
          entry(ucp_worker_get_efd) entry(ucp_worker_get_address) entry(ucp_worker_release_address)  \
              entry(ucp_worker_set_am_recv_handler) entry(ucp_worker_progress) entry(ucp_worker_arm) \
                  entry(ucp_ep_create) entry(ucp_ep_close_nbx) entry(ucp_am_send_nbx)                \
                      entry(ucp_request_check_status) entry(ucp_request_free) entry(ucs_status_string)

struct UcxLibrary {
#define TROUPE_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  TROUPE_UCX_FUNCTIONS(TROUPE_UCX_MEMBER)
#undef TROUPE_UCX_MEMBER
};

// Returns the library. The first call loads it and sets environment variables, so no other thread
// may read the environment then. Throws std::runtime_error if there is no UCX. Later calls are
// thread-safe.
const UcxLibrary& ucx();

// Text of a UCX status, such as "Input/output error".
std::string ucx_error(ucs_status_t status);

}  // namespace troupe
