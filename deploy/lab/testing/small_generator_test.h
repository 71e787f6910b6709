#pragma once
// A small generator of semantic IDs with its data set, for tests of benchmarks.
#include <string>

#include "deploy/lab/bench/bench_accuracy.h"
#include "kernels/testing/test_folder.h"

namespace troupe::deploy {

// A random model whose vocabulary is <bos>, <a_0> <a_1>, <b_0> <b_1>, and a data set of three items.
class SmallGenerator {
 public:
  SmallGenerator() {
    kernels::DecoderConfig config;
    config.layers = 2;
    config.hidden = 32;
    config.heads = config.kv_heads = 2;
    config.head_dim = 16;
    config.intermediate = 32;
    config.vocabulary = 5;
    config.positions_max = 9;
    config.qkv_bias = config.tied_embeddings = true;
    write_decoder(kernels::random_decoder(config, 3), folder_.path(), kernels::StoredAs::f32);
    folder_.write("vocab.json", R"({"<bos>":0,"<a_0>":1,"<a_1>":2,"<b_0>":3,"<b_1>":4})");
    folder_.write("items.tsv", "item_id\tsid\n0\t0,0\n1\t1,0\n2\t1,1\n");
    users("8\t1\t1\t2\t0 1 2 0\n9\t2\t0\t0\t1 2\n");
  }
  void users(const std::string& lines) {
    folder_.write("sequences.tsv", "user_id\tn_train\tn_valid\tn_test\titems\n" + lines);
  }
  AccuracyData data(std::size_t history_items = 20) const {
    return read_accuracy_data(folder_.path(), folder_.path(), history_items);
  }
  kernels::DecoderModel model() const { return kernels::read_decoder(folder_.path()); }
  const kernels::TestFolder& folder() const { return folder_; }

 private:
  kernels::TestFolder folder_;
};

}  // namespace troupe::deploy
