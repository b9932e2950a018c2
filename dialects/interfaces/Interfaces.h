//===- Interfaces.h - Op interfaces used by the passes --------------------===//
#ifndef SHALE_INTERFACES_INTERFACES_H
#define SHALE_INTERFACES_INTERFACES_H

#include "dialects/interfaces/ElementEmitter.h"
#include "dialects/interfaces/Elements.h"
#include "dialects/interfaces/GroupUpdate.h"
#include "dialects/interfaces/Numeric.h"
#include "dialects/interfaces/ShardingRule.h"
#include "dialects/interfaces/UpdateElement.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "dialects/interfaces/Interfaces.h.inc"

#endif // SHALE_INTERFACES_INTERFACES_H
