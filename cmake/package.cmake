# Installs by `cmake --install` and packages by `cpack --config build/CPackConfig.cmake`: the programs,
# their manual pages and shell completion (which the programs write), systemd units, the demo world and
# examples. troupe-lab is left out if it is not built; one of an earlier build is packaged as it is.
#
#   deploy/build.sh release troupe troupe-lab && cmake --install build --prefix /usr/local
#   cd build && cpack -G DEB    # troupe_VERSION_ARCH.deb; deploy/container/bare-root.sh FILE tests it
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATADIR}/troupe)
install(TARGETS troupe RUNTIME)
install(TARGETS troupe-lab RUNTIME OPTIONAL)
install(DIRECTORY ${TROUPE_ROOT}/deploy/demo DESTINATION ${share}
        PATTERN "*.py" EXCLUDE PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY ${TROUPE_ROOT}/deploy/examples DESTINATION ${share} PATTERN "check.sh" EXCLUDE)
install(DIRECTORY ${TROUPE_ROOT}/deploy/monitoring DESTINATION ${share})
install(FILES ${TROUPE_ROOT}/deploy/systemd/gpu.conf ${TROUPE_ROOT}/deploy/systemd/troupe.logrotate
        DESTINATION ${share}/systemd)
install(FILES ${TROUPE_ROOT}/README.md ${TROUPE_ROOT}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${TROUPE_ROOT}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Manual pages and completion, which the programs write, and the units, which contain the install path.
install(CODE "set(programs \"$<TARGET_FILE:troupe>\" \"$<TARGET_FILE:troupe-lab>\")\n\
set(source \"${TROUPE_ROOT}\")\n\
set(share \"${CMAKE_INSTALL_DATADIR}\")\nset(bin \"${CMAKE_INSTALL_BINDIR}\")")
install(SCRIPT ${TROUPE_ROOT}/deploy/package/install.cmake)

# ---- the Debian package ----
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME troupe)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Troupe engineers <troupe@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "serves generative recommenders from cached transformer state")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "\
Ranks candidate items for users, or generates items, with transformer models, and keeps the\n \
keys and values of users and items in a pool that spans the cluster, so that only the rest is computed.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)       # from the linked libraries
set(CPACK_DEBIAN_PACKAGE_DEPENDS passwd)     # useradd
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libucx0) # loaded when blocks are pulled from other nodes
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_SCRIPTS ${TROUPE_ROOT}/deploy/package/configuration.cmake)
set(scripts ${TROUPE_ROOT}/deploy/package)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${scripts}/postinst ${scripts}/prerm ${scripts}/postrm ${scripts}/conffiles)
include(CPack)
