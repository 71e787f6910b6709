// The program `troupe-box`: what serves, asks and fills a box or a node of a cluster, which compiles in two
// thirds of the time.
#include "deploy/program.h"

int main(int argc, char** argv) {
  using namespace troupe::deploy;
  return run_program(argc, argv, "troupe-box",
                     " This program serves; the one that also simulates, plans and measures is made by "
                     "deploy/build.sh release troupe.",
                     [](Command) {});
}
