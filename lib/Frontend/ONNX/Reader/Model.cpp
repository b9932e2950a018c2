//===- Model.cpp - An ONNX file, its tensors by reference -----------------===//
#include "lib/Frontend/ONNX/Reader/Model.h"
#include "dialects/nn/NN.h"
#include "llvm/ADT/StringExtras.h"
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;
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

std::unique_ptr<Model> Model::open(StringRef path, ToolError &failure) {
  auto fail = [&](const Twine &text) -> std::unique_ptr<Model> {
    failure = {(path + ": " + text).str(), SHALE_EXIT_DATA};
    return nullptr;
  };
  auto result = std::make_unique<Model>();
  result->filePath = path.str();
  result->buffer = openInput(path, failure);
  if (!result->buffer)
    return nullptr;
  StringRef bytes = result->buffer->getBuffer();
  if (std::string guess = guessContent(bytes); !guess.empty())
    return fail(guess);
  if (path.ends_with(".py"))
    return fail("this is Python, not an ONNX model: tools/export/export.py exports it");

  Expected<std::string> skeleton = scanModel(bytes);
  if (!skeleton)
    return fail("not an ONNX model: " + llvm::toString(skeleton.takeError()));
  if (skeleton->size() > size_t(1) << 30)
    return fail("more than 1 GiB of data other than tensors");
  google::protobuf::io::ArrayInputStream array(skeleton->data(), skeleton->size());
  google::protobuf::io::CodedInputStream stream(&array);
  stream.SetRecursionLimit(200);
  stream.SetTotalBytesLimit(INT32_MAX);
  if (!result->model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    return fail("not an ONNX model: a field has a wrong type");
  if (!result->model.has_graph())
    return fail("not an ONNX model: it has no graph");
  return result;
}

Expected<RankedTensorType> Model::type(MLIRContext *context, const TensorProto &tensor) const {
  std::string why;
  Type element = elementType(context, tensor.data_type(), why);
  if (!element)
    return errorOf(why);
  if (tensor.dims_size() > 64)
    return errorOf("it has {} dimensions", tensor.dims_size());
  if (llvm::any_of(tensor.dims(), [](int64_t size) { return size < 0; }))
    return errorOf("a dimension is negative");
  auto type = RankedTensorType::get(llvm::to_vector(tensor.dims()), element);
  if (nn::tensorBytes(type) < 0)
    return errorOf("its dimensions overflow 64 bits");
  return type;
}

//===----------------------------------------------------------------------===//
// The place of data in a file
//===----------------------------------------------------------------------===//

Expected<FileRange> Model::externalRange(const TensorProto &tensor, uint64_t bytes) {
  StringRef location;
  uint64_t offset = 0, length = bytes;
  for (const StringStringEntryProto &entry : tensor.external_data()) {
    StringRef key = entry.key(), value = entry.value();
    if (key == "location")
      location = value;
    else if ((key == "offset" || key == "length") &&
             value.getAsInteger(10, key == "offset" ? offset : length))
      return errorOf("external {} {} is not a number", plain(key), value);
  }
  if (offset > uint64_t(INT64_MAX) - bytes)
    return errorOf("external offset {} overflows 64 bits", offset);
  if (tensor.has_place_offset())
    return errorOf("it has data both inside and outside the file");
  if (length != bytes)
    return errorOf("external data has {} bytes, but its shape needs {}", length, bytes);
  FileRange place{"", int64_t(offset), int64_t(bytes)};
  Expected<llvm::MemoryBuffer *> file = external(location, place.path);
  if (!file)
    return file.takeError();
  if (!*file)
    return place;
  uint64_t size = (*file)->getBufferSize();
  if (offset > size || length > size - offset)
    return errorOf(
        "external data [{}, +{}) is beyond the end of {}, which has {} bytes: is the file complete?",
        offset, length, location, size);
  place.data = (*file)->getBuffer().substr(offset, length);
  return place;
}

Expected<FileRange> Model::fileRange(const TensorProto &tensor, RankedTensorType type) {
  int64_t bytes = nn::tensorBytes(type), at = tensor.place_offset();
  if (tensor.data_location() == 1)
    return externalRange(tensor, bytes);
  if (tensor.data_location() != 0)
    return errorOf("unknown data location {}", tensor.data_location());
  if (!tensor.has_place_offset())
    return FileRange{};
  if (tensor.place_length() != bytes)
    return errorOf("it has {} bytes, but its shape needs {}", tensor.place_length(), bytes);
  return FileRange{filePath, at, bytes, buffer->getBuffer().substr(at, bytes)};
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// Sets the bytes of elements that are stored as a list of numbers.
static Error readList(const TensorProto &tensor, Contents &into) {
  // Appends numbers in the type of `stored`. Returns how many there are.
  auto append = [&](const auto &numbers, auto stored) -> int64_t {
    for (auto number : numbers) {
      stored = static_cast<decltype(stored)>(number);
      into.list.append(reinterpret_cast<const char *>(&stored), sizeof(stored));
    }
    return numbers.size();
  };
  Type element = into.type.getElementType();
  int64_t have = element.isF32()            ? append(tensor.float_data(), float())
                 : element.isF64()          ? append(tensor.double_data(), double())
                 : element.isInteger(64)    ? append(tensor.int64_data(), int64_t())
                 : tensor.data_type() == 12 ? append(tensor.uint64_data(), uint32_t())
                 : element.isInteger(8)     ? append(tensor.int32_data(), uint8_t())
                 : element.isInteger(32)    ? append(tensor.int32_data(), int32_t())
                 : element.isInteger(1)     ? append(tensor.int32_data(), bool())
                                            : append(tensor.int32_data(), uint16_t());
  if (have != into.type.getNumElements())
    return errorOf("it has {} elements, but its shape needs {}", have, into.type.getNumElements());
  into.data = into.list;
  return Error::success();
}

Error Model::readAs(const TensorProto &tensor, Contents &into) {
  Expected<FileRange> place = fileRange(tensor, into.type);
  if (!place)
    return place.takeError();
  if (place->path.empty())
    return readList(tensor, into);
  if (missing.count(place->path))
    return errorOf("its value is needed, but {} does not exist", place->path);
  into.data = place->data;
  return Error::success();
}

Error Model::read(MLIRContext *context, const TensorProto &tensor, Contents &into) {
  Error error = type(context, tensor).moveInto(into.type);
  return error ? std::move(error) : readAs(tensor, into);
}

static bool isAllZero(StringRef bytes) { return bytes.find_first_not_of('\0') == StringRef::npos; }

Expected<bool> Model::isZero(MLIRContext *context, const TensorProto &tensor) {
  Contents contents;
  if (Error error = read(context, tensor, contents))
    return std::move(error);
  return isAllZero(contents.data);
}

SmallVector<int64_t> Model::zeroRows(MLIRContext *context, const TensorProto &matrix, size_t most) {
  Contents contents;
  SmallVector<int64_t> rows;
  if (llvm::errorToBool(read(context, matrix, contents)))
    return rows;
  int64_t count = contents.type.getRank() == 2 ? contents.type.getDimSize(0) : 0;
  size_t width = count > 0 ? contents.data.size() / count : 0;
  for (int64_t row = 0; width > 0 && row < count && rows.size() < most; ++row)
    if (isAllZero(contents.data.substr(row * width, width)))
      rows.push_back(row);
  return rows;
}

size_t Model::readBoth(MLIRContext *context, const TensorProto &tensor, const TensorProto &other,
                       Contents &one, Contents &second) {
  if (tensor.data_type() != other.data_type() || llvm::errorToBool(read(context, tensor, one)) ||
      llvm::errorToBool(read(context, other, second)))
    return 0;
  bool isAlike = !one.data.empty() && one.data.size() == second.data.size();
  return isAlike ? one.data.size() / one.type.getNumElements() : 0;
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

bool Model::isTranspose(MLIRContext *context, const TensorProto &matrix, const TensorProto &other) {
  if (matrix.dims_size() != 2 || other.dims_size() != 2 || matrix.dims(0) != other.dims(1) ||
      matrix.dims(1) != other.dims(0))
    return false;
  Contents one, second;
  size_t size = readBoth(context, matrix, other, one, second);
  // All elements are equal if each is the next one.
  return size && isTurned(one, second, size, SIZE_MAX) &&
         one.data.drop_front(size) != one.data.drop_back(size);
}

/// Elements that mayBeSame compares.
static constexpr size_t kMostCompared = 1 << 16;

bool Model::mayBeSame(MLIRContext *context, const TensorProto &tensor, const TensorProto &other) {
  Contents one, second;
  size_t size = readBoth(context, tensor, other, one, second);
  size_t compared = std::min<size_t>(one.data.size(), kMostCompared * size);
  if (one.data.take_front(compared) == second.data.take_front(compared))
    return true;
  ArrayRef<int64_t> shape = one.type.getShape(), turned = second.type.getShape();
  if (shape.size() != 2 || turned.size() != 2 || shape[0] != turned[1])
    return shape.size() == 2 && turned.size() != 2; // in another layout
  return isTurned(one, second, size, kMostCompared);
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
  if (int64_t size = nn::tensorBytes(*type); size > maxBytes)
    return errorOf("it has {} bytes, more than {} bytes that a constant may have", size, maxBytes);
  std::optional<NarrowInteger> narrow = narrowInteger(tensor.data_type());
  Contents stored;
  stored.type = narrow ? type->clone(IntegerType::get(context, narrow->bits)) : *type;
  if (Error error = readAs(tensor, stored))
    return std::move(error);
  if (narrow)
    return widened(*type, *narrow, stored.data);
  // A raw buffer of one element is taken as a splat, whatever the shape.
  if (!type->getElementType().isInteger(1))
    return DenseElementsAttr::getFromRawBuffer(*type,
                                               llvm::arrayRefFromStringRef<char>(stored.data));
  SmallVector<bool> values;
  for (char byte : stored.data) {
    if (byte != 0 && byte != 1)
      return errorOf("a bool is neither 0 nor 1");
    values.push_back(byte);
  }
  return DenseElementsAttr::get(*type, values);
}

StringRef onnx::nameOf(const NodeProto &node) {
  return node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
}

std::string onnx::nodeText(const NodeProto &node) {
  return "node '" + displayName(nameOf(node)) + "'";
}
