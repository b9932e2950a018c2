# Helpers for Shale's build: each folder names its TableGen outputs and its
# sources; all sources become one shared library, libShale.so.

# shale_generated(TARGET OUT): TARGET is built after OUT, which TableGen writes in this folder.
function(shale_generated target out)
  set_property(GLOBAL APPEND PROPERTY SHALE_TABLEGEN_OUTPUTS ${CMAKE_CURRENT_BINARY_DIR}/${out})
  string(REPLACE "${CMAKE_BINARY_DIR}/" "" id "${CMAKE_CURRENT_BINARY_DIR}/${out}")
  string(MAKE_C_IDENTIFIER "tblgen-${id}" id)
  add_custom_target(${id} DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${out})
  add_dependencies(${target} ${id})
endfunction()

# shale_tablegen(TD OUT ARG...): runs mlir-tblgen on TD of this folder; the
# output is included by its path from the root ("dialects/rt/RTOps.h.inc").
function(shale_tablegen td out)
  set(LLVM_TARGET_DEFINITIONS ${td})
  mlir_tablegen(${out} ${ARGN} EXTRA_INCLUDES ${CMAKE_SOURCE_DIR})
  shale_generated(Shale ${out})
endfunction()

# shale_own_tablegen(TARGET TD OUT ARG...): runs shale-tblgen on TD of this folder; TARGET is built after it.
function(shale_own_tablegen target td out)
  add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${out}
    COMMAND shale-tblgen ${ARGN} -I ${MLIR_INCLUDE_DIRS} -I ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${td}
      -d ${CMAKE_CURRENT_BINARY_DIR}/${out}.d -o ${CMAKE_CURRENT_BINARY_DIR}/${out}
    DEPENDS shale-tblgen ${CMAKE_CURRENT_SOURCE_DIR}/${td}
    DEPFILE ${CMAKE_CURRENT_BINARY_DIR}/${out}.d)
  shale_generated(${target} ${out})
endfunction()

# shale_sources(FILE...): adds this folder's files to libShale.so.
function(shale_sources)
  foreach(file ${ARGN})
    target_sources(Shale PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
endfunction()

# shale_tool(NAME FILE...): an executable over libShale.so.
function(shale_tool name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE Shale)
  target_precompile_headers(${name} REUSE_FROM ShalePrecompiled)
  set_target_properties(${name} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  set_property(GLOBAL APPEND PROPERTY SHALE_TOOLS ${name})
endfunction()

# shale_embed(OUT FILE...): writes the text of each FILE of this folder to OUT as a string literal with a comma. Sources include OUT by its
# path from the root. Source and OUT agree in every build, because a change of a FILE configures again.
function(shale_embed out)
  set(literals "")
  foreach(file ${ARGN})
    file(READ ${file} text)
    string(APPEND literals "R\"file(${text})file\",\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  file(CONFIGURE OUTPUT ${out} CONTENT "${literals}" @ONLY)
endfunction()
