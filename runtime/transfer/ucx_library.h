#pragma once
// UCX, loaded by the first transport instead of with the program. From its load on it would catch the signals
// of crashes, patch the memory calls of the process and print lines of its own; its environment forbids it,
// and has to do so before.
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

// The first call loads it and sets variables of the environment, which no other thread may be reading then.
// Throws std::runtime_error if there is no UCX; whoever has called it once may call it from anywhere.
const UcxLibrary& ucx();

// "Input/output error", of what UCX gave back.
std::string ucx_error(ucs_status_t status);

}  // namespace troupe
