//===- Model.cpp - An ONNX file, its tensors by reference -----------------===//
#include "lib/Frontend/ONNX/Model.h"
#include "dialects/nn/NN.h"
#include "include/shale/Runtime.h"
#include "lib/Support/InputFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;
using llvm::createStringError;
using llvm::Error;
using llvm::Expected;

Type onnx::elementType(MLIRContext *context, int32_t dataType, std::string &why) {
  Builder b(context);
  const std::pair<int32_t, Type> known[] = {
      {1, b.getF32Type()},  {6, b.getI32Type()},  {7, b.getI64Type()},  {9, b.getI1Type()},
      {10, b.getF16Type()}, {11, b.getF64Type()}, {16, b.getBF16Type()}};
  for (auto [number, type] : known)
    if (number == dataType)
      return type;
  if (std::optional<NarrowInteger> narrow = narrowInteger(dataType))
    return IntegerType::get(context, narrow->carrier);
  why = say(
      "element type {} is not supported (float, double, float16, bfloat16, bool, and integers but uint64 and those of 4 bits are)",
      {dataType});
  return Type();
}

/// Returns what the bytes are if they are recognizably no model, else an empty
/// string.
static std::string guessContent(StringRef bytes) {
  if (bytes.empty())
    return "the file is empty";
  if (bytes.starts_with("version https://git-lfs"))
    return "this is a Git LFS pointer, not the model: run `git lfs pull`";
  StringRef text = bytes.ltrim();
  if (text.starts_with("<") || text.starts_with_insensitive("<!doctype"))
    return "this is a web page, not a model: was the download refused?";
  if (bytes.starts_with("PK"))
    return "this is a zip archive (a PyTorch checkpoint?), not an ONNX model";
  if (bytes.size() > 9 && bytes[8] == '{' &&
      bytes.drop_front(2).starts_with(StringRef("\0\0\0\0\0\0", 6)))
    return "this is a .safetensors file of weights, not an ONNX model: pass it to --init of the program";
  return "";
}

std::unique_ptr<Model> Model::open(StringRef path, Failure &failure) {
  auto fail = [&](int code, const Twine &text) -> std::unique_ptr<Model> {
    failure = {(path + ": " + text).str(), code};
    return nullptr;
  };
  auto result = std::make_unique<Model>();
  result->filePath = path.str();
  ToolError wrong;
  result->buffer = openInput(path, wrong);
  if (!result->buffer) {
    failure = {wrong.message, wrong.exitCode};
    return nullptr;
  }
  StringRef bytes = result->buffer->getBuffer();
  if (std::string guess = guessContent(bytes); !guess.empty())
    return fail(SHALE_EXIT_DATA, guess);
  if (path.ends_with(".py"))
    return fail(SHALE_EXIT_DATA,
                "this is Python, not an ONNX model: tools/export/export.py exports it");

  Expected<std::string> skeleton = scanModel(bytes);
  if (!skeleton)
    return fail(SHALE_EXIT_DATA, "not an ONNX model: " + llvm::toString(skeleton.takeError()));
  if (skeleton->size() > size_t(1) << 30)
    return fail(SHALE_EXIT_DATA, "more than 1 GiB of data other than tensors");
  google::protobuf::io::ArrayInputStream array(skeleton->data(), skeleton->size());
  google::protobuf::io::CodedInputStream stream(&array);
  stream.SetRecursionLimit(200);
  stream.SetTotalBytesLimit(INT32_MAX);
  if (!result->model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return fail(SHALE_EXIT_DATA, "not an ONNX model: a field has a wrong type");
  if (!result->model.has_graph())
    return fail(SHALE_EXIT_DATA, "not an ONNX model: it has no graph");
  return result;
}

Expected<RankedTensorType> Model::type(MLIRContext *context, const TensorProto &tensor) const {
  std::string why;
  Type element = elementType(context, tensor.data_type(), why);
  if (!element)
    return createStringError(why);
  if (tensor.dims_size() > 64)
    return createStringError("it has " + Twine(tensor.dims_size()) + " dimensions");
  SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  for (int64_t size : shape)
    if (size < 0)
      return createStringError("a dimension is negative");
  auto type = RankedTensorType::get(shape, element);
  if (nn::tensorBytes(type) < 0)
    return createStringError("its dimensions overflow 64 bits");
  return type;
}

Expected<FileRange> Model::fileRange(const TensorProto &tensor, RankedTensorType type) {
  int64_t bytes = nn::tensorBytes(type);
  if (tensor.data_location() == 1) {
    StringRef location;
    uint64_t offset = 0, length = bytes;
    for (const StringStringEntryProto &entry : tensor.external_data()) {
      StringRef key = entry.key(), value = entry.value();
      if (key == "location")
        location = value;
      else if (key == "offset" && value.getAsInteger(10, offset))
        return createStringError("external offset '" + displayName(value) + "' is not a number");
      else if (key == "length" && value.getAsInteger(10, length))
        return createStringError("external length '" + displayName(value) + "' is not a number");
    }
    if (offset > uint64_t(INT64_MAX) - bytes)
      return createStringError("external offset " + Twine(offset) + " overflows 64 bits");
    if (tensor.has_place_offset())
      return createStringError("it has data both inside and outside the file");
    if (length != uint64_t(bytes))
      return createStringError("external data has " + Twine(length) +
                               " bytes, but its shape needs " + Twine(bytes));
    std::string path;
    Expected<llvm::MemoryBuffer *> file = external(location, path);
    if (!file) {
      if (requireData || path.empty())
        return file.takeError();
      llvm::consumeError(file.takeError());
      missing.insert(path);
      return FileRange{path, int64_t(offset), bytes};
    }
    uint64_t size = (*file)->getBufferSize();
    if (offset > size || length > size - offset)
      return createStringError("external data [" + Twine(offset) + ", +" + Twine(length) +
                               ") is beyond the end of '" + displayName(location) +
                               "', which has " + Twine(size) + " bytes: is the file complete?");
    return FileRange{path, int64_t(offset), bytes};
  }
  if (tensor.data_location() != 0)
    return createStringError("unknown data location " + Twine(tensor.data_location()));
  if (tensor.has_place_offset()) {
    if (tensor.place_length() != bytes)
      return createStringError("it has " + Twine(tensor.place_length()) +
                               " bytes, but its shape needs " + Twine(bytes));
    return FileRange{filePath, tensor.place_offset(), bytes};
  }
  return FileRange{};
}

/// Returns the bytes of elements that are stored as a list of numbers.
static Expected<std::string> listData(const TensorProto &tensor, RankedTensorType type) {
  std::string bytes;
  // Appends numbers in the type of `stored`. Returns how many there are.
  auto append = [&](const auto &numbers, auto stored) -> int64_t {
    for (auto number : numbers) {
      stored = static_cast<decltype(stored)>(number);
      bytes.append(reinterpret_cast<const char *>(&stored), sizeof(stored));
    }
    return numbers.size();
  };
  Type element = type.getElementType();
  int64_t have = element.isF32()            ? append(tensor.float_data(), float())
                 : element.isF64()          ? append(tensor.double_data(), double())
                 : element.isInteger(64)    ? append(tensor.int64_data(), int64_t())
                 : tensor.data_type() == 12 ? append(tensor.uint64_data(), uint32_t())
                 : element.isInteger(8)     ? append(tensor.int32_data(), uint8_t())
                 : element.isInteger(32)    ? append(tensor.int32_data(), int32_t())
                 : element.isInteger(1)     ? append(tensor.int32_data(), bool())
                                            : append(tensor.int32_data(), uint16_t());
  if (have != type.getNumElements())
    return createStringError("it has " + Twine(have) + " elements, but its shape needs " +
                             Twine(type.getNumElements()));
  return bytes;
}

/// Returns the bytes of a tensor, row-major: a part of a file, or `list` after filling it.
Expected<StringRef> Model::bytes(const TensorProto &tensor, RankedTensorType type,
                                 std::string &list) {
  Expected<FileRange> place = this->fileRange(tensor, type);
  if (!place)
    return place.takeError();
  if (!place->path.empty() && place->path == filePath)
    return buffer->getBuffer().substr(place->offset, place->length);
  if (!place->path.empty()) {
    if (missing.count(place->path))
      return createStringError("its value is needed, but '" + displayName(place->path) +
                               "' does not exist");
    for (auto &entry : externals)
      if (entry.second.first == place->path)
        return entry.second.second->getBuffer().substr(place->offset, place->length);
    return StringRef();
  }
  Expected<std::string> elements = listData(tensor, type);
  if (!elements)
    return elements.takeError();
  list = std::move(*elements);
  return StringRef(list);
}

Error Model::read(MLIRContext *context, const TensorProto &tensor, Contents &into) {
  Expected<RankedTensorType> type = this->type(context, tensor);
  if (!type)
    return type.takeError();
  into.type = *type;
  return bytes(tensor, *type, into.list).moveInto(into.data);
}

static bool isAllZero(StringRef bytes) { return bytes.find_first_not_of('\0') == StringRef::npos; }

Expected<bool> Model::isZero(MLIRContext *context, const TensorProto &tensor) {
  Contents contents;
  if (Error error = read(context, tensor, contents))
    return std::move(error);
  return isAllZero(contents.data);
}

Expected<SmallVector<int64_t>> Model::zeroRows(MLIRContext *context, const TensorProto &matrix,
                                               size_t most) {
  Contents contents;
  if (Error error = read(context, matrix, contents))
    return std::move(error);
  SmallVector<int64_t> rows;
  int64_t count = contents.type.getRank() == 2 ? contents.type.getDimSize(0) : 0;
  size_t width = count > 0 ? contents.data.size() / count : 0;
  for (int64_t row = 0; width > 0 && row < count && rows.size() < most; ++row)
    if (isAllZero(contents.data.substr(row * width, width)))
      rows.push_back(row);
  return rows;
}

Expected<size_t> Model::readBoth(MLIRContext *context, const TensorProto &tensor,
                                 const TensorProto &other, Contents &one, Contents &second) {
  Expected<RankedTensorType> type = this->type(context, tensor),
                             otherType = this->type(context, other);
  if (!type || !otherType)
    return llvm::joinErrors(type.takeError(), otherType.takeError());
  one.type = *type, second.type = *otherType;
  if (type->getElementType() != otherType->getElementType() || type->getNumElements() == 0)
    return 0;
  if (Error error = llvm::joinErrors(read(context, tensor, one), read(context, other, second)))
    return std::move(error);
  // Else a file is not here, or has another tensor.
  return one.data.size() == second.data.size() ? one.data.size() / type->getNumElements() : 0;
}

/// Whether the first `most` elements of a matrix, of `size` bytes, are those of the other one's
/// transpose.
static bool isTurned(const Contents &matrix, const Contents &other, size_t size, size_t most) {
  size_t rows = matrix.type.getDimSize(0), columns = matrix.type.getDimSize(1);
  for (size_t at = 0; at < std::min(most, rows * columns); ++at)
    if (matrix.data.substr(at * size, size) !=
        other.data.substr((at % columns * rows + at / columns) * size, size))
      return false;
  return true;
}

Expected<bool> Model::isTranspose(MLIRContext *context, const TensorProto &matrix,
                                  const TensorProto &other) {
  if (matrix.dims_size() != 2 || other.dims_size() != 2 || matrix.dims(0) != other.dims(1) ||
      matrix.dims(1) != other.dims(0))
    return false;
  Contents one, second;
  Expected<size_t> size = readBoth(context, matrix, other, one, second);
  if (!size || *size == 0 || !isTurned(one, second, *size, SIZE_MAX))
    return size ? Expected<bool>(false) : size.takeError();
  StringRef first = one.data.take_front(*size);
  for (StringRef rest = one.data; !rest.empty(); rest = rest.drop_front(first.size()))
    if (!rest.starts_with(first))
      return true;
  return false;
}

/// Elements that mayBeSame compares.
static constexpr size_t kMostCompared = 1 << 16;

Expected<bool> Model::mayBeSame(MLIRContext *context, const TensorProto &tensor,
                                const TensorProto &other) {
  Contents one, second;
  Expected<size_t> size = readBoth(context, tensor, other, one, second);
  if (!size)
    return size.takeError();
  if (*size == 0)
    return true;
  size_t compared = std::min<size_t>(one.type.getNumElements(), kMostCompared) * *size;
  if (one.data.take_front(compared) == second.data.take_front(compared))
    return true;
  ArrayRef<int64_t> shape = one.type.getShape(), turned = second.type.getShape();
  if (shape.size() != 2 || turned.size() != 2 || shape[0] != turned[1])
    return shape.size() == 2 && turned.size() != 2; // in another layout
  return isTurned(one, second, *size, kMostCompared);
}

/// Returns integers in the type that holds them.
static DenseElementsAttr widened(RankedTensorType type, NarrowInteger narrow, StringRef data) {
  SmallVector<APInt> values;
  for (size_t bytes = narrow.bits / 8, at = 0; at < data.size(); at += bytes) {
    uint64_t bits = 0;
    memcpy(&bits, data.data() + at, bytes);
    APInt value(narrow.bits, bits);
    values.push_back(narrow.isSigned ? value.sext(narrow.carrier) : value.zext(narrow.carrier));
  }
  return DenseElementsAttr::get(type, values);
}

Expected<DenseElementsAttr> Model::read(MLIRContext *context, const TensorProto &tensor,
                                        int64_t maxBytes) {
  Expected<RankedTensorType> type = this->type(context, tensor);
  if (!type)
    return type.takeError();
  int64_t size = nn::tensorBytes(*type);
  if (size > maxBytes)
    return createStringError("it has " + Twine(size) + " bytes, more than " + Twine(maxBytes) +
                             " bytes that a constant may have");
  std::string list;
  std::optional<NarrowInteger> narrow = narrowInteger(tensor.data_type());
  auto stored = narrow ? type->clone(IntegerType::get(context, narrow->bits)) : *type;
  Expected<StringRef> found = bytes(tensor, cast<RankedTensorType>(stored), list);
  if (!found)
    return found.takeError();
  StringRef data = *found;
  if (narrow)
    return widened(*type, *narrow, data);
  if (type->getElementType().isInteger(1)) {
    SmallVector<bool> values;
    for (char byte : data) {
      if (byte != 0 && byte != 1)
        return createStringError("a bool is neither 0 nor 1");
      values.push_back(byte);
    }
    return DenseElementsAttr::get(*type, values);
  }
  // A raw buffer of one element is taken as a splat, whatever the shape.
  return DenseElementsAttr::getFromRawBuffer(*type, ArrayRef<char>(data.data(), data.size()));
}

std::string onnx::nodeText(const NodeProto &node) {
  return "node '" + displayName(node.name()) + "'";
}
