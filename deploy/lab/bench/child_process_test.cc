#include "deploy/lab/bench/child_process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/testing/test_folder.h"

using namespace troupe::deploy;

namespace {

ChildResult shell(const std::string& script) {
  return run_child({.arguments = {"sh", "-c", script}, .environment = {{"TROUPE_WORD", "a b"}}});
}

}  // namespace

TEST_SUITE("child process") {
  TEST_CASE("child process: its whole output is returned, and output alone is no failure") {
    const ChildResult result =
        shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo >&2 words");
    CHECK(result.failure == "");
    CHECK(result.output.size() > 200'000);
    CHECK(result.output.ends_with("line 19999\n"));
  }

  TEST_CASE("child process: given variables override its parent's, and the others are inherited") {
    CHECK(shell("echo \"$TROUPE_WORD:${PATH:+path}\"").output == "a b:path\n");
    const std::string all = run_child({.arguments = {"env"}, .environment = {{"PATH", "nowhere"}}}).output;
    const std::size_t path = ("\n" + all).find("\nPATH=");
    CHECK(all.substr(path, 13) == "PATH=nowhere\n");
    CHECK(("\n" + all).find("\nPATH=", path + 1) == std::string::npos);
  }

  TEST_CASE("child process: a status other than 0 is a failure with the end of standard error") {
    const ChildResult result = shell("echo so far; echo no such >&2; echo; echo '  model' >&2; exit 3");
    CHECK(result.output == "so far\n\n");
    CHECK(result.failure == "ended with status 3: no such model");
  }

  TEST_CASE("child process: a signal is a failure") {
    CHECK(shell("kill -SEGV $$").failure.starts_with("killed by signal 11"));
  }

  TEST_CASE("child process: after its time limit it is killed with all that it started") {
    const troupe::kernels::TestFolder folder;
    const std::string fifo = (folder.path() / "held").string();  // as long as a writer lives
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
    ChildProcess child{.arguments = {"sh", "-c", "tail -f /dev/null > \"$FIFO\" & wait"},
                       .environment = {{"FIFO", fifo}}};
    child.limit = std::chrono::milliseconds(200);
    CHECK(run_child(child).failure == "killed after 0.2 s");
    pollfd writers_gone{reader, POLLIN, 0};
    poll(&writers_gone, 1, 1000);
    char byte;
    CHECK(read(reader, &byte, 1) == 0);
    close(reader);
  }

  TEST_CASE("child process: a program that closed its output and keeps running is killed in time") {
    ChildProcess child{.arguments = {"sh", "-c", "exec > /dev/null 2>&1; exec tail -f /dev/null"},
                       .environment = {}};
    child.limit = std::chrono::milliseconds(200);
    CHECK(run_child(child).failure == "killed after 0.2 s");
  }

  TEST_CASE("child process: a missing program is a failure, not an exception") {
    const ChildResult result = run_child({.arguments = {"troupe-no-such-program"}, .environment = {}});
    CHECK(result.failure == "troupe-no-such-program cannot be started: No such file or directory");
  }
}
