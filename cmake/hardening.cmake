# What makes a bug in the program harder to use: the stack is guarded (protector, clash protection), calls into libc know
# the sizes that the compiler knows (FORTIFY), and what the loader has filled in is read-only before main() (full RELRO,
# BIND_NOW). deploy/hardening.sh looks for it in the program. Not CET: Debian 12's start files and libraries do not have
# it, so the loader would leave it off. Sanitizers guard more, and in their own way.
option(TROUPE_HARDEN "Compile and link with guards" ON)
if(TROUPE_HARDEN AND NOT TROUPE_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fstack-protector-strong>
                      $<$<COMPILE_LANGUAGE:C,CXX>:-fstack-clash-protection>
                      $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE>
                      $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-D_FORTIFY_SOURCE=2>)
  add_link_options(LINKER:-z,relro,-z,now)
endif()
