# What `cmake --install` installs: the tools, libShale.so, the runtime library of
# emitted programs, the public headers and the package that find_package(Shale) finds.
include(CMakePackageConfigHelpers)

# ---- the public headers, and SHALE_ABI, which names them
file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
  include/shale/*.h include/shale/*.def dialects/*.h dialects/*.td passes/*.h passes/*.td
  lib/Analysis/*.h lib/Codegen/*.h lib/Interpreter/*.h lib/Options/*.h lib/Options/*.td lib/Planning/*.h lib/Support/*.h lib/Target/*.h)
list(APPEND headers lib/Frontend/ONNX/Import.h lib/Frontend/ONNX/Needs.h lib/Frontend/ONNX/Node.h
  lib/Frontend/ONNX/Tensor.h lib/Frontend/ONNX/Text.h)
list(SORT headers)
string(REPLACE ";" "\n" lines "${headers}")
file(CONFIGURE OUTPUT public-headers.txt CONTENT "${lines}\n" @ONLY)
list(TRANSFORM headers PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
set(abi ${CMAKE_BINARY_DIR}/shale/Abi.h)
add_custom_command(
  OUTPUT ${abi}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DLIST=${CMAKE_BINARY_DIR}/public-headers.txt -DOUT=${abi}
          -DVERSION=${PROJECT_VERSION} -DLLVM=${LLVM_PACKAGE_VERSION} -P ${CMAKE_SOURCE_DIR}/tools/cmake/Abi.cmake
  DEPENDS ${sources} ${CMAKE_BINARY_DIR}/public-headers.txt ${CMAKE_SOURCE_DIR}/tools/cmake/Abi.cmake
  COMMENT "Hashing the public headers" VERBATIM)
add_custom_target(shale-abi DEPENDS ${abi})
add_dependencies(Shale shale-abi)

# ---- headers and generated headers keep their paths below include/Shale
foreach(header ${headers})
  string(REGEX REPLACE "^include/" "" place ${header})
  get_filename_component(place ${place} DIRECTORY)
  install(FILES ${header} DESTINATION include/Shale/${place})
endforeach()
install(FILES ${abi} DESTINATION include/Shale/shale)
get_property(generated GLOBAL PROPERTY SHALE_TABLEGEN_OUTPUTS)
foreach(file ${generated})
  if(file MATCHES "\\.h\\.inc$")
    file(RELATIVE_PATH place ${CMAKE_BINARY_DIR} ${file})
    get_filename_component(place ${place} DIRECTORY)
    install(FILES ${file} DESTINATION include/Shale/${place})
  endif()
endforeach()

# ---- libraries and tools. shalec finds the runtime library in ../lib.
target_include_directories(Shale INTERFACE $<INSTALL_INTERFACE:include/Shale>)
target_compile_features(Shale INTERFACE cxx_std_17)
install(TARGETS Shale EXPORT ShaleTargets LIBRARY DESTINATION lib)
install(TARGETS shale_rt ARCHIVE DESTINATION lib)
if(TARGET shale_cuda_rt)
  install(TARGETS shale_cuda_rt ARCHIVE DESTINATION lib)
endif()
get_property(tools GLOBAL PROPERTY SHALE_TOOLS)
install(TARGETS ${tools} RUNTIME DESTINATION bin)
install(DIRECTORY tools/export/ DESTINATION share/shale/export PATTERN __pycache__ EXCLUDE)
file(GLOB machines CONFIGURE_DEPENDS lib/Target/*/Machines/*.toml)
install(FILES ${machines} DESTINATION share/shale/machines)
install(DIRECTORY docs DESTINATION share/doc/shale)
install(FILES LICENSE README.md docs/SECURITY.md DESTINATION share/doc/shale)
# Builds what is installed, and nothing else.
add_custom_target(installed DEPENDS Shale shale_rt ${tools})
if(TARGET shale_cuda_rt)
  add_dependencies(installed shale_cuda_rt)
endif()

# ---- the package
install(EXPORT ShaleTargets NAMESPACE Shale:: DESTINATION lib/cmake/Shale)
set(SHALE_INSTALL_INCLUDE include/Shale)
set(SHALE_INSTALL_TOOLS bin)
configure_package_config_file(tools/cmake/ShaleConfig.cmake.in ShaleConfig.cmake INSTALL_DESTINATION lib/cmake/Shale
  PATH_VARS SHALE_INSTALL_INCLUDE SHALE_INSTALL_TOOLS)
write_basic_package_version_file(ShaleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ShaleConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/ShaleConfigVersion.cmake
  DESTINATION lib/cmake/Shale)
