// The program `troupe`, which serves and operates nodes.
#include "deploy/program.h"

int main(int argc, char** argv) {
  return troupe::deploy::run_program(argc, argv, troupe::deploy::troupe_program());
}
