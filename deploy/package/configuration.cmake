# The configuration that a package brings: it belongs to whoever installs it, and an upgrade keeps his changes (conffiles).
file(MAKE_DIRECTORY "$ENV{DESTDIR}/etc/troupe")
file(COPY_FILE "${CMAKE_CURRENT_LIST_DIR}/troupe.yaml" "$ENV{DESTDIR}/etc/troupe/troupe.yaml")
