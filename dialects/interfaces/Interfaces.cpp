//===- Interfaces.cpp - Op interfaces used by the passes ------------------===//
#include "dialects/interfaces/Interfaces.h"

#include "dialects/interfaces/AttrInterfaces.cpp.inc"
#include "dialects/interfaces/Interfaces.cpp.inc"

bool shale::isView(mlir::Operation *op) {
  auto view = mlir::dyn_cast<ViewOpInterface>(op);
  if (!view || op->getNumResults() == 0)
    return false;
  for (unsigned result = 0; result < op->getNumResults(); ++result)
    if (!view.isViewOf(result))
      return false;
  return true;
}
