"""A table of faults: what a node's metrics show of each, and the alerts that have to fire.

Each fault begins with two healthy nodes, whose series come from a real node. A change gets both and puts
the fault's values into their series. Alerts that a fault does not list have to be silent.
"""
import re


def slower(nodes):
    """All requests take between one and five seconds."""
    for node in nodes:
        count = node.series["troupe_request_seconds_count"][0]
        for series in list(node.series):
            bound = re.fullmatch(r'troupe_request_seconds_bucket\{le="(.+)"\}', series)
            if not bound:
                continue
            _, slope = count
            node.fault(series, None, slope if bound[1] == "+Inf" or float(bound[1]) >= 5 else 0)


def refused(code):
    return lambda nodes: nodes[0].fault(f'troupe_requests_refused_total{{code="{code}"}}', 0, 30)


def tenant_refused(nodes):
    nodes[0].set('troupe_tenant_refused_total{tenant="acme"}', 0)
    nodes[0].set('troupe_tenant_requests_total{tenant="acme"}', 0, 60)
    nodes[0].fault('troupe_tenant_refused_total{tenant="acme"}', None, 30)


def grows(series, per_minute=6):
    """A counter grows."""
    return lambda nodes: nodes[0].fault(series, None, per_minute)


def together(*changes):
    def change(nodes):
        for one in changes:
            one(nodes)

    return change


def value(series, amount, every_node=False):
    def change(nodes):
        for node in nodes if every_node else nodes[:1]:
            node.fault(series, amount)

    return change


def found_at_start(series):
    """The node was away for half an hour, and counts at its start, before the first scrape."""

    def change(nodes):
        nodes[0].restart(30)
        nodes[0].fault(series, 3)

    return change


def reuse_falls(nodes):
    for node in nodes:
        node.fault("troupe_tokens_reused_total", None, 0)
        node.fault("troupe_tokens_total", None, node.series["troupe_tokens_total"][0][1])


def router_full(nodes):
    nodes[0].fault("troupe_requests_waiting", 5)
    nodes[0].fault("troupe_requests_in_flight", 250)


def files_run_out(nodes):
    nodes[0].fault("process_open_fds", 0.95 * nodes[0].series["process_max_fds"][0][0])


def other_build(nodes):
    build = next(series for series in nodes[1].series if series.startswith("troupe_build_info"))
    nodes[1].series[build][1] = "gone"
    nodes[1].fault('troupe_build_info{version="9.9.9",commit="new"}', 1)


def disk(free, size):
    def change(nodes):
        nodes[0].set('troupe_disk_bytes{folder="data"}', size)
        nodes[0].set('troupe_disk_free_bytes{folder="data"}', 0.5 * size)
        nodes[0].fault('troupe_disk_free_bytes{folder="data"}', free)

    return change


def certificate(left_days, life_days):
    def change(nodes):
        nodes[0].set('troupe_certificate_lifetime_seconds{of="http"}', life_days * 86400)
        nodes[0].set('troupe_certificate_expires_seconds{of="http"}', life_days * 86400)
        nodes[0].fault('troupe_certificate_expires_seconds{of="http"}', left_days * 86400)

    return change


def store(which, reason):
    return value(f'troupe_store_refuses{{store="{which}",reason="{reason}"}}', 1)


def nothing(nodes):
    pass


# The fault, its change, the alerts that fire and how many of each, and the minutes after which they are
# looked at.
FAULTS = [
    ("two healthy nodes under load", nothing, {}),
    ("a node was away and is back", lambda nodes: nodes[0].restart(30), {}, 40),
    ("a node is gone", lambda nodes: nodes[1].vanish(), {"TroupeNodeDown": 1}),
    ("requests take seconds", slower, {"TroupeSlow": 1}),
    (
        "requests miss their deadline",
        grows("troupe_requests_expired_total", 10),
        {"TroupeExpires": 1},
    ),
    ("clients ask for unknown users", refused("unknown_user"), {}),
    *(
        (f"requests are refused: {code}", refused(code), {"TroupeRefuses": 1})
        for code in (
            "overloaded",
            "busy",
            "no_worker",
            "features_unavailable",
            "worker_lost",
            "device_failed",
            "storage_failed",
            "outcome_unknown",
        )
    ),
    ("a tenant is refused", tenant_refused, {"TroupeTenantRefused": 1}),
    ("a router is full", router_full, {"TroupeRouterFull": 1}),
    ("reuse falls to nothing", reuse_falls, {"TroupeReuseFell": 1}),
    (
        "a bit flips in memory, again and again",
        grows("troupe_blocks_corrupt_total", 1),
        {"TroupeCorruptBlocks": 1},
    ),
    (
        "saved blocks are damaged at a start",
        found_at_start("troupe_blocks_corrupt_total"),
        {"TroupeCorruptBlocks": 1},
        40,
    ),
    (
        "an answer differs",
        grows('troupe_verified_answers_total{result="different"}', 1),
        {"TroupeAnswerDiffers": 1},
    ),
    (
        "a recomputation is unstable",
        grows('troupe_verified_answers_total{result="unstable"}', 1),
        {"TroupeAnswerDiffers": 1},
    ),
    (
        "answers are verified and equal",
        grows('troupe_verified_answers_total{result="equal"}', 9),
        {},
    ),
    (
        "the store is damaged while it serves",
        grows("troupe_store_damages_total", 1),
        {"TroupeStoreDamaged": 1},
    ),
    (
        "a damaged store lost rows at a start",
        found_at_start("troupe_store_losses_total"),
        {"TroupeStoreDamaged": 1},
        40,
    ),
    (
        "Redis lost writes",
        grows("troupe_features_lost_total", 1),
        {"TroupeFeaturesLost": 1},
    ),
    ("Redis is away, requests are refused", store("reads", "away"), {"TroupeStoreRefuses": 1}),
    ("etcd has no leader", store("coordination", "no_leader"), {"TroupeStoreRefuses": 1}),
    ("the disk is full: writes fail", store("writes", "storage_failed"), {"TroupeWritesFail": 1}),
    ("Redis is out of memory: writes fail", store("writes", "OOM"), {"TroupeWritesFail": 1}),
    (
        "Redis is away, answers are as known last",
        together(store("reads", "away"), grows("troupe_features_age_seconds", 60)),
        {"TroupeFeaturesStale": 1, "TroupeStoreRefuses": 1},
    ),
    ("a worker is lost", value("troupe_workers_lost", 1, True), {"TroupeWorkerLost": 1}),
    ("a disk of 100 GiB fills", disk(9 * 2**30, 100 * 2**30), {"TroupeDiskFilling": 1}),
    ("a disk of 10 TiB has 60 GiB left", disk(60 * 2**30, 10 * 2**40), {}),
    ("a disk of 100 GiB has 11 GiB left", disk(11 * 2**30, 100 * 2**30), {}),
    ("a certificate of a year has 13 days left", certificate(13, 365), {"TroupeCertificateExpires": 1}),
    ("a certificate has expired", certificate(-1, 365), {"TroupeCertificateExpires": 1}),
    ("a certificate of a year has 15 days left", certificate(15, 365), {}),
    ("a certificate of a day has 8 hours left", certificate(1 / 3, 1), {}),
    (
        "blocks cannot be saved",
        grows("troupe_item_blocks_save_failed_total", 5),
        {"TroupeBlocksNotSaved": 1},
    ),
    *(
        (
            f"etcd lost data: {what}",
            grows(f'troupe_coordination_losses_total{{what="{what}"}}', 1),
            {"TroupeCoordinationLost": 1},
        )
        for what in ("emptied", "went_back", "replaced", "versions_lost", "versions_unconfirmed")
    ),
    ("no cache-meta has a block", value("troupe_index_blocks", 0, True), {"TroupeIndexEmpty": 1}),
    (
        "the pool has no free page",
        grows("troupe_blocks_refused_total", 6),
        {"TroupePoolRefuses": 1},
    ),
    (
        "messages are lost",
        grows("troupe_messages_undelivered_total", 6),
        {"TroupeLinks": 1},
    ),
    (
        "messages are invalid",
        grows("troupe_protocol_errors_total", 6),
        {"TroupeLinks": 1},
    ),
    ("files run out", files_run_out, {"TroupeFilesRunOut": 1}),
    (
        "connections cannot be accepted",
        grows("troupe_http_accept_failed_total", 1),
        {"TroupeFilesRunOut": 1},
    ),
    ("an upgrade is not completed", other_build, {"TroupeVersionsDiffer": 1}, 70),
    ("keys are not read", grows("troupe_api_keys_age_seconds", 60), {"TroupeKeysOld": 1}),
    (
        "spans do not arrive",
        grows("troupe_spans_lost_total", 6),
        {"TroupeSpansLost": 1},
    ),
]
