// Micro-batches from tensors by name or from windows of tokens by binding.
#include "runtime/data/Batches.h"
#include "runtime/core/Error.h"
#include "runtime/data/Inputs.h"
#include "runtime/data/Order.h"

#include <algorithm>
#include <cstring>

namespace shale::rt {

Batches::Batches(const ShaleProgram &program, int rank, const DataOptions &options)
    : program(program), options(options),
      opened(options.path, {options.binType, options.typed, vocabularyOf(program)}),
      plans(program, rank, opened), tokenRow(plans.tokenRow()) {
  countMicroBatches();
  if (tokenRow.count != 0)
    countWindows();
}

/// Counts the micro-batches of each file: those of the input with the fewest.
void Batches::countMicroBatches() {
  for (size_t f = 0; f < opened.tensors().size(); ++f) {
    int64_t least = -1;
    for (const InputPlan &plan : plans) {
      if (plan.kind != InputPlan::Tensor)
        continue;
      const TensorInfo &tensor = *plan.tensors[f];
      least = least < 0 ? tensor.shape[0] : std::min(least, tensor.shape[0]);
      reserve(plan.rowCount * plan.inner * sizeOf(tensor.type));
    }
    if (least < 0)
      return; // the program reads none
    microBatches = std::max<int64_t>(microBatches, 0) + least;
    ends.push_back(microBatches);
  }
  if (microBatches == 0)
    fail(SHALE_EXIT_DATA, "'%s' has no micro-batch", options.path.c_str());
}

/// Counts windows. A window lies within one file; a file that is too short for one is skipped.
void Batches::countWindows() {
  int64_t bytes = 0, longest = 0;
  for (const auto &file : opened.tokens()) {
    int64_t count = file->count();
    windows += count < tokenRow.read ? 0 : (count - tokenRow.read) / tokenRow.length + 1;
    ends.push_back(windows);
    longest = std::max(longest, count);
    bytes = std::max(bytes, tokenRow.read * sizeOf(file->type()));
  }
  if (windows == 0)
    fail(SHALE_EXIT_DATA, "'%s' has %lld tokens, fewer than the %lld that one row needs",
         options.path.c_str(), (long long)longest, (long long)tokenRow.read);
  reserve(bytes);
}

void Batches::reserve(size_t bytes) { buffer.resize(std::max(buffer.size(), bytes)); }

double Batches::stepsInPass(int64_t perStep) const {
  double micro = tokenRow.count > 0 ? static_cast<double>(windows) / tokenRow.count
                                    : static_cast<double>(std::max<int64_t>(microBatches, 0));
  return micro / perStep;
}

int64_t Batches::stepsIn(double passes, int64_t perStep) const {
  return static_cast<int64_t>(std::min(passes * stepsInPass(perStep) + 1e-9, 9e15));
}

std::string Batches::describe() const {
  std::string where = opened.count() > 1 ? format(" in %zu files", opened.count()) : "";
  if (tokenRow.count > 0) {
    int64_t count = 0;
    for (const auto &file : opened.tokens())
      count += file->count();
    return format("%s: %lld tokens (%s)%s, %lld rows of %lld", options.path.c_str(),
                  (long long)count, nameOf(opened.tokens()[0]->type()), where.c_str(),
                  (long long)windows, (long long)tokenRow.length);
  }
  auto read = std::find_if(plans.begin(), plans.end(),
                           [](const InputPlan &plan) { return plan.kind == InputPlan::Tensor; });
  if (read == plans.end())
    return "";
  return format("%s: %lld micro-batches of %lld rows%s", options.path.c_str(),
                (long long)microBatches, (long long)read->wholeRows, where.c_str());
}

bool Batches::hasLabels(void *const *buffers) const {
  bool ignores = false;
  for (int i = 0; i < program.input_count; ++i) {
    const ShaleInput &input = program.inputs[i];
    if (input.ignored == 0 || !isInteger(static_cast<Dtype>(input.type)))
      continue;
    ignores = true;
    for (int64_t e = 0, count = elementsOf(input); e < count; ++e)
      if (integerAt(static_cast<Dtype>(input.type), buffers[i], e) != input.ignored)
        return true;
  }
  return !ignores;
}

int64_t Batches::wholePass() const {
  if (tokenRow.count == 0)
    return std::max<int64_t>(microBatches, 1);
  if (plans.canIgnore())
    return (windows + tokenRow.count - 1) / tokenRow.count;
  if (windows < tokenRow.count)
    fail(SHALE_EXIT_DATA,
         "'%s' has %lld rows, fewer than the %lld of one micro-batch, and the "
         "model ignores no label",
         options.path.c_str(), (long long)windows, (long long)tokenRow.count);
  return windows / tokenRow.count;
}

int64_t Batches::rowsLeftOut() const {
  return tokenRow.count == 0 || plans.canIgnore() ? 0 : windows % tokenRow.count;
}

int64_t Batches::rowsInFilled() const {
  return tokenRow.count == 0 || !plans.canIgnore() ? 0 : windows % tokenRow.count;
}

void Batches::fillOnce(int64_t step, void *const *buffers, Filler with) {
  lastRow = windows;
  filler = with;
  fill(step, step * tokenRow.count, buffers);
  lastRow = -1;
}

void Batches::fillUnlabelled(int64_t step, void *const *buffers) {
  lastRow = 0;
  filler = Filler::Rows;
  fill(step, step * tokenRow.count, buffers);
  lastRow = -1;
}

void Batches::fill(int64_t step, int64_t firstRow, void *const *buffers) {
  for (int i = 0; i < program.input_count; ++i) {
    const ShaleInput &input = program.inputs[i];
    Dtype type = static_cast<Dtype>(input.type);
    char *target = static_cast<char *>(buffers[i]);
    switch (plans[i].kind) {
    case InputPlan::Tensor:
      fillTensor(i, step, target);
      break;
    case InputPlan::Tokens:
      fillTokens(i, firstRow, target);
      break;
    case InputPlan::Ones:
    case InputPlan::Range: {
      int64_t count = elementsOf(input);
      int64_t last = input.rank ? input.dims[input.rank - 1] : 1;
      for (int64_t e = 0; e < count; ++e) {
        int64_t value = plans[i].kind == InputPlan::Ones ? 1 : e % last;
        convert(Dtype::I64, &value, type, target + e * sizeOf(type), 1);
      }
      break;
    }
    case InputPlan::Copy:
    case InputPlan::Next:
    case InputPlan::Random:
      break;
    }
  }
  for (int i = 0; i < program.input_count; ++i) {
    if (plans[i].kind == InputPlan::Copy)
      std::memcpy(buffers[i], buffers[plans[i].from],
                  elementsOf(program.inputs[i]) *
                      sizeOf(static_cast<Dtype>(program.inputs[i].type)));
    else if (plans[i].kind == InputPlan::Next)
      fillNext(i, buffers[plans[i].from], buffers[i]);
  }
}

void Batches::fillRandom(const Randomness &randomness, void *const *buffers) const {
  for (int i = 0; i < program.input_count; ++i) {
    if (plans[i].kind != InputPlan::Random)
      continue;
    int32_t binding = program.inputs[i].binding;
    int64_t value = binding == SHALE_BINDING_SEED   ? static_cast<int64_t>(randomness.seed)
                    : binding == SHALE_BINDING_STEP ? randomness.step
                                                    : randomness.microbatch;
    std::memcpy(buffers[i], &value, sizeof(value));
  }
}

/// Returns the file that holds item `at`, and the item's index in that file.
static std::pair<size_t, int64_t> fileOf(const std::vector<int64_t> &ends, int64_t at) {
  size_t file = std::upper_bound(ends.begin(), ends.end(), at) - ends.begin();
  return {file, file > 0 ? at - ends[file - 1] : at};
}

void Batches::fillTensor(int index, int64_t step, void *target) {
  const InputPlan &plan = plans[index];
  auto [file, batch] = fileOf(ends, step % microBatches);
  const TensorInfo &tensor = *plan.tensors[file];
  const InputFile &input = opened.tensors()[file]->file();
  Dtype to = static_cast<Dtype>(program.inputs[index].type);
  int64_t element = sizeOf(tensor.type);
  int64_t run = plan.rowCount * plan.inner;
  char *out = static_cast<char *>(target);
  for (int64_t o = 0; o < plan.outer; ++o) {
    int64_t row = (batch * plan.outer + o) * plan.wholeRows + plan.firstRow;
    input.readAt(tensor.offset + row * plan.inner * element, buffer.data(), run * element);
    convert(tensor.type, buffer.data(), to, out + o * run * sizeOf(to), run);
    check(index, o * run, run, target, input.path(), "element", row * plan.inner);
  }
}

int64_t Batches::windowOf(int64_t row) const {
  int64_t epoch = row / windows, position = row % windows;
  return options.shuffle ? shuffled(options.seed, epoch, windows, position) : position;
}

void Batches::fillTokens(int index, int64_t firstRow, void *target) {
  const InputPlan &plan = plans[index];
  const ShaleInput &input = program.inputs[index];
  Dtype to = static_cast<Dtype>(input.type);
  char *out = static_cast<char *>(target);
  for (int64_t r = 0; r < plan.rowCount; ++r) {
    int64_t row = firstRow + plan.firstRow + r;
    auto [number, window] = fileOf(ends, windowOf(row));
    const TokenFile &file = *opened.tokens()[number];
    int64_t element = sizeOf(file.type());
    file.read(window * tokenRow.length + plan.shift, tokenRow.length, buffer.data());
    bool fills = lastRow >= 0 && row >= lastRow, ignored = fills && input.ignored != 0;
    if (fills && filler == Filler::Zeros)
      std::memset(buffer.data(), 0, tokenRow.length * element);
    for (int64_t o = 0; o < plan.outer; ++o) {
      int64_t at = (o * plan.rowCount + r) * plan.inner;
      convert(file.type(), buffer.data() + o * plan.inner * element, to, out + at * sizeOf(to),
              plan.inner);
      for (int64_t e = 0; ignored && e < plan.inner; ++e)
        convert(Dtype::I64, &input.ignored, to, out + (at + e) * sizeOf(to), 1);
      check(index, at, plan.inner, target, file.path(), "token",
            window * tokenRow.length + plan.shift + o * plan.inner);
    }
  }
}

void Batches::fillNext(int index, const void *source, void *target) const {
  const InputPlan &plan = plans[index];
  const ShaleInput &input = program.inputs[index];
  Dtype from = static_cast<Dtype>(program.inputs[plan.from].type),
        to = static_cast<Dtype>(input.type);
  const char *in = static_cast<const char *>(source);
  char *out = static_cast<char *>(target);
  int64_t length = plan.outer * plan.inner; // of a row
  auto at = [&](int64_t row, int64_t position) {
    return (position / plan.inner * plan.rowCount + row) * plan.inner + position % plan.inner;
  };
  for (int64_t row = 0; row < plan.rowCount; ++row) {
    for (int64_t position = 0; position + 1 < length; ++position)
      convert(from, in + at(row, position + 1) * sizeOf(from), to,
              out + at(row, position) * sizeOf(to), 1);
    if (length > 0)
      convert(Dtype::I64, &input.ignored, to, out + at(row, length - 1) * sizeOf(to), 1);
  }
}

const char *Batches::filledWithOnes() const {
  for (int i = 0; i < program.input_count; ++i)
    if (!opened.tensors().empty() && plans[i].kind == InputPlan::Ones &&
        program.inputs[i].binding == SHALE_BINDING_ONES)
      return program.inputs[i].name;
  return nullptr;
}

/// A value out of range has no meaning (an embedding look-up would read nothing): it is
/// reported as an error in the data and does not go into the loss.
void Batches::check(int index, int64_t from, int64_t count, const void *data,
                    const std::string &path, const char *what, int64_t position) const {
  const ShaleInput &input = program.inputs[index];
  Dtype type = static_cast<Dtype>(input.type);
  if (input.binding == SHALE_BINDING_ALL_ONES) {
    char one[8];
    int64_t number = 1, size = sizeOf(type);
    convert(Dtype::I64, &number, type, one, 1);
    for (int64_t e = from; e < from + count; ++e)
      if (std::memcmp(static_cast<const char *>(data) + e * size, one, size) != 0)
        fail(SHALE_EXIT_DATA,
             "'%s': %s %lld of '%s' is not 1, but the program was compiled "
             "with --bind %s=ones: compile it without that flag, and it reads "
             "the tensor",
             options.path.c_str(), what, (long long)(position + e - from), input.name, input.name);
    return;
  }
  if (input.bound == 0 || !isInteger(type))
    return;
  for (int64_t e = from; e < from + count; ++e) {
    int64_t value = integerAt(type, data, e);
    if ((value < 0 || value >= input.bound) && value != input.ignored)
      fail(SHALE_EXIT_DATA,
           "'%s': %s %lld is %lld, but values of input '%s' must be from 0 to "
           "%lld%s; check --token-dtype and that the tokenizer is the model's",
           path.c_str(), what, (long long)(position + e - from), (long long)value, input.name,
           (long long)input.bound - 1,
           input.ignored ? format(" and %lld", (long long)input.ignored).c_str() : "");
  }
}

} // namespace shale::rt
