// Micro-batches from tensors by name or from windows of tokens by binding.
#include "runtime/data/Batches.h"
#include "runtime/core/Error.h"
#include "runtime/core/Rank.h"
#include "runtime/data/Order.h"

#include <algorithm>
#include <cstring>

namespace shale::rt {

int64_t elementsOf(const ShaleInput &input) {
  int64_t count = 1;
  for (int d = 0; d < input.rank; ++d)
    count *= input.dims[d];
  return count;
}

static std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

Batches::Batches(const ShaleProgram &program, int rank,
                 const DataOptions &options)
    : program(program), rank(rank), options(options) {
  if (endsWith(options.path, ".safetensors"))
    tensors.emplace(options.path);
  else if (!options.path.empty())
    tokens.emplace(options.path, options.binType);
  plans.resize(program.input_count);
  for (int i = 0; i < program.input_count; ++i)
    planInput(i);
  if (windowRows == 0)
    return;
  windows = tokens->count() < windowRead
                ? 0
                : (tokens->count() - windowRead) / windowLength + 1;
  if (windows == 0)
    fail(SHALE_EXIT_DATA,
         "'%s' has %lld tokens, fewer than the %lld that one row needs",
         options.path.c_str(), (long long)tokens->count(),
         (long long)windowRead);
  buffer.resize(
      std::max<size_t>(buffer.size(), windowRead * sizeOf(tokens->type())));
}

void Batches::planInput(int index) {
  const ShaleInput &input = program.inputs[index];
  Plan &plan = plans[index];
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

  std::string binding = input.binding ? input.binding : "";
  if (binding == "seed" || binding == "step" || binding == "microbatch") {
    plan.kind = Plan::Random;
    return;
  }
  if (tensors && (plan.tensor = tensors->find(input.name)))
    return planTensor(index, plan);
  if (binding == "ones" || binding == "arange") {
    plan.kind = binding == "ones" ? Plan::Ones : Plan::Range;
    return;
  }
  if (tensors && binding == "tokens")
    for (int other = 0; other < program.input_count; ++other) {
      const char *bound = program.inputs[other].binding;
      if (other != index && bound && std::string(bound) == "tokens" &&
          elementsOf(program.inputs[other]) == elementsOf(input) &&
          program.inputs[other].type == input.type &&
          tensors->find(program.inputs[other].name)) {
        plan.kind = Plan::Copy;
        plan.from = other;
        return;
      }
    }
  if (tensors)
    fail(SHALE_EXIT_DATA, "'%s' has no tensor '%s', which the program reads",
         options.path.c_str(), input.name);
  if (!tokens)
    fail(SHALE_EXIT_USAGE, "the program reads input '%s': give --data FILE",
         input.name);
  if (binding != "tokens" && binding != "tokens+1")
    fail(SHALE_EXIT_DATA,
         "input '%s' is bound to no tokens, so '%s' cannot fill it: give a "
         ".safetensors file with a tensor of that name",
         input.name, options.path.c_str());
  if (!isInteger(static_cast<Dtype>(input.type)))
    fail(SHALE_EXIT_DATA, "input '%s' is bound to tokens but has type %s",
         input.name, nameOf(static_cast<Dtype>(input.type)));
  plan.kind = Plan::Tokens;
  plan.shift = binding == "tokens+1" ? 1 : 0;
  int64_t length = plan.outer * plan.inner;
  if (windowRows != 0 &&
      (length != windowLength || plan.wholeRows != windowRows))
    fail(SHALE_EXIT_DATA,
         "input '%s' has %lld rows of %lld tokens, another input %lld of %lld",
         input.name, (long long)plan.wholeRows, (long long)length,
         (long long)windowRows, (long long)windowLength);
  windowLength = length;
  windowRows = plan.wholeRows;
  windowRead = std::max(windowRead, length + plan.shift);
}

void Batches::planTensor(int index, Plan &plan) {
  const ShaleInput &input = program.inputs[index];
  plan.kind = Plan::Tensor;
  std::vector<int64_t> whole(input.dims, input.dims + input.rank);
  if (input.batch_dim >= 0)
    whole[input.batch_dim] = plan.wholeRows;
  const std::vector<int64_t> &shape = plan.tensor->shape;
  if (shape.size() != whole.size() + 1 ||
      !std::equal(whole.begin(), whole.end(), shape.begin() + 1))
    fail(
        SHALE_EXIT_DATA,
        "'%s': tensor '%s' has shape %s; the program reads micro-batches of %s "
        "behind a leading dimension that counts them",
        options.path.c_str(), input.name, shapeText(shape).c_str(),
        shapeText(whole).c_str());
  Dtype type = static_cast<Dtype>(input.type);
  if (isInteger(type) != isInteger(plan.tensor->type))
    fail(SHALE_EXIT_DATA, "'%s': tensor '%s' has type %s, the program reads %s",
         options.path.c_str(), input.name, nameOf(plan.tensor->type),
         nameOf(type));
  microBatches = microBatches < 0 ? shape[0] : std::min(microBatches, shape[0]);
  buffer.resize(std::max<size_t>(buffer.size(), plan.rowCount * plan.inner *
                                                    sizeOf(plan.tensor->type)));
}

void Batches::fill(int64_t step, int64_t firstRow, void *const *buffers) {
  for (int i = 0; i < program.input_count; ++i) {
    const ShaleInput &input = program.inputs[i];
    Dtype type = static_cast<Dtype>(input.type);
    char *target = static_cast<char *>(buffers[i]);
    switch (plans[i].kind) {
    case Plan::Tensor:
      fillTensor(i, step, target);
      break;
    case Plan::Tokens:
      fillTokens(i, firstRow, target);
      break;
    case Plan::Ones:
    case Plan::Range: {
      int64_t count = elementsOf(input);
      int64_t last = input.rank ? input.dims[input.rank - 1] : 1;
      for (int64_t e = 0; e < count; ++e) {
        int64_t value = plans[i].kind == Plan::Ones ? 1 : e % last;
        convert(Dtype::I64, &value, type, target + e * sizeOf(type), 1);
      }
      break;
    }
    case Plan::Copy:
    case Plan::Random:
      break;
    }
  }
  for (int i = 0; i < program.input_count; ++i)
    if (plans[i].kind == Plan::Copy)
      std::memcpy(buffers[i], buffers[plans[i].from],
                  elementsOf(program.inputs[i]) *
                      sizeOf(static_cast<Dtype>(program.inputs[i].type)));
}

void Batches::fillRandom(const Randomness &randomness,
                         void *const *buffers) const {
  for (int i = 0; i < program.input_count; ++i) {
    if (plans[i].kind != Plan::Random)
      continue;
    std::string binding = program.inputs[i].binding;
    int64_t value = binding == "seed" ? static_cast<int64_t>(randomness.seed)
                    : binding == "step" ? randomness.step
                                        : randomness.microbatch;
    std::memcpy(buffers[i], &value, sizeof(value));
  }
}

void Batches::fillTensor(int index, int64_t step, void *target) {
  const Plan &plan = plans[index];
  Dtype to = static_cast<Dtype>(program.inputs[index].type);
  int64_t element = sizeOf(plan.tensor->type);
  int64_t run = plan.rowCount * plan.inner;
  char *out = static_cast<char *>(target);
  for (int64_t o = 0; o < plan.outer; ++o) {
    int64_t row = (step * plan.outer + o) * plan.wholeRows + plan.firstRow;
    tensors->file().readAt(plan.tensor->offset + row * plan.inner * element,
                           buffer.data(), run * element);
    convert(plan.tensor->type, buffer.data(), to, out + o * run * sizeOf(to),
            run);
    check(index, o * run, run, target, "element", row * plan.inner);
  }
}

int64_t Batches::windowOf(int64_t row) const {
  int64_t epoch = row / windows, position = row % windows;
  return options.shuffle ? shuffled(options.seed, epoch, windows, position)
                         : position;
}

void Batches::fillTokens(int index, int64_t firstRow, void *target) {
  const Plan &plan = plans[index];
  Dtype to = static_cast<Dtype>(program.inputs[index].type);
  char *out = static_cast<char *>(target);
  int64_t element = sizeOf(tokens->type());
  for (int64_t r = 0; r < plan.rowCount; ++r) {
    int64_t window = windowOf(firstRow + plan.firstRow + r);
    tokens->read(window * windowLength + plan.shift, windowLength,
                 buffer.data());
    for (int64_t o = 0; o < plan.outer; ++o) {
      int64_t at = (o * plan.rowCount + r) * plan.inner;
      convert(tokens->type(), buffer.data() + o * plan.inner * element, to,
              out + at * sizeOf(to), plan.inner);
      check(index, at, plan.inner, target, "token",
            window * windowLength + plan.shift + o * plan.inner);
    }
  }
}

/// What a value out of range means nobody knows (a look-up reads nothing there):
/// it is an error of the data, not a number in the loss.
void Batches::check(int index, int64_t from, int64_t count, const void *data,
                    const char *what, int64_t position) const {
  const ShaleInput &input = program.inputs[index];
  Dtype type = static_cast<Dtype>(input.type);
  if (input.bound == 0 || !isInteger(type))
    return;
  for (int64_t e = from; e < from + count; ++e) {
    int64_t value = integerAt(type, data, e);
    if ((value < 0 || value >= input.bound) && value != input.ignored)
      fail(SHALE_EXIT_DATA,
           "'%s': %s %lld is %lld, but input '%s' takes values from 0 to "
           "%lld%s; is it another tokenizer's, or of another --token-dtype?",
           options.path.c_str(), what, (long long)(position + e - from),
           (long long)value, input.name, (long long)input.bound - 1,
           input.ignored ? format(" and %lld", (long long)input.ignored).c_str()
                         : "");
  }
}

} // namespace shale::rt
