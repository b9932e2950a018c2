// What an emitted program says about itself.
#ifndef SHALE_RUNTIME_PROGRAM_DESCRIBE_H
#define SHALE_RUNTIME_PROGRAM_DESCRIBE_H

#include "shale/Runtime.h"

#include <string>

namespace shale::rt {

std::string describe(const ShaleProgram &program);
/// "replica=2,fsdp=4".
std::string meshText(const ShaleProgram &program);

} // namespace shale::rt

#endif
