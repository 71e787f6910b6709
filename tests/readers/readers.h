#pragma once
// All files of the program that read external bytes, and the attacks that their readers must survive.
// tests/tidy_test.cc looks for the calls below: a file that makes one and is not here, or is here and
// makes none, is an error. The attacks are in *_attacks.cc, by the names in the second column;
// readers_test.cc finds names without attacks.
#include <array>
#include <string_view>

namespace troupe::readers {

struct ReaderFile {
  std::string_view file, attacks;
  std::string_view harmless = {};  // why it needs no attack
};

inline constexpr std::string_view of_kernel = "the kernel's own files, which are short";

inline constexpr ReaderFile reader_files[] = {
    {"deploy/lab/bench/bench_peers.cc", "child"},
    {"deploy/lab/bench/bench_result.cc", "result"},
    {"deploy/lab/bench/child_process.cc", "child"},
    {"deploy/lab/bench/resident_memory.cc", "", of_kernel},
    {"deploy/lab/bench/cpu_profile.cc", "", of_kernel},
    {"deploy/tracing/folder_socket.cc", "control"},
    {"deploy/node/prompt_file.cc", "prompt"},
    {"deploy/node/server_configs.cc", "whole"},
    {"deploy/commands/command_keys.cc", "whole"},
    {"deploy/commands/command_logits.cc", "json"},
    {"deploy/lab/commands/command_sim.cc", "", "an argument"},
    {"deploy/lab/commands/command_sim_swarm.cc", "", "an argument"},
    {"deploy/commands/server_call.cc", "whole"},
    {"deploy/convert/converted_model.cc", "lines"},
    {"deploy/convert/gin_file.cc", "whole"},
    {"deploy/convert/golden_check.cc", "json"},
    {"deploy/data/dataset.cc", "lines"},
    {"deploy/data/device_option.cc", "device"},
    {"deploy/data/byte_source.cc", "lines"},
    {"deploy/data/row_table.cc", "lines"},
    {"deploy/data/placement_file.cc", "plan"},
    {"deploy/data/split_policies.cc", "policies"},
    {"deploy/lab/experiments/experiment_file.cc", "experiments"},
    {"deploy/lab/experiments/split_experiment.cc", "experiments"},
    {"deploy/models/model_families.cc", "json"},
    {"deploy/verify/form_file.cc", "prompt"},
    {"deploy/verify/golden_file.cc", "lines"},
    {"deploy/verify/verify_requests.cc", "lines"},
    {"deploy/lab/planning/plan_input.cc", "lines"},
    {"deploy/lab/traces/arrivals.cc", "lines"},
    {"deploy/data/request_trace.cc", "lines"},
    {"deploy/lab/traces/trace_from_data.cc", "lines"},
    {"kernels/testing/test_fence.cc", "", "memory of its own, and no file"},
    {"kernels/checkpoint/file_kind.cc", "", "the first 512 bytes of a file, which are only compared"},
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
    {"kernels/sasrec/sasrec_config.cc", "json"},
    {"server/http/http_client.cc", "server"},
    {"server/http/http_stream.cc", "door"},
    {"runtime/coordination/etcd_http.cc", "etcd"},
    {"runtime/coordination/file_coordination.cc", "coordination"},
    {"runtime/coordination/members_file.cc", "whole"},
    {"runtime/profiling/process_figures.cc", "", of_kernel},
    {"runtime/profiling/process_limits.cc", "", of_kernel},
    {"runtime/pool/page_arena.cc", "", "memory of its own, and no file"},
    {"runtime/network/certificates.cc", "certificates"},
    {"runtime/network/link_connection.cc", "links"},
    {"runtime/redis/redis_stream.cc", "redis"},
    {"runtime/config/config_reader.cc", "config"},
    {"runtime/config/whole_file.cc", "whole"},
    {"runtime/store/store_backup.cc", "store"},
    {"runtime/store/store_check.cc", "store"},
    {"runtime/store/store_log.cc", "store"},
    {"runtime/store/store_mark.cc", "store"},
    {"runtime/store/store_rocks.cc", "store"},
    {"runtime/store/store_salvage.cc", "store"},
    {"runtime/tokenizer/sentence_file.cc", "whole"},
    {"runtime/tokenizer/tokenizer_file.cc", "whole"},
    {"runtime/transfer/page_socket.cc", "pages"},
    {"runtime/transfer/ucx_worker.cc", "ucx"},
    {"runtime/tls/login.cc", "whole"},
    {"runtime/tls/tls_client.cc", "whole"},
    {"sim/runs/load.cc", "", of_kernel},
};

// Parsers of bytes that others have read; they are attacked separately, too.
inline constexpr std::string_view parsers[] = {"codec", "pull"};

// Calls that read bytes. A name that is the end of a longer name does not count; `= read(` is matched
// before a name alone.
inline constexpr std::string_view reading_calls[] = {
    "recv(",
    "recvfrom(",
    "recvmsg(",
    "pread(",
    "preadv(",
    "readv(",
    "fread(",
    "::read(",
    "= read(",
    "getline(",
    "ifstream",
    "istreambuf_iterator",
    "fstream(",
    "fopen(",
    "fgets(",
    "scanf(",
    "getc(",
    "popen(",
    "cin",
    "gzopen(",
    "mmap(",
    "async_read",
    "async_read_some(",
    "async_receive",
    "LoadFile",
    "verify_file(",
    "chain_file(",
    "key_file(",
    "BIO_new_file(",
    "DB::Open",
    "SstFileReader ",
    "redisCommand",
    "redisGetReply",
    "ucp_worker_set_am_recv_handler(",
    "ucp_stream_recv",
    "ucp_tag_recv",
    "read_whole_file(",
    "read_json_file(",
    "TextFile file",
    "TsvFile tsv",
    "CsvFile csv",
};

}  // namespace troupe::readers
