#pragma once
// Table of the commands of the program `troupe-lab`. Each `add_…` declares one command with its
// options.
#include "deploy/commands/commands.h"
#include "deploy/program.h"

namespace troupe::deploy {

void add_bench(Command app);
void add_sim(Command app);
void add_plan(Command app);
void add_trace_making(Command app);
void add_train(Command app);

// Returns the program that measures, simulates, plans, makes traces and trains.
Program lab_program();

}  // namespace troupe::deploy
