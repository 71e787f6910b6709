#pragma once
// Files to which standard output and standard error were redirected. Like a log file, they can be
// opened anew after a tool such as logrotate has renamed them.
#include <string>

namespace troupe::deploy {

class StandardFiles {
 public:
  StandardFiles();  // remembers the files' names; pipes, terminals and devices have none

  // Opens each file by its name again, unless that still names the open file. Returns "" or what failed;
  // the stream then stays as it was.
  std::string reopen() const;

 private:
  std::string output_, error_;  // "" = no file
};

}  // namespace troupe::deploy
