// Attacks on files that an operator names or that are looked for at fixed paths: configurations,
// certificates, models, data sets, traces, plans.
#include <bit>
#include <memory>
#include <utility>

#include "deploy/convert/torch_file.h"
#include "deploy/data/dataset.h"
#include "deploy/data/device_option.h"
#include "deploy/data/request_trace.h"
#include "deploy/data/row_table.h"
#include "deploy/data/split_policies.h"
#include "deploy/lab/bench/bench_result.h"
#include "deploy/lab/experiments/experiment.h"
#include "deploy/lab/experiments/split_experiment.h"
#include "deploy/lab/planning/plan_file.h"
#include "deploy/lab/planning/plan_input.h"
#include "deploy/lab/traces/arrivals.h"
#include "deploy/node/prompt_file.h"
#include "deploy/verify/form_file.h"
#include "deploy/verify/golden_file.h"
#include "kernels/checkpoint/model.h"
#include "kernels/checkpoint/safetensors.h"
#include "kernels/checkpoint/vocabulary.h"
#include "kernels/climber/climber.h"
#include "kernels/decoder/prototypes.h"
#include "kernels/sasrec/sasrec_config.h"
#include "kernels/testing/small_decoder_test.h"
#include "kernels/testing/test_folder.h"
#include "runtime/config/config.h"
#include "runtime/config/whole_file.h"
#include "runtime/coordination/file_coordination.h"
#include "runtime/network/certificates.h"
#include "runtime/network/links.h"
#include "tests/readers/attack.h"
#include "tests/readers/endless.h"

namespace troupe::readers {
namespace {

using Path = std::filesystem::path;
using Use = std::function<void(const Path& file)>;

// The reader's name, its file's name, its memory bound, its function of the file, and its expected texts.
struct ReaderCase {
  std::string_view reader;
  std::string file;
  std::size_t bytes_max;
  Use use;
  std::string expected;
};

void add(std::vector<Attack>& all, const ReaderCase& reads, std::string name,
         std::function<void(const Path&)> use, std::vector<std::string> more = {}) {
  more.insert(more.end(), {reads.file, reads.expected});
  all.push_back({reads.reader, std::move(name), reads.bytes_max,
                 [use = std::move(use), file = reads.file]() -> std::string {
                   const kernels::TestFolder folder;
                   use(folder.path() / file);
                   return "taken";
                 },
                 std::move(more)});
}

void add_pipe(std::vector<Attack>& all, const ReaderCase& reads, std::string name, Endless what,
              std::vector<std::string> says = {}) {
  add(
      all, reads, std::move(name),
      [use = reads.use, what = std::move(what)](const Path& file) {
        const EndlessFile pipe(file, what);
        use(file);
      },
      std::move(says));
}

void add_sparse(std::vector<Attack>& all, const ReaderCase& reads, std::string beginning = "",
                std::vector<std::string> says = {}) {
  add(
      all, reads, "a file of a terabyte",
      [use = reads.use, beginning = std::move(beginning)](const Path& file) {
        write_sparse(file, beginning);
        use(file);
      },
      std::move(says));
}

void add_text(std::vector<Attack>& all, const ReaderCase& reads, std::string name, std::string text,
              std::vector<std::string> says = {}) {
  add(
      all, reads, std::move(name),
      [use = reads.use, text = std::move(text)](const Path& file) {
        std::ofstream(file, std::ios::binary) << text;
        use(file);
      },
      std::move(says));
}

std::string repeated(std::string_view what, std::size_t bytes) {
  std::string text;
  text.reserve(bytes + what.size());
  while (text.size() < bytes) text += what;
  return text;
}

// ---- small files that are read as a whole ----

void add_whole(std::vector<Attack>& all) {
  const auto both = [&](const ReaderCase& reads) {
    add_pipe(all, reads, "a file without end", {"# ", "x"}, {"is larger than"});
    add_sparse(all, reads, "", {"is larger than"});
  };
  both({"whole", "some.txt", 256 * kib, [](const Path& file) { read_whole_file(file, 10'000, "a word"); },
        "expected a word"});
  both({"config", "c.yaml", 4 * mib, [](const Path& file) { load_config(file); }, "expected a YAML file"});
  both({"config", "cluster.yaml", 4 * mib, [](const Path& file) { load_cluster(file); },
        "expected a YAML file"});
  both({"certificates", "ca.pem", 4 * mib, [](const Path& file) { read_pem(file); }, "expected a PEM file"});
  both({"certificates", "node.pem", 4 * mib,
        [](const Path& file) {
          ClusterOptions place;
          place.node = 1, place.incarnation = 1, place.peers = {{2, "b"}};
          place.tls = TlsFiles{file, file, file};
          MetricRegistry metrics;
          const Journal journal(metrics, [](auto&&...) {});
          const Links links(place, {[](NodeId, Address, auto) {}, [](NodeId) {}}, journal);
        },
        "expected a PEM file"});
  both({"device", "device.txt", mib, [](const Path& file) { deploy::device_of(file); },
        "expected a device profile"});
  const ReaderCase result{"result", "r.json", 32 * mib,
                          [](const Path& file) { deploy::read_bench_result(file); },
                          "a result of troupe-lab bench rank --json"};
  both(result);
  add_text(all, result, "half a million numbers", "{\"runs\":[" + repeated("0,", mib - 40) + "0]}",
           {"values"});
  add_text(all, result, "a million levels", repeated("[", mib - 40), {"levels"});
  both({"experiments", "e.json", 4 * mib, [](const Path& file) { deploy::read_experiments(file); },
        "expected a file with a JSON list of experiments"});
  both({"experiments", "s.json", 4 * mib, [](const Path& file) { deploy::read_split_experiments(file); },
        "expected a file with a JSON list of experiments"});
  const ReaderCase policies{"policies", "split.txt", 4 * mib,
                            [](const Path& file) { deploy::read_split_policies(file); }, "expected "};
  both(policies);
  add_text(all, policies, "half a million weights",
           "troupe-split-policies 1\nmade by: x\nbase 7 64 128 7\n" + repeated("0 ", mib - 100),
           {"expected trees"});
  const ReaderCase prompt{
      "prompt", "prompt.json", 4 * mib,
      [](const Path& file) { deploy::read_prompt_form(file.parent_path(), file, kernels::PlanLimits{}, {}); },
      "expected "};
  both(prompt);
  add_text(all, prompt, "half a million numbers", "{\"system\":[" + repeated("0,", mib - 40) + "0]}",
           {"values"});
  add_text(all, prompt, "a million levels", repeated("[", mib - 40), {"levels"});
  const ReaderCase form{"prompt", "form.json", 4 * mib,
                        [](const Path& file) { deploy::read_form_file(file); }, "expected "};
  both(form);
  add_text(all, form, "a million levels", repeated("[", mib - 40), {"levels"});
}

void add_yaml(std::vector<Attack>& all) {
  const ReaderCase reads{"config", "c.yaml", 64 * mib, [](const Path& file) { load_config(file); },
                         "; expected "};
  add_text(all, reads, "half a million lists", repeated("[", mib));
  add_text(all, reads, "half a million words", "pool: [" + repeated("a,", mib - 100) + "a]");
  add_text(all, reads, "a quarter of a million lines of a list", "pool:\n" + repeated("- a\n", mib - 100));
  add_text(all, reads, "two hundred thousand keys", repeated("a:\n a:\n", mib - 100));
  add_text(all, reads, "half a million question marks", repeated("? ", mib - 100));
  add_text(all, reads, "a million lines", repeated("\n", mib - 100) + "a");
  add_text(all, reads, "a quarter of a million anchors", "pool: &a\n" + repeated("- *a\n", mib - 100));
  add_text(all, reads, "half a million keys", "pool:\n  {" + repeated("a,", mib - 100) + "a}");
}

void add_plans(std::vector<Attack>& all) {
  const deploy::PlanFileBounds bounds{.bytes_max = 4 << 20, .values_max = 100'000};
  const ReaderCase reads{"plan", "plan.json", 16 * mib,
                         [bounds](const Path& file) { deploy::read_placement(file, "a", bounds); },
                         "expected a plan that plan --json wrote"};
  add_pipe(all, reads, "a text without end", {"{\"placements\":[\"", "x"}, {"is larger than 4 MiB"});
  add_sparse(all, reads, "{}", {"is larger than 4 MiB"});
  add_text(all, reads, "a million numbers", "[" + repeated("0,", 2 * mib) + "0]",
           {"more than 100000 values"});
  add_text(all, reads, "a million levels", repeated("[", mib), {"levels"});
}

// ---- models ----

// The head of a file of as many prototypes and runs as a head may have, for kernels::small_config().
std::string largest_prototypes() {
  std::string head = "TRPROTO2" + std::string(64, 'a');
  const auto add_number = [&](std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) head += static_cast<char>(number >> 8 * i);
  };
  const kernels::DecoderConfig c = kernels::small_config();
  for (const std::uint32_t number :
       {c.layers, c.kv_heads, c.head_dim, c.hidden, c.vocabulary, 8u, 12u, 1u << 26})
    add_number(number, 4);
  for (const double number : {0.0, 0.5, 0.5}) add_number(std::bit_cast<std::uint64_t>(number), 8);
  for (const std::uint32_t number : {0u, c.positions_max, 1u << 28, 0u}) add_number(number, 4);
  return head;
}

void add_models(std::vector<Attack>& all) {
  const ReaderCase config{"json", "config.json", 4 * mib,
                          [](const Path& file) { kernels::read_decoder(file.parent_path()); }, "; expected "};
  add_sparse(all, config, "{", {"at most 1048576 bytes"});
  add_pipe(all, config, "a pipe", {"{", " "}, {"no such file"});
  ReaderCase numbers = config;
  numbers.bytes_max = 40 * mib;
  add_text(all, numbers, "half a million numbers", "{\"a\":[" + repeated("0,", mib - 40) + "0]}",
           {"too many values"});
  add_text(all, numbers, "half a million levels", repeated("[", mib - 40), {"nested too deep"});

  const ReaderCase climber{"json", "config.json", 4 * mib,
                           [](const Path& file) { kernels::read_climber(file.parent_path()); },
                           "; expected "};
  add_sparse(all, climber, "{", {"at most 1048576 bytes"});
  const ReaderCase sasrec{"json", "config.json", 4 * mib,
                          [](const Path& file) { kernels::read_sasrec_config(file.parent_path()); },
                          "; expected "};
  add_sparse(all, sasrec, "{", {"at most 1048576 bytes"});

  const ReaderCase words{"json", "vocab.json", 64 * mib,
                         [](const Path& file) { kernels::read_vocabulary(file.parent_path(), 1'000); },
                         "; expected "};
  add_sparse(all, words, "{", {"at most 1304576 bytes"});
  add_text(all, words, "more words than tokens",
           [] {
             std::string text = "{";
             for (int i = 0; i < 20'000; ++i) text += "\"" + std::to_string(i) + "\":0,";
             return text + "\"x\":0}";
           }(),
           {"too many values"});

  const ReaderCase prototypes{"mapped", "prototypes", mib,
                              [](const Path& file) {
                                const kernels::DecoderConfig config = kernels::small_config();
                                kernels::Prototypes(file, config, std::string(64, 'a'));
                              },
                              "; expected "};
  add_sparse(all, prototypes, "TRPROTO2", {"layers is 0"});
  add_sparse(all, prototypes, "TRPROTO1", {"make it again"});
  add_sparse(all, prototypes, largest_prototypes(), {"has 1099511627776 bytes"});
  add_pipe(all, prototypes, "a pipe", {"TRPROTO2", "x"}, {"not a regular file"});

  const ReaderCase weights{"mapped", "model.safetensors", mib,
                           [](const Path& file) { const kernels::SafetensorsFile opened(file); },
                           "; expected "};
  const auto length = [](std::uint64_t bytes) {
    std::string text;
    for (int i = 0; i < 8; ++i) text += static_cast<char>(bytes >> 8 * i);
    return text;
  };
  add_sparse(all, weights, length(terabyte / 2) + "{");
  add_pipe(all, weights, "a pipe", {length(100) + "{"}, {"not a regular file"});
  ReaderCase header = weights;
  header.bytes_max = 200 * mib;
  const std::string many = "{\"a\":[" + repeated("0,", 20 * mib) + "0]}";
  add_text(all, header, "ten million numbers", length(many.size()) + many, {"too many values"});
  const std::string tensor =
      R"({"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}})";
  add_sparse(all, weights, length(tensor.size()) + tensor);  // a length beyond the whole file

  const ReaderCase checkpoint{"mapped", "checkpoint.pt", mib,
                              [](const Path& file) { const deploy::TorchFile opened(file); }, "; expected "};
  add_sparse(all, checkpoint, "PK\x03\x04", {"has no end record"});
  add_sparse(all, checkpoint, "\x80\x02X\xff\xff\xff\xff", {"ends early"});
  add_pipe(all, checkpoint, "a pipe", {"PK\x03\x04", "x"}, {"not a regular file"});
  ReaderCase values = checkpoint;
  values.bytes_max = 512 * mib;
  add_text(all, values, "fifty million values", "\x80\x02" + repeated(")", 50 * mib), {"too many values"});
}

// ---- lines ----

void add_lines(std::vector<Attack>& all) {
  constexpr std::size_t line_max = 4 * deploy::TextFile::line_bytes_max;
  const auto endless = [&](std::string_view reader, std::string file, Use use, std::string beginning = "") {
    const ReaderCase reads{reader, std::move(file), line_max, std::move(use), "; expected "};
    add_pipe(all, reads, "a line without end", {beginning, "x"},
             {":1: the line is too long", "at most 16 MiB"});
  };
  const auto items = [](const Path& file) { deploy::read_items(file.parent_path(), {}); };
  endless("lines", "items.jsonl", items, "{\"id\":\"");
  endless("lines", "items.tsv", items);
  endless("lines", "users.jsonl",
          [](const Path& file) { deploy::read_users(file.parent_path(), deploy::HistoryPart::all); });
  endless("lines", "requests.jsonl", [](const Path& file) { deploy::read_evaluation(file); });
  endless("lines", "golden.jsonl", [](const Path& file) { deploy::read_golden(file, {}, 1); });
  endless("lines", "trace.jsonl", [](const Path& file) { deploy::TraceReader trace(file); });
  endless("lines", "times.jsonl", [](const Path& file) { const deploy::Arrivals times(file, 1, 1); });
  endless("lines", "times.tsv", [](const Path& file) { const deploy::Arrivals times(file, 1, 1); });
  endless("lines", "counts.tsv", [](const Path& file) { deploy::read_popularity(file, {}); });

  const auto table_of = [](deploy::TableKind kind) {
    return [kind](const Path& file) {
      const auto table = deploy::RowTable::open(kind, file);
      std::vector<deploy::Cell> row;
      while (table->next(row)) continue;
    };
  };
  endless("lines", "table.tsv", table_of(deploy::TableKind::tsv));
  endless("lines", "table.jsonl", table_of(deploy::TableKind::jsonl));
  const ReaderCase csv{"lines", "table.csv", line_max, table_of(deploy::TableKind::csv), "; expected "};
  add_pipe(all, csv, "a field without end", {"a\n", "x"}, {":2:", "the record is too long"});
  add_pipe(all, csv, "a quoted field without end", {"a\n\"", "x\n"}, {"the record is too long"});
  add_pipe(all, csv, "a header without end", {"a", ","}, {":1:", "more than 10000 fields"});

  const ReaderCase row{"lines", "items.jsonl", 2 * line_max, items, "; expected "};
  add_text(all, row, "eight million numbers", "[" + repeated("0,", 15 * mib) + "0]",
           {":1: the line is array", "an object"});
  add_text(all, row, "eight million tokens", "{\"tokens\":[" + repeated("0,", 15 * mib) + "0]}",
           {":1:", "tokens has more than 1048576 elements"});
  add_text(all, row, "sixteen million levels", repeated("[", 15 * mib), {":1: the line is array"});
  const ReaderCase plan{"lines", "items.jsonl", 2 * line_max,
                        [](const Path& file) { deploy::read_plan_catalog(file.parent_path()); },
                        "; expected "};
  add_text(all, plan, "sixteen million levels of a plan", repeated("[", 15 * mib), {":1:", "levels"});
  const ReaderCase zeros{"lines", "trace.jsonl", line_max,
                         [](const Path& file) { deploy::TraceReader trace(file); }, "; expected "};
  add_sparse(all, zeros, "", {"NUL byte"});
}

// ---- coordination ----

void add_coordination(std::vector<Attack>& all) {
  const ReaderCase reads{"coordination", "coordination", 128 * mib,
                         [](const Path& file) { check_coordination(file); }, "; expected "};
  add_sparse(all, reads);
  add_pipe(all, reads, "a file without end", {"", "x"});
}

}  // namespace

std::vector<Attack> file_attacks() {
  std::vector<Attack> all;
  add_whole(all);
  add_yaml(all);
  add_plans(all);
  add_models(all);
  add_lines(all);
  add_coordination(all);
  return all;
}

}  // namespace troupe::readers
