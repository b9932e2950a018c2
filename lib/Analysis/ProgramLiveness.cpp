//===- ProgramLiveness.cpp - Live ranges of a program's buffers -----------===//
#include "lib/Analysis/ProgramLiveness.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace shale;

/// Returns the wait of a started collective or copy, or null.
static Operation *waitOf(Operation *op) {
  for (Value result : op->getResults())
    if (isa<rt::TokenType>(result.getType()))
      return result.use_empty() ? nullptr : *result.getUsers().begin();
  return nullptr;
}

static bool isStart(Operation *op) {
  return op->getNumResults() == 1 && isa<rt::TokenType>(op->getResult(0).getType());
}

LogicalResult ProgramLiveness::run(rt::FuncOp function, bool strict) {
  llvm::MapVector<Operation *, LiveBuffer> found;
  int64_t position = 0;
  for (Operation &op : function.getBody().front())
    positions[&op] = position++;
  for (Operation &op : function.getBody().front()) {
    auto effects = dyn_cast<MemoryEffectOpInterface>(&op);
    if (!effects)
      continue;
    int64_t begin = positions[&op], end = begin;
    if (isStart(&op)) {
      Operation *wait = waitOf(&op);
      if (!wait && strict)
        return op.emitOpError("is never waited for");
      end = wait ? positions[wait] : begin;
    }
    SmallVector<MemoryEffects::EffectInstance> instances;
    effects.getEffects(instances);
    // Reads first: an op that runs in place reads the previous contents.
    llvm::stable_sort(instances, [](const auto &a, const auto &b) {
      return isa<MemoryEffects::Read>(a.getEffect()) && !isa<MemoryEffects::Read>(b.getEffect());
    });
    for (const MemoryEffects::EffectInstance &instance : instances) {
      if (!instance.getValue())
        continue;
      rt::BufferOp buffer = rt::allocationOf(instance.getValue());
      if (!buffer)
        return op.emitOpError("accesses a value that is not an rt.buffer");
      auto it = found.find(buffer);
      if (it == found.end()) {
        if (strict && isa<MemoryEffects::Read>(instance.getEffect()) &&
            buffer.getSpace() == rt::Space::Arena)
          return op.emitOpError() << "reads '" << buffer.getName() << "' before it is written";
        it =
            found
                .insert({buffer, LiveBuffer{buffer, rt::bufferBytes(buffer.getType()), begin, end}})
                .first;
      }
      it->second.end = std::max(it->second.end, end);
    }
  }
  for (auto &[op, buffer] : found)
    buffers.push_back(buffer);
  return success();
}
