//===- Model.h - An ONNX file, its tensors by reference -------------------===//
#ifndef SHALE_FRONTEND_ONNX_READER_MODEL_H
#define SHALE_FRONTEND_ONNX_READER_MODEL_H

#include "lib/Frontend/ONNX/Model.pb.h"
#include "lib/Frontend/ONNX/Text.h"
#include "lib/Support/InputFile.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringMap.h"
#include <set>

namespace shale::onnx {

/// Where a tensor's data lies: bytes [offset, offset + length) of a file,
/// row-major, little-endian. The path is empty if the data is not one range of
/// bytes of a file (small data, stored as numbers).
struct FileRange {
  std::string path;
  int64_t offset = 0;
  int64_t length = 0;
  llvm::StringRef data = {}; // these bytes; empty if the file is missing
};

/// Returns the element type of an ONNX data type, or null with the reason in
/// `why`.
mlir::Type elementType(mlir::MLIRContext *context, int32_t dataType, std::string &why);

/// An integer type of ONNX that values cannot have.
struct NarrowInteger {
  unsigned bits;
  bool isSigned;
  unsigned carrier; // bits of the type that holds it
};

/// Returns the type of an ONNX data type: uint8, int8, uint16, int16 or uint32; none for others.
std::optional<NarrowInteger> narrowInteger(int32_t dataType);

/// The elements of a tensor: a part of a file, or `list`.
struct Contents {
  mlir::RankedTensorType type;
  llvm::StringRef data;
  std::string list;
};

/// A parsed file. Tensor data is read on demand.
class Model {
public:
  /// Opens and parses `path`; null after filling `failure`.
  static std::unique_ptr<Model> open(llvm::StringRef path, ToolError &failure);

  const ModelProto &proto() const { return model; }
  /// The messages, for readers that complete a graph before it is imported.
  ModelProto &mutableProto() { return model; }
  llvm::StringRef path() const { return filePath; }

  /// Whether external files must exist. If not, tensors in missing files still
  /// have a place, and `missing` lists the files.
  bool requireData = true;
  std::set<std::string> missing;

  /// Returns the type of a tensor; fails if its size overflows 64 bits.
  llvm::Expected<mlir::RankedTensorType> type(mlir::MLIRContext *context,
                                              const TensorProto &tensor) const;
  /// Returns where its data lies; checks file, offset and length.
  llvm::Expected<FileRange> fileRange(const TensorProto &tensor, mlir::RankedTensorType type);
  /// Reads its data as a constant; fails if it has more than `maxBytes`.
  llvm::Expected<mlir::DenseElementsAttr> read(mlir::MLIRContext *context,
                                               const TensorProto &tensor, int64_t maxBytes);

  // Questions about elements. They copy no data that lies in a file, and take an invalid tensor for
  // one that is not here: it is an error elsewhere.

  /// Whether two matrices are transposes of each other, and not all of their elements are equal.
  bool isTranspose(mlir::MLIRContext *context, const TensorProto &matrix, const TensorProto &other);
  /// Whether a tensor may be another one, or its transpose: compares the first elements, if both
  /// are here and of one type.
  bool mayBeSame(mlir::MLIRContext *context, const TensorProto &tensor, const TensorProto &other);
  /// Returns the first rows of a matrix whose bytes are all 0, at most `most`. None if its file is
  /// not here.
  llvm::SmallVector<int64_t> zeroRows(mlir::MLIRContext *context, const TensorProto &matrix,
                                      size_t most);
  /// Whether every byte of its data is 0; fails for an invalid tensor.
  llvm::Expected<bool> isZero(mlir::MLIRContext *context, const TensorProto &tensor);

private:
  /// Reads the elements of a tensor, row-major, of the type of `into`.
  llvm::Error readAs(const TensorProto &tensor, Contents &into);
  /// Reads the type and the elements of a tensor.
  llvm::Error read(mlir::MLIRContext *context, const TensorProto &tensor, Contents &into);
  /// Reads two tensors that are compared. Returns the bytes of an element, 0 if the elements are of
  /// different types or sizes, or not here.
  size_t readBoth(mlir::MLIRContext *context, const TensorProto &tensor, const TensorProto &other,
                  Contents &one, Contents &second);
  /// Returns the place of a tensor of `bytes` bytes in a file of external data.
  llvm::Expected<FileRange> externalRange(const TensorProto &tensor, uint64_t bytes);
  /// Maps the external file at `location`, opened beneath the model's folder, and sets its path.
  /// Null, and noted in `missing`, if it does not exist and need not.
  llvm::Expected<llvm::MemoryBuffer *> external(llvm::StringRef location, std::string &path);

  std::string filePath;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>> externals; // by location
  ModelProto model;
};

/// Returns the file's ModelProto with the data of every tensor replaced by its
/// place (offset and length in the file). Reads the wire format of Protocol
/// Buffers (protobuf.dev/programming-guides/encoding); fails on malformed input.
llvm::Expected<std::string> scanModel(llvm::StringRef file);

/// Returns the name of a node; that of its first result if it has none.
llvm::StringRef nameOf(const NodeProto &node);
/// Returns "node 'NAME'", as errors name it.
std::string nodeText(const NodeProto &node);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_READER_MODEL_H
