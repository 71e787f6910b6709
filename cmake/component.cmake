# Builds a component: one library from a folder and its subfolders, and one test executable from the
# *_test.cc files beside the code. Sources are globbed, so every file in the tree is built.
include_guard()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Prefix for the command of a long test without time limits: it yields the processor to tests that run
# beside it.
set(TROUPE_PATIENT nice -n 10)
find_program(TROUPE_CCACHE ccache)
if(TROUPE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TROUPE_CCACHE})
endif()
# A compiler cache saves more time than precompiled headers, and it cannot cache files that use them.
if(TROUPE_CCACHE AND NOT DEFINED ENV{CCACHE_DISABLE})
  set(precompile OFF)
else()
  set(precompile ON)
endif()
option(TROUPE_PRECOMPILE "Precompile the headers that most files of a component use" ${precompile})
set(TROUPE_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>
                    # False positives of g++ 12 inside std::string and std::variant:
                    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>
                    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>
                    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>)
if(TROUPE_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TROUPE_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${TROUPE_SANITIZE})
endif()

# troupe_precompile(<target> <headers>... [BY <target>]): precompiles these headers and the common ones of
# the standard library, or reuses the precompiled headers of another target with the same options.
function(troupe_precompile target)
  cmake_parse_arguments(precompile "" "BY" "" ${ARGN})
  if(TROUPE_PRECOMPILE AND precompile_BY AND TARGET ${precompile_BY})
    target_precompile_headers(${target} REUSE_FROM ${precompile_BY})
  elseif(TROUPE_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE
      <algorithm> <array> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <deque> <filesystem>
      <fstream> <functional> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream>
      <stdexcept> <string> <string_view> <thread>
      <unordered_map> <utility> <variant> <vector>
      ${precompile_UNPARSED_ARGUMENTS})
  endif()
endfunction()

# troupe_unite(<target> <sources>... [ROOTS <folders>...]): compiles up to eight files of a folder as one, so
# that a full build parses headers and instantiates templates once for them. Folders with the same path below
# different ROOTS count as one. With a compiler cache each file is compiled alone, so that a change recompiles
# only what changed. Names in unnamed namespaces must therefore be unique within a folder. A test whose
# helpers share names with another test's puts them into a namespace named after its file.
function(troupe_unite target)
  if(NOT TROUPE_PRECOMPILE)
    return()
  endif()
  cmake_parse_arguments(unite "" "" "ROOTS" ${ARGN})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # In a united file g++ takes a source file's own names for a header's and warns about classes that use
  # them. The larger heap saves an eighth of its time, which goes into garbage collection.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=262144>)
  foreach(source IN LISTS unite_UNPARSED_ARGUMENTS)
    get_filename_component(folder ${source} ABSOLUTE)
    get_filename_component(folder ${folder} DIRECTORY)
    set(root ${CMAKE_CURRENT_SOURCE_DIR})
    foreach(candidate IN LISTS unite_ROOTS)
      if(folder MATCHES "^${candidate}/")
        set(root ${candidate})
        break()
      endif()
    endforeach()
    file(RELATIVE_PATH folder ${root} ${folder})
    string(MAKE_C_IDENTIFIER "${folder}" group)
    math(EXPR count_${group} "0${count_${group}} + 1")
    math(EXPR part "(${count_${group}} - 1) / 8")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${part})
  endforeach()
endfunction()

# Tests run for seconds and everybody compiles them, so they are compiled with less optimization.
set(TROUPE_TEST_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-Og>)

# Sets what doctest cases are compiled with.
function(troupe_test_settings target)
  target_include_directories(${target} PRIVATE ${TROUPE_ROOT})
  target_compile_definitions(${target} PRIVATE TROUPE_ROOT_DIR="${TROUPE_ROOT}")
  target_compile_options(${target} PRIVATE ${TROUPE_TEST_OPTIONS})
  troupe_unite(${target} ${ARGN})
endfunction()

# troupe_test_objects(<name> <sources>...): compiles what several test programs share. They name
# $<TARGET_OBJECTS:name> among their sources.
function(troupe_test_objects name)
  add_library(${name} OBJECT ${ARGN})
  troupe_test_settings(${name} ${ARGN})
endfunction()

# troupe_test_program(<name> <sources>... [PRECOMPILED_BY <target>] [PRECOMPILE <headers>...]): adds an
# executable of doctest cases. It reuses the precompiled headers of PRECOMPILED_BY, another test program.
function(troupe_test_program name)
  cmake_parse_arguments(program "" "PRECOMPILED_BY" "PRECOMPILE" ${ARGN})
  if(NOT TARGET troupe_test_main)
    add_library(troupe_test_main STATIC
                ${TROUPE_ROOT}/kernels/testing/test_main.cc ${TROUPE_ROOT}/kernels/testing/test_fence.cc)
    target_include_directories(troupe_test_main PRIVATE ${TROUPE_ROOT})
    target_compile_options(troupe_test_main PRIVATE ${TROUPE_TEST_OPTIONS})
  endif()
  add_executable(${name} ${program_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE troupe_test_main)
  troupe_test_settings(${name} ${program_UNPARSED_ARGUMENTS})
  list(LENGTH program_UNPARSED_ARGUMENTS files)
  # Eight files or fewer are one united file, which parses its own headers faster than it precompiles them.
  if(files GREATER 8 OR TARGET "${program_PRECOMPILED_BY}")
    troupe_precompile(${name} <doctest/doctest.h> ${program_PRECOMPILE} BY ${program_PRECOMPILED_BY})
  endif()
endfunction()

# troupe_component(<name> [LINK <libraries>...] [EXCEPT <files and folders>...]
#             [OPTIONS <compiler options>...]
#             [PRECOMPILE <headers>... | PRECOMPILED_BY <component>] [UNITE] [APART <regular expression>]):
# adds the library troupe_<name> and its test program <name>_test.
#   PRECOMPILED_BY  reuses the precompiled headers of that component, which has the same compiler options
#   UNITE           compiles the files of a folder together (troupe_unite), except those that match APART
function(troupe_component name)
  cmake_parse_arguments(component "UNITE" "APART;PRECOMPILED_BY"
                        "LINK;EXCEPT;OPTIONS;PRECOMPILE" ${ARGN})
  set(by "")
  set(tests_by "")
  if(component_PRECOMPILED_BY)
    set(by troupe_${component_PRECOMPILED_BY})
    set(tests_by ${component_PRECOMPILED_BY}_test)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  foreach(except IN LISTS component_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${except}(/|$)")
  endforeach()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(REMOVE_ITEM sources ${tests})
  if(sources)
    add_library(troupe_${name} STATIC ${sources})
    target_compile_options(troupe_${name} PRIVATE ${component_OPTIONS})
    troupe_precompile(troupe_${name} ${component_PRECOMPILE} BY ${by})
    if(component_UNITE)
      set(united ${sources})
      if(component_APART)
        list(FILTER united EXCLUDE REGEX "${component_APART}")
      endif()
      troupe_unite(troupe_${name} ${united})
    endif()
    set(visibility PUBLIC)
  else()
    add_library(troupe_${name} INTERFACE)
    set(visibility INTERFACE)
  endif()
  target_include_directories(troupe_${name} ${visibility} ${TROUPE_ROOT})
  target_link_libraries(troupe_${name} ${visibility} ${component_LINK})
  if(tests)
    troupe_test_program(${name}_test ${tests} PRECOMPILED_BY ${tests_by} PRECOMPILE ${component_PRECOMPILE})
    target_link_libraries(${name}_test PRIVATE troupe_${name})
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES LABELS unit)
  endif()
endfunction()

# troupe_label_tests([SLOW <tests>...]): labels the tests of this folder that have no label yet: `slow`
# those listed, `system` the rest. A folder that adds tests calls it at its end.
function(troupe_label_tests)
  cmake_parse_arguments(label "" "" "SLOW" ${ARGN})
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test IN LISTS tests)
    get_test_property(${test} LABELS known)
    if(NOT known STREQUAL "NOTFOUND")
      continue()
    elseif(test IN_LIST label_SLOW)
      set_tests_properties(${test} PROPERTIES LABELS slow)
    else()
      set_tests_properties(${test} PROPERTIES LABELS system)
    endif()
  endforeach()
endfunction()
get_filename_component(TROUPE_ROOT ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
