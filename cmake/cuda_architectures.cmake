# troupe_check_cuda_architectures(<list> <nvcc's version> <variable>): checks the architectures to compile the
# kernels for, and sets <variable> to ON if the kernels for Hopper are among them. Ends the configuration with
# what is wrong: nvcc would say it minutes later, or the device at the first batch.
function(troupe_check_cuda_architectures list version has_hopper)
  set(expected "expected numbers such as 80;90a: 80 for all devices since Ampere, 90a for Hopper")
  if(version VERSION_LESS 12.0)
    message(FATAL_ERROR "nvcc is ${version}; expected 12.0 or newer, which knows C++20 and sm_90a "
                        "(or TROUPE_CUDA=OFF, for a program without GPUs)")
  endif()
  if(NOT list)
    message(FATAL_ERROR "TROUPE_CUDA_ARCHITECTURES is empty; ${expected}")
  endif()
  set(hopper OFF)
  set(serves_hopper OFF)
  foreach(architecture IN LISTS list)
    if(NOT architecture MATCHES "^([0-9]+)([af]?)(-real|-virtual)?$")
      message(FATAL_ERROR "TROUPE_CUDA_ARCHITECTURES has \"${architecture}\"; ${expected}")
    endif()
    set(number ${CMAKE_MATCH_1})
    set(suffix "${CMAKE_MATCH_2}")
    if(number LESS 80)
      message(FATAL_ERROR "TROUPE_CUDA_ARCHITECTURES has ${architecture}; expected 80 or newer, because the "
                          "kernels need bfloat16 and asynchronous copies")
    endif()
    if("${number}${suffix}" STREQUAL "90a")
      set(hopper ON)
    elseif(number LESS_EQUAL 90 AND suffix STREQUAL "")
      set(serves_hopper ON)  # its code, or its intermediate code, runs there as well
    endif()
  endforeach()
  if(NOT hopper AND serves_hopper)
    message(STATUS "TROUPE_CUDA_ARCHITECTURES (${list}) lacks 90a: on Hopper (H100, H200) attention uses the "
                   "kernels of sm_80, which are slower")
  endif()
  set(${has_hopper} ${hopper} PARENT_SCOPE)
endfunction()
