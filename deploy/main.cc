// The program `troupe` with all commands.
#include "deploy/commands/commands.h"
#include "deploy/program.h"

int main(int argc, char** argv) {
  using namespace troupe::deploy;
  return run_program(argc, argv, "troupe", "", [](Command app) {
    add_bench(app);
    add_sim(app);
    add_plan(app);
    add_trace(app);
    add_train(app);
    add_prototypes(app);
  });
}
