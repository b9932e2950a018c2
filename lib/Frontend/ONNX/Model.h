//===- Model.h - An ONNX file, its tensors by reference -------------------===//
#ifndef SHALE_FRONTEND_ONNX_MODEL_H
#define SHALE_FRONTEND_ONNX_MODEL_H

#include "lib/Frontend/ONNX/Model.pb.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>
#include <set>

namespace shale::onnx {

/// Where a tensor's data lies: bytes [offset, offset + length) of a file,
/// row-major, little-endian. An empty path: it is not in one piece of a file
/// (small data, stored as numbers).
struct Place {
  std::string path;
  int64_t offset = 0;
  int64_t length = 0;
};

/// A name from a file as text: what is no UTF-8 is replaced.
std::string displayName(llvm::StringRef name);
/// "'a', 'b' and 3 more": names in quotes, `most` of them.
std::string listOf(llvm::ArrayRef<std::string> names, size_t most = 8);

/// The element type of an ONNX data type, or null with the reason in `why`.
mlir::Type elementType(mlir::MLIRContext *context, int32_t dataType,
                       std::string &why);

/// A parsed file. Reads tensor data only when asked to.
class Model {
public:
  /// What went wrong, and the exit code that says so (include/shale/Runtime.h).
  struct Failure {
    std::string message;
    int exitCode;
  };

  /// Opens and parses `path`; null after filling `failure`.
  static std::unique_ptr<Model> open(llvm::StringRef path, Failure &failure);

  const ModelProto &proto() const { return model; }
  llvm::StringRef path() const { return filePath; }

  /// Whether external files must exist; where not, tensors in files that do not
  /// exist have a place all the same, and `missing` names the files.
  bool requireData = true;
  std::set<std::string> missing;

  /// The type of a tensor; checks dimensions in 64 bits.
  llvm::Expected<mlir::RankedTensorType> type(mlir::MLIRContext *context,
                                              const TensorProto &tensor) const;
  /// Where its data lies; checks file, offset and length.
  llvm::Expected<Place> place(const TensorProto &tensor,
                              mlir::RankedTensorType type);
  /// Its data as a constant, at most `maxBytes` of it.
  llvm::Expected<mlir::DenseElementsAttr>
  read(mlir::MLIRContext *context, const TensorProto &tensor, int64_t maxBytes);

private:
  /// The mapped external file at `location`, opened beneath the model's folder;
  /// `path` becomes where it is, or where it would be if it does not exist.
  llvm::Expected<llvm::MemoryBuffer *> external(llvm::StringRef location,
                                                std::string &path);

  std::string filePath;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  llvm::StringMap<std::pair<std::string, std::unique_ptr<llvm::MemoryBuffer>>>
      externals;
  ModelProto model;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_MODEL_H
