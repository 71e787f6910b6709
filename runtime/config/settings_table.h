// The table of all settings, in the order of the example file. A row is all there is to a setting:
// it declares a member of its section's struct, and describes it for files, the command line and
// the reference page. settings.h and settings.cc include this file, each with its own meaning of
// the macros below, so it has no include guard; a macro that is not defined there means nothing.
//
// TROUPE_SECTION(struct, section) begins a section; its settings follow, up to TROUPE_SECTION_END.
// TROUPE_SETTING(section, name, kind, default, range, unit, help): the kinds are those of
//   SettingKind. Numbers have a range with both ends included, integers and reals also a unit.
// TROUPE_CHOICE(section, name, enum, default, help, words...): declares the enum in the section's
//   struct. The words are its enumerators; one that is a keyword of C++ ends in '_' here only.
// TROUPE_CHOICE_OF: the same with an enum of runtime/actor/.
#ifndef TROUPE_SECTION
#define TROUPE_SECTION(...)
#endif
#ifndef TROUPE_SETTING
#define TROUPE_SETTING(...)
#endif
#ifndef TROUPE_CHOICE
#define TROUPE_CHOICE(...)
#endif
#ifndef TROUPE_CHOICE_OF
#define TROUPE_CHOICE_OF(...)
#endif
#ifndef TROUPE_SECTION_END
#define TROUPE_SECTION_END
#endif

TROUPE_SECTION(NodeSettings, node)
TROUPE_SETTING(node, data_dir, text, "", "", "",
               "Folder for profiles, the catalog and saved blocks. Must be set to serve.")
TROUPE_CHOICE_OF(node, log_level, LogLevel, info, "Lowest level that is logged.", debug, info, warning, error)
TROUPE_SETTING(node, log_file, text, "", "", "",
               "File to which log lines are appended. Empty: standard error.")
TROUPE_SETTING(node, log_file_max, size, "0B", "0B..1TiB", "",
               "Size at which node.log_file is renamed to FILE.1 and a new file is started. 0: never.")
TROUPE_SETTING(node, log_files, integer, "5", "1..1000", "files", "Number of renamed log files to keep.")

TROUPE_SETTING(node, drain_notice, duration, "0s", "0s..10min", "",
               "On shutdown, report not-ready for this long before refusing requests, so that load "
               "balancers can drain.")
TROUPE_SETTING(node, drain_limit, duration, "30s", "0s..10min", "",
               "On shutdown, maximum time to wait for running requests after new ones are refused.")
TROUPE_SETTING(node, leave_time_min, duration, "30s", "0s..1h", "",
               "Minimum time for which a worker that leaves the cluster (troupe leave) lets others pull its "
               "blocks. It also waits until its user blocks have been migrated and routers report that no "
               "item block is missing without it.")
TROUPE_SETTING(node, leave_time_max, duration, "10min", "0s..24h", "",
               "Maximum time that a leaving worker waits for node.leave_time_min and its conditions.")
TROUPE_SECTION_END

TROUPE_SECTION(ModelSettings, model)
TROUPE_SETTING(model, directory, text, "", "", "",
               "Hugging Face model directory with config.json and safetensors. Must be set to serve.")
TROUPE_SETTING(model, name, text, "", "", "",
               "Names by which clients may ask for the model beside its version, separated by commas, such "
               "as Qwen/Qwen3-Reranker-0.6B. Answers show the first. Empty: none. In a list of models, each "
               "entry has its own name.")
TROUPE_SETTING(model, prompt, text, "", "", "", "Prompt file. Empty: the one in the model directory.")
TROUPE_SETTING(model, control_tokens, boolean, "false", "", "",
               "Whether texts of users and merchants (tokens of items, documents, queries) may contain the "
               "control tokens of tokenizer.json. false: the name of such a token in a text is encoded as "
               "its characters. true: it becomes the token, as by default with Hugging Face's tokenizers. "
               "Prompts of /v1/completions and of scores in SGLang's form may contain them in any case. The "
               "same on all nodes and for imports.")
TROUPE_SETTING(model, prototypes, text, "", "", "",
               "File of prototypes that stand in for history tokens (troupe prototypes), made for this "
               "model; the same on all nodes. Empty: none.")
TROUPE_CHOICE(model, tables, Tables, memory,
              "Where the item embedding of an HSTU, SASRec or Climber model, or a ranker's prototypes, are "
              "kept. memory: in memory. mapped: in their file, from which each pass reads the rows that the "
              "pool's row area lacks (pool.row_share). sharded: as mapped, but an item embedding is spread "
              "over the pools of the cluster's workers, in blocks of a page; its file is read only for rows "
              "that no worker holds.",
              memory, mapped, sharded)
TROUPE_SETTING(model, table_bandwidth, size, "0B", "0B..16TiB", "",
               "Maximum bytes per second read from the file of a mapped or sharded table (model.tables), "
               "for experiments that emulate a slower disk or link. 0: no limit.")
TROUPE_SETTING(model, table_refill, size, "64MiB", "0B..16TiB", "",
               "Bytes per second, including the reads of passes, at which new pages of the row area are "
               "refilled with the rows evicted last. 0: only rows that passes miss are read.")
TROUPE_SETTING(
    model, versions, text, "", "", "",
    "Folder with one model directory per version, for /v1/models/reload. Each is named by the version "
    "that it holds, or by any other name, by which requests may then call it. Empty: the model "
    "cannot be changed while serving.")
TROUPE_CHOICE(model, weights, Weights, f32,
              "Format of the weights of linear layers. bf16 takes half of the memory, loses nothing of a "
              "checkpoint in BF16, and is up to twice as fast on CPUs with AVX512_BF16, which round "
              "activations, too. int8 takes a quarter of the memory and is faster still, but changes logits "
              "more. auto: bf16 if the checkpoint's matrices are BF16, otherwise f32. A GPU requires f32 or "
              "auto here and uses model.device_format.",
              f32, int8, bf16, auto_)
TROUPE_SETTING(model, device, text, "cpu", "", "",
               "Device that computes: cpu, cuda or cuda:N (GPU number N). On a GPU, Qwen and Llama models "
               "need pool.kv_format bf16 or f16. All workers of a cluster must use the same kind of device.")
TROUPE_CHOICE(model, device_format, DeviceFormat, bf16,
              "Format of weights and activations on a GPU. f16 is more precise, but overflows above 65504.",
              bf16, f16)
TROUPE_SECTION_END

TROUPE_SECTION(PoolSettings, pool)
TROUPE_SETTING(pool, memory, size, "256MiB", "1MiB..16TiB", "",
               "Memory for cached keys and values, allocated once at start.")
TROUPE_SETTING(pool, page_tokens, integer, "4", "1..256", "tokens",
               "Tokens per page. Small pages waste less memory on short items; large pages need less "
               "bookkeeping.")
TROUPE_CHOICE(pool, kv_format, KvFormat, f32,
              "Format of cached keys and values. f16 and bf16 fit twice as many blocks as f32. f16 is more "
              "precise, but values above 65504 overflow and are refused; bf16 has the range of f32 with 8 "
              "bits of precision. On a GPU, f32 is only for HSTU and Climber.",
              f32, f16, bf16)
TROUPE_SETTING(pool, device_bytes, size, "0B", "0B..16TiB", "",
               "GPU memory for copies of the most used blocks in pool.memory. 0: half of what the model "
               "leaves free on the GPU, at most pool.memory.")
TROUPE_SETTING(pool, item_share, share, "auto", "0..1", "",
               "Share of the pool's pages that the item area gets at start; users get the others. auto: the "
               "pages of all items' blocks that router.policy looks up, a quarter more for items that are "
               "put later, and those of the system prompt; at most half of the pages that rows leave. It is "
               "that half if the catalog is empty or the node has no router, and with model.versions or "
               "model.tables: sharded. It is no page if router.policy looks up no item blocks, unless "
               "pool.split is set: the system prompt, and item blocks of requests that name another policy, "
               "are then in the user area.")
TROUPE_SETTING(pool, row_share, real, "0", "0..1", "",
               "Share of the pool's pages that rows of embedding tables get at start, in addition to "
               "pool.item_share. Only with model.tables: mapped or sharded.")
TROUPE_SETTING(
    pool, split, text, "", "", "",
    "Policy that decides every pool.split_window how the pool is divided between user blocks, "
    "item blocks and rows of embedding tables. marginal (a page goes where it saves most time; "
    "needs no training), static:SHARE (a fixed share for rows), or smart (that of the paper HLEM, for "
    "comparison; its weights come from pool.split_trained). Empty: the boundaries move only when areas lend "
    "pages to each "
    "other.")
TROUPE_SETTING(pool, split_trained, text, "", "", "",
               "File written by troupe-lab train (deploy/policies/split.txt), for pool.split: smart.")
TROUPE_SETTING(pool, split_objective, duration, "100ms", "1ms..10min", "",
               "Target for the time that a request holds its blocks, for policies of pool.split that use "
               "latencies.")
TROUPE_SETTING(pool, split_window, duration, "5s", "100ms..1h", "",
               "Time between two decisions of pool.split.")
TROUPE_SETTING(pool, verify_on_read, boolean, "false", "", "",
               "Verify a cached block's checksum at each read; on a GPU, each time the block is copied "
               "there. If false, checksums are verified when bytes come into memory and before their first "
               "use, then at a sample of reads (pool.check_reads) and in the background "
               "(pool.scrub_interval).")
TROUPE_SETTING(pool, check_reads, real, "0.01", "0..1", "",
               "Share of reads of cached blocks that verify the checksum again.")
TROUPE_SETTING(pool, scrub_interval, duration, "60s", "0s..24h", "",
               "Time in which the scrubber verifies all cached blocks once, in small steps; a flipped bit "
               "in memory may stay undetected for this long. 0: no scrubbing.")
TROUPE_SETTING(pool, scrub_cost, real, "0.02", "0.001..1", "",
               "Maximum share of one core for the scrubber. If it is too small for pool.scrub_interval, a "
               "round takes longer.")
TROUPE_SETTING(pool, store_item_blocks, boolean, "true", "", "",
               "Save item blocks in node.data_dir, so that the cache is warm after a restart.")
TROUPE_SETTING(pool, store_bytes_max, size, "64GiB", "1MiB..16TiB", "",
               "Maximum disk space for saved blocks.")
TROUPE_SETTING(pool, precompute_items, boolean, "true", "", "",
               "Compute item blocks in the background while the worker is idle: those that router.policy "
               "looks up for the model, with router.approximate; none if it looks up none.")
TROUPE_SETTING(pool, placement, text, "auto", "", "",
               "Which workers precompute which item blocks. auto: in a cluster hash, with hot items on all "
               "workers as Algorithm 1 of BAT decides while serving; on a single node any. any: spread over "
               "the workers. replicate: every worker has all. hash: one worker has each. Or a plan written "
               "by troupe-lab plan --json (FILE or FILE:NAME).")
TROUPE_SETTING(pool, hot_share, share, "auto", "0..1", "",
               "An item is hot from this share of all recent item accesses on. The blocks of a hot item "
               "belong on all workers, whatever pool.placement says, until its share falls below half of "
               "this. 0: no item is hot. auto: the share is decided while serving if pool.placement is auto, "
               "and 0.001 for other placements.")
TROUPE_SECTION_END

TROUPE_SECTION(StoreSettings, store)
TROUPE_CHOICE(store, on_damage, OnDamage, refuse,
              "What to do if files of profiles or the catalog in node.data_dir are damaged at start. "
              "refuse: change nothing and do not start. start: start with the undamaged data, set the "
              "damaged store aside, and list what was lost.",
              refuse, start)
TROUPE_SECTION_END

TROUPE_SECTION(ClusterSettings, cluster)
TROUPE_SETTING(cluster, name, text, "troupe", "", "",
               "Name of the cluster. Connections from processes of another cluster are refused.")
TROUPE_SETTING(cluster, coordination, text, "", "", "",
               "URLs of etcd, separated by commas, such as http://10.0.0.9:2379. Empty: a file in "
               "node.data_dir, for a single node.")
TROUPE_SETTING(cluster, coordination_login, text, "", "", "",
               "File with one line user:password for an etcd that requires a login. Empty: none.")
TROUPE_SETTING(cluster, coordination_authority, text, "", "", "",
               "PEM file of the authorities that sign etcd's certificate, for https URLs. Empty: those of "
               "the system.")
TROUPE_SETTING(cluster, coordination_certificate, text, "", "", "",
               "PEM file of this process's certificate for an etcd that requires one. Empty: none.")
TROUPE_SETTING(cluster, coordination_key, text, "", "", "",
               "PEM file of the key of cluster.coordination_certificate.")
TROUPE_SETTING(cluster, certificates, text, "", "", "",
               "Folder with ca.pem and each node's NAME.pem and NAME.key, as made by `troupe certs`. If "
               "set, nodes use TLS among themselves. Empty: no encryption.")
TROUPE_SETTING(cluster, listen_address, text, "", "", "",
               "Address on which a node listens for other nodes. Empty: its host in the list of nodes if "
               "that is an IP address, otherwise all addresses.")
TROUPE_SETTING(cluster, heartbeat, duration, "200ms", "10ms..1min", "",
               "Interval of the nodes' heartbeats. A node is considered lost after three missing ones.")
TROUPE_SECTION_END

TROUPE_SECTION(FeatureSettings, features)
TROUPE_SETTING(features, store, text, "", "", "",
               "Store of profiles and the catalog: redis://[user:password@]host[:port][/database], or "
               "rediss:// for TLS, which several routers may share. Empty: node.data_dir.")
TROUPE_SETTING(features, login, text, "", "", "",
               "File with one line user:password, or :password, for the Redis of features.store, in place "
               "of a login in that address. Empty: none.")
TROUPE_SETTING(features, authority, text, "", "", "",
               "PEM file of the authorities that sign the certificate of the Redis server (rediss://). "
               "Empty: those of the system.")
TROUPE_SETTING(features, certificate, text, "", "", "",
               "PEM file of this process's certificate for a Redis server that requires one. Empty: none.")
TROUPE_SETTING(features, key, text, "", "", "", "PEM file of the key of features.certificate.")
TROUPE_CHOICE(features, on_outage, OnOutage, refuse,
              "What to do while Redis is unreachable. refuse: refuse requests. last_known: answer with the "
              "profile that this router read last and the catalog as of that moment; requests for users "
              "that it has not read are refused.",
              refuse, last_known)
TROUPE_SETTING(features, time_limit, duration, "200ms", "1ms..10s", "",
               "Time limit for a round trip to Redis.")
TROUPE_SETTING(features, wait_replicas, integer, "0", "0..16", "replicas",
               "Number of Redis replicas that must have a write before it is acknowledged.")
TROUPE_CHOICE_OF(features, freshness, Freshness, exact,
                 "Required freshness of profiles for requests that do not specify it. exact: as in the "
                 "store now. wait: read within features.expiry, otherwise the request waits for a read. "
                 "behind: whatever this router knows, possibly nothing; the store is read after the answer.",
                 exact, wait, behind)
TROUPE_SETTING(features, expiry, duration, "60s", "1ms..24h", "",
               "Time for which a profile that was read counts as fresh, for requests that accept cached "
               "profiles (features.freshness wait or behind).")
TROUPE_SETTING(features, stale_for, duration, "10min", "0s..24h", "",
               "Time after its expiry for which a stale profile may still be used, for requests that do not "
               "wait.")
TROUPE_SETTING(features, unknown_expiry, duration, "5s", "1ms..24h", "",
               "Time for which a missing user is remembered as missing.")
TROUPE_SETTING(features, jitter, real, "0.1", "0..0.9", "",
               "Expiries are shortened by a random share up to this, so that profiles read together are not "
               "all read again together.")
TROUPE_CHOICE(features, items, Items, whole,
              "What a router holds of a catalog in Redis. whole: all items. cached: none; it reads the items "
              "of each request and caches them as features.freshness says, so that the catalog may be larger "
              "than the router. Such routers rank only.",
              whole, cached)
TROUPE_SETTING(features, item_memory, size, "256MiB", "0B..1TiB", "",
               "Maximum memory of a router's cache of items (features.items: cached).")
TROUPE_SETTING(features, cache_memory, size, "64MiB", "0B..1TiB", "",
               "Maximum memory of a router's cache of profiles.")
TROUPE_SECTION_END

TROUPE_SECTION(TransferSettings, transfer)
TROUPE_CHOICE(transfer, transport, PageTransport, auto_,
              "How pages travel between nodes; the same on all. links: over connections at the nodes' own "
              "ports, with TLS where cluster.certificates is set. ucx: over UCX, on ports chosen at the "
              "start; bytes of a stranger there end the process, so for a closed network, and for RDMA. "
              "auto: links if cluster.certificates is set or a node of the cluster's file is both router "
              "and worker, otherwise ucx.",
              auto_, links, ucx)
TROUPE_SETTING(transfer, transports, text, "tcp", "", "",
               "With UCX: transports for pages between nodes, as in UCX_TLS: tcp, or with RDMA rc,ud,tcp.")
TROUPE_SETTING(transfer, devices, text, "", "", "",
               "With UCX: network devices for pages between nodes, as in UCX_NET_DEVICES, such as eth0. "
               "Empty: the one that has the node's address in the cluster. all: all.")
TROUPE_CHOICE(transfer, encryption, Encryption, auto_,
              "With UCX: whether the pages that this node sends, and other nodes' requests to it for pages, "
              "are encrypted. auto: if it has cluster.certificates, since nodes exchange the keys over their "
              "TLS connections. off: for a trusted network. Pages over links are always encrypted as the "
              "links are.",
              auto_, on, off)
TROUPE_SECTION_END

TROUPE_SECTION(RouterSettings, router)
TROUPE_SETTING(router, policy, text, "planner", "", "",
               "Policy that chooses the plan of a request that does not name one: recompute (reuses "
               "nothing), user or item (always that prefix), larger (the longer prefix), bat (the BAT "
               "paper's rule) or planner (the best balance of time now and reuse later). For models that "
               "support them also causal (the plain prompt) and, with a repair, blocks or all_blocks (reuse "
               "at any position).")
TROUPE_SETTING(
    router, shared_areas, boolean, "false", "", "",
    "Let user and item blocks share one memory under every policy, not only under planner, blocks "
    "and all_blocks; an item block then evicts another block only if it was wanted more often. For "
    "measurements.")
TROUPE_SETTING(router, approximate, real, "0", "0..1", "",
               "Under planner, maximum share of a prompt's tokens that may be approximate if the request "
               "does not say. 0: only requests that ask for approximation get it.")
TROUPE_SETTING(router, requests_in_flight_max, integer, "256", "1..1000000", "requests",
               "Maximum number of unanswered requests; more are refused.")
TROUPE_SETTING(router, tenant_weights, text, "", "", "",
               "Weights of tenants in sharing busy workers, as TENANT=WEIGHT separated by commas, such as "
               "search=4,ads=0.5. Other tenants have weight 1. Each router applies them to its own "
               "requests.")
TROUPE_SETTING(router, tenants_max, integer, "256", "1..65536", "tenants",
               "Maximum number of tenants without a weight that are tracked separately at a time; further "
               "ones count as one tenant.")
TROUPE_SETTING(router, tenant_requests_max, integer, "0", "0..1000000", "requests",
               "Maximum number of unanswered requests per tenant; more are refused. 0: as "
               "router.requests_in_flight_max.")
TROUPE_SETTING(router, tenant_work_max, duration, "10s", "1ms..10min", "",
               "Maximum predicted compute time of a tenant's waiting requests, per executor of the workers; "
               "more is refused.")
TROUPE_SETTING(router, quantum, duration, "10ms", "100us..10s", "",
               "Predicted compute time of requests that a tenant of weight 1 may send to a worker before "
               "the next tenant is served.")
TROUPE_SETTING(router, window, duration, "2ms", "0s..10s", "",
               "Predicted compute time per executor that a router sends to a worker ahead of its answers, "
               "or more if good batches need it. Further requests wait at the router, where tenants get "
               "their shares. One plan more than executors is always sent.")
TROUPE_CHOICE(router, routing, Routing, earliest,
              "How the worker of a request is chosen. earliest: the one predicted to finish first. "
              "affinity: RcLLM's score, which weighs held blocks by router.affinity and load by the "
              "remainder. hits or load: only one of these. joint: HLEM's Algorithm 1, which weighs held "
              "blocks, load and table rows by the cost of misses.",
              earliest, affinity, hits, load, joint)
TROUPE_SETTING(router, affinity, real, "0.5", "0..1", "",
               "Weight of the held blocks in router.routing: affinity; the load has the remaining weight.")
TROUPE_SETTING(router, candidates_max, integer, "1000", "1..100000", "candidates",
               "Maximum number of candidates per request, and of items in its allow list and in its deny "
               "list, each.")
TROUPE_SETTING(router, width_max, integer, "512", "1..4096", "paths",
               "Maximum width of a request's beam search, and maximum number of items that it returns.")
TROUPE_SETTING(router, completion_tokens_max, integer, "256", "1..100000", "tokens",
               "Maximum number of tokens per completion of /v1/completions.")
TROUPE_SETTING(router, history_events_max, integer, "10000", "1..1000000", "events",
               "Maximum number of history events in a profile.")
TROUPE_CHOICE_OF(router, unknown_user, UnknownUser, refuse,
                 "Treatment of a user that is not stored, for requests that do not say (unknown_user). "
                 "refuse: 404 unknown_user. cold: the user is answered as one without events, and the "
                 "answer says so.",
                 refuse, cold)
TROUPE_SETTING(
    router, history_part, integer, "64", "0..65536", "tokens",
    "For generators and models whose tokens are items (HSTU, SASRec and Climber): tokens per "
    "block of a user's history, so that earlier blocks stay usable when the history grows. 0: one "
    "block for the whole history. Routers with different values do not reuse each other's history blocks.")
TROUPE_SETTING(router, score_items_max, integer, "1024", "1..100000", "items",
               "Maximum number of items per /v1/score request.")
TROUPE_SETTING(router, score_labels_max, integer, "256", "1..100000", "tokens",
               "Maximum number of label tokens per /v1/score request.")
TROUPE_SETTING(router, request_tokens_max, integer, "262144", "1..16777216", "tokens",
               "Maximum number of tokens of a request, including all its parts.")
TROUPE_SETTING(router, deadline, duration, "2s", "1ms..10min", "",
               "Time from receipt to answer for requests that do not set a limit of their own (budget_us).")
TROUPE_SETTING(router, deadline_max, duration, "10s", "1ms..10min", "",
               "Maximum time that a request may set from receipt to answer.")
TROUPE_SETTING(router, frequency_window, duration, "300s", "1s..24h", "",
               "Sliding window over which accesses of a user or item are counted.")
TROUPE_SETTING(router, needs_items, boolean, "true", "", "",
               "Whether a router whose catalog has no items reports not-ready. Use false for a router that "
               "only serves scores, or rankings of texts.")

TROUPE_SETTING(router, pull_share, real, "0.25", "0..1", "",
               "Time to pull a block from another node, as a share of the time to compute it, until it has "
               "been measured (router.measure_pulls). 1: blocks are never pulled.")
TROUPE_SETTING(router, measure_pulls, boolean, "true", "", "",
               "Whether measured pulls update the estimate that starts at router.pull_share. false: it "
               "stays fixed.")
TROUPE_SETTING(
    router, device, text, "", "", "",
    "Cost model for computing a block rather than pulling it: a profile of the workers' machines "
    "written by troupe-lab bench calibrate, or the name of a known device. Empty: the measured time "
    "per token of the workers.")
TROUPE_SECTION_END

TROUPE_SECTION(VerifySettings, verify)
TROUPE_SETTING(verify, share, real, "0", "0..1", "",
               "Share of answered requests that a router computes again without any cached block while "
               "workers are idle, to report answers that differ by more than rounding. 0: none, as shipped, "
               "because a verification computes its whole prompt, and a request that comes meanwhile may "
               "wait for it. While requests come, verifications take at most half a percent of the time, "
               "whatever the share.")
TROUPE_SECTION_END

TROUPE_SECTION(ReplaySettings, replay)
TROUPE_SETTING(replay, keep, duration, "0s", "0s..8760h", "",
               "Time for which answered requests are recorded in node.data_dir, so that troupe replay can "
               "compute them again. Records hold users' histories as tokens. 0: nothing is recorded, and "
               "existing records are deleted at start.")
TROUPE_SETTING(replay, bytes_max, size, "256MiB", "1MiB..64GiB", "",
               "Maximum size of live records (replay.keep), per model and router. Beyond it the oldest ones "
               "are erased. Each record also needs about 0.5 KB of memory. Files may take more space until "
               "RocksDB compacts them.")
TROUPE_SECTION_END

TROUPE_SECTION(InferenceSettings, inference)
TROUPE_SETTING(inference, executors, integer, "0", "0..256", "threads",
               "Number of batches computed at a time. 0: one per core that the process may use (its affinity "
               "mask and the CPU quota of its cgroup), or two on a GPU.")
TROUPE_SETTING(inference, cores, integer, "0", "0..1024", "cores",
               "Cores that all batches may use together; a batch is spread over cores that other batches "
               "leave idle. 0: all that the process may use.")
TROUPE_SETTING(inference, batch_tokens_max, integer, "4096", "1..1048576", "tokens",
               "Maximum number of computed tokens per batch; a larger request runs alone. While every "
               "executor runs a request of more than three full batches, one batch of small requests runs "
               "beside them.")
TROUPE_SETTING(inference, batch_wait, duration, "0s", "0s..1s", "",
               "Time that a ready request may wait for others that fill its batch, if it still ends in time. "
               "0: a batch begins as soon as an executor is free. For devices on which larger batches pay.")
TROUPE_SETTING(inference, memory_max, size, "128MiB", "1MiB..16TiB", "",
               "Working memory of forward passes on the CPU. Each executor keeps a share, enough for one "
               "batch; one pass at a time may use all of it, at least what the model's longest prompt "
               "needs. A larger request is computed in several passes, or refused if it cannot be split: "
               "raise this for large /v1/score requests.")
TROUPE_CHOICE(inference, beams, Beams, together,
              "How beam searches run on the CPU. together is the one to use; the others are baselines. "
              "copied: each path attends to the prompt by itself and has its own pages. tree: all tokens of "
              "all paths form one sequence under a mask. sorted: all continuations are sorted. "
              "unconstrained: any token may follow, and paths that are no items are dropped. plain: copied, "
              "sorted and unconstrained.",
              together, copied, tree, sorted, unconstrained, plain)
TROUPE_SETTING(inference, overlap, boolean, "false", "", "",
               "Start a request while its blocks are still being pulled, if no other request is ready, and "
               "wait for them layer by layer. Blocks that do not arrive, or arrive damaged, are computed "
               "before the answer.")
TROUPE_SETTING(inference, queue_max, integer, "1024", "1..1000000", "requests",
               "Maximum number of requests that wait for an executor; more are refused.")
TROUPE_SECTION_END

TROUPE_SECTION(HttpSettings, http)
TROUPE_SETTING(
    http, address, text, "127.0.0.1", "", "",
    "Address on which the HTTP server listens: an IP address, or a name of this machine, which is looked "
    "up once. 0.0.0.0 makes it reachable from other machines over IPv4, :: over IPv4 and IPv6.")
TROUPE_SETTING(http, port, integer, "8080", "0..65535", "", "Port of the HTTP server. 0: any free port.")
TROUPE_SETTING(http, hosts, text, "", "", "",
               "Host names under which clients reach the HTTP server, separated by commas, such as "
               "shop.example,shop.internal:8080; with a port, only that port. Requests for other names are "
               "refused, and pages of these sites may send writes. IP addresses and localhost are always "
               "served. Empty: any name, but on a loopback address only localhost and IP addresses, which "
               "keeps web pages of other sites out (DNS rebinding).")
TROUPE_SETTING(http, connections_max, integer, "1024", "1..1000000", "connections",
               "Maximum number of open connections. Beyond it, a new connection closes the longest idle one "
               "of the address with the most connections. The process's limit of open files must be above "
               "this.")
TROUPE_SETTING(http, connections_per_address_max, integer, "256", "1..1000000", "connections",
               "Maximum number of open connections from one IPv4 address or one /64 of IPv6. A proxy counts "
               "as one address.")
TROUPE_SETTING(http, memory_max, size, "8MiB", "64KiB..16GiB", "",
               "Memory for requests and responses inside the HTTP server, at least twice "
               "http.body_bytes_max. When it is full, the largest request of the address with the most "
               "bytes is dropped.")
TROUPE_SETTING(http, header_bytes_max, size, "8KiB", "1KiB..1MiB", "", "Maximum size of a request's header.")
TROUPE_SETTING(http, body_bytes_max, size, "1MiB", "1KiB..1GiB", "", "Maximum size of a request's body.")
TROUPE_SETTING(http, streams_max, integer, "64", "1..1000", "requests",
               "Maximum number of open requests on one connection over HTTP/2, which gRPC uses. Further ones "
               "wait at the client.")
TROUPE_SETTING(http, timeout, duration, "10s", "10ms..10min", "",
               "Time limit for a client to send a request or to receive its response.")
TROUPE_SETTING(http, tls_certificate, text, "", "", "",
               "PEM file of the HTTP server's certificate chain: clients use TLS. Empty: no encryption. "
               "Read again at SIGHUP.")
TROUPE_SETTING(http, tls_key, text, "", "", "", "PEM file of the key of http.tls_certificate.")
TROUPE_SETTING(http, api_keys, text, "", "", "",
               "API keys: a file made by `troupe keys`, or redis://host… or rediss://… (login and "
               "certificates as for features.store). Every request except / and the health probes "
               "then needs a key, which determines its tenant. Empty: no keys, and the header "
               "x-troupe-tenant names the tenant. Read again at SIGHUP.")
TROUPE_SETTING(http, api_keys_refresh, duration, "10s", "100ms..1h", "",
               "Interval at which keys in a Redis are read. While it is unreachable or has no keys, the "
               "keys read last stay valid.")
TROUPE_SETTING(http, tenant_rate, real, "0", "0..1000000", "requests/s",
               "Maximum requests per second of one tenant through this HTTP server, unless its key sets "
               "another. 0: no limit.")
TROUPE_SETTING(http, tenant_requests_max, integer, "0", "0..1000000", "requests",
               "Maximum number of unanswered requests of one tenant at this HTTP server, unless its key "
               "sets another. 0: no limit.")
TROUPE_CHOICE(http, access_log, AccessLog, errors,
              "Requests that are logged (event request, level info): none; those answered with status 400 "
              "or above, at most 10 lines per second after a burst of 100; or all.",
              off, errors, all)
TROUPE_SETTING(http, admin_routes, boolean, "false", "", "",
               "Serve /v1/models/reload and /v1/catalog/reload, and let every tenant put and delete items: "
               "any client may then change what is served. With http.api_keys, each key has this right or "
               "not.")
TROUPE_SETTING(http, catalog_tenant, text, "", "", "",
               "Tenant that may put and delete items, which all tenants share. Empty: requests without a "
               "tenant.")
TROUPE_SECTION_END

TROUPE_SECTION(GrpcSettings, grpc)
TROUPE_SETTING(grpc, listen, text, "", "", "",
               "Further address and port that serve only gRPC, such as 127.0.0.1:8081. Certificate, keys "
               "and limits are those of http, whose own port serves gRPC, too. Empty: no such address.")
TROUPE_SECTION_END

TROUPE_SECTION(TelemetrySettings, telemetry)
TROUPE_SETTING(telemetry, collector, text, "", "", "",
               "OpenTelemetry collector that receives the spans of sampled requests as OTLP JSON over HTTP, "
               "such as http://10.0.0.9:4318. Empty: none.")
TROUPE_SETTING(telemetry, sampled, real, "0", "0..1", "",
               "Share of requests that are sampled among those whose client sends no trace (traceparent).")
TROUPE_SECTION_END

#undef TROUPE_SECTION
#undef TROUPE_SETTING
#undef TROUPE_CHOICE
#undef TROUPE_CHOICE_OF
#undef TROUPE_SECTION_END
