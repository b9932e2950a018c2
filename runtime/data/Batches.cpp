// Micro-batches from tensors by name or from windows of tokens by binding.
#include "runtime/data/Batches.h"
#include "runtime/core/Error.h"
#include "runtime/core/Rank.h"
#include "runtime/data/Order.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace shale::rt {

int64_t elementsOf(const ShaleInput &input) {
  int64_t count = 1;
  for (int d = 0; d < input.rank; ++d)
    count *= input.dims[d];
  return count;
}

static bool readsTokens(const ShaleInput &input) {
  return input.binding == SHALE_BINDING_TOKENS || input.binding == SHALE_BINDING_NEXT_TOKENS;
}

/// Whether an input holds tokens: integers at positions of a row, other than labels.
static bool isTokens(const ShaleInput &input) {
  bool isLabel = input.ignored != 0;
  return readsTokens(input) ||
         (isInteger(static_cast<Dtype>(input.type)) && input.rank >= 2 && !isLabel);
}

Counted countedOf(const ShaleProgram &program) {
  const ShaleInput *end = program.inputs + program.input_count;
  if (std::any_of(program.inputs, end, isTokens))
    return {true, program.tokens_per_step};
  const ShaleInput *first =
      std::find_if(program.inputs, end, [](const ShaleInput &one) { return one.batch_dim >= 0; });
  int64_t rows = first == end ? 1 : first->dims[first->batch_dim] * dataParts(program);
  return {false, rows * program.accumulate};
}

static std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

std::vector<std::string> dataFiles(const std::string &path) {
  std::error_code error;
  auto isFolder = [&](const std::string &name) {
    return std::filesystem::is_directory(name, error);
  };
  std::vector<std::string> files;
  size_t comma = path.find(',');
  if (comma != std::string::npos && !exists(path)) {
    for (size_t at = 0; at <= path.size();) {
      size_t end = std::min(path.find(',', at), path.size());
      if (end > at)
        for (const std::string &file : dataFiles(path.substr(at, end - at)))
          files.push_back(file);
      at = end + 1;
    }
    return files;
  }
  if (!isFolder(path))
    return {path};
  for (const std::string &name : listFolder(path))
    if (name[0] != '.' &&
        (endsWith(name, ".bin") || endsWith(name, ".npy") || endsWith(name, ".safetensors")))
      files.push_back(path + "/" + name);
  if (files.empty())
    fail(SHALE_EXIT_NO_INPUT, "folder '%s' has no .bin, .npy or .safetensors file", path.c_str());
  std::sort(files.begin(), files.end());
  return files;
}

/// Returns the vocabulary size of the tokens that the program reads; 0 if unknown.
static int64_t vocabularyOf(const ShaleProgram &program) {
  int64_t least = 0;
  for (int i = 0; i < program.input_count; ++i) {
    const ShaleInput &input = program.inputs[i];
    if (readsTokens(input) && input.bound > 0 && (least == 0 || input.bound < least))
      least = input.bound;
  }
  return least;
}

/// Whether a file given as data has a parameter of the program.
static bool hasWeights(const ShaleProgram &program, const SafetensorsReader &file) {
  return std::any_of(program.parameters, program.parameters + program.parameter_count,
                     [&](const ShaleParameter &one) { return file.find(one.name) != nullptr; });
}

Batches::Batches(const ShaleProgram &program, int rank, const DataOptions &options)
    : program(program), rank(rank), options(options) {
  if (!options.path.empty())
    for (const std::string &file : dataFiles(options.path)) {
      if (endsWith(file, ".safetensors"))
        tensors.push_back(std::make_unique<SafetensorsReader>(file));
      else
        tokens.push_back(std::make_unique<TokenFile>(
            file, TokenOptions{options.binType, options.typed, vocabularyOf(program)}));
    }
  if (!tensors.empty() && !tokens.empty())
    fail(SHALE_EXIT_DATA, "'%s' has files of tokens and of batches (.safetensors); give one kind",
         options.path.c_str());
  plans.resize(program.input_count);
  for (int i = 0; i < program.input_count; ++i)
    planInput(i);
  countMicroBatches();
  if (windowRows != 0)
    countWindows();
}

/// Counts the micro-batches of each file: those of the input with the fewest.
void Batches::countMicroBatches() {
  for (size_t f = 0; f < tensors.size(); ++f) {
    int64_t least = -1;
    for (const Plan &plan : plans)
      if (plan.kind == Plan::Tensor)
        least = least < 0 ? plan.tensors[f]->shape[0] : std::min(least, plan.tensors[f]->shape[0]);
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
  for (const auto &file : tokens) {
    int64_t count = file->count();
    windows += count < windowRead ? 0 : (count - windowRead) / windowLength + 1;
    ends.push_back(windows);
    longest = std::max(longest, count);
    bytes = std::max(bytes, windowRead * sizeOf(file->type()));
  }
  if (windows == 0)
    fail(SHALE_EXIT_DATA, "'%s' has %lld tokens, fewer than the %lld that one row needs",
         options.path.c_str(), (long long)longest, (long long)windowRead);
  buffer.resize(std::max<size_t>(buffer.size(), bytes));
}

double Batches::stepsInPass(int64_t perStep) const {
  double micro = windowRows > 0 ? static_cast<double>(windows) / windowRows
                                : static_cast<double>(std::max<int64_t>(microBatches, 0));
  return micro / perStep;
}

int64_t Batches::stepsIn(double passes, int64_t perStep) const {
  return static_cast<int64_t>(std::min(passes * stepsInPass(perStep) + 1e-9, 9e15));
}

std::string Batches::describe() const {
  size_t files = std::max(tensors.size(), tokens.size());
  std::string where = files > 1 ? format(" in %zu files", files) : "";
  if (windowRows > 0) {
    int64_t count = 0;
    for (const auto &file : tokens)
      count += file->count();
    return format("%s: %lld tokens (%s)%s, %lld rows of %lld", options.path.c_str(),
                  (long long)count, nameOf(tokens[0]->type()), where.c_str(), (long long)windows,
                  (long long)windowLength);
  }
  auto read = std::find_if(plans.begin(), plans.end(),
                           [](const Plan &plan) { return plan.kind == Plan::Tensor; });
  if (read == plans.end())
    return "";
  return format("%s: %lld micro-batches of %lld rows%s", options.path.c_str(),
                (long long)microBatches, (long long)read->wholeRows, where.c_str());
}

std::vector<DataFile> Batches::files() const {
  std::vector<const InputFile *> opened;
  for (const auto &file : tensors)
    opened.push_back(&file->file());
  for (const auto &file : tokens)
    opened.push_back(&file->input());
  std::vector<DataFile> found;
  int64_t most = sampledBytes(opened.size());
  for (size_t f = 0; f < opened.size(); ++f) {
    int64_t rows = f < ends.size() ? ends[f] - (f > 0 ? ends[f - 1] : 0) : 0;
    found.push_back({printable(baseName(opened[f]->path())), opened[f]->size(), rows,
                     sampledHash(*opened[f], most)});
  }
  return found;
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

/// Whether labels that token files fill have a value that is ignored.
bool Batches::canIgnore() const {
  for (int i = 0; i < program.input_count; ++i)
    if (plans[i].kind == Plan::Tokens && program.inputs[i].ignored != 0)
      return true;
  return false;
}

int64_t Batches::wholePass() const {
  if (windowRows == 0)
    return std::max<int64_t>(microBatches, 1);
  if (canIgnore())
    return (windows + windowRows - 1) / windowRows;
  if (windows < windowRows)
    fail(SHALE_EXIT_DATA,
         "'%s' has %lld rows, fewer than the %lld of one micro-batch, and the "
         "model ignores no label",
         options.path.c_str(), (long long)windows, (long long)windowRows);
  return windows / windowRows;
}

int64_t Batches::rowsLeftOut() const {
  return windowRows == 0 || canIgnore() ? 0 : windows % windowRows;
}

int64_t Batches::rowsInFilled() const {
  return windowRows == 0 || !canIgnore() ? 0 : windows % windowRows;
}

void Batches::fillOnce(int64_t step, void *const *buffers, Filler with) {
  lastRow = windows;
  filler = with;
  fill(step, step * windowRows, buffers);
  lastRow = -1;
}

void Batches::fillUnlabelled(int64_t step, void *const *buffers) {
  lastRow = 0;
  filler = Filler::Rows;
  fill(step, step * windowRows, buffers);
  lastRow = -1;
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

  if (input.binding == SHALE_BINDING_SEED || input.binding == SHALE_BINDING_STEP ||
      input.binding == SHALE_BINDING_MICROBATCH) {
    plan.kind = Plan::Random;
    return;
  }
  if (!tensors.empty() && tensors[0]->find(input.name))
    return planTensor(index, plan);
  if (input.binding == SHALE_BINDING_ONES || input.binding == SHALE_BINDING_ALL_ONES ||
      input.binding == SHALE_BINDING_ARANGE) {
    plan.kind = input.binding == SHALE_BINDING_ARANGE ? Plan::Range : Plan::Ones;
    return;
  }
  if (!tensors.empty() && planFromTokens(index, plan))
    return;
  if (!tensors.empty())
    fail(SHALE_EXIT_DATA, "'%s' has no tensor '%s', which the program reads%s",
         tensors[0]->file().path().c_str(), input.name,
         hasWeights(program, *tensors[0]) ? ": it holds weights, which --init takes" : "");
  if (tokens.empty())
    fail(SHALE_EXIT_USAGE, "the program reads input '%s': give --data FILE", input.name);
  if (!readsTokens(input))
    fail(SHALE_EXIT_DATA,
         "input '%s' is bound to no tokens, so '%s' cannot fill it: give a "
         ".safetensors file with a tensor of that name",
         input.name, options.path.c_str());
  if (!isInteger(static_cast<Dtype>(input.type)))
    fail(SHALE_EXIT_DATA, "input '%s' is bound to tokens but has type %s", input.name,
         nameOf(static_cast<Dtype>(input.type)));
  plan.kind = Plan::Tokens;
  plan.shift = input.binding == SHALE_BINDING_NEXT_TOKENS ? 1 : 0;
  int64_t length = plan.outer * plan.inner;
  if (windowRows != 0 && (length != windowLength || plan.wholeRows != windowRows))
    fail(SHALE_EXIT_DATA, "input '%s' has %lld rows of %lld tokens, another input %lld of %lld",
         input.name, (long long)plan.wholeRows, (long long)length, (long long)windowRows,
         (long long)windowLength);
  windowLength = length;
  windowRows = plan.wholeRows;
  windowRead = std::max(windowRead, length + plan.shift);
}

bool Batches::planFromTokens(int index, Plan &plan) {
  const ShaleInput &input = program.inputs[index];
  bool next = input.binding == SHALE_BINDING_NEXT_TOKENS;
  if (!readsTokens(input))
    return false;
  for (int i = 0; i < program.input_count; ++i) {
    const ShaleInput &other = program.inputs[i];
    if (i == index || other.binding != SHALE_BINDING_TOKENS || !tensors[0]->find(other.name) ||
        elementsOf(other) != elementsOf(input))
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
          tensors[0]->file().path().c_str(), input.name, other.name, input.name);
    plan.kind = next ? Plan::Next : Plan::Copy;
    plan.from = i;
    return true;
  }
  return false;
}

void Batches::planTensor(int index, Plan &plan) {
  const ShaleInput &input = program.inputs[index];
  plan.kind = Plan::Tensor;
  std::vector<int64_t> whole(input.dims, input.dims + input.rank);
  if (input.batch_dim >= 0)
    whole[input.batch_dim] = plan.wholeRows;
  for (const auto &reader : tensors) {
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
    buffer.resize(
        std::max<size_t>(buffer.size(), plan.rowCount * plan.inner * sizeOf(tensor->type)));
  }
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
    case Plan::Next:
    case Plan::Random:
      break;
    }
  }
  for (int i = 0; i < program.input_count; ++i) {
    if (plans[i].kind == Plan::Copy)
      std::memcpy(buffers[i], buffers[plans[i].from],
                  elementsOf(program.inputs[i]) *
                      sizeOf(static_cast<Dtype>(program.inputs[i].type)));
    else if (plans[i].kind == Plan::Next)
      fillNext(i, buffers[plans[i].from], buffers[i]);
  }
}

void Batches::fillRandom(const Randomness &randomness, void *const *buffers) const {
  for (int i = 0; i < program.input_count; ++i) {
    if (plans[i].kind != Plan::Random)
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
  const Plan &plan = plans[index];
  auto [file, batch] = fileOf(ends, step % microBatches);
  const TensorInfo &tensor = *plan.tensors[file];
  const InputFile &input = tensors[file]->file();
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
  const Plan &plan = plans[index];
  const ShaleInput &input = program.inputs[index];
  Dtype to = static_cast<Dtype>(input.type);
  char *out = static_cast<char *>(target);
  for (int64_t r = 0; r < plan.rowCount; ++r) {
    int64_t row = firstRow + plan.firstRow + r;
    auto [number, window] = fileOf(ends, windowOf(row));
    const TokenFile &file = *tokens[number];
    int64_t element = sizeOf(file.type());
    file.read(window * windowLength + plan.shift, windowLength, buffer.data());
    bool fills = lastRow >= 0 && row >= lastRow, ignored = fills && input.ignored != 0;
    if (fills && filler == Filler::Zeros)
      std::memset(buffer.data(), 0, windowLength * element);
    for (int64_t o = 0; o < plan.outer; ++o) {
      int64_t at = (o * plan.rowCount + r) * plan.inner;
      convert(file.type(), buffer.data() + o * plan.inner * element, to, out + at * sizeOf(to),
              plan.inner);
      for (int64_t e = 0; ignored && e < plan.inner; ++e)
        convert(Dtype::I64, &input.ignored, to, out + (at + e) * sizeOf(to), 1);
      check(index, at, plan.inner, target, file.path(), "token",
            window * windowLength + plan.shift + o * plan.inner);
    }
  }
}

void Batches::fillNext(int index, const void *source, void *target) const {
  const Plan &plan = plans[index];
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
    if (!tensors.empty() && plans[i].kind == Plan::Ones &&
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
