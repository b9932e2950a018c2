//===- MergedReads.cpp - Merged operations in the lines of source ---------===//
//
// The exporter removes x.detach() and then merges equal operations, so q - h and q - h.detach() are
// one node, with one of two gradients. The names in the record tell that two were merged, and
// nothing in it tells whether one was detached, but the lines of source. Two norms of equal weights
// that read one value are merged, too: their calls have the same arguments.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Checks.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Returns the lines of source of a node, the innermost first.
static SmallVector<StringRef> linesOf(const NodeProto &node) {
  SmallVector<StringRef> parts, lines;
  metadata(node.metadata_props(), words::kStackTrace).split(parts, '\n');
  for (StringRef part : llvm::reverse(parts))
    if (part = part.trim(); !part.empty() && !part.starts_with("File \""))
      lines.push_back(part);
  return lines;
}

/// Returns "(x)" of the only call of a module in a line, self.norm(x) for "layers.0.norm"; empty if
/// the line has none, or several.
static StringRef argumentsIn(StringRef line, StringRef module) {
  std::string call = ("." + lastOf(module) + "(").str();
  size_t at = line.find(call), depth = 0;
  if (module.empty() || at == StringRef::npos || line.find(call, at + 1) != StringRef::npos)
    return "";
  StringRef rest = line.drop_front(at + call.size() - 1);
  for (size_t i = 0; i < rest.size(); ++i) {
    depth += rest[i] == '(';
    depth -= rest[i] == ')';
    if (depth == 0)
      return rest.take_front(i + 1);
  }
  return "";
}

/// Returns "(q - h)" where it is all that a line subtracts; empty if there is no such group.
static StringRef differenceIn(StringRef line) {
  size_t at = line.find(" - "), begin = line.take_front(at).find_last_of("()[]{},="),
         end = line.find_first_of("()[]{},", at);
  bool isGroup = at != StringRef::npos && line.count(" - ") == 1 && begin != StringRef::npos &&
                 end != StringRef::npos && line[begin] == '(' && line[end] == ')';
  return isGroup ? line.slice(begin, end + 1) : "";
}

/// Whether two operations that the exporter merged are written alike: both modules are called with
/// the same arguments, or two lines of one module have the same difference.
static bool areWrittenAlike(const NodeProto &kept, const NodeProto &reader, StringRef module,
                            StringRef target) {
  SmallVector<StringRef> own = linesOf(kept), lines = linesOf(reader);
  std::string keptModule = readScope(kept).value_or("");
  for (StringRef line : own)
    for (StringRef other : lines)
      if (StringRef arguments = argumentsIn(line, keptModule);
          !arguments.empty() && arguments == argumentsIn(other, module))
        return true;
  if (!target.starts_with(words::kSub) || own.empty() || lines.empty() ||
      own.front() == lines.front())
    return false;
  StringRef difference = differenceIn(own.front());
  return !difference.empty() && keptModule == readScope(reader).value_or("") &&
         difference == differenceIn(lines.front());
}

std::optional<MergedRead> onnx::findMergedRead(const NodeSet &needed, const Parameters &parameters,
                                               llvm::ArrayRef<std::string> assumed,
                                               llvm::function_ref<bool(StringRef)> isVaried) {
  for (const MergedName &merged : parameters.mergedNames) {
    const auto &[node, operand] = merged.read;
    if (!needed.contains(node) || llvm::is_contained(assumed, merged.target) ||
        parameters.restored.count(merged.read) || !isVaried(node->input(operand)) ||
        llvm::none_of(node->output(), isVaried))
      continue;
    auto split = parameters.readsOfMerged.find(merged.read);
    std::string module = split != parameters.readsOfMerged.end()
                             ? parameters.merged[split->second].module
                             : readScope(*node).value_or("");
    if (!areWrittenAlike(*merged.kept, *node, module, merged.target))
      return MergedRead{node,
                        "reads '%" + merged.name + "', which the export merged with node '" +
                            displayName(merged.kept->name()) +
                            "'. The two may have different gradients, as of a detached value, and "
                            "the record does not show that they are the same. Export with "
                            "shale.export, or with torch.onnx.export(..., optimize=False), or pass "
                            "--assume-merged " +
                            displayName(merged.target) +
                            " if none of the merged operations of this kind is detached or under "
                            "no_grad"};
  }
  return std::nullopt;
}
