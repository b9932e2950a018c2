// The map between groups' slices and parameters' element ranges.
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/core/Error.h"
#include "runtime/core/Rank.h"

#include <algorithm>
#include <tuple>

namespace shale::rt {

namespace {
/// Returns the part of a segment's parameter that the rank with these coordinates holds, without
/// padding along the first dimension, which is behind all elements of the box.
Box boxOf(const ShaleProgram &program, const ShaleSegment &segment,
          const std::vector<int64_t> &coordinates) {
  Box box;
  for (int32_t d = 0; d < segment.rank; ++d) {
    int32_t axis = segment.axes[d];
    box.dims.push_back(segment.dims[d]);
    box.size.push_back(segment.size[d]);
    box.start.push_back(segment.begin[d] + (axis < 0 ? 0 : coordinates[axis] * segment.size[d]));
  }
  if (!box.isWhole())
    box.size[0] = std::clamp<int64_t>(box.dims[0] - box.start[0], 0, box.size[0]);
  return box;
}

/// Appends the pieces of group elements [low, high) that start at `offset` of a rank's state.
void addRange(const ShaleProgram &program, const ShaleState &state, int64_t low, int64_t high,
              int64_t offset, int rank, std::vector<Piece> &pieces) {
  const ShaleGroup &group = program.groups[state.group];
  for (int s = 0; s < group.segment_count; ++s) {
    const ShaleSegment &segment = group.segments[s];
    int64_t begin = std::max(low, segment.offset);
    int64_t end = std::min(high, segment.offset + segment.count);
    if (begin >= end)
      continue;
    Box box = boxOf(program, segment, coordinatesOf(program, rank));
    if (!box.isWhole())
      end = std::min(end, segment.offset + box.count());
    if (begin >= end) // padding
      continue;
    Piece piece;
    piece.parameter = segment.parameter;
    piece.role = state.role;
    piece.type = static_cast<Dtype>(state.type);
    piece.box = box;
    piece.begin = begin - segment.offset;
    piece.end = end - segment.offset;
    piece.whole = wholeCount(segment);
    piece.rank = rank;
    piece.offset = offset + (begin - low) * sizeOf(piece.type);
    pieces.push_back(piece);
  }
}

/// The number of slices of a state.
int64_t slicesOfState(const ShaleProgram &program, const ShaleState &state) {
  return state.axis < 0 ? 1 : axisSize(program, state.axis);
}

/// Whether a state is the one to store for its (group, role): widest type, then most sharded.
bool stands(const ShaleProgram &program, int index) {
  const ShaleState &own = program.states[index];
  auto key = [&](int i) {
    const ShaleState &state = program.states[i];
    return std::make_tuple(-sizeOf(static_cast<Dtype>(state.type)), -slicesOfState(program, state),
                           i);
  };
  for (int i = 0; i < program.state_count; ++i)
    if (program.states[i].group == own.group && program.states[i].role == own.role &&
        key(i) < key(index))
      return false;
  return true;
}

/// Whether an axis of the mesh splits a segment, perhaps as a member of a joint axis.
bool splits(const ShaleProgram &program, const ShaleSegment &segment, int axis) {
  return std::any_of(segment.axes, segment.axes + segment.rank,
                     [&](int32_t own) { return own >= 0 && runsOver(program, own, axis); });
}

/// Whether an axis of the mesh splits the parameters of a group.
bool splits(const ShaleProgram &program, const ShaleGroup &group, int axis) {
  return group.segment_count > 0 && splits(program, group.segments[0], axis);
}

/// Appends the slice of the elements [begin, end) of what a rank holds of a state.
void addSlice(const ShaleProgram &program, int index, int rank, int64_t low, int64_t begin,
              int64_t end, std::vector<Slice> &slices) {
  const ShaleState &state = program.states[index];
  int64_t element = sizeOf(static_cast<Dtype>(state.type));
  if (begin < end)
    slices.push_back(
        {index, rank, begin, end, state.offset + (begin - low) * element, (end - begin) * element});
}
} // namespace

int64_t wholeCount(const ShaleSegment &segment) {
  int64_t count = 1;
  for (int32_t d = 0; d < segment.rank; ++d)
    count *= segment.dims[d];
  return segment.rank > 0 ? count : segment.count;
}

std::vector<Slice> slicesOf(const ShaleProgram &program, bool spread) {
  std::vector<Slice> slices;
  std::vector<int> stored;
  for (int i = 0; i < program.state_count; ++i)
    if (stands(program, i))
      stored.push_back(i);
  int ranks = static_cast<int>(meshSize(program));
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int64_t> own = coordinatesOf(program, rank);
    for (int index : stored) {
      const ShaleState &state = program.states[index];
      bool sharded = slicesOfState(program, state) > 1;
      // The ranks that hold the same elements: this one's number, and how many there are.
      int64_t holder = 0, holders = 1;
      for (int a = 0; a < program.axis_count; ++a)
        if (!(sharded && runsOver(program, state.axis, a)) &&
            !splits(program, program.groups[state.group], a)) {
          holder = holder * program.axes[a].size + own[a];
          holders *= program.axes[a].size;
        }
      int64_t low = sharded ? own[state.axis] * state.local_count : 0;
      int64_t parts = spread && !sharded ? holders : 1;
      int64_t part = (state.local_count + parts - 1) / parts;
      if (holder < parts)
        addSlice(program, index, rank, low, low + std::min(state.local_count, holder * part),
                 low + std::min(state.local_count, (holder + 1) * part), slices);
    }
  }
  return slices;
}

std::vector<Piece> piecesOf(const ShaleProgram &program, bool spread) {
  std::vector<Piece> pieces;
  for (const Slice &slice : slicesOf(program, spread))
    addRange(program, program.states[slice.state], slice.begin, slice.end, slice.offset, slice.rank,
             pieces);
  std::sort(pieces.begin(), pieces.end(), [](const Piece &x, const Piece &y) {
    return std::tie(x.parameter, x.role, x.box, x.begin) <
           std::tie(y.parameter, y.role, y.box, y.begin);
  });
  return pieces;
}

std::vector<Piece> localPieces(const ShaleProgram &program, int rank) {
  std::vector<Piece> pieces;
  std::vector<int64_t> own = coordinatesOf(program, rank);
  for (int i = 0; i < program.state_count; ++i) {
    const ShaleState &state = program.states[i];
    int64_t low = state.axis < 0 ? 0 : own[state.axis] * state.local_count;
    addRange(program, state, low, low + state.local_count, state.offset, rank, pieces);
  }
  return pieces;
}

std::map<std::string, int> parameterNames(const ShaleProgram &program) {
  std::map<std::string, int> names;
  for (int p = 0; p < program.parameter_count; ++p) {
    names[program.parameters[p].name] = p;
    for (auto alias = program.parameters[p].aliases; alias && *alias; ++alias)
      names[*alias] = p;
  }
  return names;
}

bool isWeight(const ShaleProgram &program, int parameter) {
  for (int i = 0; i < program.state_count; ++i) {
    const ShaleState &state = program.states[i];
    const ShaleGroup &group = program.groups[state.group];
    if (state.role == SHALE_ROLE_LOSS_SCALE || state.role == SHALE_ROLE_RESIDUAL)
      for (int s = 0; s < group.segment_count; ++s)
        if (group.segments[s].parameter == parameter)
          return false;
  }
  return true;
}

/// Whether a joint axis has axes of the mesh as members, ascending, and their ranks.
static bool isConsistent(const ShaleJointAxis &joint, const ShaleProgram &program) {
  int64_t size = 1;
  int last = -1;
  for (int m = 0; m < joint.member_count; ++m) {
    if (joint.members[m] <= last || joint.members[m] >= program.axis_count)
      return false;
    last = joint.members[m];
    size *= program.axes[last].size;
  }
  return size == joint.size;
}

void checkProgram(const ShaleProgram &p) {
  auto need = [](bool holds, const char *what, int index) {
    if (!holds)
      fail(SHALE_EXIT_INTERNAL, "the compiled program's %s %d is inconsistent", what, index);
  };
  if (p.abi_version != SHALE_ABI_VERSION)
    fail(SHALE_EXIT_INTERNAL,
         "compiled for runtime ABI %d, linked with a runtime of ABI %d; compile "
         "it again",
         p.abi_version, SHALE_ABI_VERSION);
  for (int a = 0; a < p.axis_count; ++a)
    need(p.axes[a].size > 0 && (p.axes[a].splits_batch == 0 || p.axes[a].splits_batch == 1), "axis",
         a);
  for (int j = 0; j < p.joint_axis_count; ++j)
    need(isConsistent(p.joint_axes[j], p), "joint axis", j);
  need(p.world_size == meshSize(p), "world size", p.world_size);
  for (int i = 0; i < p.parameter_count; ++i) {
    int64_t count = 1;
    for (int d = 0; d < p.parameters[i].rank; ++d)
      count *= p.parameters[i].dims[d];
    need(count == p.parameters[i].count && p.parameters[i].type >= 0 &&
             p.parameters[i].type <= SHALE_BOOL,
         "parameter", i);
  }
  for (int g = 0; g < p.group_count; ++g)
    for (int s = 0; s < p.groups[g].segment_count; ++s) {
      const ShaleSegment &segment = p.groups[g].segments[s];
      need(segment.parameter >= 0 && segment.parameter < p.parameter_count && segment.offset >= 0 &&
               segment.count >= 0 && segment.offset + segment.count <= p.groups[g].count,
           "group", g);
      int64_t count = 1;
      for (int32_t d = 0; d < segment.rank; ++d) {
        int32_t axis = segment.axes[d];
        need(axis < axisTotal(p), "group", g);
        int64_t end = segment.begin[d] + segment.size[d] * (axis < 0 ? 1 : axisSize(p, axis));
        bool mayPass = d == 0 || d + 1 == segment.rank; // the end: padding
        need(segment.begin[d] >= 0 && segment.size[d] > 0 &&
                 (end <= segment.dims[d] || (mayPass && segment.begin[d] < segment.dims[d])),
             "group", g);
        count *= segment.size[d];
      }
      need(segment.rank == 0 || segment.count == count, "group", g);
      for (int a = 0; a < p.axis_count; ++a)
        need(!splits(p, segment, a) || splits(p, p.groups[g], a), "group", g);
    }
  for (int i = 0; i < p.state_count; ++i) {
    const ShaleState &s = p.states[i];
    need(s.group >= 0 && s.group < p.group_count && s.axis < axisTotal(p) && s.type >= 0 &&
             s.type <= SHALE_BOOL && s.offset >= 0 && s.role >= 0 &&
             s.role < SHALE_ROLE_SLOT + p.slot_count,
         "state", i);
    need(s.local_count * slicesOfState(p, s) == p.groups[s.group].count &&
             s.offset + s.local_count * sizeOf(static_cast<Dtype>(s.type)) <=
                 p.state_bytes + p.host_state_bytes,
         "state", i);
    // State of the optimizer may have another shape than its parameter.
    for (int e = 0; e < p.groups[s.group].segment_count && s.role < SHALE_ROLE_SLOT; ++e) {
      const ShaleSegment &segment = p.groups[s.group].segments[e];
      need(wholeCount(segment) == p.parameters[segment.parameter].count, "state", i);
    }
  }
  for (int h = 0; h < p.hyper_count; ++h) {
    const ShaleHyper &own = p.hyper[h];
    bool needsBase = own.source == SHALE_HYPER_BIAS_CORRECTION ||
                     own.source == SHALE_HYPER_INVERSE_DECAY ||
                     own.source == SHALE_HYPER_AFTER_FIRST || own.source == SHALE_HYPER_OWN_RATE;
    bool alone = !needsBase && own.base < 0;
    need(alone || (own.base >= 0 && own.base < p.hyper_count &&
                   p.hyper[own.base].source == SHALE_HYPER_FLAG),
         "hyper-parameter", h);
  }
  for (int i = 0; i < p.site_count; ++i)
    need(p.sites[i].axis >= 0 && p.sites[i].axis < axisTotal(p) &&
             p.sites[i].bucket_size <= p.site_count,
         "site", i);
  need(p.step && p.accumulate >= 1 && (p.accumulate < 2 || p.accumulate_first) &&
           (p.accumulate < 3 || p.accumulate_next),
       "number of micro-batches", p.accumulate);
}

} // namespace shale::rt
