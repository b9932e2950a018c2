//===- NextBuffers.cpp - Buffers that a traced step changes ---------------===//
#include "lib/Frontend/ONNX/NextBuffers.h"
#include "lib/Frontend/ONNX/Gradients.h"
#include "lib/Frontend/ONNX/Node.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

FailureOr<std::vector<NextBuffer>> onnx::readNextBuffers(ImportContext &context) {
  std::vector<NextBuffer> buffers;
  StringRef text = metadata(context.graph().metadata_props(), words::kNextBuffers);
  if (text.empty())
    return buffers;
  std::string prefix = recordedPrefix(context.graph(), context.options.parameters.keepPrefix);
  llvm::StringSet<> outputs, names;
  for (const ValueInfoProto &output : context.graph().output())
    outputs.insert(output.name());
  for (StringRef line : llvm::split(text, '\n')) {
    auto [name, output] = line.split('\t');
    if (name.empty() || !outputs.contains(output))
      return context.error("the file records that output '" + displayName(output) +
                           "' is the new value of buffer '" + displayName(name) +
                           "', and has no output of this name: export the module again");
    if (!names.insert(name).second)
      return context.error("the file records two new values of buffer '" + displayName(name) +
                           "': export the module again");
    buffers.push_back({(prefix + name).str(), output.str()});
  }
  return buffers;
}

static const NextBuffer *nextOf(ArrayRef<NextBuffer> buffers, StringRef name) {
  auto found = llvm::find_if(buffers, [&](const NextBuffer &each) { return each.name == name; });
  return found == buffers.end() ? nullptr : &*found;
}

void onnx::markChanged(ArrayRef<NextBuffer> buffers, Parameters &parameters) {
  for (Parameter &parameter : parameters.list)
    parameter.isChanged |= !parameter.isParameter && nextOf(buffers, parameter.name);
}

FailureOr<std::vector<NextValue>> onnx::nextValues(ImportContext &context, const Scope &graph,
                                                   const States &states,
                                                   ArrayRef<NextBuffer> buffers) {
  std::vector<NextValue> values;
  for (auto [index, state] : llvm::enumerate(states.values)) {
    const Parameter &buffer = states.parameters.list[index];
    const NextBuffer *next = state && !buffer.isParameter ? nextOf(buffers, buffer.name) : nullptr;
    if (!next)
      continue;
    FailureOr<Value> value = outputNamed(context, graph, next->output);
    if (failed(value))
      return failure();
    if (value->getType() != state.getType())
      return context.error("output '" + displayName(next->output) +
                           "' cannot be the new value of buffer '" + displayName(next->name) +
                           "': it is " + Node::name(value->getType()) + ", the buffer " +
                           Node::name(state.getType()) + "; export the module again");
    values.push_back({index, *value});
  }
  return values;
}
