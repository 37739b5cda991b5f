# One function per kind of target. Every folder is one target, so that a dependency that the
# layering forbids fails to link; the allowed ones are the DEPS written in each CMakeLists.txt.

# hvd_add_library(NAME SOURCES a.c ... [DEPS target ...] [HEADERS pattern ...] [PURE])
# A static library of one folder. PURE: no I/O, clock, threads or environment; checked by nm.
# All headers of the folder, or of a folder of several targets those that match a pattern, are
# compiled alone by the target all_verify_interface_header_sets.
function(hvd_add_library name)
  cmake_parse_arguments(ARG "PURE" "" "SOURCES;DEPS;HEADERS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS *.h)
  endif()
  list(TRANSFORM ARG_HEADERS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  file(GLOB headers CONFIGURE_DEPENDS ${ARG_HEADERS})
  if(headers)
    target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${headers})
    set_target_properties(${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  endif()
  target_link_libraries(${name} PUBLIC hvd_flags ${ARG_DEPS})
  if(ARG_PURE)
    set_property(GLOBAL APPEND PROPERTY HVD_PURE_LIBRARIES ${name})
  endif()
endfunction()

# hvd_add_program(NAME SOURCES main.c ... [DEPS target ...])
# A program; the allocator of base/mem.c is linked into it.
function(hvd_add_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE hvd_flags hvd_mem ${ARG_DEPS})
endfunction()

# Environment of every test: sanitizers report leaks, and their suppressions carry reasons.
set(HVD_TEST_ENVIRONMENT
  "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1"
  "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/sanitizers/lsan.supp:print_suppressions=0"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/sanitizers/tsan.supp:halt_on_error=1")

# For a hang: sanitized programs take some ten times as long, and run beside other suites.
set(HVD_TEST_TIMEOUT 300)
if(HVD_SANITIZE)
  set(HVD_TEST_TIMEOUT 900)
endif()

# hvd_add_unit_test(NAME SOURCES test_x.c ... [DEPS target ...])
# A cmocka program in a process of its own, linked with the counting allocator. Label: unit.
function(hvd_add_unit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE hvd_flags hvd_mem_testing ${ARG_DEPS} cmocka)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT ${HVD_TEST_TIMEOUT}
                       ENVIRONMENT "${HVD_TEST_ENVIRONMENT};CMOCKA_MESSAGE_OUTPUT=TAP")
endfunction()
