// The program `troupe-box`: the commands that serve, query and fill a single node or a cluster
// node. It omits simulation, planning and benchmarks, and compiles in two thirds of the time of
// `troupe`.
#include "deploy/program.h"

int main(int argc, char** argv) {
  using namespace troupe::deploy;
  return run_program(argc, argv, "troupe-box",
                     " This program serves requests. To simulate, plan and benchmark, build the full program "
                     "with deploy/build.sh release troupe.",
                     [](Command) {});
}
