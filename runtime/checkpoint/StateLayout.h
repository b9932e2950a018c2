// The rank and the offset in its state block of every element of every parameter and
// optimizer state. Files never hold flat offsets of groups: a piece is a parameter's
// name, a role, a box and a range of the box's elements.
#ifndef SHALE_RUNTIME_CHECKPOINT_STATELAYOUT_H
#define SHALE_RUNTIME_CHECKPOINT_STATELAYOUT_H

#include "runtime/checkpoint/Box.h"
#include "runtime/core/Types.h"
#include "shale/Runtime.h"

#include <map>
#include <string>
#include <vector>

namespace shale::rt {

/// Elements [begin, end) of a box of a parameter or of its optimizer state, at `offset` of a rank's
/// state block.
struct Piece {
  int parameter = 0;
  int32_t role = 0;
  Dtype type = Dtype::F32;
  int64_t begin = 0, end = 0;
  int64_t whole = 0; ///< elements of the parameter, or of this state of it
  int rank = 0;
  int64_t offset = 0;
  Box box = {};
  int64_t bytes() const { return (end - begin) * sizeOf(type); }
};

/// A range of this program's state that one rank writes to a checkpoint: elements [begin, end) of a
/// group, at `offset` of the rank's state block.
struct Slice {
  int state = 0; ///< index into ShaleProgram.states
  int rank = 0;
  int64_t begin = 0, end = 0;
  int64_t offset = 0, bytes = 0;
};

/// Returns slices that cover the boxes of every group and role once. Of several copies of a group,
/// the one of the widest type is used, and of these the sharded one. State that several ranks hold
/// is split among them if `spread`, else taken from the first.
std::vector<Slice> slicesOf(const ShaleProgram &program, bool spread);

/// Returns the pieces of slicesOf(), which cover every element once, ordered by parameter, role,
/// box, begin.
std::vector<Piece> piecesOf(const ShaleProgram &program, bool spread);

/// Returns the elements of a segment's parameter, or of this state of it, on all ranks.
int64_t wholeCount(const ShaleSegment &segment);

/// Returns all pieces that `rank` holds, narrow copies included.
std::vector<Piece> localPieces(const ShaleProgram &program, int rank);

/// Maps each parameter name and alias to the parameter's index.
std::map<std::string, int> parameterNames(const ShaleProgram &program);

/// Whether a parameter belongs to the model, not to the loss scaling or to gradients.
bool isWeight(const ShaleProgram &program, int parameter);

/// Checks that the program's tables are consistent: every index and range is within
/// bounds. Fails with exit code 70; 65 for a mesh with unknown axes.
void checkProgram(const ShaleProgram &program);

} // namespace shale::rt

#endif
