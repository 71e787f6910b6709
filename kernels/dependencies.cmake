# The libraries of kernels/. On a machine without their packages, take them from a folder with include/ and
# lib/ (gpu_check.sh --collect fills one): -DTROUPE_DEPENDENCIES=FOLDER.
set(TROUPE_DEPENDENCIES "" CACHE PATH "Folder with include/ and lib/ of libraries that are not installed")
if(TROUPE_DEPENDENCIES)
  list(PREPEND CMAKE_PREFIX_PATH ${TROUPE_DEPENDENCIES})
  include_directories(BEFORE SYSTEM ${TROUPE_DEPENDENCIES}/include)
endif()

find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(Threads REQUIRED)
find_library(HWY_LIBRARY hwy REQUIRED)
find_package(nlohmann_json QUIET)
if(NOT TARGET nlohmann_json::nlohmann_json)  # headers without their package file
  find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED GLOBAL)
  target_include_directories(nlohmann_json::nlohmann_json INTERFACE ${NLOHMANN_JSON_INCLUDE})
endif()

# Fibers, for the GPU emulator, which is left out without them.
find_library(BOOST_CONTEXT_LIBRARY NAMES boost_context libboost_context.a)
find_path(BOOST_CONTEXT_INCLUDE boost/context/fiber.hpp)
if(BOOST_CONTEXT_LIBRARY AND BOOST_CONTEXT_INCLUDE AND NOT TARGET Boost::context)
  add_library(Boost::context UNKNOWN IMPORTED GLOBAL)
  set_target_properties(Boost::context PROPERTIES IMPORTED_LOCATION ${BOOST_CONTEXT_LIBRARY}
                                                  INTERFACE_INCLUDE_DIRECTORIES ${BOOST_CONTEXT_INCLUDE})
endif()
