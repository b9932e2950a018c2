//===- shalec.cpp - The compiler ------------------------------------------===//
#include "tools/driver/CommandLine.h"
#include "tools/driver/Compile.h"

int main(int argc, char **argv) {
  shale::ParsedOptions parsed = shale::parseOptions(argc, argv);
  return parsed.options ? shale::compile(*parsed.options) : parsed.exitCode;
}
