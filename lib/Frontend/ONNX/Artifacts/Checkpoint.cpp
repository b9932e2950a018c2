//===- Checkpoint.cpp - ONNX Runtime's training checkpoint ----------------===//
//
// Field numbers are those of ONNX Runtime's public schema ort_training_checkpoint.fbs, version 2.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Artifacts/Checkpoint.h"
#include "lib/Frontend/ONNX/Artifacts/FlatBuffer.h"
#include "llvm/ADT/Twine.h"

using namespace shale::onnx;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace {

constexpr int32_t kVersion = 2;
constexpr uint64_t kMostDims = 64;

namespace checkpoint {
enum { Version, Module, Groups };
} // namespace checkpoint
namespace module {
enum { Trained, Frozen, IsNominal, HasExternalData };
} // namespace module
namespace group {
enum { Name, Step, LearningRate, States };
} // namespace group
namespace state {
enum { Parameter, Moments };
} // namespace state
namespace tensor {
enum { Name, Doc, Dims, DataType, RawData, Strings, ExternalOffset };
} // namespace tensor

/// Assigns a value, or returns its error from the caller.
#define SHALE_READ(to, from)                                                                       \
  if (auto value = (from))                                                                         \
    (to) = std::move(*value);                                                                      \
  else                                                                                             \
    return value.takeError()

Expected<CheckpointTensor> readTensor(const FlatTable &table) {
  CheckpointTensor result;
  SHALE_READ(result.name, table.string(tensor::Name));
  StringRef name = result.name.take_front(200);
  SHALE_READ(result.dims, table.integers(tensor::Dims, kMostDims));
  SHALE_READ(result.dataType, table.number<int32_t>(tensor::DataType, 0));
  std::optional<FlatTable::Span> data;
  SHALE_READ(data, table.span(tensor::RawData));
  int64_t external = -1;
  SHALE_READ(external, table.number<int64_t>(tensor::ExternalOffset, -1));
  if (data && external >= 0)
    return llvm::createStringError("tensor '" + name + "' has data inside and outside the file");
  if (!data && external < 0)
    return llvm::createStringError("tensor '" + name + "' has no data");
  result.isExternal = external >= 0;
  result.offset = data ? int64_t(data->offset) : external;
  result.length = data ? int64_t(data->length) : -1;
  return result;
}

Error readTensors(const FlatTable &table, unsigned field, std::vector<CheckpointTensor> &to) {
  std::vector<FlatTable> tables;
  SHALE_READ(tables, table.tables(field));
  for (const FlatTable &one : tables) {
    CheckpointTensor tensor;
    SHALE_READ(tensor, readTensor(one));
    to.push_back(std::move(tensor));
  }
  return Error::success();
}

Expected<CheckpointGroup> readGroup(const FlatTable &table) {
  CheckpointGroup result;
  SHALE_READ(result.step, table.number<int64_t>(group::Step, 0));
  SHALE_READ(result.learningRate, table.number<float>(group::LearningRate, 0));
  std::vector<FlatTable> states;
  SHALE_READ(states, table.tables(group::States));
  for (const FlatTable &one : states) {
    StringRef parameter;
    SHALE_READ(parameter, one.string(state::Parameter));
    size_t first = result.moments.size();
    if (Error error = readTensors(one, state::Moments, result.moments))
      return error;
    for (size_t i = first; i < result.moments.size(); ++i)
      result.moments[i].name = parameter;
  }
  return result;
}

} // namespace

Expected<Checkpoint> shale::onnx::readCheckpoint(StringRef bytes) {
  std::optional<FlatTable> root, state;
  SHALE_READ(root, FlatTable::root(bytes, "ODTC"));
  int32_t version = 0;
  SHALE_READ(version, root->number<int32_t>(checkpoint::Version, 0));
  if (version != kVersion)
    return llvm::createStringError("it has version " + llvm::Twine(version) + ", Shale reads " +
                                   llvm::Twine(kVersion) +
                                   ", which ONNX Runtime 1.17 to 1.19 writes");
  SHALE_READ(state, root->table(checkpoint::Module));
  if (!state)
    return llvm::createStringError("it has no parameters");
  uint8_t isNominal = 0;
  SHALE_READ(isNominal, state->number<uint8_t>(module::IsNominal, 0));
  if (isNominal)
    return llvm::createStringError("it has the names of parameters without their values: save it "
                                   "without nominal_checkpoint");
  Checkpoint result;
  if (Error error = readTensors(*state, module::Trained, result.trained))
    return error;
  if (Error error = readTensors(*state, module::Frozen, result.frozen))
    return error;
  std::vector<FlatTable> groups;
  SHALE_READ(groups, root->tables(checkpoint::Groups));
  for (const FlatTable &one : groups) {
    CheckpointGroup group;
    SHALE_READ(group, readGroup(one));
    result.groups.push_back(std::move(group));
  }
  return result;
}
#undef SHALE_READ
