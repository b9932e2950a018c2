//===- Finder.h - Finds parameters by the file's signature ----------------===//
#ifndef SHALE_FRONTEND_ONNX_FINDER_H
#define SHALE_FRONTEND_ONNX_FINDER_H

#include "lib/Frontend/ONNX/Folded.h"
#include "lib/Frontend/ONNX/Operation.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <set>

namespace shale::onnx {

/// Puts the parameters of a file with a signature together.
class Finder {
public:
  Finder(Model &model, const ParameterOptions &options, Parameters &out)
      : model(model), graph(model.proto().graph()), options(options), out(out) {
    for (const TensorProto &tensor : graph.initializer())
      if (isFloat(tensor))
        initializers[tensor.name()] = &tensor;
  }

  void bySignature(const std::vector<SignatureEntry> &signature);

private:
  void collectOperations();
  void assign(Operation &operation);
  void assignOne(const Operation &operation, const Use &use, size_t parameter);
  void loseBias(const Operation &operation, size_t parameter);
  void assignWithoutMetadata();
  void splitMergedOperations();
  void noteRemoved(llvm::StringRef name, llvm::StringRef scope);
  bool isNumberMissing(llvm::StringRef name) const;
  void dropComputed(const Operation &operation, llvm::SmallVectorImpl<llvm::StringRef> &names) const;
  bool splitMergedOperation(llvm::StringRef name, const Operation &kept, llvm::ArrayRef<std::pair<const NodeProto *, int>> reads);
  llvm::SmallSetVector<const Operation *, 4> operationsOfCall(const Operation &last) const;
  void collectKnown();
  void splitPending();
  bool isTwinOf(const Operation &maker, const Operation &reader) const;
  bool readsParameter(const Operation &last) const;
  llvm::StringSet<> unnamedInputs(const Operation &operation) const;
  void refuseDetached();
  std::vector<RemovedOperation> removed;
  /// Merged operations that are not split.
  struct Pending {
    std::string name;
    const Operation *kept;
    llvm::SmallVector<std::pair<const NodeProto *, int>> reads;
  };
  std::vector<Pending> pending;
  std::vector<FoldedRead> unexplainedReads();
  void restoreComplements();
  llvm::SmallSetVector<size_t, 4> missingOperands() const;
  void findSecondNames(bool byModule);
  void takeFirstNames();

  void remark(const NodeProto *node, const llvm::Twine &text) {
    out.repairs.push_back({node, text.str()});
  }

  Model &model;
  const GraphProto &graph;
  const ParameterOptions &options;
  Parameters &out;
  llvm::StringMap<const TensorProto *> initializers;
  llvm::StringMap<size_t> byPlaceholder;
  std::vector<std::string> targets;
  /// Values of the exported program that the graph has.
  llvm::StringSet<> known;
  /// By value: the exported program's operation that computes it, or "" for nodes of none.
  llvm::StringMap<std::string> makers;
  llvm::MapVector<llvm::StringRef, Operation> operations;
  std::set<const TensorProto *> assigned;
  llvm::SmallVector<bool> isAlias;
  /// By module: another one whose operations were merged with its.
  llvm::StringMap<std::string> twins;
  /// (operation scope, whether an embedding) of each read of a parameter.
  std::map<size_t, std::vector<std::pair<std::string, bool>>> readers;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_FINDER_H
