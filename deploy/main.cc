// The program `troupe`, which serves and operates nodes. Settings may come from the environment, which is
// read only here.
#include <unistd.h>

#include "deploy/program.h"

int main(int argc, char** argv) {
  troupe::deploy::Program program = troupe::deploy::troupe_program();
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry)
    program.environment.emplace_back(*entry);
  return troupe::deploy::run_program(argc, argv, program);
}
