// How each input of a program is filled from data files.
#include "runtime/data/InputPlans.h"
#include "runtime/core/Error.h"
#include "runtime/core/Rank.h"
#include "runtime/data/Inputs.h"

#include <algorithm>

namespace shale::rt {

static std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// Whether a file given as data has a parameter of the program.
static bool hasWeights(const ShaleProgram &program, const SafetensorsReader &file) {
  return std::any_of(program.parameters, program.parameters + program.parameter_count,
                     [&](const ShaleParameter &one) { return file.find(one.name) != nullptr; });
}

InputPlans::InputPlans(const ShaleProgram &program, int rank, const OpenedFiles &files)
    : program(program), rank(rank), files(files), plans(program.input_count) {
  for (int i = 0; i < program.input_count; ++i)
    planInput(i);
}

bool InputPlans::canIgnore() const {
  for (int i = 0; i < program.input_count; ++i)
    if (plans[i].kind == InputPlan::Tokens && program.inputs[i].ignored != 0)
      return true;
  return false;
}

void InputPlans::planInput(int index) {
  const ShaleInput &input = program.inputs[index];
  InputPlan &plan = plans[index];
  const auto &tensors = files.tensors();
  int split = input.batch_dim;
  for (int d = 0; d < input.rank; ++d) {
    if (d < split)
      plan.outer *= input.dims[d];
    else if (d == split)
      plan.rowCount = input.dims[d];
    else
      plan.inner *= input.dims[d];
  }
  int64_t parts = split >= 0 ? dataParts(program) : 1;
  plan.wholeRows = plan.rowCount * parts;
  plan.firstRow = split >= 0 ? plan.rowCount * dataPart(program, rank) : 0;

  if (input.binding == SHALE_BINDING_SEED || input.binding == SHALE_BINDING_STEP ||
      input.binding == SHALE_BINDING_MICROBATCH) {
    plan.kind = InputPlan::Random;
    return;
  }
  if (!tensors.empty() && tensors[0]->find(input.name))
    return planTensor(index, plan);
  if (input.binding == SHALE_BINDING_ONES || input.binding == SHALE_BINDING_ALL_ONES ||
      input.binding == SHALE_BINDING_ARANGE) {
    plan.kind = input.binding == SHALE_BINDING_ARANGE ? InputPlan::Range : InputPlan::Ones;
    return;
  }
  if (!tensors.empty() && planFromTokens(index, plan))
    return;
  if (!tensors.empty())
    fail(SHALE_EXIT_DATA, "'%s' has no tensor '%s', which the program reads%s",
         tensors[0]->file().path().c_str(), input.name,
         hasWeights(program, *tensors[0]) ? ": it holds weights, which --init takes" : "");
  planTokens(index, plan);
}

void InputPlans::planTokens(int index, InputPlan &plan) {
  const ShaleInput &input = program.inputs[index];
  if (files.tokens().empty())
    fail(SHALE_EXIT_USAGE, "the program reads input '%s': give --data FILE", input.name);
  if (!readsTokens(input))
    fail(SHALE_EXIT_DATA,
         "input '%s' is bound to no tokens, so '%s' cannot fill it: give a "
         ".safetensors file with a tensor of that name",
         input.name, files.path().c_str());
  if (!isInteger(static_cast<Dtype>(input.type)))
    fail(SHALE_EXIT_DATA, "input '%s' is bound to tokens but has type %s", input.name,
         nameOf(static_cast<Dtype>(input.type)));
  plan.kind = InputPlan::Tokens;
  plan.shift = input.binding == SHALE_BINDING_NEXT_TOKENS ? 1 : 0;
  int64_t length = plan.outer * plan.inner;
  if (row.count != 0 && (length != row.length || plan.wholeRows != row.count))
    fail(SHALE_EXIT_DATA, "input '%s' has %lld rows of %lld tokens, another input %lld of %lld",
         input.name, (long long)plan.wholeRows, (long long)length, (long long)row.count,
         (long long)row.length);
  row = {length, std::max(row.read, length + plan.shift), plan.wholeRows};
}

bool InputPlans::planFromTokens(int index, InputPlan &plan) {
  const ShaleInput &input = program.inputs[index];
  bool next = input.binding == SHALE_BINDING_NEXT_TOKENS;
  if (!readsTokens(input))
    return false;
  for (int i = 0; i < program.input_count; ++i) {
    const ShaleInput &other = program.inputs[i];
    if (i == index || other.binding != SHALE_BINDING_TOKENS ||
        !files.tensors()[0]->find(other.name) || elementsOf(other) != elementsOf(input))
      continue;
    bool sameShape = other.rank == input.rank && other.batch_dim == input.batch_dim &&
                     std::equal(input.dims, input.dims + input.rank, other.dims);
    if (next ? !sameShape || !isInteger(static_cast<Dtype>(input.type)) : other.type != input.type)
      continue;
    if (next && input.ignored == 0)
      fail(
          SHALE_EXIT_DATA,
          "'%s' has no tensor '%s', and it cannot be made of the tokens in '%s': the last position "
          "of a row has no next token, and the model's loss ignores no label. Add a tensor '%s', or "
          "give --data a file of tokens",
          files.tensors()[0]->file().path().c_str(), input.name, other.name, input.name);
    plan.kind = next ? InputPlan::Next : InputPlan::Copy;
    plan.from = i;
    return true;
  }
  return false;
}

void InputPlans::planTensor(int index, InputPlan &plan) {
  const ShaleInput &input = program.inputs[index];
  plan.kind = InputPlan::Tensor;
  std::vector<int64_t> whole(input.dims, input.dims + input.rank);
  if (input.batch_dim >= 0)
    whole[input.batch_dim] = plan.wholeRows;
  for (const auto &reader : files.tensors()) {
    const char *path = reader->file().path().c_str();
    const TensorInfo *tensor = reader->find(input.name);
    if (!tensor)
      fail(SHALE_EXIT_DATA, "'%s' has no tensor '%s', which the program reads", path, input.name);
    plan.tensors.push_back(tensor);
    const std::vector<int64_t> &shape = tensor->shape;
    if (shape.size() != whole.size() + 1 ||
        !std::equal(whole.begin(), whole.end(), shape.begin() + 1))
      fail(SHALE_EXIT_DATA,
           "'%s': tensor '%s' has shape %s; expected a leading dimension that counts "
           "micro-batches, then %s",
           path, input.name, shapeText(shape).c_str(), shapeText(whole).c_str());
    Dtype type = static_cast<Dtype>(input.type);
    if (isInteger(type) != isInteger(tensor->type))
      fail(SHALE_EXIT_DATA, "'%s': tensor '%s' has type %s, the program reads %s", path, input.name,
           nameOf(tensor->type), nameOf(type));
  }
}

} // namespace shale::rt
