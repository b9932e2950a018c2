//===- ParameterTables.cpp - Tables of the state_dict ---------------------===//
#include "passes/program/ParameterTables.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Folding/TypedBuffer.h"
#include "passes/program/FileFacts.h"
#include "passes/program/Program.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace shale;
using namespace shale::abi;

static void setFacts(Row<ShaleInit> &row, const FileFacts &facts) {
  row.hash = facts.hash;
  row.mean = facts.mean;
  row.deviation = facts.deviation;
}

/// Returns an initial value without a file, of zeros.
static Row<ShaleInit> emptyInit(ShaleInitKind kind) {
  Row<ShaleInit> row;
  row.kind = kind;
  row.transposed = 0;
  row.fill = 0;
  row.file = nullptr;
  row.file_size = 0;
  row.offset = 0;
  row.length = 0;
  row.type = SHALE_F32;
  setFacts(row, {});
  return row;
}

/// Returns the initial value of a state. Fails after an error if its file cannot be read. A missing
/// file is no error here.
static FailureOr<Row<ShaleInit>> initOf(nn::StateOp state, ProgramData &data, StringRef folder) {
  RankedTensorType type = state.getTensorType();
  Attribute init = state.getInitAttr();
  auto place = dyn_cast_or_null<nn::FileAttr>(init);
  auto dense = dyn_cast_or_null<DenseElementsAttr>(init);
  Type stored = place   ? place.elementTypeFor(type.getElementType(), type.getNumElements())
                : dense ? dense.getElementType()
                        : type.getElementType();
  Row<ShaleInit> row = emptyInit(SHALE_INIT_FILL);
  row.type = runtimeType(stored);
  if (nn::FileAttr file = place) {
    SmallString<256> path(file.getPath());
    uint64_t size = 0;
    if (auto error = llvm::sys::fs::make_absolute(path))
      return state.emitOpError("cannot resolve ") << file.getPath() << ": " << error.message(),
             failure();
    auto error = llvm::sys::fs::file_size(path, size);
    row.kind = SHALE_INIT_FILE;
    row.transposed = file.getTransposed();
    row.file = data.text(embeddedPath(path, folder));
    row.offset = file.getOffset();
    row.length = file.getLength();
    if (error == std::errc::no_such_file_or_directory) // the program exits with 66 if the file is
                                                       // still missing
      return row;
    if (error)
      return state.emitOpError("cannot find its initial values in ")
                 << path << ": " << error.message(),
             failure();
    if (uint64_t(file.getOffset()) > size || uint64_t(file.getLength()) > size - file.getOffset())
      return state.emitOpError("its initial values end beyond ")
                 << path << " of " << size << " bytes",
             failure();
    std::optional<FileFacts> facts =
        factsOfFile(path, file.getOffset(), file.getLength(), type.clone(stored));
    if (!facts)
      return state.emitOpError("cannot read its initial values in ") << path, failure();
    row.file_size = int64_t(size);
    setFacts(row, *facts);
    return row;
  }
  if (dense) {
    std::optional<folding::TypedBuffer> value = folding::TypedBuffer::of(dense);
    if (!value || !(value = value->rowMajor()))
      return state.emitOpError("cannot store its initial values"), failure();
    std::string bytes(value->data(), value->size() * folding::widthOf(value->kind()));
    row.kind = SHALE_INIT_DATA;
    row.file = data.text(bytes);
    row.length = int64_t(bytes.size());
    return row;
  }
  if (auto attr = dyn_cast_or_null<nn::FillAttr>(init))
    row.fill = attr.getValue().getValueAsDouble();
  return row;
}

static bool isParameter(nn::StateOp state) {
  return (state.getRole() == nn::Role::Param || state.getRole() == nn::Role::Divided ||
          state.getRole() == nn::Role::Buffer || state.getRole() == nn::Role::Running ||
          state.getRole() == nn::Role::LossScale || state.getRole() == nn::Role::Residual) &&
         !state->hasAttr(dist::kUnitAttr) && !state->hasAttr(nn::kPartAttr);
}

/// Whether the model's state_dict does not contain a buffer.
static bool isTransient(ModuleOp module, StringRef name) {
  auto buffers = module->getAttrOfType<DictionaryAttr>(nn::kBuffersAttr);
  auto fields = buffers ? buffers.getAs<DictionaryAttr>(name) : DictionaryAttr();
  return fields && !fields.getAs<BoolAttr>("persistent").getValue();
}

/// Returns the type of the value of which each rank has the part of its coordinates, from the type
/// of a residual: a dimension for each axis of the mesh comes first.
static RankedTensorType valueOfRanks(nn::StateOp residual) {
  RankedTensorType own = residual.getTensorType();
  SmallVector<int64_t> shape;
  dist::MeshOp mesh = dist::getMesh(residual);
  for (auto axis : mesh.getAxes().getAsRange<StringAttr>())
    shape.push_back(mesh.getSize(axis));
  llvm::append_range(shape, own.getShape());
  return own.clone(shape);
}

static bool isBuffer(nn::StateOp state) {
  return state.getRole() == nn::Role::Buffer || state.getRole() == nn::Role::Running;
}

FailureOr<Rows<ShaleParameter>> shale::parameterTable(ModuleOp module, ProgramData &data,
                                                      StringRef folder, ParameterIndex &index) {
  std::vector<Row<ShaleParameter>> rows;
  for (auto state : module.getOps<nn::StateOp>()) {
    if (!isParameter(state))
      continue;
    FailureOr<Row<ShaleInit>> init = initOf(state, data, folder);
    if (failed(init))
      return failure();
    std::vector<Address<const char>> aliases;
    if (ArrayAttr names = state.getNamesAttr())
      for (auto name : names.getAsRange<StringAttr>())
        if (name.getValue() != state.getSymName())
          aliases.push_back(data.text(name.getValue()));
    if (!aliases.empty())
      aliases.emplace_back(); // the end
    RankedTensorType type = state.getTensorType();
    if (state.getRole() == nn::Role::Residual)
      type = valueOfRanks(state);
    index[state.getSymNameAttr()] = rows.size();
    Row<ShaleParameter> row;
    row.name = data.text(state.getSymName());
    row.aliases =
        Address<const char *const>{data.addresses<const char *>("aliases", aliases).symbol};
    row.type = runtimeType(type.getElementType());
    row.rank = type.getRank();
    row.dims = data.numbers("dims", type.getShape());
    row.count = type.getNumElements();
    row.trained = !isBuffer(state) && state.getRole() != nn::Role::LossScale &&
                  state.getRole() != nn::Role::Residual && state.getTrained().value_or(true);
    row.buffer = !isBuffer(state) ? 0 : isTransient(module, state.getSymName()) ? 2 : 1;
    row.init = *init;
    rows.push_back(std::move(row));
  }
  return data.table<ShaleParameter>("parameters", rows);
}

Rows<ShaleParameter> shale::keptTable(ModuleOp module, ProgramData &data, StringRef folder) {
  std::vector<Row<ShaleParameter>> rows;
  auto add = [&](StringRef name, RankedTensorType type, nn::FileAttr file) {
    ShaleType element = type ? runtimeType(type.getElementType()) : SHALE_NO_TYPE;
    Row<ShaleParameter> row;
    row.name = data.text(name);
    row.aliases = nullptr;
    row.type = SHALE_NO_TYPE;
    row.rank = 0;
    row.dims = nullptr;
    row.count = 0;
    row.trained = 0;
    row.buffer = 1;
    row.init = emptyInit(SHALE_INIT_FILE);
    if (element != SHALE_NO_TYPE && llvm::sys::fs::exists(file.getPath())) {
      row.type = element;
      row.rank = type.getRank();
      row.dims = data.numbers("dims", type.getShape());
      row.count = type.getNumElements();
      uint64_t size = 0;
      (void)llvm::sys::fs::file_size(file.getPath(), size);
      row.init.type = element;
      row.init.file = data.text(embeddedPath(file.getPath(), folder));
      row.init.file_size = int64_t(size);
      row.init.offset = file.getOffset();
      row.init.length = file.getLength();
      setFacts(row.init, factsOfFile(file.getPath(), file.getOffset(), file.getLength(), type)
                             .value_or(FileFacts()));
    }
    rows.push_back(std::move(row));
  };
  if (auto buffers = module->getAttrOfType<DictionaryAttr>(nn::kBuffersAttr))
    for (NamedAttribute entry : buffers) {
      auto fields = cast<DictionaryAttr>(entry.getValue());
      if (!fields.getAs<BoolAttr>("persistent").getValue() ||
          module.lookupSymbol<nn::StateOp>(entry.getName()))
        continue;
      auto type = fields.getAs<TypeAttr>("type");
      add(entry.getName(), type ? cast<RankedTensorType>(type.getValue()) : RankedTensorType(),
          fields.getAs<nn::FileAttr>("init"));
    }
  // Parameters that no op reads.
  if (auto absent = module->getAttrOfType<ArrayAttr>(nn::kAbsentAttr))
    for (StringRef name : absent.getAsValueRange<StringAttr>())
      add(name, RankedTensorType(), nn::FileAttr());
  return data.table<ShaleParameter>("kept", rows);
}
