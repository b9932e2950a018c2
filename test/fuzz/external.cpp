// Fuzzes external data: location, offset and length of a weight, and the file that they name. The
// first line of the input is the location, the second the offset, the third the length, all as in
// the model's file; the rest is the content of data.bin.
#include "lib/Frontend/ONNX/Reader/Model.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "test/fuzz/Context.h"
#include "llvm/Support/FileSystem.h"

using namespace shale;
using namespace shale::fuzz;

/// A folder with a file outside.bin beside it, which no location may reach.
static const std::string &folder() {
  static const std::string made = [] {
    llvm::SmallString<128> path;
    if (llvm::sys::fs::createUniqueDirectory("shale-fuzz", path))
      std::abort();
    std::error_code error;
    llvm::raw_fd_ostream((path + "/outside.bin").str(), error) << "outside";
    llvm::sys::fs::create_directory(path + "/model");
    llvm::raw_fd_ostream((path + "/model/model.onnx").str(), error) << llvm::StringRef("\x3a\0", 2);
    (void)llvm::sys::fs::create_link(path + "/outside.bin", path + "/model/link.bin");
    return (path + "/model").str();
  }();
  return made;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto [location, afterLocation] = text.split('\n');
  auto [offset, afterOffset] = afterLocation.split('\n');
  auto [length, content] = afterOffset.split('\n');
  std::error_code error;
  {
    llvm::raw_fd_ostream file(folder() + "/data.bin", error);
    file << content;
  }
  onnx::TensorProto tensor;
  tensor.set_data_type(1);
  tensor.add_dims(2);
  tensor.set_data_location(1);
  for (auto [key, value] : {std::pair("location", location), std::pair("offset", offset),
                            std::pair("length", length)}) {
    auto *entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value.str());
  }
  ++counts().inputs;
  ToolError failure;
  std::unique_ptr<onnx::Model> model = onnx::Model::open(folder() + "/model.onnx", failure);
  if (!model)
    std::abort();
  auto found = model->read(&context(), tensor, 1 << 20);
  if (!found) {
    std::string why = llvm::toString(found.takeError());
    if (std::getenv("SHALE_FUZZ_PRINT"))
      llvm::errs() << why << "\n";
    return 0;
  }
  ++counts().beyond;
  ++counts().accepted;
  if (llvm::ArrayRef<char> raw = found->getRawData();
      !content.contains(llvm::StringRef(raw.data(), raw.size()))) // of outside.bin
    std::abort();
  return 0;
}

/// Changes one of the four parts.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  static const char *const kLocations[] = {
      "data.bin", "./data.bin", "link.bin", "x/../data.bin", "../outside.bin", "", "."};
  Random random(seed);
  llvm::StringRef text(reinterpret_cast<char *>(data), size);
  std::string parts[4];
  for (std::string &part : llvm::MutableArrayRef(parts).drop_back())
    std::tie(part, text) = [](auto pair) {
      return std::pair(pair.first.str(), pair.second);
    }(text.split('\n'));
  parts[3] = text.str();
  size_t which = random.below(4);
  std::string &part = parts[which];
  if (which == 0 && random.below(2)) {
    part = kLocations[random.below(std::size(kLocations))];
  } else if ((which == 1 || which == 2) && random.below(4)) {
    part = std::to_string(random.below(2) ? (which == 2 ? 8 : random.below(5)) : random.integer());
  } else {
    std::vector<uint8_t> bytes(part.begin(), part.end());
    bytes.resize(part.size() + 16);
    bytes.resize(LLVMFuzzerMutate(bytes.data(), part.size(), bytes.size()));
    part.assign(bytes.begin(), bytes.end());
  }
  std::string made = parts[0] + "\n" + parts[1] + "\n" + parts[2] + "\n" + parts[3];
  if (made.size() > most)
    return size;
  std::copy(made.begin(), made.end(), data);
  return made.size();
}
