# SPDX-License-Identifier: MIT
#
# Defines the target cowfs_libfuse: libfuse >= 3.17 with its low-level API
# at version 317. Link it PRIVATE and include <fuse_lowlevel.h>.
#
# The system's libfuse3 is taken when it is new enough (fuse3.pc says so);
# otherwise build-libfuse.sh builds a static one into the build folder at
# configure time, once: later configure runs find its stamp.
include_guard(GLOBAL)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

add_library(cowfs_libfuse INTERFACE)
target_compile_definitions(cowfs_libfuse INTERFACE FUSE_USE_VERSION=317)

pkg_check_modules(COWFS_SYSTEM_FUSE QUIET IMPORTED_TARGET GLOBAL fuse3>=3.17)
if(COWFS_SYSTEM_FUSE_FOUND)
  target_link_libraries(cowfs_libfuse INTERFACE PkgConfig::COWFS_SYSTEM_FUSE)
  return()
endif()

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_LIST_DIR}/build-libfuse.sh)
execute_process(
  COMMAND ${CMAKE_CURRENT_LIST_DIR}/build-libfuse.sh ${PROJECT_BINARY_DIR}
  RESULT_VARIABLE COWFS_LIBFUSE_RESULT)
if(NOT COWFS_LIBFUSE_RESULT EQUAL 0)
  message(FATAL_ERROR "libfuse could not be provided: see the line above")
endif()

set(COWFS_LIBFUSE_DIR ${PROJECT_BINARY_DIR}/libfuse)
target_include_directories(cowfs_libfuse SYSTEM INTERFACE
  ${COWFS_LIBFUSE_DIR}/include/fuse3)
target_link_libraries(cowfs_libfuse INTERFACE
  ${COWFS_LIBFUSE_DIR}/lib/libfuse3.a Threads::Threads ${CMAKE_DL_LIBS})
