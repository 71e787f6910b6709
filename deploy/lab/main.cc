// The program `troupe-lab`, which measures, simulates and plans, and makes traces, models and
// policies.
#include "deploy/lab/commands/lab_commands.h"

int main(int argc, char** argv) {
  return troupe::deploy::run_program(argc, argv, troupe::deploy::lab_program());
}
