# troupe_schema_library(<name>): adds a library of what is generated from the Cap'n Proto schemas in
# runtime/wire/schema: Cap'n Proto's own classes and, by the message generator (runtime/wire/generator),
# the structs of all messages and their conversion. Headers and sources are in the build folder's
# generated/.
include_guard()
find_package(CapnProto REQUIRED)
get_filename_component(TROUPE_SCHEMA_ROOT ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)

function(troupe_schema_library name)
  set(root ${TROUPE_SCHEMA_ROOT})
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated})
  file(GLOB schemas CONFIGURE_DEPENDS ${root}/runtime/wire/schema/*.capnp)
  set(CAPNPC_SRC_PREFIX ${root})
  set(CAPNPC_OUTPUT_DIR ${generated})
  capnp_generate_cpp(sources headers ${schemas})
  # A schema's classes also depend on the schemas that it imports.
  foreach(source IN LISTS sources)
    add_custom_command(OUTPUT ${source} APPEND DEPENDS ${schemas})
  endforeach()

  file(GLOB generator CONFIGURE_DEPENDS ${root}/runtime/wire/generator/*.cc)
  list(FILTER generator EXCLUDE REGEX "_test\\.cc$")
  add_executable(message_generator ${generator})
  target_include_directories(message_generator PRIVATE ${root})
  target_link_libraries(message_generator PRIVATE CapnProto::capnp)
  # It runs in the build for a moment: without sanitizers, and quick to compile.
  set_target_properties(message_generator PROPERTIES COMPILE_OPTIONS "-O0;-Wall;-Wextra" LINK_OPTIONS "")
  set(messages ${generated}/message_structs.h ${generated}/message_codec.h ${generated}/message_codec.inc)
  add_custom_command(
    OUTPUT ${messages}
    COMMAND ${CAPNP_EXECUTABLE} compile -o $<TARGET_FILE:message_generator>:${generated}
            --src-prefix ${root} -I ${root} -I ${CAPNP_INCLUDE_DIRECTORY} ${schemas}
    DEPENDS message_generator ${schemas}
    COMMENT "Generating the messages from their schemas" VERBATIM)

  add_library(${name} STATIC ${sources} ${messages})
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_BINARY_DIR} ${generated})
  target_link_libraries(${name} PUBLIC CapnProto::capnp)
endfunction()
