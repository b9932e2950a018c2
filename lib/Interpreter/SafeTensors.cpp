//===- SafeTensors.cpp - Reads and writes safetensors files ---------------===//
#include "lib/Interpreter/SafeTensors.h"
#include "lib/Support/InputFile.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace shale::interp {

/// The names of safetensors, in the order of Element.
static const char *const kTypeNames[] = {"F32",     "F64", "BF16", "F16", "F8_E4M3",
                                         "F8_E5M2", "I64", "I32",  "BOOL"};
static_assert(std::size(kTypeNames) == size_t(Element::I1) + 1);

static Error bad(StringRef path, const Twine &what) {
  return createStringError(path + ": " + what);
}

static Expected<Tensor> readTensor(StringRef path, StringRef name, const json::Object &entry,
                                   StringRef data) {
  auto fail = [&](const Twine &what) { return bad(path, "tensor '" + name + "' " + what); };
  std::optional<Element> element;
  StringRef type = entry.getString("dtype").value_or("");
  for (unsigned i = 0; i < std::size(kTypeNames); ++i)
    if (type == kTypeNames[i])
      element = static_cast<Element>(i);
  if (!element)
    return fail("has the unknown type '" + type + "'");
  const json::Array *shape = entry.getArray("shape");
  const json::Array *range = entry.getArray("data_offsets");
  if (!shape || !range || range->size() != 2)
    return fail("has no shape or no data_offsets");
  SmallVector<int64_t> sizes;
  int64_t bytes = bytesOf(*element);
  for (const json::Value &value : *shape) {
    auto size = value.getAsInteger();
    if (!size || *size < 0 || __builtin_mul_overflow(bytes, *size, &bytes))
      return fail("has a bad shape");
    sizes.push_back(*size);
  }
  auto begin = (*range)[0].getAsInteger(), end = (*range)[1].getAsInteger();
  if (!begin || !end || *begin < 0 || *end < *begin || *end > static_cast<int64_t>(data.size()))
    return fail("lies outside the file");
  if (*end - *begin != bytes)
    return fail("has " + Twine(*end - *begin) + " bytes, not " + Twine(bytes));
  return Tensor::fromBytes(*element, sizes, data.data() + *begin);
}

Expected<NamedTensors> readSafeTensors(StringRef path) {
  ToolError wrong;
  std::unique_ptr<MemoryBuffer> file = openInput(path, wrong);
  if (!file)
    return createStringError(wrong.message);
  StringRef bytes = file->getBuffer();
  if (bytes.size() < 8)
    return bad(path, "is too short for safetensors");
  uint64_t length = support::endian::read64le(bytes.data());
  if (length > bytes.size() - 8)
    return bad(path, "the header is longer than the file");
  auto header = json::parse(bytes.substr(8, length));
  if (!header)
    return bad(path, "the header is not JSON: " + toString(header.takeError()));
  const json::Object *entries = header->getAsObject();
  if (!entries)
    return bad(path, "the header is not a JSON object");
  NamedTensors tensors;
  for (const auto &[key, value] : *entries) {
    if (key == "__metadata__")
      continue;
    const json::Object *entry = value.getAsObject();
    if (!entry)
      return bad(path, "tensor '" + Twine(StringRef(key)) + "' has no entry");
    auto tensor = readTensor(path, key, *entry, bytes.drop_front(8 + length));
    if (!tensor)
      return tensor.takeError();
    tensors[StringRef(key).str()] = std::move(*tensor);
  }
  return tensors;
}

Error writeSafeTensors(StringRef path, const NamedTensors &tensors) {
  json::Object header;
  int64_t offset = 0;
  for (const auto &[name, tensor] : tensors) {
    int64_t end = offset + tensor.byteSize();
    header[name] = json::Object{{"dtype", kTypeNames[static_cast<int>(tensor.element())]},
                                {"shape", json::Array(tensor.shape())},
                                {"data_offsets", json::Array{offset, end}}};
    offset = end;
  }
  std::string text;
  raw_string_ostream(text) << json::Value(std::move(header));
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::error_code error;
  raw_fd_ostream out(path, error);
  if (error)
    return bad(path, error.message());
  char length[8];
  support::endian::write64le(length, text.size());
  out.write(length, 8);
  out << text;
  for (const auto &[name, tensor] : tensors) {
    std::vector<char> bytes(tensor.byteSize());
    tensor.toBytes(bytes.data());
    out.write(bytes.data(), bytes.size());
  }
  out.close();
  if (out.has_error()) {
    error = out.error();
    out.clear_error();
    return bad(path, error.message());
  }
  return Error::success();
}

} // namespace shale::interp
