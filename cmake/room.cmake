# One room is one library with all its sub-rooms, and one test executable made of the *_test.cc files beside the code.
# Sources are globbed, so a file cannot be in the tree without being built.
include_guard()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(TROUPE_PATIENT nice -n 10)  # before the command of a long test that no clock judges: it gives way to those beside it
find_program(TROUPE_CCACHE ccache)
if(TROUPE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TROUPE_CCACHE})
endif()
# A compiler cache saves more than headers that are parsed once for a room, and finds nothing when it is given them.
if(TROUPE_CCACHE AND NOT DEFINED ENV{CCACHE_DISABLE})
  set(precompile OFF)
else()
  set(precompile ON)
endif()
option(TROUPE_PRECOMPILE "Parse the headers that most files of a room use once; a file still includes what it uses" ${precompile})
set(TROUPE_SANITIZE "" CACHE STRING "address,undefined or thread")
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>
                    # g++ 12 warns falsely inside std::string and std::variant:
                    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict> $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>
                    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>)
if(TROUPE_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TROUPE_SANITIZE}> $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${TROUPE_SANITIZE})
endif()

# troupe_precompile(<target> <headers>... [BY <target>]): these and what nearly every file uses of the standard library; or
# what another target of the same options has parsed already.
function(troupe_precompile target)
  cmake_parse_arguments(precompile "" "BY" "" ${ARGN})
  if(TROUPE_PRECOMPILE AND precompile_BY AND TARGET ${precompile_BY})
    target_precompile_headers(${target} REUSE_FROM ${precompile_BY})
  elseif(TROUPE_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE
      <algorithm> <array> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <deque> <filesystem> <fstream> <functional>
      <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <stdexcept> <string> <string_view> <thread>
      <unordered_map> <utility> <variant> <vector>
      ${precompile_UNPARSED_ARGUMENTS})
  endif()
endfunction()

# troupe_unite(<target> <sources>...): a build from nothing parses headers and instantiates templates once for up to eight
# files of a sub-room, which are compiled as one. With a compiler cache each stays a file of its own, so that a change
# compiles what changed. Names in unnamed namespaces are therefore a sub-room's own, not a file's; a test whose helpers have
# the names of another's gives them a namespace of its file's name.
function(troupe_unite target)
  if(NOT TROUPE_PRECOMPILE)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Of a source file's own names that its classes use g++ thinks that they are a header's. An eighth of its time goes into
  # looking for little garbage.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=262144>)
  foreach(source IN LISTS ARGN)
    get_filename_component(folder ${source} ABSOLUTE)
    get_filename_component(folder ${folder} DIRECTORY)
    file(RELATIVE_PATH folder ${CMAKE_CURRENT_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER "${folder}" group)
    math(EXPR count_${group} "0${count_${group}} + 1")
    math(EXPR part "(${count_${group}} - 1) / 8")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${part})
  endforeach()
endfunction()

# troupe_test_program(<name> <sources>... [PRECOMPILED_BY <target>] [PRECOMPILE <headers>...]): an executable of doctest cases.
# Tests run for seconds and are compiled by everybody, so they are compiled faster than what they test.
function(troupe_test_program name)
  cmake_parse_arguments(program "" "PRECOMPILED_BY" "PRECOMPILE" ${ARGN})
  set(options $<$<NOT:$<CONFIG:Debug>>:-Og>)
  if(NOT TARGET troupe_test_main)
    add_library(troupe_test_main STATIC ${TROUPE_ROOT}/kernels/testing/test_main.cc ${TROUPE_ROOT}/kernels/testing/test_fence.cc)
    target_include_directories(troupe_test_main PRIVATE ${TROUPE_ROOT})
    target_compile_options(troupe_test_main PRIVATE ${options})
  endif()
  add_executable(${name} ${program_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE troupe_test_main)
  target_include_directories(${name} PRIVATE ${TROUPE_ROOT})
  target_compile_definitions(${name} PRIVATE TROUPE_ROOT_DIR="${TROUPE_ROOT}")
  target_compile_options(${name} PRIVATE ${options})
  troupe_unite(${name} ${program_UNPARSED_ARGUMENTS})
  list(LENGTH program_UNPARSED_ARGUMENTS files)
  if(files GREATER 8)  # fewer are one or two files then, and parse their headers sooner than all of them
    troupe_precompile(${name} <doctest/doctest.h> ${program_PRECOMPILE} BY ${program_PRECOMPILED_BY})
  endif()
endfunction()

# troupe_room(<name> [LINK <libraries>...] [EXCEPT <files and folders>...] [OPTIONS <compiler options>...]
#             [PRECOMPILE <headers>... | PRECOMPILED_BY <room>] [UNITE] [APART <regular expression>] [ELSEWHERE <sources>...]): library
#             troupe_<name>. PRECOMPILED_BY: the headers of that room, which is compiled with the same options. APART: files
#             that are not united. ELSEWHERE: what another library has, whose tests are this room's all the same.
function(troupe_room name)
  cmake_parse_arguments(room "UNITE" "APART;PRECOMPILED_BY" "LINK;EXCEPT;OPTIONS;PRECOMPILE;ELSEWHERE" ${ARGN})
  set(by "")
  set(tests_by "")
  if(room_PRECOMPILED_BY)
    set(by troupe_${room_PRECOMPILED_BY})
    set(tests_by ${room_PRECOMPILED_BY}_test)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  foreach(except IN LISTS room_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${except}(/|$)")
  endforeach()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(REMOVE_ITEM sources ${tests} ${room_ELSEWHERE})
  if(sources)
    add_library(troupe_${name} STATIC ${sources})
    target_compile_options(troupe_${name} PRIVATE ${room_OPTIONS})
    troupe_precompile(troupe_${name} ${room_PRECOMPILE} BY ${by})
    if(room_UNITE)
      set(united ${sources})
      if(room_APART)
        list(FILTER united EXCLUDE REGEX "${room_APART}")
      endif()
      troupe_unite(troupe_${name} ${united})
    endif()
    set(visibility PUBLIC)
  else()
    add_library(troupe_${name} INTERFACE)
    set(visibility INTERFACE)
  endif()
  target_include_directories(troupe_${name} ${visibility} ${TROUPE_ROOT})
  target_link_libraries(troupe_${name} ${visibility} ${room_LINK})
  if(tests)
    troupe_test_program(${name}_test ${tests} PRECOMPILED_BY ${tests_by} PRECOMPILE ${room_PRECOMPILE})
    target_link_libraries(${name}_test PRIVATE troupe_${name})
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
endfunction()
get_filename_component(TROUPE_ROOT ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
