//===- shalec.cpp - The compiler ------------------------------------------===//
#include "lib/Driver/Compile.h"
#include "lib/Driver/Options.h"

int main(int argc, char **argv) {
  shale::ParsedOptions parsed = shale::parseOptions(argc, argv);
  return parsed.options ? shale::compile(*parsed.options) : parsed.exitCode;
}
