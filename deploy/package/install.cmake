# Writes the generated files during `cmake --install` and packaging, where DESTDIR is the staging folder.
set(to "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")

file(MAKE_DIRECTORY "${to}/${share}/bash-completion/completions")
foreach(program IN LISTS programs)
  if(EXISTS "${program}")
    get_filename_component(name "${program}" NAME)
    execute_process(COMMAND "${program}" manual "${to}/${share}/man" COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND "${program}" completion
      OUTPUT_FILE "${to}/${share}/bash-completion/completions/${name}" COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()
file(GLOB pages "${to}/${share}/man/man*/troupe*.[15]")
foreach(page IN LISTS pages)
  execute_process(COMMAND gzip -9nf "${page}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# The unit of a cluster node, and the unit of a single node, which is derived from it.
file(READ "${source}/deploy/systemd/troupe@.service" node)
string(REPLACE "/usr/local/bin/troupe" "${CMAKE_INSTALL_PREFIX}/${bin}/troupe" node "${node}")
string(FIND "${node}" "[Unit]" begin)  # skips the comment about installing it by hand
string(SUBSTRING "${node}" ${begin} -1 node)
string(REPLACE "node --config /etc/troupe/cluster.yaml --name %i" "serve --config /etc/troupe/troupe.yaml"
  single_node "${node}")
string(REPLACE "Description=Troupe node %i" "Description=Troupe single node" single_node "${single_node}")
file(WRITE "${to}/lib/systemd/system/troupe@.service" "${node}")
file(WRITE "${to}/lib/systemd/system/troupe.service" "${single_node}")
