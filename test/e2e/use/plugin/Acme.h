//===- Acme.h - A dialect outside of Shale --------------------------------===//
#ifndef ACME_H
#define ACME_H

#include "dialects/nn/NN.h"

#include "AcmeDialect.h.inc"

#define GET_OP_CLASSES
#include "AcmeOps.h.inc"

namespace acme {

void registerAcmePasses();

} // namespace acme

#endif // ACME_H
