//===- SegmentForm.h - Kernels that visit segments ------------------------===//
//
// A kernel with values by row and column of a flat group's segments, or with means of these, visits
// one segment after another, and in it one row after another: an element's row and column then
// follow from the loops. Any cluster of elementwise ops and of ops of Ops/Segments.td on one group
// has such a kernel. How segments and rows are mapped to threads and vectors is the target's part.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_CODEGEN_SEGMENTFORM_H
#define SHALE_CODEGEN_SEGMENTFORM_H

#include "dialects/interfaces/ElementEmitter.h"
#include "dialects/nn/Ops/Segments.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Region.h"

namespace shale {

struct SegmentForm {
  enum Kind {
    None,         ///< the kernel need not visit segments
    Elements,     ///< the outputs are elements of the group
    SegmentMeans, ///< the output has the means of segments
    FactorMeans   ///< the output has the means of rows and columns
  };
  Kind kind = None;
  nn::SegmentMeansOp means; ///< null: Elements
  mlir::ArrayAttr segments;
  mlir::Value offset; ///< of the group's slice, or null
  bool byRow = false; ///< whether an op needs the row or the column of an element
  int64_t count = 0;  ///< elements of the group, or of its slice

  /// Number of independent parts: elements, segments, or rows and columns.
  int64_t parts() const { return kind == Elements ? count : nn::elements(means->getResult(0)); }
};

/// The position, in its segment, of the element that a kernel visits.
struct SegmentPlace {
  enum Kind {
    Outside, ///< in no segment
    Vector,  ///< in a segment that is no matrix
    Matrix
  };
  Kind kind = Outside;
  LinearIndex number; ///< of its segment
  LinearIndex row;    ///< of the value of its row; of a vector: of the element
  LinearIndex column; ///< of the value of its column
};

/// Emits an element of a broadcast at a place.
mlir::Value emitAtPlace(nn::SegmentBroadcastOp op, ElementEmitter &emitter,
                        const SegmentPlace &place);

/// Returns the form of a kernel, a region of nn ops that ends in a yield. Fails after an error if
/// it needs one and has none: ops on several groups, or means that other ops of the kernel read.
mlir::FailureOr<SegmentForm> findSegmentForm(mlir::Region &body);

/// The segments that a kernel visits, as constants of kFields i64 each: those of the form in order,
/// and for Elements also the gaps between and after them.
struct SegmentTable {
  enum Field { Offset, Count, At, Matrices, Rows, Columns, Number, kFields };
  /// The value of `Columns` for a gap. A segment that is no matrix has 0 there.
  static constexpr int64_t kGap = -1;
  int64_t entries = 0;
  mlir::DenseElementsAttr values;
  /// No place in the group, or by row and column, is larger.
  int64_t largest = 0;

  explicit SegmentTable(const SegmentForm &form);
};

} // namespace shale

#endif // SHALE_CODEGEN_SEGMENTFORM_H
