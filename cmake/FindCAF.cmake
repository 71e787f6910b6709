# Finds CAF, which Debian ships without a CMake package. Defines CAF::core, CAF::io and CAF::openssl.
find_path(CAF_INCLUDE_DIR caf/all.hpp)
include(FindPackageHandleStandardArgs)
foreach(component core io openssl)
  find_library(CAF_${component}_LIBRARY caf_${component})
  if(CAF_${component}_LIBRARY AND NOT TARGET CAF::${component})
    add_library(CAF::${component} UNKNOWN IMPORTED)
    set_target_properties(CAF::${component} PROPERTIES IMPORTED_LOCATION ${CAF_${component}_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
  endif()
endforeach()
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_INCLUDE_DIR CAF_core_LIBRARY CAF_io_LIBRARY)
