// The file of prototypes. In order: a head; per token of the vocabulary, its row of the embedding
// and whether it never has a prototype; per prototype, its token, its position and the number of
// tokens that it represents; the prototypes' keys and values; the table: per token of the vocabulary
// and one more, its first run, then the runs (prototype_table.h); the SHA-256 of all that.
// Little-endian; arrays begin at multiples of 64 bytes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "kernels/base/check.h"
#include "kernels/checkpoint/json_file.h"
#include "kernels/checkpoint/version_hash.h"
#include "kernels/decoder/prototypes.h"

namespace troupe::kernels {
namespace {

constexpr char magic[8] = {'T', 'R', 'P', 'R', 'O', 'T', 'O', '2'};
constexpr std::size_t version_bytes = 64, checksum_bytes = 64;
constexpr std::uint32_t prototypes_most = 1u << 26, runs_most = 1u << 28;
constexpr std::int64_t rotations_kept = 256;

struct Head {
  char magic[8];
  char model[version_bytes];  // version of the model
  std::uint32_t layers, kv_heads, head_dim, hidden, vocabulary, tables, planes, prototypes;
  std::uint64_t seed;
  double position_weight, cosine_min;
  std::uint32_t first, end, runs, unused;  // positions that the table covers, and its runs
};
static_assert(sizeof(Head) == 8 + version_bytes + 8 * 4 + 8 + 16 + 4 * 4);

struct Record {
  std::int32_t token;
  std::uint32_t position;
  std::uint64_t members;
};
static_assert(sizeof(Record) == 16);

std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

struct Sections {
  std::size_t embedding, never, records, numbers, starts, runs, checksum, end;
};
// All factors were checked against limits before, so nothing overflows.
Sections sections_of(const Head& head) {
  Sections at{.embedding = rounded(sizeof(Head))};
  at.never = at.embedding + rounded(std::size_t{head.vocabulary} * head.hidden * 4);
  at.records = at.never + rounded(head.vocabulary);
  at.numbers = at.records + rounded(std::size_t{head.prototypes} * sizeof(Record));
  at.starts = at.numbers +
              rounded(std::size_t{head.prototypes} * head.layers * head.kv_heads * 2 * head.head_dim * 4);
  at.runs = at.starts + rounded((std::size_t{head.vocabulary} + 1) * 4);
  at.checksum = at.runs + rounded(std::size_t{head.runs} * sizeof(PrototypeRun));
  at.end = at.checksum + checksum_bytes;
  return at;
}

std::string checksum_of(std::span<const std::byte> bytes) {
  VersionHash hash;
  hash.part(bytes);
  return hash.hex();
}

void check_number(const std::filesystem::path& file, const char* name, std::uint64_t found,
                  std::uint64_t expected) {
  if (found != expected)
    throw_load_error(file, std::string(name) + " is " + std::to_string(found),
                     std::to_string(expected) + ", as the model has");
}

Head read_head(const std::filesystem::path& file, std::span<const std::byte> bytes,
               const DecoderConfig& config, const std::string& version) {
  Head head;
  if (bytes.size() < sizeof head)
    throw_load_error(file, "has " + std::to_string(bytes.size()) + " bytes", "a file of prototypes");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.magic, magic, sizeof magic - 1) != 0)
    throw_load_error(file, "does not begin with the prototypes' magic bytes", "a file of prototypes");
  if (head.magic[7] != magic[7])
    throw_load_error(file, "is a file of prototypes of format " + in_quotes({&head.magic[7], 1}),
                     "format " + in_quotes({&magic[7], 1}) + "; make it again with troupe prototypes");
  check_number(file, "layers", head.layers, config.layers);
  check_number(file, "kv_heads", head.kv_heads, config.kv_heads);
  check_number(file, "head_dim", head.head_dim, config.head_dim);
  check_number(file, "hidden", head.hidden, config.hidden);
  check_number(file, "vocabulary", head.vocabulary, config.vocabulary);
  if (version.size() != version_bytes || std::memcmp(head.model, version.data(), version_bytes) != 0)
    throw_load_error(file, "is of another model", "prototypes of model " + version.substr(0, 16));
  if (head.tables < 1 || head.tables > 64 || head.planes < 1 || head.planes > 24)
    throw_load_error(
        file, "has " + std::to_string(head.tables) + " tables of " + std::to_string(head.planes) + " planes",
        "1 to 64 of 1 to 24");
  if (!(head.position_weight >= 0 && head.position_weight <= 1) ||
      !(head.cosine_min >= -1 && head.cosine_min <= 1))
    throw_load_error(file, "has a position weight or a minimum cosine out of range", "0 to 1, and -1 to 1");
  if (head.prototypes > prototypes_most)
    throw_load_error(file, "has " + std::to_string(head.prototypes) + " prototypes",
                     "at most " + std::to_string(prototypes_most));
  if (head.runs > runs_most)
    throw_load_error(file, "has a table of " + std::to_string(head.runs) + " runs",
                     "at most " + std::to_string(runs_most));
  if (head.first > head.end || head.end > config.positions_max || (head.first == head.end && head.runs > 0))
    throw_load_error(
        file, "has a table for positions " + std::to_string(head.first) + " to " + std::to_string(head.end),
        "ascending positions up to " + std::to_string(config.positions_max));
  return head;
}

// Returns an array of a section; sections begin at multiples of 64 bytes of a mapped file.
template <class T>
std::span<const T> array_at(std::span<const std::byte> bytes, std::size_t begin, std::size_t count) {
  return {reinterpret_cast<const T*>(bytes.data() + begin), count};
}

void check_record(const std::filesystem::path& file, const DecoderConfig& config, std::uint32_t number,
                  const Record& record) {
  if (record.token < 0 || static_cast<std::uint32_t>(record.token) >= config.vocabulary ||
      record.position >= config.positions_max)
    throw_load_error(file,
                     "prototype " + std::to_string(number) + " is token " + std::to_string(record.token) +
                         " at " + std::to_string(record.position),
                     "a token of the vocabulary at a position of the model");
}

std::span<const std::byte> bytes_of(const auto& value) { return std::as_bytes(std::span(&value, 1)); }

// Writes under another name first: processes that have the former file mapped keep it whole.
void write_whole(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  const std::string checksum = checksum_of(bytes);
  const std::filesystem::path whole = file.string() + ".new";
  {
    std::ofstream out(whole, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out << checksum << std::flush;
    if (!out) throw_load_error(whole, "cannot be written", "a folder with enough free space");
  }
  std::filesystem::rename(whole, file);
}

}  // namespace

Prototypes::Prototypes(const std::filesystem::path& file, const DecoderConfig& config,
                       const std::string& model_version)
    : file_(file), config_(config), frequencies_(rope_frequencies(config)) {
  const std::span<const std::byte> bytes = file_.bytes();
  const Head head = read_head(file, bytes, config, model_version);
  const Sections at = sections_of(head);
  if (bytes.size() != at.end)
    throw_load_error(file, "has " + std::to_string(bytes.size()) + " bytes", std::to_string(at.end));
  checksum_ = checksum_of(bytes.first(at.checksum));
  if (std::memcmp(bytes.data() + at.checksum, checksum_.data(), checksum_bytes) != 0)
    throw_load_error(file, "is damaged: its checksum differs", "a whole file; make it again");
  count_ = head.prototypes;
  cosine_min_ = static_cast<float>(head.cosine_min);
  never_ = bytes.subspan(at.never, head.vocabulary);
  const auto numbers = array_at<float>(bytes, at.numbers, std::size_t{count_} * columns());
  if (!std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); }))
    throw_load_error(file, "has a key or a value that is not finite", "finite numbers");
  kv_ = numbers.data();
  table_ = {head.first, head.end, array_at<std::uint32_t>(bytes, at.starts, std::size_t{head.vocabulary} + 1),
            array_at<PrototypeRun>(bytes, at.runs, head.runs)};
  if (const std::string fault = table_.fault(count_); !fault.empty())
    throw LoadError(file.string() + ": " + fault);
  embedding_ = std::make_unique<PositionalEmbedding>(
      array_at<float>(bytes, at.embedding, std::size_t{head.vocabulary} * head.hidden), head.hidden,
      head.position_weight);
  const PrototypeOptions options{.tables = head.tables, .planes = head.planes, .seed = head.seed};
  hash_ = std::make_unique<HashTables>(embedding_->width(), options, PositionalEmbedding::waves);
  const auto records = array_at<Record>(bytes, at.records, count_);
  for (std::uint32_t i = 0; i < count_; ++i) {
    check_record(file, config, i, records[i]);
    hash_->add(embedding_->direction(records[i].token, records[i].position), i);
  }
  hashed_ = std::make_unique<HashedTokens>();
  for (std::int64_t position = 0; position < rotations_kept; ++position)
    rotations_.push_back(make_rotation(frequencies_, position));
}

std::size_t PrototypeMaker::write(const std::filesystem::path& file) const {
  const DecoderConfig& config = model_.config;
  Head head{.layers = config.layers,
            .kv_heads = config.kv_heads,
            .head_dim = config.head_dim,
            .hidden = config.hidden,
            .vocabulary = config.vocabulary,
            .tables = options_.tables,
            .planes = options_.planes,
            .prototypes = 0,
            .seed = options_.seed,
            .position_weight = options_.position_weight,
            .cosine_min = options_.cosine_min};
  TROUPE_CHECK(model_.version.size() == version_bytes, "a model has a version");
  std::memcpy(head.magic, magic, sizeof magic);
  std::memcpy(head.model, model_.version.data(), version_bytes);
  std::vector<Record> records;
  std::vector<float> numbers;
  HashTables hash(embedding_.width(), options_,
                  PositionalEmbedding::waves);  // of the prototypes that are written
  for (const PrototypeDraft& made : drafts_) {
    if (made.taken == 0) continue;
    hash.add(embedding_.direction(made.token, made.position), static_cast<std::uint32_t>(records.size()));
    records.push_back({made.token, made.position, made.members});
    for (const double sum : made.sums)
      numbers.push_back(static_cast<float>(sum / static_cast<double>(made.taken)));
  }
  const PrototypeTableDraft table =
      make_prototype_table(counts_, embedding_, hash, options_, config.vocabulary, config.positions_max);
  head.prototypes = static_cast<std::uint32_t>(records.size());
  head.first = table.first, head.end = table.end;
  head.runs = static_cast<std::uint32_t>(table.runs.size());
  const Sections at = sections_of(head);
  std::vector<std::byte> bytes(at.checksum);
  const auto put = [&](std::size_t begin, std::span<const std::byte> section) {
    std::ranges::copy(section, bytes.begin() + static_cast<std::ptrdiff_t>(begin));
  };
  put(0, bytes_of(head));
  put(at.embedding, std::as_bytes(std::span(model_.weights.embedding.values)));
  put(at.never, std::as_bytes(std::span(never_)));
  put(at.records, std::as_bytes(std::span(records)));
  put(at.numbers, std::as_bytes(std::span(numbers)));
  put(at.starts, std::as_bytes(std::span(table.starts)));
  put(at.runs, std::as_bytes(std::span(table.runs)));
  write_whole(file, bytes);
  return table.runs.size();
}

}  // namespace troupe::kernels
