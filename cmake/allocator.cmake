# troupe_allocator(<executable>): links jemalloc. Actors allocate many small objects and free them on other
# threads; glibc's allocator costs them 15 to 20 % of their time. Sanitizers have their own allocator.
function(troupe_allocator target)
  if(TROUPE_SANITIZE)
    return()
  endif()
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(jemalloc REQUIRED IMPORTED_TARGET jemalloc)
  target_link_libraries(${target} PRIVATE PkgConfig::jemalloc)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/allocator_settings.c)
  # The precompiled headers are C++, this file is C.
  set_source_files_properties(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/allocator_settings.c
                              PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
