# troupe_version_library(<name>): adds a library that implements deploy/data/version.h. Every build asks
# git for the commit. The source is rewritten, and its dependents are built again, only when the commit
# has changed.
#
# This file is also the script that asks git and writes the source: -DROOT, -DVERSION, -DGIT and -DOUTPUT.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  include_guard()
  find_package(Git QUIET)
  set(TROUPE_COMMIT_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

  function(troupe_version_library name)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/version.cc)
    add_custom_target(${name}_source
      COMMAND ${CMAKE_COMMAND} -DROOT=${TROUPE_ROOT} -DVERSION=${PROJECT_VERSION} -DGIT=${GIT_EXECUTABLE}
              -DOUTPUT=${source} -P ${TROUPE_COMMIT_SCRIPT}
      BYPRODUCTS ${source} COMMENT "commit of this build" VERBATIM)
    add_library(${name} STATIC ${source})
    add_dependencies(${name} ${name}_source)
    target_include_directories(${name} PUBLIC ${TROUPE_ROOT})
  endfunction()
  return()
endif()

# Runs git without locks: a build must not disturb a commit in progress.
function(ask_git answer)
  execute_process(COMMAND ${GIT} --no-optional-locks ${ARGN} WORKING_DIRECTORY ${ROOT} RESULT_VARIABLE status
                  OUTPUT_VARIABLE text ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(text "")
  endif()
  set(${answer} "${text}" PARENT_SCOPE)
endfunction()

set(commit unknown)
if(GIT)
  ask_git(top rev-parse --show-toplevel)
  file(REAL_PATH "${ROOT}" root)
  if(top STREQUAL root)  # otherwise the sources lie inside another checkout
    # `describe --dirty` gives the same answer but locks the index.
    ask_git(described describe --always)
    ask_git(changed status --porcelain --untracked-files=no)
  endif()
  if(described)
    set(commit ${described})
    if(changed)
      string(APPEND commit -dirty)
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "deploy/data/version.h"

namespace troupe::deploy {

std::string_view version() { return "@VERSION@"; }

std::string_view commit() { return "@commit@"; }

}  // namespace troupe::deploy
]])
