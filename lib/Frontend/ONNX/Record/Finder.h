//===- Finder.h - Finds parameters by the file's signature ----------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_FINDER_H
#define SHALE_FRONTEND_ONNX_RECORD_FINDER_H

#include "lib/Frontend/ONNX/Record/Folded.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <set>

namespace shale::onnx {

class ModuleTimes;
struct Suspect;

/// Recovers the parameters of a file that has a signature.
class Finder {
public:
  Finder(Model &model, const ParameterOptions &options, Parameters &out)
      : program(model, options), graph(program.graph()), targets(program.targets()),
        options(options), out(out) {}

  void bySignature();

private:
  /// Two equal operations, of which the exporter kept one. `name` is the value of the removed one,
  /// and `reads` are the (node, operand) pairs that named it.
  struct Merged {
    std::string name;
    const Operation *kept;
    llvm::SmallVector<std::pair<const NodeProto *, int>> reads;
  };

  void assign(const Operation &operation);
  void assignByForm(const Operation &operation, llvm::ArrayRef<size_t> wanted);
  void assignOne(const Operation &operation, const Use &use, size_t parameter,
                 const Layout *layout = nullptr);
  void assignWithoutMetadata();
  void loseBias(const Operation &operation, size_t parameter);
  void restoreDetached();
  /// Adds an error for a node that reads something else than its record has.
  void audit();
  void refuseSharedStops();
  void refuseIndistinct();
  void addNames(const Operation &operation, llvm::StringRef value, const Operation &maker,
                std::set<std::string> &names) const;
  const NodeProto *indistinctBehind(const std::string &value, const Operation &reader) const;
  std::vector<RemovedRead> removedReads() const;
  void restoreRemovedSums(llvm::ArrayRef<RemovedRead> reads);
  bool mayBeNeutral(size_t parameter);
  bool mayHaveRead(const std::string &value) const;
  void findModules(Suspect &suspect, const ModuleTimes &times) const;
  int parameterRead(const Suspect &suspect, const ModuleTimes &times,
                    const llvm::StringSet<> &computing);
  /// Adds an error for a removed operation that may have read a parameter.
  void refuseNeutral(llvm::ArrayRef<RemovedRead> reads);

  void splitMergedOperations();
  void splitPending();
  bool split(const Merged &merged);
  void refuseMerged();
  std::set<size_t> parametersOf(llvm::ArrayRef<const NodeProto *> nodes) const;
  std::map<std::string, std::map<std::string, size_t>>
  equalModules(llvm::StringRef module, const std::set<size_t> &own) const;
  std::map<std::string, std::map<std::string, size_t>>
  missingSiblings(llvm::StringRef module, const std::map<size_t, size_t> &own) const;
  std::string moduleInSource(const Merged &merged, llvm::ArrayRef<std::string> modules) const;
  bool isTwinOf(const Operation &maker, const Operation &reader) const;
  bool readsParameter(const Operation &last) const;
  void noteRemoved(llvm::StringRef name, llvm::StringRef scope);

  std::vector<FoldedRead> unexplainedReads();
  void dropComputed(const Operation &operation,
                    llvm::SmallVectorImpl<llvm::StringRef> &names) const;
  void restoreComplements();
  llvm::SmallSetVector<size_t, 4> missingOperands() const;
  void findSecondNames(bool byModule);
  void findSharedTables();
  void findSecondBiases();
  void takeFirstNames();
  void tie(size_t second, size_t kept);

  void remark(const NodeProto *node, const llvm::Twine &text) {
    out.repairs.push_back({node, text.str()});
  }

  TracedProgram program;
  const GraphProto &graph;
  llvm::ArrayRef<std::string> targets;
  const ParameterOptions &options;
  Parameters &out;
  llvm::SmallVector<bool> isAlias;
  /// Operations that the exporter removed. A missing parameter may be among their operands.
  std::vector<RemovedOperation> removed;
  /// Merged operations that are not split yet.
  std::vector<Merged> pending;
  /// Maps a module to another module whose operations were merged with its own.
  llvm::StringMap<std::string> twins;
  /// Maps a parameter to (operation scope, whether an embedding) of each read of it.
  std::map<size_t, std::vector<std::pair<std::string, bool>>> readers;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_FINDER_H
