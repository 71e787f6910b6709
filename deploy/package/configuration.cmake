# Installs the package's configuration. Operators may edit it, and upgrades keep their changes (conffiles).
file(MAKE_DIRECTORY "$ENV{DESTDIR}/etc/troupe")
file(COPY_FILE "${CMAKE_CURRENT_LIST_DIR}/troupe.yaml" "$ENV{DESTDIR}/etc/troupe/troupe.yaml")
