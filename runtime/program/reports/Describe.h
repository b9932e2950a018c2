// The text of --describe: the contents of an emitted program.
#ifndef SHALE_RUNTIME_PROGRAM_REPORTS_DESCRIBE_H
#define SHALE_RUNTIME_PROGRAM_REPORTS_DESCRIBE_H

#include "shale/Runtime.h"

#include <string>

namespace shale::rt {

std::string describe(const ShaleProgram &program);
/// Returns the mesh as text, e.g. "replica=2,fsdp=4".
std::string meshText(const ShaleProgram &program);

} // namespace shale::rt

#endif
