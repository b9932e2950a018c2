//===- Building.cpp - What a handler may use beside its node --------------===//
#include "lib/Frontend/ONNX/Building.h"
#include "lib/Frontend/ONNX/Hints.h"
#include "lib/Frontend/ONNX/Trace.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

std::string Building::positionsHint(ArrayRef<Value> tables, int64_t has, int64_t wants) const {
  return onnx::positionsHint(context.options, states, tables, has, wants);
}

std::string Building::broadcastHint(ArrayRef<Value> values, int64_t one, int64_t other) const {
  return onnx::broadcastHint(context.options, states, values, one, other);
}

Value Building::finish(Operation *op) {
  scopes.mark(op);
  return folder.fold(op);
}

std::optional<double> Building::lostDropoutOf(const NodeProto &node) const {
  auto found = lostDropout.find(&node);
  return found == lostDropout.end() ? std::nullopt : std::optional(found->second);
}

std::string Building::parameterBehind(Value value) const {
  return onnx::parameterBehind(states, value);
}

bool Building::isRead(StringRef name) {
  if (namesRead.empty()) {
    for (const ValueInfoProto &output : context.graph().output())
      namesRead.insert(output.name());
    for (const NodeProto &node : context.graph().node())
      forEachNameRead(node, [&](StringRef read) { namesRead.insert(read); });
  }
  return namesRead.contains(name);
}
