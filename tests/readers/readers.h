#pragma once
// Every file of the program that takes bytes from outside, and the attacks that its reader has to bear. tests/tidy_test.cc
// looks for the calls below: a file that makes one and is not here, or is here and makes none, is a fault. The attacks
// are in *_attacks.cc, by the names in the second column; readers_test.cc finds those that nobody makes.
#include <array>
#include <string_view>

namespace troupe::readers {

struct ReaderFile {
  std::string_view file, attacks;
  std::string_view harmless = {};  // why it needs none
};

inline constexpr std::string_view of_kernel = "the kernel's own files, which are short";

inline constexpr ReaderFile reader_files[] = {
    {"deploy/bench/bench_engine.cc", "", of_kernel},
    {"deploy/bench/bench_peers.cc", "child"},
    {"deploy/bench/bench_result.cc", "result"},
    {"deploy/bench/child_process.cc", "child"},
    {"deploy/bench/cpu_profile.cc", "", of_kernel},
    {"deploy/watch/folder_socket.cc", "control"},
    {"deploy/box/prompt_file.cc", "prompt"},
    {"deploy/box/serving.cc", "whole"},
    {"deploy/commands/command_keys.cc", "whole"},
    {"deploy/commands/command_logits.cc", "json"},
    {"deploy/commands/command_sim.cc", "", "an argument"},
    {"deploy/commands/command_sim_swarm.cc", "", "an argument"},
    {"deploy/commands/server_call.cc", "whole"},
    {"deploy/data/dataset.cc", "lines"},
    {"deploy/data/device_option.cc", "device"},
    {"deploy/data/text_file.cc", "lines"},
    {"deploy/data/split_policies.cc", "policies"},
    {"deploy/experiments/experiment_file.cc", "experiments"},
    {"deploy/experiments/split_experiment.cc", "experiments"},
    {"deploy/families/families.cc", "json"},
    {"deploy/planning/plan_file.cc", "plan"},
    {"deploy/planning/plan_input.cc", "lines"},
    {"deploy/traces/arrivals.cc", "lines"},
    {"deploy/traces/request_trace.cc", "lines"},
    {"deploy/traces/trace_from_data.cc", "lines"},
    {"kernels/base/test_fence.cc", "", "memory of its own, and no file"},
    {"kernels/checkpoint/hf_config.cc", "json"},
    {"kernels/checkpoint/json_file.cc", "json"},
    {"kernels/checkpoint/mapped_file.cc", "mapped"},
    {"kernels/checkpoint/model.cc", "json"},
    {"kernels/checkpoint/vocabulary.cc", "json"},
    {"kernels/climber/climber_config.cc", "json"},
    {"kernels/cpu/engine/memory_nodes.cc", "", of_kernel},
    {"kernels/cuda/bench/bench_table.cc", "", "results that the benchmark itself wrote"},
    {"kernels/hstu/hstu_config.cc", "json"},
    {"kernels/hstu/hstu_model.cc", "json"},
    {"server/http/front_door_client.cc", "server"},
    {"server/http/front_door_stream.cc", "door"},
    {"runtime/hard_state/etcd_http.cc", "etcd"},
    {"runtime/hard_state/file_coordination.cc", "coordination"},
    {"runtime/hard_state/kept_members.cc", "whole"},
    {"runtime/meter/process_figures.cc", "", of_kernel},
    {"runtime/pages/page_arena.cc", "", "memory of its own, and no file"},
    {"runtime/process/certificates.cc", "certificates"},
    {"runtime/process/link_connection.cc", "links"},
    {"runtime/redis/redis_stream.cc", "redis"},
    {"runtime/settings/config.cc", "config"},
    {"runtime/settings/whole_file.cc", "whole"},
    {"runtime/store/store_backup.cc", "store"},
    {"runtime/store/store_check.cc", "store"},
    {"runtime/store/store_log.cc", "store"},
    {"runtime/store/store_mark.cc", "store"},
    {"runtime/store/store_rocks.cc", "store"},
    {"runtime/store/store_salvage.cc", "store"},
    {"runtime/text/tokenizer_file.cc", "whole"},
    {"runtime/transfer/ucx_worker.cc", "ucx"},
    {"runtime/trust/login.cc", "whole"},
    {"runtime/trust/tls_client.cc", "whole"},
    {"sim/runs/load.cc", "", of_kernel},
};

// Parsers of what others have read, which are attacked by themselves, too.
inline constexpr std::string_view parsers[] = {"codec", "pull"};

// By which bytes come in. A name that something longer ends in does not count; `= read(` counts before a name alone.
inline constexpr std::string_view reading_calls[] = {
    "recv(",        "recvfrom(",        "recvmsg(",     "pread(",       "preadv(",           "readv(",
    "fread(",       "::read(",          "= read(",      "getline(",     "ifstream",          "istreambuf_iterator",
    "fstream(",     "fopen(",           "fgets(",       "scanf(",       "getc(",             "popen(",
    "cin",          "gzopen(",          "mmap(",        "async_read",   "async_read_some(",  "async_receive",
    "LoadFile",     "verify_file(",     "chain_file(",  "key_file(",    "BIO_new_file(",     "DB::Open",
    "SstFileReader ", "redisCommand",   "redisGetReply", "ucp_worker_set_am_recv_handler(",  "ucp_stream_recv",
    "ucp_tag_recv", "read_whole_file(", "read_json_file(", "TextFile file", "TsvFile tsv",
};

}  // namespace troupe::readers
