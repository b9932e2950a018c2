//===- Buffers.cpp - Buffers of the state_dict ----------------------------===//
#include "dialects/nn/NN.h"
#include "lib/Frontend/ONNX/Gradients.h"
#include "lib/Frontend/ONNX/Node.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "lib/Frontend/ONNX/States.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Maximum number of buffers that a note names.
static constexpr size_t kShown = 4;

/// Returns the names of buffers that state_dict() leaves out, as the exporter wrote them.
static llvm::StringSet<> transientTargets(const GraphProto &graph) {
  llvm::StringSet<> names;
  StringRef text = metadata(graph.metadata_props(), words::kSignature);
  SmallVector<StringRef> lines;
  text.split("# outputs").first.split(lines, '\n');
  for (StringRef line : lines) {
    auto [target, flags] = line.split("target=").second.split(' ');
    if (line.contains(": BUFFER ") && flags.contains("persistent=False"))
      names.insert(target.trim("'\""));
  }
  return names;
}

/// Returns the initializer that holds a buffer; null if there is none.
static const TensorProto *initializerOf(const Parameter &buffer, const Definitions &definitions,
                                        StringRef prefix) {
  if (buffer.used && buffer.initializer)
    return buffer.initializer;
  // No operation was found to read it; the file may have it under its own name.
  return definitions.initializers.lookup((prefix + buffer.name).str());
}

/// Appends where the file has the value of a buffer. If a node reads it, an invalid buffer is an
/// error elsewhere.
static void appendPlace(ImportContext &context, const TensorProto &tensor,
                        SmallVectorImpl<NamedAttribute> &fields) {
  auto type = context.model.type(context.mlirContext(), tensor);
  if (!type)
    return llvm::consumeError(type.takeError());
  auto place = context.model.fileRange(tensor, *type);
  if (!place)
    return llvm::consumeError(place.takeError());
  if (place->path.empty())
    return;
  SmallString<256> path(place->path);
  (void)llvm::sys::fs::make_absolute(path);
  OpBuilder &builder = context.builder;
  fields.emplace_back(builder.getStringAttr("type"), TypeAttr::get(*type));
  fields.emplace_back(
      builder.getStringAttr("init"),
      nn::FileAttr::get(context.mlirContext(), path, place->offset, place->length, false, Type()));
}

void onnx::describeBuffers(ImportContext &context, const Definitions &definitions,
                           const Parameters &parameters) {
  llvm::StringSet<> transient = transientTargets(context.graph());
  OpBuilder &builder = context.builder;
  SmallVector<NamedAttribute> entries;
  std::vector<std::string> absent;
  for (const Parameter &buffer : parameters.list) {
    if (buffer.isParameter)
      continue;
    SmallVector<NamedAttribute> fields;
    bool kept = !transient.contains(parameters.prefix + buffer.name);
    fields.emplace_back(builder.getStringAttr("persistent"), builder.getBoolAttr(kept));
    const TensorProto *tensor = initializerOf(buffer, definitions, parameters.prefix);
    if (!tensor && kept)
      absent.push_back(displayName(buffer.name));
    if (tensor && !buffer.transposed)
      appendPlace(context, *tensor, fields);
    entries.emplace_back(builder.getStringAttr(displayName(buffer.name)),
                         builder.getDictionaryAttr(fields));
  }
  if (!absent.empty())
    context.note(
        "buffers of the state_dict are not in the file: {}; model.safetensors gets them from --init, or from an export with optimize=False",
        plain(listOf(absent, kShown)));
  if (!entries.empty())
    context.module->setAttr(nn::kBuffersAttr, builder.getDictionaryAttr(entries));
}

//===----------------------------------------------------------------------===//
// New values
//===----------------------------------------------------------------------===//

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
      return context.error(
          "the file records that output {} is the new value of buffer {}, and has no output of this name: export the module again",
          output, name);
    if (!names.insert(name).second)
      return context.error("the file records two new values of buffer {}: export the module again",
                           name);
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
      return context.error(
          "output {} cannot be the new value of buffer {}: it is {}, the buffer {}; export the module again",
          next->output, next->name, value->getType(), state.getType());
    values.push_back({index, *value});
  }
  return values;
}
