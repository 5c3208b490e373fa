# SPDX-License-Identifier: MIT
# libarchive as target LIBARCHIVE. Its shared library brings ten others with it
# (one holds 30 MiB of tables of Unicode), and every command would pay for that
# at its start. Of its archive only tar and four decompressors are linked
# (docs/adr/0027); where that does not work, the shared library.
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET GLOBAL libarchive)
set(COWFS_ARCHIVES)
foreach(name archive zstd lzma bz2 z)
  find_library(COWFS_ARCHIVE_${name} lib${name}.a HINTS ${ARCHIVE_LIBRARY_DIRS})
  if(COWFS_ARCHIVE_${name})
    list(APPEND COWFS_ARCHIVES ${COWFS_ARCHIVE_${name}})
  endif()
endforeach()
try_compile(COWFS_ARCHIVE_ALONE ${CMAKE_CURRENT_BINARY_DIR}/alone
  SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/tar_try.c
  COMPILE_DEFINITIONS -D_GNU_SOURCE
  LINK_LIBRARIES ${COWFS_ARCHIVES} Threads::Threads)
add_library(LIBARCHIVE INTERFACE)
target_include_directories(LIBARCHIVE SYSTEM INTERFACE ${ARCHIVE_INCLUDE_DIRS})
if(COWFS_ARCHIVE_ALONE)
  target_link_libraries(LIBARCHIVE INTERFACE ${COWFS_ARCHIVES} Threads::Threads)
else()
  message(STATUS "libarchive: shared, with all that it needs")
  target_link_libraries(LIBARCHIVE INTERFACE PkgConfig::ARCHIVE)
endif()
