# Makes bugs in the program harder to exploit. The stack is guarded (stack protector, clash protection),
# calls into libc check the sizes that the compiler knows (FORTIFY), and relocated data is read-only
# before main() (full RELRO, BIND_NOW). deploy/hardening.sh checks the program for these. CET is left out:
# Debian 12's start files and libraries lack it, so the loader would disable it. Sanitizers guard more, in
# their own way.
option(TROUPE_HARDEN "Compile and link with guards" ON)
if(TROUPE_HARDEN AND NOT TROUPE_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fstack-protector-strong>
                      $<$<COMPILE_LANGUAGE:C,CXX>:-fstack-clash-protection>
                      $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE>
                      $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-D_FORTIFY_SOURCE=2>)
  add_link_options(LINKER:-z,relro,-z,now)
endif()
