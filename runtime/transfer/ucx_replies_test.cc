#include "runtime/transfer/ucx_replies.h"

#include <doctest/doctest.h>

#include "runtime/transfer/ucx_library.h"
#include "runtime/transfer/ucx_worker.h"

namespace troupe {
namespace ucx_replies_test {

// A reader whose worker never makes progress. Unsent data ends with the owner's worker, before its
// replies.
struct Silent {
  PageArena arena{65'536, 1};
  MetricRegistry metrics;
  const SealKeys keys = generate_seal_keys();
  UcxReplies replies;
  UcxWorker reader{{.devices = "lo"}}, owner{{.devices = "lo"}};
  ucp_ep_h to_reader = nullptr;

  explicit Silent(bool sealed) : replies(arena, 100, metrics, sealed ? &keys.replies : nullptr) {
    const Bytes address = reader.address();
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    REQUIRE(ucx().ucp_ep_create(owner.handle(), &params, &to_reader) == UCS_OK);
  }
  void ask(std::size_t part_bytes) {
    PullRequest request{.owner = 100, .page_bytes = arena.page_bytes(), .part_bytes = part_bytes};
    request.pages.assign(pages_per_request(request.bytes_of_page()), 0);
    replies.answer(request, to_reader);
  }
};

TEST_SUITE("ucx_replies") {
  TEST_CASE("ucx replies: a stalled reader makes its owner keep little, however small its parts are") {
    for (const bool sealed : {false, true})
      for (const std::size_t part_bytes : {part_bytes_min, std::size_t{1'024}, std::size_t{0}}) {
        Silent silent(sealed);
        for (int i = 0; i < 3'000; ++i) silent.ask(part_bytes);
        const std::size_t most = (sealed ? ReplyBudget::sealed_limits : ReplyBudget::plain_limits).of_reader;
        CHECK(silent.replies.kept() > most / 2);
        CHECK(silent.replies.kept() <= 2 * most);
        CHECK(silent.metrics.value(Metric::protocol_errors) == 0);
      }
  }
}

}  // namespace ucx_replies_test
}  // namespace troupe
